//! `squall serve`: the embedded server as a standalone server on real ports.
//!
//! Only the flags; the server itself is in squall-stations, and what it shares with `squall proxy` is in `listeners`.
//! It runs until Ctrl-C.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use squall_base::plan::SAMPLE_EVERY;
use squall_base::record::SideCounts;
use squall_base::{Bytes, Duration, Side};
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;
use squall_stations::LogSinks;
use squall_stations::server::{AccessLog, Server, ServerSettings, Site};

use super::listeners::{Certificate, Listeners, cannot_listen, random_seed};
use super::rights::{LaterFiles, UserFlag};
use crate::client::{SET, side_settings};
use crate::key_log::{KeyLog, OpenKeyLog};
use crate::outcome::{BadInput, CommandOutcome};
use crate::{interrupt, output};

/// A heading of the help, the same as for a proxy.
const SETTINGS: &str = "Settings (docs/RECIPES.md)";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall serve --h1 8080 --https 8443 --h3 8443 --dir public\n  \
        squall serve --h2c 8080 --preset alb --sink\n  \
        squall serve --h2 8443 --set tls.records=1300 --body 64KiB --access-log -\n\n\
        Without a listener flag, it uses --h1 8080 --https 8443 --h3 8443. A query can set the size, delay and status of \
        a response: http://localhost:8080/?size=1MiB&delay=2s&status=503, or request a body in pieces with pauses: \
        /?chunks=20&chunk=64&every=50ms&sse. Without --cert, it generates a certificate for localhost, 127.0.0.1, ::1 and \
        every --name, which --write-cert saves."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    listeners: Listeners,
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    certificate: Certificate,
    #[command(flatten)]
    user: UserFlag,
    /// Use the protocol settings of a well-known program
    #[arg(help_heading = SETTINGS, long, value_name = "NAME")]
    preset: Option<String>,
    /// Change one setting, such as `http2.window_updates=never` or `tls.records=1300` (may be repeated)
    #[arg(help_heading = SETTINGS, long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Close a connection after this time without progress (no request and no body data); HTTP/3 connections also close
    /// after 30s without a packet
    #[arg(
        help_heading = "Times",
        long,
        value_name = "TIME",
        default_value = "75s"
    )]
    idle_timeout: Duration,
    /// Write one line per exchange to this file, with times in microseconds; `-` is stdout
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    access_log: Option<String>,
    /// Append TLS secrets to this file in NSS format (SSLKEYLOGFILE), as they become known
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// The content of responses.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Response content (default: 1KiB of text)")]
#[group(multiple = false)]
struct Content {
    /// Static body of this size
    #[arg(long, value_name = "SIZE")]
    body: Option<Bytes>,
    /// Files below this folder, with ranges and content types
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The request's own body
    #[arg(long)]
    echo: bool,
    /// The number of bytes in the request's body
    #[arg(long)]
    sink: bool,
}

/// The default body size.
const USUAL_BODY: Bytes = Bytes::new(1024);

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let rights = arguments.user.prepare(arguments.content.later_files())?;
    let requested = arguments.listeners.requested();
    let side = side_settings(
        arguments.preset.as_deref(),
        SET,
        &arguments.sets,
        Side::Server,
        &requested.protocols(),
    )?;
    let identity = requested.identity(&arguments.certificate)?;
    let listeners = requested.set_up(&side, identity.as_ref())?;
    // Each connection is an open file. If the limit cannot be raised, it stays in force.
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let keys = OpenKeyLog::open(arguments.key_log.as_deref())?;
    let settings = ServerSettings {
        listeners,
        side,
        site: arguments.content.site()?,
        log: LogSinks {
            key_log: keys.as_ref().map(OpenKeyLog::sender),
            ..LogSinks::default()
        },
        access: access_log(arguments.access_log.as_deref())?,
        sample_every: SAMPLE_EVERY,
        idle_timeout: Some(arguments.idle_timeout),
        seed: random_seed(),
        is_realtime: false,
    };
    let stop = StopSignal::new()?;
    let server = Server::listen(settings, stop.clone()).map_err(cannot_listen)?;
    let addresses = server
        .addresses()
        .context("cannot find where the listeners are")?;
    arguments.certificate.write(identity.as_ref())?;
    rights.drop_after_listening()?;
    let keys = keys.map(OpenKeyLog::start).transpose()?;
    interrupt::watch_and_signal(stop)?;
    requested.print_listening(&addresses);
    let report = server.run()?;
    output::eprint(format_args!(
        "{} connections, {} responses\n",
        report.counts.tcp_connections + report.counts.quic_connections,
        report.responses_written
    ));
    print_counts("", &report.counts);
    for (error, count) in &report.machine_errors {
        output::eprint(format_args!("  {error} ({count} times)\n"));
    }
    keys.map_or(Ok(()), KeyLog::finish)?;
    Ok(CommandOutcome::Success)
}

/// Prints further counts, one per line.
pub(super) fn print_counts(of: &str, counts: &SideCounts) {
    for line in squall_report::load::counts(counts) {
        output::eprint(format_args!("  {of}{line}\n"));
    }
}

impl Content {
    fn later_files(&self) -> LaterFiles {
        match self.dir {
            Some(_) => LaterFiles::Folder,
            None => LaterFiles::None,
        }
    }

    fn site(&self) -> Result<Site> {
        if self.echo {
            return Ok(Site::echo());
        }
        if self.sink {
            return Ok(Site::sink());
        }
        if let Some(folder) = &self.dir {
            let metadata = std::fs::metadata(folder).map_err(|error| {
                BadInput::new(format!("cannot serve {}: {error}", folder.display()))
            })?;
            if !metadata.is_dir() {
                let said = format!("cannot serve {}: it is not a folder", folder.display());
                return Err(BadInput::new(said).into());
            }
            return Ok(Site::folder(folder.clone()));
        }
        Site::sized(self.body.unwrap_or(USUAL_BODY)).context("cannot make the response")
    }
}

/// Opens an access log; `-` is stdout.
pub(super) fn access_log(path: Option<&str>) -> Result<Option<AccessLog>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let out: Box<dyn Write + Send> = match path {
        "-" => Box::new(io::stdout()),
        path => {
            let mut options = File::options();
            let opened = options.create(true).append(true).open(path);
            Box::new(opened.map_err(|error| {
                BadInput::new(format!("cannot write the access log {path}: {error}"))
            })?)
        }
    };
    Ok(Some(AccessLog::new(out)))
}
