//! `squall import`: converts recordings of other programs into a script for `squall load --script`, or packets into
//! tables.
//!
//! squall-record parses the formats; this module reads the input and writes the script. `pcap` handles captures.

mod packets;
mod pcap;
mod requests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use squall_base::plan::{Script, ScriptRequest};
use squall_base::secrets::{self, has_credentials, redacted_text};
use squall_record::import::{HarOptions, Import, parse_har, parse_timing_script, script_text};
use squall_record::write_private;

use crate::outcome::{BadInput, CommandOutcome};
use crate::output::{self, eprint};
use crate::recordings;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall import har --media recorded.har -o recorded.json\n  \
        squall load --script recorded.json --speed 10x --users 91 --stagger 1s https://server/\n  \
        squall import pcap capture.pcapng --key-log keys.log -o record\n  squall explain record\n\n\
        What was left out of a script, and why, is printed on stderr."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    /// HAR file, as exported by the developer tools of browsers
    Har {
        /// Keep only audio and video segments
        #[arg(long)]
        media: bool,
        /// Leave out cookies
        #[arg(long)]
        drop_cookies: bool,
        #[command(flatten)]
        files: Files,
    },
    /// h2load timing script: one `milliseconds<TAB>URI` per line
    Timing {
        #[command(flatten)]
        files: Files,
    },
    /// Packet capture (pcap or pcapng): its exchanges, requests, frames and packets as tables, for `squall explain`
    Pcap(pcap::Arguments),
}

#[derive(Debug, clap::Args)]
struct Files {
    /// Recording to convert; `-` is stdin
    recording: PathBuf,
    /// Keep secrets: values of authorization, cookie, x-api-key and the like, and those in URLs
    #[arg(long)]
    keep_secrets: bool,
    /// Write the script to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let (files, parsed) = match &arguments.format {
        Format::Har {
            media,
            drop_cookies,
            files,
        } => {
            let options = HarOptions {
                media_only: *media,
                drop_cookies: *drop_cookies,
            };
            (
                files,
                parse_har(&recordings::read(&files.recording)?, &options),
            )
        }
        Format::Timing { files } => (
            files,
            parse_timing_script(&recordings::read(&files.recording)?),
        ),
        Format::Pcap(arguments) => return pcap::run(arguments),
    };
    let imported: Import<Script> =
        parsed.map_err(|error| BadInput::new(format!("{}: {error}", files.recording.display())))?;
    for omission in &imported.omissions {
        eprint(format_args!("{omission}\n"));
    }
    let mut script = imported.content;
    if !files.keep_secrets {
        leave_out_secrets(&mut script);
    }
    let script = &script;
    let text = script_text(script)?;
    let last = script.steps.last().map(|step| step.at).unwrap_or_default();
    let kinds = match script.requests.len() {
        1 => "1 kind".to_owned(),
        count => format!("{count} kinds"),
    };
    eprint(format_args!(
        "requests at their times: {}, of {kinds}, over {last}\n",
        script.steps.len(),
    ));
    match &files.output {
        None => output::print(text)?,
        Some(path) => write(path, script, &text)?,
    }
    Ok(CommandOutcome::Success)
}

/// Removes the secrets from a script, and prints a notice if it has any.
fn leave_out_secrets(script: &mut Script) {
    let mut count = 0_usize;
    for request in &mut script.requests {
        let before = request.clone();
        secrets::redact(&mut request.headers, &mut request.url);
        count += usize::from(*request != before);
    }
    if count > 0 {
        eprint(format_args!(
            "secrets left out of {count} requests ({} in their place): add --keep-secrets to send them\n",
            secrets::REDACTED
        ));
    }
}

/// Writes the text of a script to a file. Only the owner may read it (mode 0600) if its requests have credentials, as those
/// of browsers often do.
fn write(path: &Path, script: &Script, text: &str) -> Result<()> {
    let has_secrets = |request: &ScriptRequest| {
        has_credentials(&request.headers) || redacted_text(&request.url) != request.url
    };
    let written = if script.requests.iter().any(has_secrets) {
        write_private(path, text.as_bytes())
    } else {
        std::fs::write(path, text)
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use squall_base::plan::ScriptBody;

    use super::*;

    #[test]
    fn only_the_owner_may_read_a_script_with_cookies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        let request = ScriptRequest {
            method: "GET".to_owned(),
            url: "/".to_owned(),
            headers: vec![("cookie".to_owned(), "session=1".to_owned())],
            body: ScriptBody::Empty,
        };
        let script = Script {
            requests: vec![request],
            steps: Vec::new(),
        };
        write(&path, &script, "{}").unwrap();
        let found = std::fs::metadata(path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn script_has_no_secrets_unless_they_are_kept() {
        let request = |value: &str, token: &str| ScriptRequest {
            method: "GET".to_owned(),
            url: format!("http://a/?token={token}"),
            headers: vec![("cookie".to_owned(), value.to_owned())],
            body: ScriptBody::Empty,
        };
        let mut script = Script {
            requests: vec![request("session=1", "2")],
            steps: Vec::new(),
        };
        leave_out_secrets(&mut script);
        let shown = secrets::REDACTED;
        assert_eq!(script.requests, [request(shown, shown)]);
        let once = script.clone();
        leave_out_secrets(&mut script);
        assert_eq!(script, once);
    }
}
