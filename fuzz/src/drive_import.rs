//! Feeds any bytes to the imports, as a recording or a capture, and checks what must hold for any bytes.
//!
//! Nothing may panic. The result of an import is a script that squall writes and reads back, with no more requests than
//! the input has bytes.

use squall_base::Duration;
use squall_base::plan::{Script, ScriptRequest, ScriptStep};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::import::{
    HarOptions, Import, ImportError, parse_har, parse_script, parse_timing_script,
    parse_vegeta_json, parse_vegeta_targets, script_text,
};

/// Any bytes, as a HAR file.
pub fn import_har(input: &[u8]) {
    let parse = |media_only, drop_cookies| {
        let options = HarOptions {
            media_only,
            drop_cookies,
        };
        parse_har(input, &options)
    };
    // Without its cookies, a request may be short enough to be sent.
    let (all, some) = (parse(false, true), parse(true, true));
    if let (Ok(all), Ok(some)) = (&all, &some) {
        assert!(some.content.steps.len() <= all.content.steps.len());
    }
    for result in [parse(false, false), all, some] {
        check(input, result);
    }
}

/// Any bytes, as a timing script.
pub fn import_timing_script(input: &[u8]) {
    check(input, parse_timing_script(input));
}

/// Any bytes, as vegeta targets in both formats.
pub fn import_vegeta(input: &[u8]) {
    for result in [parse_vegeta_targets(input), parse_vegeta_json(input)] {
        check(input, result.map(one_after_the_other));
    }
}

/// Any bytes, as squall's own script: a valid script is written as it was read.
pub fn import_script(input: &[u8]) {
    check(input, parse_script(input).map(whole));
}

/// A script from which nothing was left out.
fn whole(script: Script) -> Import<Script> {
    Import {
        content: script,
        omissions: Vec::new(),
    }
}

/// Any bytes, as a capture: none of its content is longer than the capture.
pub fn import_pcap(input: &[u8]) {
    let Ok(mut capture) = CaptureReader::new(input) else {
        return;
    };
    let mut read = 0;
    while let Ok(Some(entry)) = capture.next_entry() {
        read += match entry {
            CaptureEntry::Packet { bytes, .. } => bytes.len(),
            // Each byte that is not valid UTF-8 is replaced by three bytes.
            CaptureEntry::Secrets(text) => text.len() / 3,
            CaptureEntry::Other => 1,
        };
        assert!(read <= input.len());
    }
}

/// A script that sends each request once.
fn one_after_the_other(imported: Import<Vec<ScriptRequest>>) -> Import<Script> {
    let requests = imported.content;
    let steps = (0..requests.len() as u32).map(|request| ScriptStep {
        at: Duration::from_millis(request.into()),
        request,
    });
    Import {
        content: Script {
            steps: steps.collect(),
            requests,
        },
        omissions: imported.omissions,
    }
}

fn check(input: &[u8], result: Result<Import<Script>, ImportError>) {
    let script = match result {
        Ok(imported) => imported.content,
        Err(error) => {
            assert!(error.to_string().len() < 2_000, "errors can be read");
            return;
        }
    };
    assert!(!script.steps.is_empty() && script.steps.len() <= input.len());
    let text = script_text(&script).expect("what is imported can be written");
    let again = parse_script(text.as_bytes()).expect("what is written reads back");
    assert_eq!(again, script);
}
