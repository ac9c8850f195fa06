//! What `squall load` can be told.
//!
//! Only the flags and what clap can check of them; what they mean together is in `plan`.

use std::path::PathBuf;

use squall_analysis::Threshold;
use squall_base::Duration;
use squall_base::plan::{PoolOrder, SAMPLE_EVERY_AT_LEAST, Speed, Stages, ThinkTime};

use super::words::{Gaps, Http, Output, RateFlag, some_time};
use crate::awake::Idle;
use crate::client::{ConnectionFlags, RequestFlags, Warm, pool_orders};

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        squall load -n 10000 -c 4 -m 16 http://localhost:8080/\n  \
        squall load --rate 1000 -D 30s -c 4 --threshold 'p(99)<50' https://server/\n  \
        squall load --http 1.1,2,3 --rate 500 -D 10s https://server/\n  \
        squall load --stages '100/s 10s, 100/s..1000/s 30s' --arrivals poisson http://server/\n  \
        squall load --script recorded.json --speed 10x --users 91 --stagger 1s http://server/\n  \
        squall load --tiles 100 --tile 'https://server/tile-{}.png' https://server/page.html\n  \
        squall load -v -n 1 https://server/\n\n\
        Without --rate, --stages, --script and pages, each of -c connections has -m requests at once (a closed loop).\n\
        Exit codes: 0 fine, 1 a request failed, was answered with a status of 400 or more or not until the end of\n\
        --drain or --give-up, 2 bad usage, 99 a threshold does not hold, 130 interrupted.")]
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
    /// What to ask for; of several, each as often as --weights says
    #[arg(value_name = "URL")]
    pub(super) urls: Vec<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "How much")]
