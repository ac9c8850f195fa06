//! `squall explain` of a capture that `squall import pcap` has read.
//!
//! What the ways beyond the capture's point did is squall-analysis `capture`'s, the words are squall-report's; here is only
//! which folders are such, which requests are meant, and how it is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use squall_analysis::capture::{Capture, Recorded, RoundTrips};
use squall_analysis::explain::{Explanation, Moment, slowest};
use squall_base::Duration;
use squall_record::{read_exchanges, read_frames, read_json, read_packets, read_requests};
use squall_report::explain as words;

use super::Arguments;
use crate::output::print;
use crate::{BadInput, Ending};

/// The tables that causes are made of.
const TABLES: [&str; 4] = [
    "requests.parquet",
    "exchanges.parquet",
    "frames.parquet",
    "packets.parquet",
];

/// The folder of an imported capture, with all of its tables.
pub(super) struct Import {
    root: PathBuf,
    summary: Summary,
}

/// What is needed of import.json.
#[derive(Deserialize)]
struct Summary {
    capture: PathBuf,
    epoch_unix_ns: u64,
    points: u32,
}

impl Import {
    /// `None` if the folder is not one of an import.
    pub(super) fn of(root: &Path) -> Result<Option<Import>> {
        let summary = root.join("import.json");
        let has = |name: &&str| root.join(name).is_file();
        // Before there was a summary, an import had these two tables and nothing else.
        let is_old = ["exchanges.parquet", "frames.parquet"].iter().all(has)
            && !["trial.json", "requests.parquet"].iter().any(has);
        if !summary.is_file() && !is_old {
            return Ok(None);
        }
        let missing = TABLES.iter().find(|name| !has(name));
        if let Some(missing) = missing {
            return Err(BadInput::new(format!(
                "{} has no {missing}: an older squall imported it, or the file was removed; import the capture again, \
                 with `squall import pcap`, into another folder",
                root.display()
            ))
            .into());
        }
        Ok(Some(Import {
            root: root.to_owned(),
            summary: read_json(summary)?,
        }))
    }

    fn read(&self) -> Result<Recorded> {
        let [requests, exchanges, frames, packets] = TABLES.map(|name| self.root.join(name));
        Ok(Recorded {
            requests: read_requests(requests)?,
            exchanges: read_exchanges(exchanges)?,
            frames: read_frames(frames)?,
            packets: read_packets(packets)?,
        })
    }
}

/// What is printed with --json.
#[derive(Serialize)]
struct Told<'a> {
    capture: &'a Path,
    /// The capture's first packet.
    epoch_unix_ns: u64,
    /// What all other times have more than those of the tables: the capture's first packet is at this time.
    origin_ns: Duration,
    points: u32,
    connections: Vec<Ways>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<Explanation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
}

/// The least round trips between the capture's point and the ends of a connection.
#[derive(Serialize)]
struct Ways {
    connection: u32,
    #[serde(flatten)]
    round_trips: RoundTrips,
}

pub(super) fn run(arguments: &Arguments, import: &Import) -> Result<Ending> {
    let names_cell = arguments.variant.is_some() || arguments.condition.is_some();
    if names_cell || arguments.repetition.is_some() {
        return Err(BadInput::new(format!(
            "{} is a capture, which has no variants, conditions and repetitions: leave --variant, --condition and \
             --repetition out",
            import.root.display()
        ))
        .into());
    }
    let capture = Capture::of(import.read()?);
    let (requests, moment) = match (arguments.request, arguments.at) {
        (_, Some(at)) => (
            Vec::new(),
            Some(one_moment(&capture, import, at, arguments)?),
        ),
        (Some(request), None) => (one_request(&capture, import, request)?, None),
        (None, None) => (slowest_of(&capture, import, arguments.worst)?, None),
    };
    let told = Told {
        capture: &import.summary.capture,
        epoch_unix_ns: import.summary.epoch_unix_ns,
        origin_ns: capture.origin(),
        points: import.summary.points,
        connections: ways(&capture, &requests, moment.as_ref()),
        requests,
        moment,
    };
    show(&told, arguments)?;
    Ok(Ending::Fine)
}

fn one_request(capture: &Capture, import: &Import, request: u64) -> Result<Vec<Explanation>> {
    let told = capture.explain(&BTreeSet::from([request]));
    if told.is_empty() {
        let has = match capture.requests().last() {
            Some(last) => format!("it has 0 to {}", last.request),
            None => "it has none".to_owned(),
        };
        return Err(BadInput::new(format!(
            "{} has no request {request}; {has}",
            import.root.display()
        ))
        .into());
    }
    Ok(told)
}

fn one_moment(
    capture: &Capture,
    import: &Import,
    at: Duration,
    arguments: &Arguments,
) -> Result<Moment> {
    let ends = capture.requests().iter().map(|row| row.end);
    let end = ends.max().map_or(Duration::ZERO, |end| {
        Duration::from_nanos(end.as_nanos().saturating_sub(capture.origin().as_nanos()))
    });
    if at > end {
        return Err(BadInput::new(format!(
            "{at} is after the end of {}: its last request was over after {end}",
            import.root.display()
        ))
        .into());
    }
    Ok(capture.moment(at, arguments.around))
}

fn slowest_of(capture: &Capture, import: &Import, count: usize) -> Result<Vec<Explanation>> {
    let slowest = slowest(capture.requests(), count);
    if capture.requests().is_empty() {
        return Err(BadInput::new(format!(
            "{} has no requests: nothing of HTTP could be read in the capture; for TLS and QUIC import it with \
             --key-log",
            import.root.display()
        ))
        .into());
    }
    let places: BTreeMap<u64, usize> = slowest.iter().map(|row| row.request).zip(0..).collect();
    let mut told = capture.explain(&places.keys().copied().collect());
    told.sort_by_key(|it| places.get(&it.request).copied());
    Ok(told)
}

fn ways(capture: &Capture, requests: &[Explanation], moment: Option<&Moment>) -> Vec<Ways> {
    let of_requests = requests.iter().filter_map(|it| it.connection);
    let of_moment = moment.into_iter().flat_map(|it| &it.connections);
    let of_moment = of_moment.map(|it| it.connection);
    let connections: BTreeSet<u32> = of_requests.chain(of_moment).collect();
    let ways = connections.into_iter().map(|connection| Ways {
        connection,
        round_trips: capture.round_trips(connection),
    });
    ways.collect()
}

fn show(told: &Told<'_>, arguments: &Arguments) -> Result<()> {
    if arguments.output.json {
        let json = serde_json::to_string_pretty(&[told])
            .context("cannot write the explanation as JSON")?;
        return print(format_args!("{json}\n"));
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let scene = words::Scene::of_capture(told.origin_ns);
    let mut text = words::capture_heading(&told.capture.display().to_string(), colour);
    text.push('\n');
    text.push_str(words::CAPTURE_NOTE);
    for ways in &told.connections {
        let RoundTrips { client, server } = ways.round_trips;
        text.push_str(&words::round_trips(ways.connection, client, server));
    }
    for explanation in &told.requests {
        text.push('\n');
        text.push_str(&words::request(&scene, explanation, colour));
    }
    if let Some(moment) = &told.moment {
        text.push('\n');
        text.push_str(&words::moment(&scene, moment, colour));
    }
    print(format_args!("{text}"))
}
