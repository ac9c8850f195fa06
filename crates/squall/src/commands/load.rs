//! `squall load`: closed-loop load on a server, with h2load's letters, every request measured.
//!
//! The same client as in a trial. What it measures is how fast the server and this client are together; latencies under an
//! open load are those of `squall run`.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Connections, PoolOrder, PoolSettings, Protocol, SideSettings};
use squall_base::record::{Outcome, RequestRecord, SideCounts};
use squall_base::{Bytes, Duration, Time};
use squall_http::Wants;
use squall_linux::spans::Spans;
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling};
use squall_load::ClosedSettings;
use squall_record::{
    ExchangeWriter, FrameWriter, RequestWriter, SocketWriter, TableRow, TableWriter,
};
use squall_stations::LogSinks;
use squall_stations::client::{Client, ClientReport, ClientSettings, ClientSinks, Workload};

use super::fetch::KeyLog;
use crate::client::{ConnectionFlags, Place, RequestFlags, SAMPLE_EVERY, Trusting, Verbose};
use crate::{BadInput, Ending, interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall load -n 10000 -c 4 -m 16 http://localhost:8080/\n  \
        squall load --http 2 -D 10s -c 1 -m 100 -d body.bin https://server/upload\n  \
        squall load -v -n 1 https://server/\n\n\
        -c connections with -m requests at once on each. The exit code is 1 if a request failed or was answered with a \
        status of 400 or more."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    windows: WindowBits,
    #[command(flatten)]
    outputs: Outputs,
    /// What to ask for
    url: String,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How much")]
struct Amount {
    /// Requests in all; with -D as many as the time allows
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Connections
    #[arg(short = 'c', long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Requests at once on each connection; HTTP/1.1 has one
    #[arg(short = 'm', long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    streams: u32,
    /// How long requests are begun
    #[arg(short = 'D', long, value_name = "TIME")]
    duration: Option<Duration>,
}

/// h2load's way to set windows.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The connection")]
struct WindowBits {
    /// Stream window of 2^BITS - 1 bytes
    #[arg(short = 'w', long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=30))]
    window_bits: Option<u32>,
    /// Connection window of 2^BITS - 1 bytes
    #[arg(short = 'W', long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(16..=30))]
    connection_window_bits: Option<u32>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Outputs (docs/RECORD.md)")]
struct Outputs {
    /// Write a row for each request to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    requests_to: Option<PathBuf>,
    /// Write a row for each exchange, with its bytes on the connection, to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    exchanges_to: Option<PathBuf>,
    /// Write a row for each frame of HTTP/2, HTTP/3 and QUIC to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    frames_to: Option<PathBuf>,
    /// Write samples of TCP_INFO and of QUIC's paths to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    sockets_to: Option<PathBuf>,
    /// How often sockets are sampled
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    sample_every: Duration,
    /// Print what is sent and received, as it happens
    #[arg(short, long)]
    verbose: bool,
}

/// How long answers are waited for when the duration is over.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let place = Place::parse(&arguments.url)?;
    let spoken = arguments.connection.protocol(place.scheme)?;
    let mut side = arguments.connection.settings(spoken.0)?;
    arguments.windows.apply(&mut side);
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let settings = settings(arguments, &place, spoken, side)?;
    let epoch = clock::now();
    let (sinks, tables) = Tables::begin(&arguments.outputs, epoch)?;
    let keys = KeyLog::open(&arguments.connection)?;
    let sinks = ClientSinks {
        log: LogSinks {
            key_log: keys.as_ref().map(KeyLog::sender),
            ..sinks.log
        },
        observer: arguments.outputs.verbose.then(|| {
            let request = settings.request.clone();
            Box::new(Verbose::new(Box::new(std::io::stderr()), epoch, request)) as _
        }),
        ..sinks
    };
    let stop = StopSignal::new()?;
    interrupt::watch_and_signal(stop.clone())?;
    let protocol = settings.protocol;
    let report = Client::new(settings, sinks, StopSignal::new()?, stop)?.run()?;
    let totals = tables.finish()?;
    if let Some(keys) = keys {
        keys.write()?;
    }
    output::print(summary(&report, &totals, protocol))?;
    if interrupt::is_requested() {
        return Ok(Ending::Interrupted);
    }
    let is_fine = totals.failed() == 0 && totals.succeeded > 0;
    Ok(if is_fine {
        Ending::Fine
    } else {
        Ending::Code(crate::FAILED)
    })
}

fn settings(
    arguments: &Arguments,
    place: &Place,
    spoken: (Protocol, bool),
    side: SideSettings,
) -> Result<ClientSettings> {
    let Amount {
        requests,
        connections,
        streams,
        duration,
    } = arguments.amount;
    if arguments.request.data.as_deref() == Some("-") && arguments.outputs.verbose {
        return Err(BadInput::new("-v and -d - do not go together: stdin is read once").into());
    }
    Ok(ClientSettings {
        target: Trusting::target(&arguments.connection, place, spoken, &side)?,
        protocol: spoken.0,
        is_strict: spoken.1,
        asks_for_http2: arguments.connection.upgrade,
        side,
        connections: Connections::Fixed(connections),
        pool: PoolSettings {
            order: PoolOrder::LeastBusy,
            streams_at_most: Some(streams),
            warm: connections,
        },
        seed: 0,
        workload: Workload::Closed(ClosedSettings {
            users: u64::from(connections) * u64::from(streams),
            requests: requests.or(duration.is_none().then_some(1)),
            duration,
            drain: DRAIN,
        }),
        request: arguments.request.request(place)?,
        observed: Wants {
            fields: arguments.outputs.verbose,
            bodies: false,
            frames: arguments.outputs.verbose,
        },
        sample_every: match arguments.outputs.sample_every {
            Duration::ZERO => SAMPLE_EVERY,
            every => every,
        },
    })
}

impl WindowBits {
    fn apply(&self, side: &mut SideSettings) {
        let window = |bits: u32| Bytes::new((1 << bits) - 1);
        if let Some(bits) = self.window_bits {
            side.http2.stream_window = window(bits);
            side.http3.stream_window = window(bits);
        }
        if let Some(bits) = self.connection_window_bits {
            side.http2.connection_window = window(bits);
            side.http3.connection_window = window(bits);
        }
    }
}

/// Sums over all requests.
struct Totals {
    succeeded: u64,
    by_outcome: [u64; Outcome::ALL.len()],
    error_statuses: u64,
    body_bytes: u64,
    latency: Spans,
    /// What the first failure said.
    said: Option<String>,
}

impl Totals {
    fn new() -> Totals {
        Totals {
            succeeded: 0,
            by_outcome: [0; Outcome::ALL.len()],
            error_statuses: 0,
            body_bytes: 0,
            latency: Spans::new(),
            said: None,
        }
    }

    fn add(&mut self, request: &RequestRecord) {
        self.by_outcome[request.outcome as usize] += 1;
        self.body_bytes += request.response_body_bytes;
        if request.succeeded() {
            self.succeeded += 1;
            self.latency.add(request.response_time());
        } else if request.outcome == Outcome::Answered {
            self.error_statuses += 1;
        } else if self.said.is_none() {
            self.said.clone_from(&request.error);
        }
    }

    /// Requests that ended without an answer or with an error's, but not those that were given up at the end.
    fn failed(&self) -> u64 {
        let all: u64 = self.by_outcome.iter().sum();
        all - self.succeeded - self.by_outcome[Outcome::Censored as usize]
    }
}

/// The tables that were asked for, while they are written.
struct Tables {
    requests: JoinHandle<Result<Totals>>,
    others: Vec<JoinHandle<Result<()>>>,
}

impl Tables {
    fn begin(outputs: &Outputs, epoch: Time) -> Result<(ClientSinks, Tables)> {
        let (requests, chunks) = mpsc::channel::<Vec<RequestRecord>>();
        let mut writer = outputs
            .requests_to
            .as_ref()
            .map(RequestWriter::create)
            .transpose()?;
        let requests_thread = in_background(move || {
            let mut totals = Totals::new();
            for mut chunk in chunks {
                for request in &mut chunk {
                    totals.add(request);
                    request.count_from(epoch);
                }
                if let Some(writer) = &mut writer {
                    writer.append(&chunk)?;
                }
            }
            if let Some(writer) = writer {
                writer.finish()?;
            }
            Ok(totals)
        })?;
        let mut others = Vec::new();
        let log = LogSinks {
            exchanges: table(
                &outputs.exchanges_to,
                ExchangeWriter::create,
                &mut others,
                move |row| {
                    row.count_from(epoch);
                },
            )?,
            frames: table(
                &outputs.frames_to,
                FrameWriter::create,
                &mut others,
                move |row| {
                    row.count_from(epoch);
                },
            )?,
            sockets: table(
                &outputs.sockets_to,
                SocketWriter::create,
                &mut others,
                move |row| {
                    row.count_from(epoch);
                },
            )?,
            key_log: None,
        };
        let sinks = ClientSinks {
            requests,
            log,
            observer: None,
        };
        let tables = Tables {
            requests: requests_thread,
            others,
        };
        Ok((sinks, tables))
    }

    fn finish(self) -> Result<Totals> {
        let panicked = |_| anyhow!("a thread that writes records panicked");
        for table in self.others {
            table.join().map_err(panicked)??;
        }
        self.requests.join().map_err(panicked)?
    }
}

/// Begins one table, if it is wanted.
fn table<R: TableRow + Send + 'static>(
    path: &Option<PathBuf>,
    create: impl FnOnce(PathBuf) -> Result<TableWriter<R>, squall_record::RecordError>,
    threads: &mut Vec<JoinHandle<Result<()>>>,
    relative: impl Fn(&mut R) + Send + 'static,
) -> Result<Option<Sender<Vec<R>>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let mut writer = create(path.clone())?;
    let (sender, chunks): (_, Receiver<Vec<R>>) = mpsc::channel();
    threads.push(in_background(move || {
        for mut chunk in chunks {
            chunk.iter_mut().for_each(&relative);
            writer.append(&chunk)?;
        }
        writer.finish()?;
        Ok(())
    })?);
    Ok(Some(sender))
}

fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    thread::Builder::new()
        .name("squall-rows".to_owned())
        .spawn(move || {
            scheduling::make_background();
            work()
        })
        .context("cannot start a thread that writes records")
}

fn summary(report: &ClientReport, totals: &Totals, asked: Protocol) -> String {
    let seconds = report.load_end.since(report.load_start).as_secs_f64();
    let per_second = |count: u64| match seconds > 0.0 {
        true => count as f64 / seconds,
        false => 0.0,
    };
    let mut text = format!(
        "{} requests in {seconds:.3} s: {:.0} requests/s, {:.2} MB/s\n",
        report.requests,
        per_second(totals.succeeded),
        per_second(totals.body_bytes) / 1e6,
    );
    text += &format!("succeeded {}", totals.succeeded);
    for (outcome, count) in Outcome::ALL.iter().zip(totals.by_outcome) {
        if *outcome != Outcome::Answered && count > 0 {
            text += &format!(", {} {count}", outcome.name());
        }
    }
    if totals.error_statuses > 0 {
        text += &format!(", with a status of 400 or more {}", totals.error_statuses);
    }
    text.push('\n');
    if let Some(said) = &totals.said {
        text += &format!("the first failure said: {said}\n");
    }
    let ms = |quantile| totals.latency.quantile(quantile).as_millis_f64();
    text += &format!(
        "latency ms: p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}\n",
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(0.999),
        ms(1.0)
    );
    text + &connections(&report.counts, asked)
}

/// The counts that people ask for, those that are not nothing.
fn connections(counts: &SideCounts, asked: Protocol) -> String {
    let mut text = format!(
        "connections: {} TCP, {} QUIC",
        counts.tcp_connections, counts.quic_connections
    );
    if asked.is_secure() {
        text += &format!(
            "; handshakes: {} full, {} resumed",
            counts.tls_full, counts.tls_resumed
        );
    }
    text.push('\n');
    for (what, found) in [
        ("spoken", &counts.protocols),
        ("TLS", &counts.ciphers),
        ("SETTINGS sent", &counts.settings_sent),
        ("SETTINGS received", &counts.settings_received),
    ] {
        if !found.is_empty() {
            let words: Vec<String> = found
                .iter()
                .map(|(name, count)| format!("{name} ({count})"))
                .collect();
            text += &format!("{what}: {}\n", words.join(", "));
        }
    }
    text
}
