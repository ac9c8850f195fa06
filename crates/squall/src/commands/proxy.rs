//! `squall proxy`: the embedded proxy on its own, on real ports.
//!
//! Only what can be asked for; the proxy itself is in squall-stations. It ends with Ctrl-C.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use squall_base::plan::{
    Connections, PoolOrder, PoolSettings, Protocol, SAMPLE_EVERY, SideSettings, Version,
};
use squall_base::{Duration, Side};
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;
use squall_recipe::settings::PROXY_DELAYS;
use squall_stations::LogSinks;
use squall_stations::proxy::{Balance, Proxy, ProxyReport, ProxySettings, Timeouts};
use squall_stations::server::Listener;

use super::serve::{Certificate, Listeners, access_log, say_counts};
use crate::client::{
    ConnectionFlags, Http, Place, Reach, SET, Trusting, Warm, pool_orders, side_settings,
};
use crate::key_log::KeyLog;
use crate::{BadInput, Ending, interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall proxy --https 8443 --h3 8443 --to http://127.0.0.1:8080\n  \
        squall proxy --h1 8080 --to http://10.0.0.1:9000 --to http://10.0.0.2:9000 --http 2 --balance least-requests\n  \
        squall proxy --h2c 8080 --like alb --to http://127.0.0.1:9000\n\n\
        Without a listener it takes --h1 8080 --https 8443 --h3 8443. Bodies are streamed both ways in bounded memory. \
        What it answers by itself: 400 and 501 (cannot be passed on), 408 (the request does not go on), 502 (no \
        upstream), 504 (no answer in time). Without --cert it makes a certificate, as squall serve does."
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
    times: Times,
    /// Write a line for each exchange to this file, with microseconds; `-` is stdout
    #[arg(long, value_name = "FILE")]
    access_log: Option<String>,
    /// Append TLS secrets of both sides to this file in the format of NSS (SSLKEYLOGFILE), as they come
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Upstreams")]
struct Upstreams {
    /// Where requests go, such as http://127.0.0.1:9000; its path is not used (may be repeated)
    #[arg(long = "to", value_name = "URL", required = true)]
    to: Vec<String>,
    /// The version of HTTP towards them: by default HTTP/1.1
    #[arg(long, value_name = "VERSION", value_enum)]
    http: Option<Http>,
    /// Which of them a request goes to
    #[arg(long, value_name = "HOW", value_enum)]
    balance: Option<Balancing>,
    /// Connections to each at most: by default 256 of HTTP/1.1, 8 of HTTP/2 and HTTP/3
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: Option<u32>,
    /// Have --connections to each, whatever is free; without it one is opened only when a request finds none free
    #[arg(long, requires = "connections")]
    fixed: bool,
    /// Open so many of the connections to each before the first request, or all; without it none, but with --fixed all
    #[arg(
        long, value_name = "COUNT", num_args = 0..=1, require_equals = true, default_missing_value = "all"
    )]
    warm: Option<Warm>,
    /// Requests at once on each connection of HTTP/2 and HTTP/3 at most
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    streams: Option<u32>,
    /// Which of an upstream's connections that can take a request gets it; without it last_used, with --fixed
    /// turns (docs/RECIPES.md)
    #[arg(long, value_name = "ORDER", value_parser = pool_orders())]
    order: Option<PoolOrder>,
    /// Take any certificate of theirs
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the certificates of this file (PEM) only
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings (docs/RECIPES.md)")]
struct Settings {
    /// Do on both sides as this program is known to do
    #[arg(long, value_name = "PROGRAM", value_enum, conflicts_with_all = ["preset", "back_preset"])]
    like: Option<Like>,
    /// Settings of a well-known program on the side of the clients
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// One setting of that side, such as `http2.window_updates=never` (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Settings of a well-known program on the side of the upstreams
    #[arg(long, value_name = "NAME")]
    back_preset: Option<String>,
    /// One setting of that side (may be repeated)
    #[arg(long = "back-set", value_name = "KEY=VALUE")]
    back_sets: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Times")]
struct Times {
    /// Answer 504 if an upstream's connection is not ready within this time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    connect_timeout: Duration,
    /// Answer 504 if an upstream does not begin to answer within this time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    answer_timeout: Duration,
    /// Give up what does not move for this time
    #[arg(long, value_name = "TIME", default_value = "75s")]
    idle_timeout: Duration,
    /// Hold the head of each response for this time before it is passed on, as a filter that computes; up to 10s
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = delay)]
    delay: Duration,
}

