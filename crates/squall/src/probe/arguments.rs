//! The flags of `squall probe`.
//!
//! Only what clap can check is checked here; `plan` turns the flags into requests.

use std::path::PathBuf;

use squall_base::{Bytes, Duration};
use squall_report::Language;

use crate::client::{ConnectionFlags, Http};
use crate::commands::report::OutputFlags;
use crate::display::LanguageChoice;

// `Plan::new` refuses these three and says why, so the help does not offer them.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("upgrade", |flag| flag.hide(true)),
    mut_arg("proxy", |flag| flag.hide(true)),
    mut_arg("unix_socket", |flag| flag.hide(true))
)]
#[command(after_help = "Examples:\n  squall probe https://server/\n  \
        squall probe https://server/ --download /large.bin --upload 5MB --upload-to /upload\n  \
        squall probe https://server/ https://cdn.server/ --markdown\n  \
        squall probe https://localhost:8443/ -k --behind 'delay 10..200ms' --report sweep.html\n\n\
        It sends only GET and HEAD, unless --upload asks for POST. The exit code is 0 if the server answered, whatever \
        was found, 1 if it did not, 2 for a mistake in the command, 130 after Ctrl-C.")]
pub(crate) struct Arguments {
    /// URL to probe; the figures of two URLs are shown side by side
    #[arg(required = true, num_args = 1..=2, value_name = "URL")]
    pub(super) urls: Vec<String>,
    /// What to download instead of the URL: a path of the same server, or a URL on it. A few megabytes usually suffice
    #[arg(long, value_name = "URL")]
    pub(super) download: Option<String>,
    /// POST a body of this size over each version in each round, after a body of 1 kB
    #[arg(long, value_name = "SIZE")]
    pub(super) upload: Option<Bytes>,
    /// Where to send uploads: a path of the same server, or a URL on it [default: the URL]
    #[arg(long, value_name = "URL", requires = "upload")]
    pub(super) upload_to: Option<String>,
    /// How uploads are sent: as plain bytes, or as a file in a form (multipart/form-data), as browsers do
    #[arg(long, value_name = "FORM", value_enum, default_value_t = UploadForm::Plain, requires = "upload")]
    pub(super) upload_as: UploadForm,
    /// Ignore the server's robots.txt: send downloads, uploads and long series of requests even to paths that it disallows
    #[arg(long)]
    pub(super) ignore_robots: bool,
    /// HTTP versions to probe, out of 1.1, 2 and 3, such as 1.1,2 [default: all that the URL's scheme allows]
    #[arg(
        long,
        value_name = "VERSIONS",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub(super) http: Vec<Http>,
    /// Time limit of the probe of each URL
    #[arg(long, value_name = "TIME", default_value = "45s")]
    pub(super) duration: Duration,
    /// Number of rounds; each rate or time shown is the median of its rounds
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(super) rounds: u32,
    /// Stop each download after this many bytes
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(super) bytes: Bytes,
    /// How long to wait for the server to close an idle connection of each version, if --duration allows it; 0s skips this
    /// step
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) idle: Duration,
    /// Header field of all requests, as `name: value` (may be repeated)
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(super) headers: Vec<String>,
    /// Probe a service on this machine as if it were behind this link, such as 'delay 30ms, loss 1%', in both directions
    /// (docs/LINK.md lists the settings). A range, such as 'delay 10..200ms', makes one probe for each of several delays,
    /// jitters, losses or rates
    #[arg(long, value_name = "LINK", conflicts_with = "connect_to")]
    pub(super) behind: Option<String>,
    /// How many values of a range in --behind to probe [default: both ends and the round numbers between them, at most
    /// seven values]
    #[arg(long, value_name = "COUNT", requires = "behind", value_parser = clap::value_parser!(u8).range(2..=12))]
    pub(super) points: Option<u8>,
    /// Settings of the link that this process is behind; set by --behind
    #[arg(long, hide = true, value_name = "LINK")]
    pub(super) forwarded: Option<String>,
    /// Do not say what will be sent, because the command that started this one did
    #[arg(long, hide = true)]
    pub(super) unannounced: bool,
    /// Print everything sent and received, as `squall fetch -v` does
    #[arg(long)]
    pub(super) trace: bool,
    #[command(flatten)]
    pub(super) output: OutputFlags,
    /// Print Markdown instead of text
    #[arg(long, conflicts_with = "json")]
    pub(super) markdown: bool,
    /// Language of the text, of Markdown and of the page; JSON is always English
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En)]
    pub(super) lang: LanguageChoice,
    /// Write the result to this file as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write the frames of HTTP/2, HTTP/3 and QUIC to this file (qlog)
    #[arg(long, value_name = "FILE")]
    pub(super) qlog: Option<PathBuf>,
    /// Write the packets of the probe's own flows to this file, with its TLS secrets (pcapng); needs root or CAP_NET_RAW, or
    /// --behind
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,
    #[command(flatten)]
    pub(super) connection: ConnectionFlags,
}

/// The form of an upload's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum UploadForm {
    /// The bytes themselves
    Plain,
    /// A file in a form (RFC 7578)
    Multipart,
}

impl Arguments {
    pub(super) fn language(&self) -> Language {
        self.lang.into()
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    #[test]
    fn help_offers_no_flag_that_the_plan_refuses() {
        let mut command = Arguments::augment_args(clap::Command::new("probe"));
        let help = command.render_long_help().to_string();
        for refused in ["--upgrade", "--proxy", "--unix-socket"] {
            assert!(!help.contains(refused), "{refused}: {help}");
        }
        for offered in ["--connect-to", "--http", "--cert", "--upload-to"] {
            assert!(help.contains(offered), "{offered}: {help}");
        }
    }
}
