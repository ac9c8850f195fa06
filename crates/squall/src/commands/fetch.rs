//! `squall fetch`: one request, its answer, and on request everything that the connection says.
//!
//! The same client as in a trial, with one user. The body goes to stdout or a file, `-v` and errors to stderr.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, bail};
use squall_base::plan::{Protocol, SideSettings};
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::{Request, Wants};
use squall_linux::clock;
use squall_linux::stop::StopSignal;
use squall_stations::LogSinks;
use squall_stations::client::{Client, ClientSettings, ClientSinks, Observer, Seen, Target};
use squall_stations::rows::{self, Capacity};

use crate::client::{
    ConnectionFlags, Http, Naming, Place, Prepared, Reach, RequestFlags, Trusting, Verbose,
    check_upload, settle, single,
};
use crate::key_log::KeyLog;
use crate::{Ending, interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall fetch https://server/ -o page.html\n  \
        squall fetch -v --http 2 -k https://localhost:8443/\n  \
        squall fetch --http 3 -d photo.jpg --set http3.congestion_control=bbr2 https://server/upload\n\n\
        -v prints the frames of HTTP/2 and HTTP/3 as `nghttp -v` does, to stderr. The exit code is 1 if there was no \
        whole answer, or one with a status of 400 or more."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
    /// The version of HTTP; auto asks the server whether it has HTTP/3 (alt-svc); without it ALPN decides for https, and
    /// it is 1.1 for http
    #[arg(long, value_name = "VERSION", help_heading = "The connection")]
    http: Option<Http>,
    /// Write the body to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what is sent and received, as it happens
    #[arg(short, long)]
    verbose: bool,
    /// Give up after this time
    #[arg(long, value_name = "TIME", default_value = "10min")]
    timeout: Duration,
    /// What to ask for
    url: String,
}

/// What is spoken, whether strictly, and with which settings.
type Spoken = ((Protocol, bool), SideSettings);

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let (place, spoken, target) = chosen(arguments)?;
    let Prepared { request, upload } = arguments.request.request(&place)?;
    check_upload(&arguments.connection, upload.is_some())?;
    let out: Box<dyn Write + Send> = match &arguments.output {
        Some(path) => {
            Box::new(File::create(path).with_context(|| format!("cannot make {}", path.display()))?)
        }
        None => Box::new(io::stdout()),
    };
    let settings = settings(arguments, target, spoken, request.clone());
    let verbose = arguments.verbose.then(|| {
        let stderr = Box::new(io::stderr());
        Verbose::new(stderr, clock::now(), Naming::Alone, vec![request])
    });
    let (broken, write_error) = mpsc::channel();
    let observer = Saving {
        out,
        verbose,
        broken,
    };
    let (sender, records) = rows::queue(Capacity::Unbounded);
    let keys = KeyLog::open(arguments.connection.key_log.as_deref())?;
    let sinks = ClientSinks {
        log: LogSinks {
            key_log: keys.as_ref().map(KeyLog::sender),
            ..LogSinks::default()
        },
        observer: Some(Box::new(observer)),
        ..ClientSinks::new(sender)
    };
    let stop = StopSignal::new()?;
    interrupt::watch_and_signal(stop.clone())?;
    Client::new(settings, sinks, StopSignal::new()?, stop)?
        .with_uploads(vec![upload])
        .run()?;
    if let Some(keys) = keys {
        keys.finish()?;
    }
    if let Ok(error) = write_error.try_recv() {
        return Err(error).context("cannot write the body");
    }
    let records: Vec<_> = records
        .flat_map(|mut chunk| std::mem::take(&mut *chunk))
        .collect();
    conclude(&records, arguments)
}

/// One request over one connection.
fn settings(
    arguments: &Arguments,
    target: Target,
    (spoken, side): Spoken,
    request: Arc<Request>,
) -> ClientSettings {
    let observed = Wants {
        fields: arguments.verbose,
        bodies: true,
        frames: arguments.verbose,
    };
    let seen = (observed, arguments.timeout);
    ClientSettings {
        asks_for_http2: arguments.connection.upgrade,
        ..single(target, spoken, side, request, seen)
    }
}

/// Whom to ask, over what: the place, with an alternative of it if that was found.
fn chosen(arguments: &Arguments) -> Result<(Place, Spoken, Target)> {
    let connection = &arguments.connection;
    let mut place = Place::parse(&arguments.url)?;
    let mut reach = Reach::default();
    let http = match arguments.http {
        Some(Http::Auto) => {
            let places = std::slice::from_ref(&place);
            settle((connection, &arguments.request), places, &mut reach)?
        }
        http => http,
    };
    place.alternative = reach.alternative(&place.authority).cloned();
    let spoken = connection.protocol(http, place.scheme)?;
    let may = connection.may_speak(arguments.http.as_slice(), place.scheme)?;
    let side = connection.settings(spoken.0, &may)?;
    let target = Trusting::target(connection, &place, spoken, &side, &mut reach)?;
    Ok((place, (spoken, side), target))
}

/// Says what became of the request.
fn conclude(records: &[RequestRecord], arguments: &Arguments) -> Result<Ending> {
    if interrupt::is_requested() {
        return Ok(Ending::Interrupted);
    }
    let Some(record) = records.first() else {
        bail!("the request was never sent");
    };
    match (record.outcome, record.status) {
        (Outcome::Answered, Some(status)) if status < 400 => Ok(Ending::Fine),
        (Outcome::Answered, status) => {
            let status = status.unwrap_or_default();
            output::talk(format_args!(
                "squall: the server answered with status {status}\n"
            ));
            Ok(Ending::Code(crate::FAILED))
        }
        (Outcome::Censored, _) => bail!("no whole answer within {}", arguments.timeout),
        (outcome, _) => {
            let said = record.error.as_deref().unwrap_or("no reason is known");
            bail!("cannot get {}: {}: {said}", arguments.url, outcome.name());
        }
    }
}

/// Writes bodies, and tells what happens to whoever wants to know.
struct Saving {
    out: Box<dyn Write + Send>,
    verbose: Option<Verbose>,
    broken: mpsc::Sender<io::Error>,
}

impl Observer for Saving {
    fn connected(&mut self, now: Time, connection: u32) {
        if let Some(verbose) = &mut self.verbose {
            verbose.connected(now, connection);
        }
    }

    fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        if let Some(verbose) = &mut self.verbose {
            verbose.secured(now, connection, alpn);
        }
    }

    fn observe(&mut self, seen: Seen<'_>) {
        let inbox = seen.inbox;
        if let Some(verbose) = &mut self.verbose {
            verbose.observe(seen);
        }
        if !inbox.bodies.is_empty()
            && let Err(error) = self
                .out
                .write_all(&inbox.bodies)
                .and_then(|()| self.out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            // The first one is told at the end.
            let _ = self.broken.send(error);
        }
    }
}
