//! `squall proxy`: the embedded proxy as a standalone proxy on real ports.
//!
//! Only the flags; the proxy itself is in squall-stations. It runs until Ctrl-C.

use std::path::PathBuf;

use anyhow::{Context, Result};
use squall_base::plan::{
    Connections, PoolOrder, PoolSettings, Protocol, SAMPLE_EVERY, SideSettings, Version,
};
use squall_base::{Bytes, Duration, ParseQuantityError, Probability, Side};
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;
use squall_recipe::settings::PROXY_DELAYS;
use squall_stations::LogSinks;
use squall_stations::proxy::{Balance, MinUploadRate, Proxy, ProxyReport, ProxySettings, Timeouts};
use squall_stations::server::Listener;

use super::listeners::{Certificate, Listeners, cannot_listen, random_seed};
use super::rights::{LaterFiles, UserFlag};
use super::serve::{access_log, print_counts};
use crate::client::{
    AddressBook, ConnectionFlags, Http, HttpUrl, ProtocolChoice, SET, TlsCredentials, WarmCount,
    numbers, pool_orders, side_settings,
};
use crate::key_log::{KeyLog, OpenKeyLog};
use crate::outcome::{BadInput, CommandOutcome};
use crate::{interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall proxy --https 8443 --h3 8443 --to http://127.0.0.1:8080\n  \
        squall proxy --h1 8080 --to http://10.0.0.1:9000 --to http://10.0.0.2:9000 --http 2 --balance least-requests\n  \
        squall proxy --h2c 8080 --like alb --to http://127.0.0.1:9000\n\n\
        Without a listener flag, it uses --h1 8080 --https 8443 --h3 8443. Bodies are streamed both ways in bounded memory. \
        The proxy itself responds with 400 or 501 (the request cannot be forwarded), 408 (the request stalls, or arrives \
        too slowly while others wait), 502 (no upstream took the request, or the upstream failed), 503 (overload) and \
        504 (timeout). Without --cert, it generates a certificate, as squall serve does."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    listeners: Listeners,
    #[command(flatten)]
    upstreams: Upstreams,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    certificate: Certificate,
    #[command(flatten)]
    user: UserFlag,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    fairness: Fairness,
    /// Write one line per exchange to this file, with times in microseconds; `-` is stdout
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    access_log: Option<String>,
    /// Append TLS secrets of both sides to this file in NSS format (SSLKEYLOGFILE), as they become known
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Upstreams")]
struct Upstreams {
    /// Upstream to forward requests to, such as http://127.0.0.1:9000; its path is ignored (may be repeated)
    #[arg(long = "to", value_name = "URL", required = true)]
    to: Vec<String>,
    /// HTTP version to upstreams [default: 1.1]
    #[arg(long, value_name = "VERSION", value_enum)]
    http: Option<Http>,
    /// How to choose the upstream of a request [default: round-robin]
    #[arg(long, value_name = "HOW", value_enum)]
    balance: Option<Balancing>,
    /// Maximum connections to each upstream [default: 256 for HTTP/1.1, 8 for HTTP/2 and HTTP/3]
    #[arg(long, value_name = "COUNT", value_parser = numbers::connections)]
    connections: Option<u32>,
    /// Use a fixed number of --connections to each upstream, all opened before the first request unless --warm says fewer
    /// [default: open one only if a request finds none free]
    #[arg(long, requires = "connections")]
    fixed: bool,
    /// Open this many connections to each upstream before the first request, or `all` [default: 0; all with --fixed]
    #[arg(
        long, value_name = "COUNT", num_args = 0..=1, require_equals = true, default_missing_value = "all"
    )]
    warm: Option<WarmCount>,
    /// Maximum concurrent requests per HTTP/2 or HTTP/3 connection
    #[arg(long, value_name = "COUNT", value_parser = numbers::streams)]
    streams: Option<u32>,
    /// How to choose among an upstream's connections that can take a request (docs/RECIPES.md) [default: last_used;
    /// turns with --fixed]
    #[arg(long, value_name = "ORDER", value_parser = pool_orders())]
    order: Option<PoolOrder>,
    /// Accept any upstream certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust only the certificates in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings (docs/RECIPES.md)")]
