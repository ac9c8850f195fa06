//! Drives the imports with any bytes as a recording or a capture, and checks what must hold whatever they are.
//!
//! Nothing may panic. What is imported is a script that squall writes and reads back, of no more requests than the input
//! has bytes.

use squall_base::Duration;
use squall_base::plan::{Script, ScriptRequest, ScriptStep};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::import::{
    HarOptions, ImportError, Imported, parse_har, parse_script, parse_timing_script,
    parse_vegeta_json, parse_vegeta_targets, script_text,
};

/// Any bytes, as a HAR file.
pub fn import_har(input: &[u8]) {
    let all = parse_har(input, &HarOptions::default());
    let some = parse_har(
        input,
        &HarOptions {
            media_only: true,
            drop_cookies: true,
        },
    );
    if let (Ok(all), Ok(some)) = (&all, &some) {
        assert!(some.content.steps.len() <= all.content.steps.len());
    }
    [all, some]
        .into_iter()
        .for_each(|result| check(input, result));
}

/// Any bytes, as a timing script.
pub fn import_timing_script(input: &[u8]) {
    check(input, parse_timing_script(input));
}

/// Any bytes, as targets of vegeta in both formats.
pub fn import_vegeta(input: &[u8]) {
    for result in [parse_vegeta_targets(input), parse_vegeta_json(input)] {
        check(input, result.map(one_after_the_other));
    }
}

/// Any bytes, as squall's own script: what is one is written as it is read.
pub fn import_script(input: &[u8]) {
    check(input, parse_script(input).map(whole));
}

/// A script of which nothing was left out.
fn whole(script: Script) -> Imported<Script> {
    Imported {
        content: script,
        omissions: Vec::new(),
    }
}

/// Any bytes, as a capture: nothing that it holds is longer than it is.
pub fn import_pcap(input: &[u8]) {
    let Ok(mut capture) = CaptureReader::new(input) else {
        return;
    };
    let mut read = 0;
    while let Ok(Some(entry)) = capture.next_entry() {
        read += match entry {
            CaptureEntry::Packet { bytes, .. } => bytes.len(),
            // What is no UTF-8 is replaced by three bytes each.
            CaptureEntry::Secrets(text) => text.len() / 3,
            CaptureEntry::Other => 1,
        };
        assert!(read <= input.len());
    }
}

/// Requests as a script that sends each once.
fn one_after_the_other(imported: Imported<Vec<ScriptRequest>>) -> Imported<Script> {
    let requests = imported.content;
    let steps = (0..requests.len() as u32).map(|request| ScriptStep {
        at: Duration::from_millis(request.into()),
        request,
    });
    Imported {
        content: Script {
            steps: steps.collect(),
            requests,
        },
        omissions: imported.omissions,
    }
}

fn check(input: &[u8], result: Result<Imported<Script>, ImportError>) {
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
