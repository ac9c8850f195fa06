//! The flags of `squall load`.
//!
//! Only the flags and the checks that clap can do; `plan` combines them into a load.

use std::path::PathBuf;

use squall_analysis::Threshold;
use squall_base::Duration;
use squall_base::plan::{PoolOrder, SAMPLE_EVERY_AT_LEAST, Speed, Stages, ThinkTime};
use squall_report::Language;

use super::words::{Http, OutputFile, RateFlag, SpacingFlag, positive_time, spin_time};
use crate::awake::IdleProcessors;
use crate::client::{ConnectionFlags, RequestFlags, WarmCount, numbers, pool_orders};
use crate::display::{ColourChoice, LanguageChoice};
use crate::result_files::{ExportFlags, MetricFlags};

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        squall load -n 10000 -c 4 -m 16 http://localhost:8080/\n  \
        squall load --rate 1000 -D 30s -c 4 --threshold 'p(99)<50' https://server/\n  \
        squall load --http 1.1,2,3 --rate 500 -D 10s https://server/\n  \
        squall load --stages '100/s 10s, 100/s..1000/s 30s' --arrivals poisson http://server/\n  \
        squall load --script recorded.json --speed 10x --users 91 --stagger 1s http://server/\n  \
        squall load --tiles 100 --tile 'https://server/tile-{}.png' https://server/page.html\n  \
        squall load -v -n 1 https://server/\n\n\
        By default, each of the -c connections keeps -m requests in flight (a closed loop). --users, --rate, --stages,\n\
        --script, --page, --tiles and --hold replace this.\n\
        Exit codes: 0 success; 1 a request failed, got a status of 400 or more, or had no complete response by the end\n\
        of --drain or --give-up (a gRPC call fails by its grpc-status), no request succeeded, or a file could not be\n\
        written; 2 bad usage; 99 a threshold failed; 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) amount: Amount,
    #[command(flatten)]
    pub(super) shape: Shape,
    #[command(flatten)]
    pub(super) request: RequestFlags,
    #[command(flatten)]
    pub(super) connection: ConnectionFlags,
    #[command(flatten)]
    pub(super) comparison: Comparison,
    #[command(flatten)]
    pub(super) windows: WindowBits,
    #[command(flatten)]
    pub(super) outputs: Outputs,
    /// URLs to request, in turn, or at random with --weights or --random
    #[arg(value_name = "URL")]
    pub(super) urls: Vec<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "How much")]
pub(super) struct Amount {
    /// Total number of requests, or of pages; with -D, whichever limit comes first [default: 1, unlimited with -D]
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with_all = ["stages", "script"], value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Number of connections; for scripts and pages, the number per user [default: 1; over HTTP/1.1 one per user, or 6
    /// for --script, --page and --tiles]
    #[arg(short = 'c', long, value_name = "COUNT", value_parser = numbers::connections)]
    pub(super) connections: Option<u32>,
    /// Concurrent requests per connection; always 1 for HTTP/1.1 [default: 1 for closed loads without --users,
    /// otherwise unlimited]
    #[arg(short = 'm', long, value_name = "COUNT", value_parser = numbers::streams)]
    pub(super) streams: Option<u32>,
    /// How long to send requests, not counting the warm-up
    #[arg(short = 'D', long, value_name = "TIME", value_parser = positive_time)]
    pub(super) duration: Option<Duration>,
    /// Send requests for this long before measuring; no statistic includes them. With --stages, this is the first part of
    /// the stages
    #[arg(long, value_name = "TIME")]
    pub(super) warm_up_time: Option<Duration>,
    /// How long to wait for outstanding responses after the load ends. Requests that are still open then count as
    /// unfinished. With 0s, squall does not wait, and unfinished requests are not failures [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(super) drain: Option<Duration>,
    /// Cancel a request that has no complete response this long after it was due, and count it as failed (timeout). Over
    /// HTTP/1.1, this closes its connection [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    pub(super) timeout: Option<Duration>,
    /// Without -D: stop if no request completes for this long; open requests then count as unfinished
    #[arg(
        long, value_name = "TIME", default_value = "10min", value_parser = positive_time,
        conflicts_with_all = ["duration", "rate", "stages", "script"]
    )]
    pub(super) give_up: Duration,
    /// Threads, each with its share of the connections [default: half of the processors, at most one per connection or
    /// user; 1 with --on-demand or --order on shared connections]
    #[arg(short = 't', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: Option<u32>,
    /// Open a connection only if a request finds none free, up to -c [default: open all -c connections]. Scripts and
    /// pages always do this
    #[arg(long, requires = "connections")]
    pub(super) on_demand: bool,
    /// Open connections when they are first needed, not before the load; same as --warm=0
    #[arg(long)]
    pub(super) cold: bool,
    /// Open this many connections before the load, or `all` [default: all; 0 with --on-demand and for scripts and
    /// pages]
    #[arg(
        long, value_name = "COUNT", conflicts_with = "cold", num_args = 0..=1, require_equals = true,
        default_missing_value = "all"
    )]
    pub(super) warm: Option<WarmCount>,
    /// How to choose among the connections that can take a request (docs/RECIPES.md) [default: least_busy]
    #[arg(long, value_name = "ORDER", value_parser = pool_orders())]
    pub(super) order: Option<PoolOrder>,
    /// Busy-wait instead of sleeping if a request is due within this time, at most 10ms; 0s disables it. squall
    /// busy-waits only if there is a processor for each thread and one more [default: 60us, using at most a tenth of a
    /// processor]
    #[arg(long, value_name = "TIME", value_parser = spin_time)]
    pub(super) spin: Option<Duration>,
    /// Whether idle processors stay awake during the load [default: awake if permitted; for open loads, scripts and pages in
    /// a virtual machine, only if its host is busy]
    #[arg(long, value_enum, value_name = "STATE")]
    pub(super) idle_processors: Option<IdleProcessors>,
    /// Seed for all random choices
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub(super) seed: u64,
}

