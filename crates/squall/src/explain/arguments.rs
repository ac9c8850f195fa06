//! The flags of `squall explain`, and the answer to a request number that does not exist.
//!
//! Only what clap can check; `mod` selects trials by them, `import` a capture's requests.

use std::path::{Path, PathBuf};

use squall_base::Duration;

use crate::commands::report::OutputFlags;
use crate::display::LanguageChoice;
use crate::outcome::BadInput;
use crate::trials::TrialSelection;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall explain runs/twilio-20261121T120000Z\n  \
    squall explain runs/twilio-20261121T120000Z --variant \"2 envoys h2c\" --condition \"loss 3%\" --worst 5\n  \
    squall explain runs/twilio-20261121T120000Z/trials/0004-2_envoys_h2c-10ms-3p-r0 1711\n  \
    squall explain runs/twilio-20261121T120000Z/trials/0004-2_envoys_h2c-10ms-3p-r0 --at 1.2s\n  \
    squall import pcap capture.pcapng --key-log keys.log -o record && squall explain record"
)]
pub(crate) struct Arguments {
    /// Folder of a run, of one of its trials, or of an imported capture
    pub(super) run: PathBuf,
    /// Number of a request: its place in the schedule or, in a capture, in the order of first bytes [default: the slowest
    /// of each cell, or of the capture]
    #[arg(conflicts_with = "at")]
    pub(super) request: Option<u64>,
    /// Show what happened at this time, such as 1.2s, counted from the load's first request, as in the report's plots (in
    /// a capture, from its first packet)
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<Duration>,
    /// With --at: show drops within this time before and after
    #[arg(long, value_name = "TIME", default_value = "50ms", requires = "at")]
    pub(super) around: Duration,
    /// How many of the slowest measured requests to show per cell (variant and condition)
    #[arg(long, value_name = "COUNT", default_value_t = 3, conflicts_with_all = ["request", "at"])]
    pub(super) worst: usize,
    #[command(flatten)]
    pub(super) selection: TrialSelection,
    #[command(flatten)]
    pub(super) output: OutputFlags,
    /// Language of the text; JSON is always English
    #[arg(
        long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En, conflicts_with = "json"
    )]
    pub(super) lang: LanguageChoice,
}

/// The error for a request that a trial or a capture does not have. `last` is the number of its last one.
pub(super) fn no_such_request(folder: &Path, request: u64, last: Option<u64>) -> BadInput {
    let has = last.map_or_else(
        || "it has none".to_owned(),
        |last| format!("it has 0 to {last}"),
    );
    BadInput::new(format!(
        "{} has no request {request}; {has}",
        folder.display()
    ))
}
