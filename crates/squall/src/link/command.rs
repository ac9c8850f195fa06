//! `squall link`: runs any program behind an emulated link.
//!
//! Only the flags and their validation, which yield a `plan`. Both processes start here: the front (`front`) and the worker
//! (`worker`).

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use squall_base::record::Direction;
use squall_link::LinkSettings;
use squall_link::settings::{Capacity, Change, LaneSettings, QueueSettings, Setting, Stretch};
use squall_link::text;
use squall_link::trace::Trace;
use squall_linux::tun::Offload;
use squall_record::read_text_at_most;

use super::plan::{Plan, Starter};
use super::{front, worker};
use crate::awake::IdleProcessors;
use crate::limits;
use crate::outcome::{BadInput, CommandOutcome};

/// The default congestion control in both hosts: what most servers and clients use.
const CONGESTION_CONTROL: &str = "cubic";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall link --delay 25ms --loss 3% --forward 8080 -- curl http://server:8080/\n  \
        squall link --delay 25ms --rate 20mbit --queue 64k --serve 'iperf3 -s' -- iperf3 -c server\n  \
        squall link --down lte.trace --up lte.up.trace --pcap lte.pcapng --serve 'iperf3 -s' -- iperf3 -c server\n  \
        squall link --up 'rate 2mbit, queue codel' --next 'delay 40ms, loss 0.1%' --forward 8080\n\n\
        The command runs on the near side, where the far host is called `server`. There is no internet behind the \
        link, and `localhost` is the near host itself: --forward makes this machine's services answer at `server`. \
        squall exits with the command's exit code; the summary goes to stderr. docs/LINK.md describes all settings."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    conditions: Conditions,
    /// Make this port of this machine, TCP and UDP, reachable at `server` (may be repeated)
    #[arg(help_heading = "Programs", long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    forward: Vec<u16>,
    /// Shell command to run in the far host; COMMAND starts once this one listens, or after 10s
    #[arg(help_heading = "Programs", long, value_name = "CMD")]
    serve: Option<String>,
    /// TCP congestion control in both hosts, unless a socket sets its own
    #[arg(help_heading = "Programs", long, value_name = "NAME", default_value = CONGESTION_CONTROL)]
    cc: String,
    /// Use segmentation offload, for rates above about 2 Gbit/s: super-packets are split before the link handles them
    /// and joined again afterwards. Like receive offload, this reduces the number of acknowledgements
    #[arg(help_heading = "What the link does", long)]
    fast: bool,
    /// Whether idle processors stay awake [default: awake if permitted; in a virtual machine, only if its host is busy]
    #[arg(
        help_heading = "What the link does",
        long,
        value_enum,
        value_name = "STATE"
    )]
    idle_processors: Option<IdleProcessors>,
    /// Write all packets to this file (pcapng, for Wireshark and tcptrace), dropped ones with a comment
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Have programs behind the link write TLS secrets to this file (through SSLKEYLOGFILE), and add them to the capture, so
    /// that Wireshark can decrypt it
    #[arg(help_heading = "Outputs", long, value_name = "FILE", requires = "pcap")]
    key_log: Option<PathBuf>,
    /// Write one row per packet to this file (Parquet; docs/RECORD.md, packets)
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Also write the summary to this file as JSON
    #[arg(help_heading = "Outputs", long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do not print the summary
    #[arg(help_heading = "Outputs", long)]
    quiet: bool,
    /// Command to run on the near side [default: a shell]
    #[arg(
        help_heading = "Programs",
        trailing_var_arg = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// The conditions of the link.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What the link does")]
pub(crate) struct Conditions {
    /// One-way delay; a round trip takes twice as long
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Variation of the delay; packets stay in order unless it says `reordering`: `5ms`, `normal 5ms correlation 25%`,
    /// `pareto 5ms reordering`
    #[arg(long, value_name = "JITTER")]
    jitter: Option<String>,
    /// Share of IP packets lost in each direction: `3%`, `3% bursts of 5`, `gilbert-elliott 1% 20%` (good to bad, bad
    /// to good), `weather good 2s bad 200ms`
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
    /// Drop specific packets, counted per flow in each direction (with `every`, over all flows): `syn 1`, `data 3 of flow
    /// 0`, `every 100`, `seq 1-1448` (may be repeated)
    #[arg(long, value_name = "PACKETS")]
    drop: Vec<String>,
    /// Time windows in which nothing passes: `2s at 10s`, `200ms at 1s every 5s` (may be repeated)
    #[arg(long, value_name = "WINDOW")]
    blackout: Vec<String>,
    /// Share of packets that are duplicated
    #[arg(long, value_name = "SHARE")]
    duplicate: Option<String>,
    /// Share of packets with one flipped bit; checksums are left wrong
    #[arg(long, value_name = "SHARE")]
    corrupt: Option<String>,
    /// Share of packets held back so that others overtake them: `1% by 5ms`
    #[arg(long, value_name = "REORDER")]
    reorder: Option<String>,
    /// Rate at which bits leave the queue: `20mbit`, `20mbit bucket 32kB`
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Per-packet overhead in bytes that counts against the rate, such as 38 for Ethernet
    #[arg(long, value_name = "BYTES")]
    overhead: Option<String>,
    /// Queue in front of the rate limit; requires a rate or a trace: `64k`, `100 packets`, `codel`, `fq-codel ecn`, `red
    /// 30k 90k 10%` [default: 1,000 packets; 10,240 for fq-codel]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Settings towards the server, overriding the other flags: a list such as `rate 2mbit, delay 40ms`, or a trace
    /// file (mahimahi format)
    #[arg(long, value_name = "SETTINGS|TRACE")]
    up: Option<String>,
    /// Settings towards the client, overriding the other flags, as for --up
    #[arg(long, value_name = "SETTINGS|TRACE")]
    down: Option<String>,
    /// Add another link after this one, with these settings (may be repeated)
    #[arg(long, value_name = "SETTINGS")]
    next: Vec<String>,
    /// File of changes over time, one per line; times count from the link's start: `at 10s: loss 3%`, `at 1min: down
    /// rate 2mbit`
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Seed for all random choices: the same seed loses the same packets of each flow
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    // Reports errors before anything starts; the worker parses the same arguments again.
    plan(arguments)?;
    front::run(arguments.idle_processors)
}