impl Amount {
    /// How long to wait for responses after the load.
    pub(super) fn drain(&self) -> Duration {
        self.drain.unwrap_or(Duration::from_secs(5))
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "When")]
pub(super) struct Shape {
    /// Send requests at this rate over all connections, such as 1000 or 90/m, whether or not responses keep up (an open
    /// loop)
    #[arg(long, value_name = "RATE", conflicts_with_all = ["stages", "script", "page", "tiles", "hold"])]
    pub(super) rate: Option<RateFlag>,
    /// Change the rate over time: `RATE TIME` or ramps `RATE..RATE TIME`, separated by commas; `0 5s` is a pause
    #[arg(long, value_name = "STAGES", conflicts_with_all = ["duration", "script", "page", "tiles", "hold"])]
    pub(super) stages: Option<Stages>,
    /// Spacing of the requests of --rate or --stages [default: constant]
    #[arg(long, value_name = "SPACING")]
    pub(super) arrivals: Option<SpacingFlag>,
    /// Number of users, each with one request at a time. For scripts and pages, each user replays the whole script or
    /// loads pages on its own connections [default: -c times -m; 1 for scripts and pages]
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["rate", "stages"], value_parser = numbers::users)]
    pub(super) users: Option<u32>,
    /// How long a user waits between a response and the next request or page: `1s`, `0.5s..2s`, or `exp:1s`
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with_all = ["rate", "stages", "script"])]
    pub(super) think: ThinkTime,
    /// Spread the starts of the users over this time. For a script, this is instead the delay between one user's start
    /// and the next: with 10ms, the last of 91 users starts after 0.9s
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with_all = ["rate", "stages"])]
    pub(super) stagger: Duration,
    /// Replay a script from `squall import` at its recorded times, on the server of the URL; each user replays all of
    /// it. `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["page", "tiles", "hold"])]
    pub(super) script: Option<PathBuf>,
    /// Send only the script's requests that were recorded for these hosts [default: with a URL, those for the host of the
    /// script's first request; without one or with --keep-hosts, all]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// Send each request of the script to its recorded host, not to the URL's
    #[arg(long)]
    pub(super) keep_hosts: bool,
    /// Replay the script this many times faster [default: 1x]
    #[arg(long, value_name = "FACTOR")]
    pub(super) speed: Option<Speed>,
    /// Request the targets in this file, in its order: vegeta's formats (`METHOD URL` with header lines, or lines of
    /// JSON), or one URL per line; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "page", "tiles", "hold"])]
    pub(super) targets: Option<PathBuf>,
    /// Choose each request's URL at random, with these relative shares, such as 3,1 [default: the URLs in turn]
    #[arg(
        long, value_name = "NUMBERS", value_delimiter = ',', value_parser = numbers::weight,
        conflicts_with_all = ["script", "targets", "page", "tiles", "hold"]
    )]
    pub(super) weights: Vec<u32>,
    /// Choose each request's URL or target at random, all with equal shares
    #[arg(long, conflicts_with_all = ["weights", "script", "page", "tiles", "hold"])]
    pub(super) random: bool,
    /// Load a page as a browser does: a JSON list of {"url", "after", "delay_ms", "urgency"} (docs/LOAD.md); `-` reads
    /// stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tiles", "hold"])]
    pub(super) page: Option<PathBuf>,
    /// Load the URL, then this many tiles of a large image at once
    #[arg(long, value_name = "COUNT", conflicts_with = "hold", value_parser = numbers::tiles)]
    pub(super) tiles: Option<u32>,
    /// URL of the tiles, with {} for the tile's number [default: the page's URL]
    #[arg(long, value_name = "URL")]
    pub(super) tile: Option<String>,
    /// Request the URL, whose response should be slow, and this one 10 ms later. Report whether the second response had to
    /// wait for the first (head-of-line blocking)
    #[arg(long, value_name = "URL")]
    pub(super) hold: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(super) struct Comparison {
    /// HTTP version. Several, such as 1.1,2,3, are run in turn and compared; auto uses HTTP/3 if the server advertises it
    /// (alt-svc) [default: negotiated by ALPN for https, 1.1 for http]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub(super) http: Vec<Http>,
    /// How many times to run each version of a comparison [default: 3]
    #[arg(long, value_name = "COUNT", requires = "http", value_parser = numbers::rounds)]
    pub(super) rounds: Option<u32>,
}