struct Settings {
    /// Behave like this program on both sides
    #[arg(long, value_name = "PROGRAM", value_enum, conflicts_with_all = ["preset", "back_preset"])]
    like: Option<ImitatedProgram>,
    /// Use the settings of a well-known program towards clients
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Change one setting towards clients, such as `http2.window_updates=never` (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Use the settings of a well-known program towards upstreams
    #[arg(long, value_name = "NAME")]
    back_preset: Option<String>,
    /// Change one setting towards upstreams (may be repeated)
    #[arg(long = "back-set", value_name = "KEY=VALUE")]
    back_sets: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Times")]
struct Times {
    /// Answer 504 if a connection to the upstream is not ready within this time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    connect_timeout: Duration,
    /// Answer 504 if the upstream does not start its response within this time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    answer_timeout: Duration,
    /// Abort exchanges and close connections without progress for this long
    #[arg(long, value_name = "TIME", default_value = "75s")]
    idle_timeout: Duration,
    /// Delay the head of each response by this time, like a filter that takes time to compute; at most 10s
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = delay)]
    delay: Duration,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "While requests wait for an upstream's connections")]
struct Fairness {
    /// Answer 408 to a client that sends the body of its request with fewer bytes per second than this; 0 for no limit
    #[arg(long, value_name = "SIZE", default_value = "240")]
    min_upload_rate: Bytes,
    /// Time over which --min-upload-rate is measured; also how long a client may take to send its first bytes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = upload_period)]
    upload_period: Duration,
    /// Once a client has this share of an upstream's requests, serve other clients first; 100% for no limit
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = client_share)]
    client_share: Probability,
}

impl Fairness {
    /// The rate, unless it is turned off.
    fn min_upload_rate(&self) -> Option<MinUploadRate> {
        (self.min_upload_rate.get() > 0).then_some(MinUploadRate {
            bytes_per_s: self.min_upload_rate.get(),
            period: self.upload_period,
        })
    }

    /// The share, unless it is turned off.
    fn client_share(&self) -> Option<Probability> {
        Some(self.client_share).filter(|share| share.get() < 1.0)
    }
}

/// Parses `--upload-period`. Uploads are checked ten times a second, so a shorter period could not be measured
/// reliably.
fn upload_period(text: &str) -> Result<Duration, String> {
    let period: Duration = text
        .parse()
        .map_err(|error: ParseQuantityError| error.to_string())?;
    if period >= Duration::from_millis(100) {
        return Ok(period);
    }
    Err(format!("{text} is out of range: expected at least 100ms"))
}

/// Parses `--client-share`.
fn client_share(text: &str) -> Result<Probability, String> {
    let share: Probability = text
        .parse()
        .map_err(|error: ParseQuantityError| error.to_string())?;
    if share.get() >= 0.01 {
        return Ok(share);
    }
    Err(format!("{text} is out of range: expected 1% to 100%"))
}

/// Parses `--delay`, with the limits that recipes have.
fn delay(text: &str) -> Result<Duration, String> {
    let delay: Duration = text
        .parse()
        .map_err(|error: ParseQuantityError| error.to_string())?;
    if PROXY_DELAYS.contains(&delay) {
        return Ok(delay);
    }
    Err(format!("{text} is out of range: expected 0ms to 10s"))
}

/// How to choose the upstream of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Balancing {
    /// Each upstream in turn
    RoundRobin,
    /// The upstream with the fewest requests in flight
    LeastRequests,
}

/// A program whose published or observed behaviour is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ImitatedProgram {
    /// Application Load Balancer: 128 streams, a window update of 16,375 bytes after each DATA frame, HTTP/1.1 to targets in
    /// turn
    Alb,
    /// nghttpx: 100 streams, windows of 65,535 bytes, TLS records of 1,300 bytes for the first MiB
    Nghttpx,
}

/// The settings that `--like` stands for.
struct ProxyPresets {
    front: &'static str,
    /// `None` for the protocol's own settings.
    back: Option<&'static str>,
    /// The fixed version towards upstreams, if the program has one.
    version: Option<Version>,
}