/// Reads `--delay`, within what a recipe may ask for.
fn delay(text: &str) -> Result<Duration, String> {
    let delay: Duration = text
        .parse()
        .map_err(|error: squall_base::ParseQuantityError| error.to_string())?;
    if PROXY_DELAYS.contains(&delay) {
        return Ok(delay);
    }
    Err(format!("{text} is out of range: expected 0ms to 10s"))
}

/// Which upstream a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Balancing {
    /// They take turns
    RoundRobin,
    /// The one with the fewest requests under way
    LeastRequests,
}

/// A program whose published or seen behaviour is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Like {
    /// An Application Load Balancer: 128 streams, 16,375 bytes for each DATA frame, HTTP/1.1 to targets in turn
    Alb,
    /// nghttpx: 100 streams, windows of 65,535 bytes, TLS records of 1,300 bytes for the first MiB
    Nghttpx,
}

/// What `--like` comes to.
struct Mode {
    front: &'static str,
    /// The protocol's own settings, if it says nothing.
    back: Option<&'static str>,
    /// The version that it speaks to upstreams, whatever is asked for.
    version: Option<Version>,
}

impl Like {
    fn mode(self) -> Mode {
        match self {
            Like::Alb => Mode {
                front: "alb",
                back: None,
                version: Some(Version::Http1),
            },
            Like::Nghttpx => Mode {
                front: "nghttpx",
                back: Some("nghttpx"),
                version: None,
            },
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let wanted = arguments.listeners.wanted();
    let protocols: Vec<Protocol> = (wanted.iter())
        .flat_map(|(kind, _)| kind.protocols())
        .collect();
    let front = arguments.settings.front(&protocols)?;
    let identity = match protocols.iter().any(|protocol| protocol.is_secure()) {
        true => Some(arguments.certificate.identity()?),
        false => None,
    };
    // Each connection is a file; where the limit cannot be raised it holds.
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let mut listeners = Vec::new();
    for (kind, address) in &wanted {
        listeners.push(Listener {
            address: *address,
            speaks: kind.speaks(&front, identity.as_ref())?,
        });
    }
    let keys = KeyLog::open(arguments.key_log.as_deref())?;
    let log = LogSinks {
        key_log: keys.as_ref().map(KeyLog::sender),
        ..LogSinks::default()
    };
    let settings = settings(arguments, listeners, front, &log)?;
    let stop = StopSignal::new()?;
    let proxy = Proxy::listen(settings, stop.clone())?;
    let addresses = proxy
        .addresses()
        .context("cannot find where the listeners are")?;
    interrupt::watch_and_signal(stop)?;
    for ((kind, _), address) in wanted.iter().zip(addresses) {
        output::talk(format_args!("listening {} on {address}\n", kind.name()));
    }
    say(&proxy.run()?);
    keys.map_or(Ok(()), KeyLog::finish)?;
    Ok(Ending::Fine)
}

fn settings(
    arguments: &Arguments,
    listeners: Vec<Listener>,
    front: SideSettings,
    log: &LogSinks,
) -> Result<ProxySettings> {
    let (places, spoken) = arguments.upstreams.places()?;
    let protocol = spoken.0;
    let mode = arguments.settings.like.map(Like::mode);
    if let Some(version) = mode.and_then(|mode| mode.version)
        && version != protocol.version()
    {
        let said = "--like alb speaks HTTP/1.1 to its targets: leave --http out";
        return Err(BadInput::new(said).into());
    }
    let back = arguments.settings.back(protocol)?;
    let (connections, pool) = arguments.upstreams.pool(protocol)?;
    let flags = arguments.upstreams.flags();
    let mut reach = Reach::telling_all();
    let upstreams = places
        .iter()
        .map(|place| Trusting::target(&flags, place, spoken, &back, &mut reach));
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
        delay: arguments.times.delay,
        front_log: log.clone(),
        back_log: log.clone(),
        access: access_log(arguments.access_log.as_deref())?,
        sample_every: SAMPLE_EVERY,
        seed: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64),
        is_realtime: false,
    })
}