impl Comparison {
    /// How many times each version runs.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(3)
    }
}

/// Window flags in the style of h2load.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The connection")]
pub(super) struct WindowBits {
    /// Stream window of 2^BITS - 1 bytes
    #[arg(short = 'w', long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=30))]
    pub(super) window_bits: Option<u32>,
    /// Connection window of 2^BITS - 1 bytes
    #[arg(short = 'W', long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(16..=30))]
    pub(super) connection_window_bits: Option<u32>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Outputs (docs/RECORD.md)")]
pub(super) struct Outputs {
    /// Exit with code 99 if this condition fails, such as 'p(99)<50' (ms) or 'errors:rate<0.01' (may be repeated)
    #[arg(long, value_name = "CONDITION")]
    pub(super) threshold: Vec<Threshold>,
    /// Write one row per request to this file; the extension sets the format: parquet, csv, vegeta, h2load, hgrm, hlog
    /// (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(super) output: Vec<OutputFile>,
    /// Write the results as JSON to this file; `-` writes them to stdout instead of the text
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<String>,
    /// Write the results to this file as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write one row per exchange, with its byte ranges on the connection, to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) exchanges_to: Option<PathBuf>,
    /// Write one row per frame of HTTP/2, HTTP/3 and QUIC to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) frames_to: Option<PathBuf>,
    /// Write samples of TCP_INFO and of QUIC paths to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) sockets_to: Option<PathBuf>,
    /// Interval between samples of sockets, at least 1ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = sampling, requires = "sockets_to")]
    pub(super) sample_every: Duration,
    /// Print everything sent and received, as it happens
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Show no progress while the load runs
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// When to use colours
    #[arg(
        long = "color", visible_alias = "colour", value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto
    )]
    pub(super) colour: ColourChoice,
    /// Language of the text, the progress and the page; JSON, Markdown and JUnit files are always English
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En)]
    pub(super) lang: LanguageChoice,
    #[command(flatten)]
    pub(super) exports: ExportFlags,
    #[command(flatten)]
    pub(super) metrics: MetricFlags,
}

impl Outputs {
    pub(super) fn language(&self) -> Language {
        self.lang.into()
    }

    /// Whether no progress is shown while the load runs.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet || self.verbose
    }
}

/// Parses the sampling interval of sockets.
fn sampling(text: &str) -> Result<Duration, String> {
    let every: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if every < SAMPLE_EVERY_AT_LEAST {
        return Err(format!(
            "sockets cannot be sampled oftener than every {SAMPLE_EVERY_AT_LEAST}: leave --sockets-to out for no samples"
        ));
    }
    Ok(every)
}