impl ImitatedProgram {
    fn presets(self) -> ProxyPresets {
        match self {
            ImitatedProgram::Alb => ProxyPresets {
                front: "alb",
                back: None,
                version: Some(Version::Http1),
            },
            ImitatedProgram::Nghttpx => ProxyPresets {
                front: "nghttpx",
                back: Some("nghttpx"),
                version: None,
            },
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let rights = arguments.user.prepare(LaterFiles::None)?;
    let requested = arguments.listeners.requested();
    let front = arguments.settings.front(&requested.protocols())?;
    let identity = requested.identity(&arguments.certificate)?;
    let listeners = requested.set_up(&front, identity.as_ref())?;
    // Each connection is an open file. If the limit cannot be raised, it stays in force.
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let keys = OpenKeyLog::open(arguments.key_log.as_deref())?;
    let log = LogSinks {
        key_log: keys.as_ref().map(OpenKeyLog::sender),
        ..LogSinks::default()
    };
    let settings = settings(arguments, listeners, front, &log)?;
    let stop = StopSignal::new()?;
    let proxy = Proxy::listen(settings, stop.clone()).map_err(cannot_listen)?;
    let addresses = proxy
        .addresses()
        .context("cannot find where the listeners are")?;
    arguments.certificate.write(identity.as_ref())?;
    rights.drop_after_listening()?;
    let keys = keys.map(OpenKeyLog::start).transpose()?;
    interrupt::watch_and_signal(stop)?;
    requested.print_listening(&addresses);
    print_report(&proxy.run()?);
    keys.map_or(Ok(()), KeyLog::finish)?;
    Ok(CommandOutcome::Success)
}

fn settings(
    arguments: &Arguments,
    listeners: Vec<Listener>,
    front: SideSettings,
    log: &LogSinks,
) -> Result<ProxySettings> {
    let (urls, choice) = arguments.upstreams.urls()?;
    let protocol = choice.protocol;
    let presets = arguments.settings.like.map(ImitatedProgram::presets);
    if let Some(version) = presets.and_then(|presets| presets.version)
        && version != protocol.version()
    {
        let said = "--like alb speaks HTTP/1.1 to its targets: leave --http out";
        return Err(BadInput::new(said).into());
    }
    let back = arguments.settings.back(protocol)?;
    let (connections, pool) = arguments.upstreams.pool(protocol)?;
    let flags = arguments.upstreams.flags();
    let mut address_book = AddressBook::printing_all();
    let upstreams = urls
        .iter()
        .map(|url| TlsCredentials::target(&flags, url, choice, &back, &mut address_book));
    Ok(ProxySettings {
        listeners,
        upstreams: upstreams.collect::<Result<_>>()?,
        protocol,
        front,
        back,
        connections,
        pool,
        balance: match arguments.upstreams.balance {
            Some(Balancing::LeastRequests) => Balance::LeastRequests,
            Some(Balancing::RoundRobin) | None => Balance::RoundRobin,
        },
        timeouts: Timeouts {
            connect: Some(arguments.times.connect_timeout),
            answer: Some(arguments.times.answer_timeout),
            idle: Some(arguments.times.idle_timeout),
        },
        min_upload_rate: arguments.fairness.min_upload_rate(),
        client_share: arguments.fairness.client_share(),
        delay: arguments.times.delay,
        front_log: log.clone(),
        back_log: log.clone(),
        access: access_log(arguments.access_log.as_deref())?,
        sample_every: SAMPLE_EVERY,
        seed: random_seed(),
        is_realtime: false,
    })
}

/// Prints one line with the totals and failures, then the counts of both sides.
fn print_report(report: &ProxyReport) {
    let failures = report
        .failures
        .iter()
        .map(|(failure, count)| format!("{count} {failure}"));
    let errors = report
        .machine_errors
        .iter()
        .map(|(error, count)| format!("{count} {error}"));
    let wrong: Vec<String> = failures.chain(errors).collect();
    let wrong = if wrong.is_empty() {
        String::new()
    } else {
        format!("; {}", wrong.join(", "))
    };
    output::eprint(format_args!(
        "{} connections, {} to upstreams, {} responses, {} requests sent again{wrong}\n",
        report.front.tcp_connections + report.front.quic_connections,
        report.connections_opened,
        report.responses_written,
        report.retries
    ));
    print_counts("clients: ", &report.front);
    print_counts("upstreams: ", &report.back);
}

impl Upstreams {
    /// The upstreams, and the protocol that is strictly used with them.
    fn urls(&self) -> Result<(Vec<HttpUrl>, ProtocolChoice)> {
        let urls: Vec<HttpUrl> = (self.to.iter())
            .map(|text| HttpUrl::parse(text))
            .collect::<Result<_, _>>()?;
        let scheme = urls.first().map(|url| url.scheme);
        if urls.iter().any(|url| Some(url.scheme) != scheme) {
            let said = "the upstreams must be all http or all https";
            return Err(BadInput::new(said).into());
        }
        let scheme = scheme.context("there is an upstream")?;
        if self.http == Some(Http::Auto) {
            let said =
                "squall proxy speaks one version to all upstreams: expected --http 1.1, 2 or 3";
            return Err(BadInput::new(said).into());
        }
        let http = Some(self.http.unwrap_or(Http::One));
        Ok((urls, self.flags().protocol(http, scheme)?))
    }

    fn flags(&self) -> ConnectionFlags {
        ConnectionFlags {
            insecure: self.insecure,
            cacert: self.cacert.clone(),
            ..ConnectionFlags::default()
        }
    }

    /// The connections to each upstream: what recipes call `connections` and `pool`.
    fn pool(&self, protocol: Protocol) -> Result<(Connections, PoolSettings), BadInput> {
        let usual = match protocol.version() {
            Version::Http1 => 256,
            Version::Http2 | Version::Http3 => 8,
        };
        let most = self.connections.unwrap_or(usual);
        let (connections, order, warm) = if self.fixed {
            (Connections::Fixed(most), PoolOrder::Turns, most)
        } else {
            (
                Connections::OnDemand { at_most: most },
                PoolOrder::LastUsed,
                0,
            )
        };
        let warm = self
            .warm
            .map_or(Ok(warm), |warm| warm.resolve(most, "--connections"))?;
        let pool = PoolSettings {
            order: self.order.unwrap_or(order),
            streams_at_most: self.streams,
            warm,
        };
        Ok((connections, pool))
    }
}

impl Settings {
    fn front(&self, protocols: &[Protocol]) -> Result<SideSettings, BadInput> {
        let like = self.like.map(|like| like.presets().front);
        let preset = like.or(self.preset.as_deref());
        side_settings(preset, SET, &self.sets, Side::Server, protocols)
    }

    fn back(&self, protocol: Protocol) -> Result<SideSettings, BadInput> {
        let like = self.like.and_then(|like| like.presets().back);
        let preset = like.or(self.back_preset.as_deref());
        let back = side_settings(
            preset,
            "--back-set",
            &self.back_sets,
            Side::Client,
            &[protocol],
        )?;
        if back.http2.retry_unprocessed || back.http3.retry_unprocessed {
            let said = "--back-set: `retry_unprocessed` is for clients: a proxy always sends requests again that were \
                        not processed";
            return Err(BadInput::new(said));
        }
        Ok(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_control_of_both_sides_is_the_kernels_default_unless_set() {
        for like in [
            None,
            Some(ImitatedProgram::Alb),
            Some(ImitatedProgram::Nghttpx),
        ] {
            let found = |sets: &[&str]| {
                let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
                let settings = Settings {
                    like,
                    preset: None,
                    sets: sets.clone(),
                    back_preset: None,
                    back_sets: sets,
                };
                let front = settings.front(&[Protocol::H2c]).unwrap();
                let back = settings.back(Protocol::H1).unwrap();
                [front, back].map(|side| side.tcp.congestion_control)
            };
            assert_eq!(found(&[]), [None, None], "{like:?}");
            let reno = Some("reno".to_owned());
            let asked = found(&["tcp.congestion_control=reno"]);
            assert_eq!(asked, [reno.clone(), reno], "{like:?}");
        }
    }
}