/// Runs the worker process: see `link`.
pub(crate) fn work(arguments: &Arguments, starter: &Starter) -> Result<CommandOutcome> {
    worker::run(&plan(arguments)?, starter)
}

/// Whether a list of settings, or the name of a trace file, can be read; `flag` is where it was given.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_settings(flag: &str, list: &str) -> Result<(), BadInput> {
    read_list(flag, list).map(drop)
}

fn plan(arguments: &Arguments) -> Result<Plan, BadInput> {
    Ok(Plan {
        settings: arguments.conditions.settings()?,
        congestion_control: arguments.cc.clone(),
        offload: if arguments.fast {
            Offload::Segments
        } else {
            Offload::None
        },
        forward: arguments.forward.clone(),
        serve: arguments.serve.clone(),
        command: arguments.command.clone(),
        pcap: arguments.pcap.clone(),
        key_log: key_log(arguments.key_log.as_ref())?,
        log: arguments.log.clone(),
        json: arguments.json.clone(),
        is_quiet: arguments.quiet,
    })
}

/// As an absolute path, because programs may change their working directory.
fn key_log(path: Option<&PathBuf>) -> Result<Option<PathBuf>, BadInput> {
    path.map(std::path::absolute)
        .transpose()
        .map_err(|error| BadInput::new(format!("--key-log: {error}")))
}

impl Conditions {
    /// The link that these flags describe.
    fn settings(&self) -> Result<LinkSettings, BadInput> {
        let mut first = Stretch::default();
        for (flag, value) in self.symmetric() {
            for setting in read_setting(flag, value)? {
                first.apply(None, &setting);
            }
        }
        let one_way = [
            (Direction::Up, "up", &self.up),
            (Direction::Down, "down", &self.down),
        ];
        for (direction, flag, value) in one_way {
            for setting in value
                .iter()
                .map(|value| read_list(flag, value))
                .collect::<Result<Vec<_>, _>>()?
                .concat()
            {
                first.apply(Some(direction), &setting);
            }
        }
        let mut stretches = vec![first];
        for list in &self.next {
            let mut stretch = Stretch::default();
            for setting in read_list("next", list)? {
                stretch.apply(None, &setting);
            }
            stretches.push(stretch);
        }
        let schedule = self.read_schedule(stretches.len())?;
        self.check_effect(&stretches, &schedule)?;
        Ok(LinkSettings {
            seed: self.seed,
            stretches,
            schedule,
        })
    }

    /// The flags that apply to both directions, with their values.
    fn symmetric(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let single = [
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
            ("reorder", &self.reorder),
            ("rate", &self.rate),
            ("overhead", &self.overhead),
            ("queue", &self.queue),
        ];
        let repeated = [("drop", &self.drop), ("blackout", &self.blackout)];
        single
            .into_iter()
            .flat_map(|(flag, value)| value.iter().map(move |value| (flag, value)))
            .chain(
                repeated
                    .into_iter()
                    .flat_map(|(flag, values)| values.iter().map(move |value| (flag, value))),
            )
    }

    /// Refuses a queue, or bytes added to each packet, where nothing limits the rate at any time: it would have no effect.
    fn check_effect(&self, stretches: &[Stretch], schedule: &[Change]) -> Result<(), BadInput> {
        for (place, stretch) in stretches.iter().enumerate() {
            let is_flag = |flag: &Option<String>| place == 0 && flag.is_some();
            let has_queue = |lane: &LaneSettings| {
                lane.queue != QueueSettings::default() || is_flag(&self.queue)
            };
            let has_overhead =
                |lane: &LaneSettings| lane.overhead_bytes > 0 || is_flag(&self.overhead);
            let useless = if is_useless(place, stretch, schedule, has_queue) {
                "queue"
            } else if is_useless(place, stretch, schedule, has_overhead) {
                "overhead"
            } else {
                continue;
            };
            let link = match place {
                0 => String::new(),
                further => format!(" of link {}", further + 1),
            };
            return Err(BadInput::new(format!(
                "the {useless}{link} has no effect, because nothing limits the rate there: add one, such as `rate 20mbit` \
                 (--rate 20mbit), or a trace"
            )));
        }
        Ok(())
    }

