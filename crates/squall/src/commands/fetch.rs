//! `squall fetch`: sends one request and prints the response and, with `-v`, everything that the connection sends and
//! receives.
//!
//! It uses the same client as trials do, with one user. The body goes to stdout or a file, `-v` and errors to stderr.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, bail};
use squall_analysis::figure;
use squall_analysis::load::Latencies;
use squall_base::plan::SideSettings;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::{InboxOptions, Request};
use squall_linux::clock;
use squall_linux::privileges;
use squall_linux::spans::DurationHistogram;
use squall_linux::stop::StopSignal;
use squall_stations::LogSinks;
use squall_stations::client::{Client, ClientSettings, ClientSinks, Observation, Observer, Target};
use squall_stations::rows::{self, Capacity};

use crate::client::{
    AddressBook, Attempt, ConnectionFlags, Http, HttpUrl, LinePrefix, PreparedRequest,
    ProtocolChoice, RIGHTS, RequestFlags, TlsCredentials, VerbosePrinter, check_upload,
    positive_time, resolve_auto, single,
};
use crate::key_log::KeyLog;
use crate::outcome::{CommandOutcome, FAILED};
use crate::{interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall fetch https://server/ -o page.html\n  \
        squall fetch -v --http 2 -k https://localhost:8443/\n  \
        squall fetch --http 3 -d photo.jpg --set http3.congestion_control=bbr2 https://server/upload\n\n\
        -v prints HTTP/2 and HTTP/3 frames to stderr, in the style of `nghttp -v`. The exit code is 1 if there is no \
        complete response, if its status is 400 or more, or if a gRPC call fails."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
    /// HTTP version; auto uses HTTP/3 if the server advertises it (alt-svc) [default: negotiated by ALPN for https, 1.1
    /// for http]
    #[arg(long, value_name = "VERSION", help_heading = "The connection")]
    http: Option<Http>,
    /// Write the body to this file instead of stdout
    #[arg(help_heading = "Outputs", short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print everything sent and received, as it happens
    #[arg(help_heading = "Outputs", short, long)]
    verbose: bool,
    /// Print to stderr when the body arrived: its first part, and the gaps between the parts
    #[arg(help_heading = "Outputs", long)]
    gaps: bool,
    /// Give up after this time
    #[arg(
        help_heading = "The request",
        long,
        value_name = "TIME",
        default_value = "10min",
        value_parser = positive_time
    )]
    timeout: Duration,
    /// URL to request
    url: String,
}