/// One line, with what went wrong behind the rest, and what both sides have counted.
fn say(report: &ProxyReport) {
    let failures = report
        .failures
        .iter()
        .map(|(failure, count)| format!("{count} {failure}"));
    let errors = report
        .machine_errors
        .iter()
        .map(|(error, count)| format!("{count} {error}"));
    let wrong: Vec<String> = failures.chain(errors).collect();
    let wrong = match wrong.is_empty() {
        true => String::new(),
        false => format!("; {}", wrong.join(", ")),
    };
    output::talk(format_args!(
        "{} connections, {} to upstreams, {} responses, {} requests sent again{wrong}\n",
        report.front.tcp_connections + report.front.quic_connections,
        report.connections_opened,
        report.responses_written,
        report.retries
    ));
    say_counts("clients: ", &report.front);
    say_counts("upstreams: ", &report.back);
}

impl Upstreams {
    /// Where they are, and what is spoken to them, strictly.
    fn places(&self) -> Result<(Vec<Place>, (Protocol, bool))> {
        let places: Vec<Place> = (self.to.iter())
            .map(|text| Place::parse(text))
            .collect::<Result<_, _>>()?;
        let scheme = places.first().map(|place| place.scheme);
        if places.iter().any(|place| Some(place.scheme) != scheme) {
            let said = "the upstreams must be all http or all https";
            return Err(BadInput::new(said).into());
        }
        let scheme = scheme.context("there is an upstream")?;
        let http = Some(self.http.unwrap_or(Http::One));
        Ok((places, self.flags().protocol(http, scheme)?))
    }

    fn flags(&self) -> ConnectionFlags {
        ConnectionFlags {
            upgrade: false,
            preset: None,
            sets: Vec::new(),
            insecure: self.insecure,
            cacert: self.cacert.clone(),
            cert: None,
            key: None,
            ipv4: false,
            ipv6: false,
            connect_to: None,
            key_log: None,
        }
    }

    /// The connections to each of them: what recipes have as `connections` and `pool`.
    fn pool(&self, protocol: Protocol) -> Result<(Connections, PoolSettings), BadInput> {
        let usual = match protocol.version() {
            Version::Http1 => 256,
            Version::Http2 | Version::Http3 => 8,
        };
        let most = self.connections.unwrap_or(usual);
        let (connections, order, warm) = match self.fixed {
            true => (Connections::Fixed(most), PoolOrder::Turns, most),
            false => (
                Connections::OnDemand { at_most: most },
                PoolOrder::LastUsed,
                0,
            ),
        };
        let warm = self
            .warm
            .map_or(Ok(warm), |warm| warm.of(most, "--connections"))?;
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
        let like = self.like.map(|like| like.mode().front);
        let preset = like.or(self.preset.as_deref());
        side_settings(preset, (SET, &self.sets), Side::Server, protocols)
    }

    fn back(&self, protocol: Protocol) -> Result<SideSettings, BadInput> {
        let like = self.like.and_then(|like| like.mode().back);
        let preset = like.or(self.back_preset.as_deref());
        let sets = ("--back-set", &self.back_sets[..]);
        side_settings(preset, sets, Side::Client, &[protocol])
    }
}