    fn read_schedule(&self, stretches: usize) -> Result<Vec<Change>, BadInput> {
        let Some(path) = &self.schedule else {
            return Ok(Vec::new());
        };
        let file = path.display();
        let schedule = read_text_at_most(path, limits::SETTINGS)
            .map_err(|error| BadInput::new(format!("cannot read the schedule {file}: {error}")))?;
        let changes = text::schedule(&schedule, &mut read_trace)
            .map_err(|error| BadInput::new(format!("{file}: {error}")))?;
        match changes.iter().find(|change| change.stretch >= stretches) {
            Some(change) => Err(BadInput::new(format!(
                "{file}: at {}: there is no link {}: --next adds one",
                change.at,
                change.stretch + 1
            ))),
            None => Ok(changes),
        }
    }
}

/// Whether some direction of a stretch has such a setting, but no direction with the setting has a rate limit.
fn is_useless(
    place: usize,
    stretch: &Stretch,
    schedule: &[Change],
    has_setting: impl Fn(&LaneSettings) -> bool,
) -> bool {
    let is_limited = |direction: &Direction| {
        let limits = |change: &Change| {
            change.stretch == place
                && change.direction.is_none_or(|only| only == *direction)
                && matches!(change.setting, Setting::Capacity(_))
        };
        stretch.lane(*direction).capacity != Capacity::Unlimited || schedule.iter().any(limits)
    };
    let having: Vec<Direction> = (Direction::ALL.into_iter())
        .filter(|direction| has_setting(stretch.lane(*direction)))
        .collect();
    !having.is_empty() && !having.iter().any(is_limited)
}

fn read_setting(flag: &str, value: &str) -> Result<Vec<Setting>, BadInput> {
    text::setting(&format!("{flag} {value}"), &mut read_trace)
        .map_err(|error| BadInput::new(format!("--{flag}: {error}")))
}

/// Parses a list of settings, or the name of a trace file. A single word is always a file, because no setting is one
/// word.
fn read_list(flag: &str, value: &str) -> Result<Vec<Setting>, BadInput> {
    let is_file = !value.trim().contains([' ', ',']) && !value.trim().is_empty();
    let list = if is_file {
        format!("trace {value}")
    } else {
        value.to_owned()
    };
    text::settings(&list, &mut read_trace)
        .map_err(|error| BadInput::new(format!("--{flag}: {error}")))
}

fn read_trace(name: &str) -> Result<Arc<Trace>, String> {
    let text = read_text_at_most(name, limits::TRACE)
        .map_err(|error| format!("cannot read the trace {name}: {error}"))?;
    match Trace::parse(&text) {
        Ok(trace) => Ok(Arc::new(trace.named(name))),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        conditions: Conditions,
    }

    fn settings(flags: &[&str]) -> Result<LinkSettings, BadInput> {
        let flags = Flags::parse_from([&["squall"][..], flags].concat());
        flags.conditions.settings()
    }

    #[test]
    fn queue_or_overhead_without_a_rate_is_refused() {
        for (flags, what) in [
            (&["--queue", "64k"][..], "the queue has"),
            (&["--queue", "1000 packets"], "the queue has"),
            (&["--overhead", "38"], "the overhead has"),
            (
                &["--up", "queue codel", "--down", "rate 2mbit"],
                "the queue has",
            ),
            (
                &["--rate", "1mbit", "--next", "queue 64KiB"],
                "the queue of link 2",
            ),
        ] {
            let said = settings(flags).unwrap_err().to_string();
            assert!(
                said.contains(what) && said.contains("--rate 20mbit"),
                "{said}"
            );
        }
        for flags in [
            &["--queue", "64k", "--rate", "20mbit"][..],
            &["--queue", "64k", "--up", "rate 2mbit"],
            &["--overhead", "38", "--rate", "1mbit bucket 32kB"],
            &["--next", "rate 1mbit, queue codel"],
            &["--delay", "25ms"],
        ] {
            assert!(settings(flags).is_ok(), "{flags:?}");
        }
    }

    #[test]
    fn queue_for_a_scheduled_rate_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let schedule = folder.path().join("a.schedule");
        fs::write(&schedule, "at 1s: down rate 2mbit\n").unwrap();
        let schedule = schedule.to_str().unwrap();
        assert!(settings(&["--queue", "64k", "--schedule", schedule]).is_ok());
        let up = ["--up", "queue codel", "--schedule", schedule];
        assert!(settings(&up).is_err());
    }
}