/// Where the request goes, and how.
struct Destination {
    url: HttpUrl,
    choice: ProtocolChoice,
    side: SideSettings,
    target: Target,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    privileges::keep_only(RIGHTS)?;
    let Destination {
        url,
        choice,
        side,
        target,
    } = choose_target(arguments)?;
    let protocol = choice.protocol;
    let PreparedRequest { request, upload } = arguments.request.request(&url)?;
    check_upload(&arguments.connection, upload.is_some())?;
    let out: Box<dyn Write + Send> = match &arguments.output {
        Some(path) => {
            Box::new(File::create(path).with_context(|| format!("cannot make {}", path.display()))?)
        }
        None => Box::new(io::stdout()),
    };
    let settings = settings(arguments, target, choice, side, request.clone());
    let verbose = arguments.verbose.then(|| {
        let stderr = Box::new(io::stderr());
        VerbosePrinter::new(stderr, clock::now(), LinePrefix::None, vec![request])
    });
    let (write_errors, write_error) = mpsc::channel();
    let observer = FetchObserver {
        out,
        verbose,
        write_errors,
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
    let report = Client::new(settings, sinks, StopSignal::new()?, stop)?
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
    if let Some(record) = records.first().filter(|_| arguments.gaps) {
        output::eprint(arrivals(record, &report.gaps));
    }
    let attempt = Attempt {
        url: &url,
        protocol,
        flags: &arguments.connection,
    };
    conclude(&records, arguments, &attempt)
}

/// Client settings for one request over one connection.
fn settings(
    arguments: &Arguments,
    target: Target,
    choice: ProtocolChoice,
    side: SideSettings,
    request: Arc<Request>,
) -> ClientSettings {
    let observed = InboxOptions {
        // The fields contain the status of a gRPC call.
        fields: true,
        bodies: true,
        frames: arguments.verbose,
    };
    ClientSettings {
        asks_for_http2: arguments.connection.upgrade,
        ..single(target, choice, side, request, observed, arguments.timeout)
    }
}

/// The URL to send the request to, with its alternative if there is one, and how to reach it.
fn choose_target(arguments: &Arguments) -> Result<Destination> {
    let connection = &arguments.connection;
    let mut url = HttpUrl::parse(&arguments.url)?;
    let mut address_book = AddressBook::default();
    let http = match arguments.http {
        Some(Http::Auto) => {
            let urls = std::slice::from_ref(&url);
            resolve_auto(connection, &arguments.request, urls, &mut address_book)?
        }
        http => http,
    };
    url.alternative = address_book.alternative(&url.authority).cloned();
    let choice = connection.protocol(http, url.scheme)?;
    let possible = connection.possible_protocols(arguments.http.as_slice(), url.scheme)?;
    let side = connection.settings(choice.protocol, &possible)?;
    let target = TlsCredentials::target(connection, &url, choice, &side, &mut address_book)?;
    Ok(Destination {
        url,
        choice,
        side,
        target,
    })
}

/// When the body arrived, in a line: `body: 20 parts, the first after 52.3 ms; gaps p50 50.1 ms, p95 n/a, p99 n/a, longest
/// 50.4 ms from 312 ms on`.
fn arrivals(record: &RequestRecord, gaps: &DurationHistogram) -> String {
    let arrivals = record.arrivals;
    let Some(first) = arrivals.first else {
        return "body: no part arrived\n".to_owned();
    };
    let parts = figure::counted(arrivals.count.into(), "part", "parts");
    let after = figure::span(first.since(record.intended));
    let Some(longest) = arrivals.longest_gap else {
        return format!("body: {parts}, after {after}\n");
    };
    let mut of_all = Latencies::new();
    gaps.counts()
        .for_each(|(gap, count)| of_all.add_times(gap, count));
    let quantile = |share| {
        let known = of_all.quantile(share);
        known.map_or_else(|| "n/a".to_owned(), figure::span)
    };
    format!(
        "body: {parts}, the first after {after}; gaps p50 {}, p95 {}, p99 {}, longest {} from {} on\n",
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        figure::span(longest.length),
        figure::span(longest.from.since(record.intended)),
    )
}

/// Reports the outcome of the request.
fn conclude(
    records: &[RequestRecord],
    arguments: &Arguments,
    attempt: &Attempt<'_>,
) -> Result<CommandOutcome> {
    if interrupt::is_requested() {
        return Ok(CommandOutcome::Interrupted);
    }
    let Some(record) = records.first() else {
        bail!("the request was never sent");
    };
    match (record.outcome, record.status) {
        _ if record.succeeded() => Ok(CommandOutcome::Success),
        _ if record.is_failed_call() => {
            let said = record.error.as_deref().unwrap_or("no reason is known");
            output::eprint(format_args!("squall: the gRPC call failed: {said}\n"));
            Ok(CommandOutcome::Code(FAILED))
        }
        (Outcome::Answered, status) => {
            let status = status.unwrap_or_default();
            output::eprint(format_args!(
                "squall: the server answered with status {status}{}\n",
                as_sentence(attempt.advice_for_status(status))
            ));
            Ok(CommandOutcome::Code(FAILED))
        }
        (Outcome::Censored, _) => bail!(
            "no complete response within {}{}",
            arguments.timeout,
            advice(record, attempt)
        ),
        (outcome, _) => {
            let said = record.error.as_deref().unwrap_or("no reason is known");
            bail!(
                "cannot get {}: {}: {said}{}",
                arguments.url,
                outcome.name(),
                advice(record, attempt)
            );
        }
    }
}

/// What to try after a failed request, as the sentence after the error. Empty if the response began, or if the connection was
/// secured and only the response was late.
fn advice(record: &RequestRecord, attempt: &Attempt<'_>) -> String {
    let is_late = record.outcome == Outcome::Censored && record.secured.is_some();
    if record.headers.is_some() || is_late {
        return String::new();
    }
    let error = record.error.as_deref().unwrap_or_default();
    as_sentence(attempt.advice(record.outcome, error))
}

fn as_sentence(advice: Option<String>) -> String {
    advice.map_or_else(String::new, |advice| format!(". {advice}"))
}

/// Writes response bodies, and passes events on to `-v`.
struct FetchObserver {
    out: Box<dyn Write + Send>,
    verbose: Option<VerbosePrinter>,
    write_errors: mpsc::Sender<io::Error>,
}

impl Observer for FetchObserver {
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

    fn observe(&mut self, seen: Observation<'_>) {
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
            // The first error is reported at the end.
            let _ = self.write_errors.send(error);
        }
    }
}
