//! `squall import`: what other programs recorded, as a script for `squall load --script` or, of packets, as a record.
//!
//! The formats are squall-record's; here is only where they come from and where the script goes. `pcap` has captures.

mod packets;
mod pcap;
mod requests;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use squall_base::plan::Script;
use squall_record::import::{HarOptions, Imported, parse_har, parse_timing_script, script_text};

use crate::output::{self, talk};
use crate::{BadInput, Ending};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall import har --media recorded.har -o recorded.json\n  \
        squall load --script recorded.json --speed 10x --users 91 --stagger 1s https://server/\n\n\
        squall import pcap capture.pcapng --key-log keys.log -o record\n  squall explain record\n\n\
        What was left out of a script, and why, is said on stderr."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    /// A HAR file, as the developer tools of browsers export it
    Har {
        /// Keep segments of audio and video only
        #[arg(long)]
        media: bool,
        /// Leave cookies out
        #[arg(long)]
        drop_cookies: bool,
        #[command(flatten)]
        files: Files,
    },
    /// A timing script of h2load: `milliseconds<TAB>URI` a line
    Timing {
        #[command(flatten)]
        files: Files,
    },
    /// A capture of packets, pcap or pcapng: its exchanges, frames and packets as tables, for `squall explain`
    Pcap(pcap::Arguments),
}

#[derive(Debug, clap::Args)]
struct Files {
    /// The recording; `-` is stdin
    recording: PathBuf,
    /// Where the script goes; stdout without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
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
            (files, parse_har(&read(&files.recording)?, &options))
        }
        Format::Timing { files } => (files, parse_timing_script(&read(&files.recording)?)),
        Format::Pcap(arguments) => return pcap::run(arguments),
    };
    let imported: Imported<Script> =
        parsed.map_err(|error| BadInput::new(format!("{}: {error}", files.recording.display())))?;
    for omission in &imported.omissions {
        talk(format_args!("{omission}\n"));
    }
    let script = &imported.content;
    let text = script_text(script)?;
    let last = script.steps.last().map(|step| step.at).unwrap_or_default();
    talk(format_args!(
        "requests at their times: {}, of {} kinds, over {last}\n",
        script.steps.len(),
        script.requests.len(),
    ));
    match &files.output {
        None => output::print(text)?,
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(Ending::Fine)
}

fn read(path: &Path) -> Result<Vec<u8>, BadInput> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        _ => std::fs::read(path).map(|content| bytes = content),
    };
    read.map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))?;
    Ok(bytes)
}
