//! `squall explain` for a capture that `squall import pcap` has read.
//!
//! squall-analysis (`capture`) interprets the parts of the path beyond the capture point, squall-report formats the
//! text. This module recognises such folders, selects requests and prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use squall_analysis::capture::{Capture, CaptureTables, RoundTrips};
use squall_analysis::explain::{Explanation, Moment, slowest};
use squall_base::Duration;
use squall_record::{read_exchanges, read_frames, read_json, read_packets, read_requests};
use squall_report::explain as words;

use super::arguments::{Arguments, no_such_request};
use crate::display;
use crate::outcome::{BadInput, CommandOutcome};
use crate::output::{print, print_json};

/// The tables that causes are derived from.
const TABLES: [&str; 4] = [
    "requests.parquet",
    "exchanges.parquet",
    "frames.parquet",
    "packets.parquet",
];

/// The folder of an imported capture, with all its tables.
pub(super) struct Import {
    root: PathBuf,
    summary: Summary,
}

/// The parts of import.json that are needed.
#[derive(Deserialize)]
struct Summary {
    capture: PathBuf,
    epoch_unix_ns: u64,
    points: u32,
}

impl Import {
    /// Opens the folder; `None` if it is not that of an import.
    pub(super) fn of(root: &Path) -> Result<Option<Import>> {
        let summary = root.join("import.json");
        let has = |name: &&str| root.join(name).is_file();
        // Imports made before there was a summary had these two tables and nothing else.
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

    fn read(&self) -> Result<CaptureTables> {
        let [requests, exchanges, frames, packets] = TABLES.map(|name| self.root.join(name));
        Ok(CaptureTables {
            requests: read_requests(requests)?,
            exchanges: read_exchanges(exchanges)?,
            frames: read_frames(frames)?,
            packets: read_packets(packets)?,
        })
    }
}

/// The output of --json.
#[derive(Serialize)]
struct CaptureExplanation<'a> {
    capture: &'a Path,
    /// The time of the capture's first packet.
    epoch_unix_ns: u64,
    /// Offset between all other times here and those of the tables: the time of the capture's first packet.
    origin_ns: Duration,
    points: u32,
    connections: Vec<ConnectionRoundTrips>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<Explanation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
}

/// The shortest round trips between the capture point and the ends of a connection.
#[derive(Serialize)]
struct ConnectionRoundTrips {
    connection: u32,
    #[serde(flatten)]
    round_trips: RoundTrips,
}

pub(super) fn run(arguments: &Arguments, import: &Import) -> Result<CommandOutcome> {
    if arguments.selection.is_given() {
        return Err(BadInput::new(format!(
            "{} is a capture, which has no trials, variants, conditions and repetitions: leave --trial, --variant, \
             --condition and --repetition out",
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
    let output = CaptureExplanation {
        capture: &import.summary.capture,
        epoch_unix_ns: import.summary.epoch_unix_ns,
        origin_ns: capture.origin(),
        points: import.summary.points,
        connections: connection_round_trips(&capture, &requests, moment.as_ref()),
        requests,
        moment,
    };
    show(&output, arguments)?;
    Ok(CommandOutcome::Success)
}

fn one_request(capture: &Capture, import: &Import, request: u64) -> Result<Vec<Explanation>> {
    let explanations = capture.explain(&BTreeSet::from([request]));
    if explanations.is_empty() {
        let last = capture.requests().last().map(|last| last.request);
        return Err(no_such_request(&import.root, request, last).into());
    }
    Ok(explanations)
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
            "{} has no requests: no HTTP could be read in the capture; for TLS and QUIC import it \
             with --key-log",
            import.root.display()
        ))
        .into());
    }
    let ranks: BTreeMap<u64, usize> = slowest.iter().map(|row| row.request).zip(0..).collect();
    let mut explanations = capture.explain(&ranks.keys().copied().collect());
    explanations.sort_by_key(|it| ranks.get(&it.request).copied());
    Ok(explanations)
}

fn connection_round_trips(
    capture: &Capture,
    requests: &[Explanation],
    moment: Option<&Moment>,
) -> Vec<ConnectionRoundTrips> {
    let of_requests = requests.iter().filter_map(|it| it.connection);
    let of_moment = moment.into_iter().flat_map(|it| &it.connections);
    let of_moment = of_moment.map(|it| it.connection);
    let connections: BTreeSet<u32> = of_requests.chain(of_moment).collect();
    let rows = connections
        .into_iter()
        .map(|connection| ConnectionRoundTrips {
            connection,
            round_trips: capture.round_trips(connection),
        });
    rows.collect()
}

fn show(output: &CaptureExplanation<'_>, arguments: &Arguments) -> Result<()> {
    if arguments.output.json {
        return print_json(&[output], "explanation");
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let context = words::ExplanationContext::of_capture(output.origin_ns);
    let mut text = words::capture_heading(&output.capture.display().to_string(), colour);
    text.push('\n');
    text.push_str(words::CAPTURE_NOTE);
    for row in &output.connections {
        let RoundTrips { client, server } = row.round_trips;
        text.push_str(&words::round_trips(row.connection, client, server));
    }
    if output.requests.len() > 1 {
        text.push_str(&words::overview("the slowest", &output.requests));
    }
    for explanation in &output.requests {
        text.push('\n');
        text.push_str(&words::request(&context, explanation, colour));
    }
    if let Some(moment) = &output.moment {
        text.push('\n');
        text.push_str(&words::moment(&context, moment, colour));
    }
    let names = vec![output.capture.display().to_string()];
    let (language, width) = (arguments.lang.into(), display::narrow_width());
    print(words::fitted_in(language, names, &text, width))
}