pub(super) struct Amount {
    /// Requests in all (of a page: pages); with -D as many as the time allows
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with_all = ["stages", "script"], value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Connections; of scripts and pages, those of each user (6 for HTTP/1.1, else 1, as browsers have)
    #[arg(short = 'c', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(super) connections: Option<u32>,
    /// Requests at once on each connection; HTTP/1.1 has one
    #[arg(short = 'm', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) streams: Option<u32>,
    /// How long requests are begun
    #[arg(short = 'D', long, value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// Load before the measurement begins, in no statistic
    #[arg(long, value_name = "TIME")]
    pub(super) warm_up_time: Option<Duration>,
    /// How long answers are waited for when the load is over; who has none by then counts as unfinished. With 0 nobody
    /// is waited for, and that is no failure
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) drain: Duration,
    /// Give a load without -D up when none of its requests has ended for so long: those that are open count as unfinished
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = some_time)]
    pub(super) give_up: Duration,
    /// Threads; without it as many as the machine can spare, of which at most one for each connection, and one if
    /// --on-demand or --order is about connections that users share: each thread has its part of them
    #[arg(short = 't', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: Option<u32>,
    /// Open a connection only when a request finds none free, at most -c; without it there are -c of them, whatever is
    /// free. Scripts and pages do so anyway
    #[arg(long, requires = "connections")]
    pub(super) on_demand: bool,
    /// Open connections when a request needs one, not before the load: as --warm=0
    #[arg(long)]
    pub(super) cold: bool,
    /// Open so many of the connections before the load, or all; without it all, but with --on-demand and for each user
    /// of scripts and pages none
    #[arg(
        long, value_name = "COUNT", conflicts_with = "cold", num_args = 0..=1, require_equals = true,
        default_missing_value = "all"
    )]
    pub(super) warm: Option<Warm>,
    /// Which of the connections that can take a request gets it; without it least_busy (docs/RECIPES.md)
    #[arg(long, value_name = "ORDER", value_parser = pool_orders())]
    pub(super) order: Option<PoolOrder>,
    /// Watch the clock instead of sleeping when a request is due so soon; takes a processor for each thread, and is not
    /// done unless one more is left. Without it 60us as far as it takes a tenth of a processor; 0 not at all
    #[arg(long, value_name = "TIME")]
    pub(super) spin: Option<Duration>,
    /// What idle processors do while the load runs; without it closed loads keep them awake, and others unless this is a
    /// virtual machine, if that is allowed
    #[arg(long, value_enum, value_name = "STATE")]
    pub(super) idle_processors: Option<Idle>,
    /// Decides what is random
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub(super) seed: u64,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "When")]
pub(super) struct Shape {
    /// Requests at this rate over all connections, such as 1000 or 90/m, whatever becomes of them (an open load)
    #[arg(long, value_name = "RATE", conflicts_with_all = ["stages", "script", "page", "tiles", "hold"])]
    pub(super) rate: Option<RateFlag>,
    /// Rates over time: `RATE TIME` and ramps `RATE..RATE TIME`, with commas; `0 5s` is a pause
    #[arg(long, value_name = "STAGES", conflicts_with_all = ["duration", "script", "page", "tiles", "hold"])]
    pub(super) stages: Option<Stages>,
    /// How requests follow each other at that rate
    #[arg(long, value_name = "SPACING", default_value = "constant")]
    pub(super) arrivals: Gaps,
    /// Users, each with one request at a time; of scripts and pages, each with connections of its own
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) users: Option<u32>,
    /// What a user waits between an answer and the next request or page: `1s`, `0.5s..2s`, or `exp:1s`
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(super) think: ThinkTime,
    /// Start the users over this time; of a script, each so long after the one before (10ms for 91 users: over 0.9 s)
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(super) stagger: Duration,
    /// Replay a script of `squall import`, each user all of it, at its times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["page", "tiles", "hold"])]
    pub(super) script: Option<PathBuf>,
    /// How much faster a script is replayed
    #[arg(long, value_name = "FACTOR", default_value = "1x")]
    pub(super) speed: Speed,
    /// Ask for the targets of this file of vegeta's (`METHOD URL`, or JSON lines)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "page", "tiles", "hold"])]
    pub(super) targets: Option<PathBuf>,
    /// How often each of several URLs is asked for, relative to the others, such as 3,1
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(super) weights: Vec<u32>,
    /// Load a page as browsers do: a JSON list of {"url", "after", "delay_ms", "urgency"} (docs/LOAD.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tiles", "hold"])]
    pub(super) page: Option<PathBuf>,
    /// Load the URL and then so many tiles of a large image at once
    #[arg(long, value_name = "COUNT", conflicts_with = "hold", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) tiles: Option<u32>,
    /// What a tile's URL is, with {} for its number; without it the page's URL
    #[arg(long, value_name = "URL", requires = "tiles")]
    pub(super) tile: Option<String>,
    /// Ask for the URL, which its server answers late, and 10 ms later for this one: is it answered first?
    #[arg(long, value_name = "URL")]
    pub(super) hold: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(super) struct Comparison {
    /// The version of HTTP; several, such as 1.1,2,3, are run in turns and compared; auto asks the server whether it has
    /// HTTP/3 (alt-svc). Without it ALPN decides for https, and it is 1.1 for http
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub(super) http: Vec<Http>,
    /// How often each of several versions is run
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
}

/// h2load's way to set windows.
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
    /// Exit with code 99 if this does not hold, such as 'p(99)<50' (ms) or 'errors:rate<0.01' (may be repeated)
    #[arg(long, value_name = "CONDITION")]
    pub(super) threshold: Vec<Threshold>,
    /// Write a row for each request to this file, whose ending says how: parquet, csv, vegeta, h2load, hgrm, hlog (may
    /// be repeated)
    #[arg(long, value_name = "FILE")]
    pub(super) output: Vec<Output>,
    /// Write the figures of the end as JSON to this file; `-` is stdout, in place of the text
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<String>,
    /// Write a row for each exchange, with its bytes on the connection, to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) exchanges_to: Option<PathBuf>,
    /// Write a row for each frame of HTTP/2, HTTP/3 and QUIC to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) frames_to: Option<PathBuf>,
    /// Write samples of TCP_INFO and of QUIC's paths to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    pub(super) sockets_to: Option<PathBuf>,
    /// How often sockets are sampled, at least 1ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = sampling)]
    pub(super) sample_every: Duration,
    /// Print what is sent and received, as it happens
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Show nothing while it runs
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Outputs {
    /// Whether nothing is shown of the load while it runs.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet || self.verbose
    }
}

/// How often sockets are sampled.
fn sampling(text: &str) -> Result<Duration, String> {
    let every: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if every < SAMPLE_EVERY_AT_LEAST {
        return Err(format!(
            "sockets cannot be sampled oftener than every {SAMPLE_EVERY_AT_LEAST}: leave --sockets-to out for no samples"
        ));
    }
    Ok(every)
}
