//! `squall explain`: the slowest requests of a run with their timelines, one request, or one moment.
//!
//! It finds the trials and reads their tables; what they tell is squall-analysis' `explain`, the words are
//! squall-report's. Trials are read one after the other.

mod import;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use squall_analysis::causes::PathShape;
use squall_analysis::explain::{Explanation, Moment, Tables, explain, moment, slowest};
use squall_base::plan::Trial;
use squall_base::record::{CausesRecord, RequestRecord, TrialRecord, Validity};
use squall_base::{Duration, Time};
use squall_record::{
    RunFolder, TrialFolder, read_causes, read_exchanges, read_frames, read_packets, read_requests,
    read_sockets,
};
use squall_report::explain as words;

use super::report::Output;
use crate::output::{print, talk};
use crate::{BadInput, Ending};
use import::Import;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall explain runs/twilio-20261121T120000Z\n  \
    squall explain runs/twilio-20261121T120000Z --variant \"2 envoys h2c\" --condition \"loss 3%\" --worst 5\n  \
    squall explain runs/twilio-20261121T120000Z/trials/0004-2_envoys_h2c-10ms-3p-r0 4711\n  \
    squall explain runs/twilio-20261121T120000Z/trials/0004-2_envoys_h2c-10ms-3p-r0 --at 12.3s\n  \
    squall import pcap capture.pcapng --key-log keys.log -o record && squall explain record"
)]
pub(crate) struct Arguments {
    /// The folder of a run, of one of its trials, or of an imported capture
    run: PathBuf,
    /// The request, by its place in the schedule, or by the order of first bytes in a capture; without it the slowest of each
    /// cell, or of the capture
    #[arg(conflicts_with = "at")]
    request: Option<u64>,
    /// What happened at this time, counted from the first arrival of the load as in the report's plots, such as 12.3s; of a
    /// capture from its first packet
    #[arg(long, value_name = "TIME")]
    at: Option<Duration>,
    /// With --at: how far before and after it drops are shown
    #[arg(long, value_name = "TIME", default_value = "50ms", requires = "at")]
    around: Duration,
    /// How many requests of each cell (variant and condition), the slowest of its measured ones
    #[arg(long, value_name = "COUNT", default_value_t = 3, conflicts_with_all = ["request", "at"])]
    worst: usize,
    /// Only trials of this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Only trials under this condition, or with these parts of it, such as "loss 3%" or "delay 25ms, loss 3%"
    #[arg(long, value_name = "CONDITION")]
    condition: Option<String>,
    /// Only this repetition, from 1
    #[arg(long, value_name = "NUMBER")]
    repetition: Option<u32>,
    #[command(flatten)]
    output: Output,
}

/// A trial that was chosen.
struct Chosen {
    folder: TrialFolder,
    record: TrialRecord,
}

/// What is printed with --json: one entry for each trial with something to say.
#[derive(Serialize)]
struct Told<'a> {
    trial: String,
    variant: &'a str,
    condition: String,
    /// From 1.
    repetition: u32,
    valid: bool,
    /// The first arrival of the load, from the trial's epoch.
    load_start_ns: Duration,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<Explanation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
}

impl<'a> Told<'a> {
    fn of(chosen: &'a Chosen) -> Told<'a> {
        let trial = &chosen.record.trial;
        Told {
            trial: trial.folder(),
            variant: &trial.variant.name,
            condition: trial.condition.to_string(),
            repetition: trial.repetition + 1,
            valid: is_valid(&chosen.record),
            load_start_ns: chosen.record.load_start,
            requests: Vec::new(),
            moment: None,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    if let Some(folder) = Import::of(&arguments.run)? {
        return import::run(arguments, &folder);
    }
    let chosen = choose(arguments)?;
    let told = match (arguments.request, arguments.at) {
        (Some(request), _) => vec![one_request(only(&chosen, arguments)?, request)?],
        (None, Some(at)) => vec![one_moment(only(&chosen, arguments)?, at, arguments.around)?],
        (None, None) => slowest_of_cells(&chosen, arguments.worst)?,
    };
    show(&chosen, &told, arguments)?;
    Ok(Ending::Fine)
}

/// The trials that the arguments name.
fn choose(arguments: &Arguments) -> Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    for folder in folders(&arguments.run)? {
        let record = folder.read_record()?;
        if is_meant(&record.trial, arguments) {
            chosen.push(Chosen { folder, record });
        }
    }
    if chosen.is_empty() {
        return Err(BadInput::new(format!(
            "no complete trial of {} is of that variant, condition and repetition; `squall report {0}` lists them",
            arguments.run.display()
        ))
        .into());
    }
    Ok(chosen)
}

fn folders(path: &Path) -> Result<Vec<TrialFolder>> {
    if let Some(trial) = TrialFolder::complete(path) {
        return Ok(vec![trial]);
    }
    let run = RunFolder::open(path).map_err(|error| {
        BadInput::new(format!(
            "{} is neither the folder of a run nor that of a complete trial, as `squall run` makes them, nor that of a capture, \
             as `squall import pcap` does: {error}",
            path.display()
        ))
    })?;
    let trials = run.complete_trials()?;
    if trials.is_empty() {
        bail!(
            "no trial of {} is complete, so there is nothing to explain",
            path.display()
        );
    }
    Ok(trials)
}

fn is_meant(trial: &Trial, arguments: &Arguments) -> bool {
    let has_parts = |wanted: &String| {
        let condition = trial.condition.to_string();
        let parts: BTreeSet<&str> = condition.split(',').map(str::trim).collect();
        wanted.split(',').all(|part| parts.contains(part.trim()))
    };
    arguments
        .variant
        .as_ref()
        .is_none_or(|name| *name == trial.variant.name)
        && arguments.condition.as_ref().is_none_or(has_parts)
        && arguments
            .repetition
            .is_none_or(|number| number == trial.repetition + 1)
}

/// The one trial that a request or a moment must be of.
fn only<'a>(chosen: &'a [Chosen], arguments: &Arguments) -> Result<&'a Chosen> {
    if let [one] = chosen {
        return Ok(one);
    }
    const SHOWN: usize = 12;
    let names = chosen.iter().take(SHOWN).map(|it| {
        let trial = &it.record.trial;
        let (variant, condition) = (&trial.variant.name, &trial.condition);
        format!(
            "\n  {}: {variant}, {condition}, repetition {}",
            trial.folder(),
            trial.repetition + 1
        )
    });
    let names: String = names.collect();
    let more = match chosen.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(BadInput::new(format!(
        "{} trials are meant, and each has its own requests and time; say which one with --variant, --condition and \
         --repetition, or name its folder below {}/trials:{names}{more}",
        chosen.len(),
        arguments.run.display(),
    ))
    .into())
}

fn is_valid(record: &TrialRecord) -> bool {
    record.health.validity == Validity::Valid
}

/// The path of a trial whose causes are known; else why they are not.
fn path_of(chosen: &Chosen) -> Result<PathShape, String> {
    if !chosen.folder.causes().is_file() {
        return Err(
            "it has no causes.parquet: an older squall made it, or the file was removed".to_owned(),
        );
    }
    Ok(PathShape::of(&chosen.record.trial.variant))
}

/// All tables of a trial in memory.
struct Rows {
    requests: Vec<RequestRecord>,
    exchanges: Vec<squall_base::record::ExchangeRecord>,
    frames: Vec<squall_base::record::FrameRecord>,
    packets: Vec<squall_base::record::PacketRecord>,
    sockets: Vec<squall_base::record::SocketRecord>,
}

impl Rows {
    fn read(folder: &TrialFolder) -> Result<Rows> {
        Ok(Rows {
            requests: read_requests(folder.requests())?,
            exchanges: read_exchanges(folder.exchanges())?,
            frames: read_frames(folder.frames())?,
            packets: read_packets(folder.packets())?,
            sockets: read_sockets(folder.sockets())?,
        })
    }

    fn tables(&self) -> Tables<'_> {
        Tables {
            requests: &self.requests,
            exchanges: &self.exchanges,
            frames: &self.frames,
            packets: &self.packets,
            sockets: &self.sockets,
        }
    }
}

fn one_request(chosen: &Chosen, request: u64) -> Result<Told<'_>> {
    let path = path_of(chosen).map_err(|why| no_causes(chosen, &why))?;
    let rows = Rows::read(&chosen.folder)?;
    let explanations = explained(chosen, &rows, &path, &BTreeSet::from([request]))?;
    if explanations.is_empty() {
        let last = rows.requests.iter().map(|row| row.request).max();
        let has = last.map_or_else(
            || "it has none".to_owned(),
            |last| format!("it has 0 to {last}"),
        );
        return Err(BadInput::new(format!(
            "{} has no request {request}; {has}",
            chosen.folder.root().display()
        ))
        .into());
    }
    Ok(Told {
        requests: explanations,
        ..Told::of(chosen)
    })
}

fn no_causes(chosen: &Chosen, why: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot explain requests of {}: {why}; --at TIME shows what the link did",
        chosen.folder.root().display()
    )
}

/// Explains these requests, and says so if causes.parquet has it otherwise.
fn explained(
    chosen: &Chosen,
    rows: &Rows,
    path: &PathShape,
    requests: &BTreeSet<u64>,
) -> Result<Vec<Explanation>> {
    let explanations = explain(&rows.tables(), path, requests);
    let written = read_causes(chosen.folder.causes())?;
    let written: BTreeMap<u64, &CausesRecord> = (written.iter().filter(|row| row.is_in_total()))
        .map(|row| (row.request, row))
        .collect();
    let agrees = |explanation: &Explanation| {
        let row = written.get(&explanation.request)?;
        let same = explanation
            .causes
            .iter()
            .all(|share| row.spans[share.cause] == share.time);
        Some(same && row.spans.total() == explanation.latency)
    };
    let others = explanations
        .iter()
        .filter(|it| agrees(it) != Some(true))
        .count();
    if others > 0 {
        talk(format_args!(
            "{}: causes.parquet has other causes for {others} of these requests: it was made by another squall, or \
             altered; shown is what this squall finds in the other tables\n",
            chosen.folder.root().display()
        ));
    }
    Ok(explanations)
}

fn one_moment(chosen: &Chosen, at: Duration, around: Duration) -> Result<Told<'_>> {
    let load = &chosen.record.trial.load;
    let span = load.warmup + load.duration + load.drain;
    if at > span {
        return Err(BadInput::new(format!(
            "{at} is after the end of {}: its load and drain lasted {span}",
            chosen.folder.root().display()
        ))
        .into());
    }
    let path = path_of(chosen);
    if let Err(why) = &path {
        talk(format_args!(
            "what requests waited for is not known: {why}\n"
        ));
    }
    let rows = Rows::read(&chosen.folder)?;
    let at = Time::from_nanos(chosen.record.load_start.as_nanos()) + at;
    Ok(Told {
        moment: Some(moment(&rows.tables(), path.ok().as_ref(), at, around)),
        ..Told::of(chosen)
    })
}

/// A cell's slowest requests: latency and number, and in which of the chosen trials.
type Slowest = Vec<(Duration, u64, usize)>;

/// The slowest requests of each cell, over its valid trials, or over all if none is valid.
fn slowest_of_cells(chosen: &[Chosen], count: usize) -> Result<Vec<Told<'_>>> {
    let mut cells: Vec<(&Trial, Vec<usize>)> = Vec::new();
    for (place, it) in chosen.iter().enumerate() {
        let trial = &it.record.trial;
        let is_same = |(other, _): &&mut (&Trial, Vec<usize>)| {
            other.variant.name == trial.variant.name && other.condition == trial.condition
        };
        match cells.iter_mut().find(is_same) {
            Some((_, places)) => places.push(place),
            None => cells.push((trial, vec![place])),
        }
    }
    let mut told = Vec::new();
    let mut unknown = Vec::new();
    for (_, places) in cells {
        if let Err(why) = path_of(&chosen[places[0]]) {
            unknown.push((places[0], why));
            continue;
        }
        told.extend(slowest_of_cell(chosen, places, count)?);
    }
    for (place, why) in &unknown {
        let name = &chosen[*place].record.trial.variant.name;
        talk(format_args!(
            "requests of {name} cannot be explained: {why}\n"
        ));
    }
    match unknown.first() {
        Some((place, why)) if told.is_empty() => Err(no_causes(&chosen[*place], why)),
        _ => Ok(told),
    }
}

fn slowest_of_cell(chosen: &[Chosen], places: Vec<usize>, count: usize) -> Result<Vec<Told<'_>>> {
    let valid: Vec<usize> = places
        .iter()
        .copied()
        .filter(|&place| is_valid(&chosen[place].record))
        .collect();
    let places = if valid.is_empty() { places } else { valid };
    let mut found: Slowest = Vec::new();
    for place in places {
        let requests = read_requests(chosen[place].folder.requests())?;
        let of_trial = slowest(&requests, count);
        found.extend(
            of_trial
                .iter()
                .map(|row| (row.response_time(), row.request, place)),
        );
    }
    found.sort_by_key(|(latency, request, place)| (std::cmp::Reverse(*latency), *place, *request));
    found.truncate(count);
    let mut by_trial: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (_, request, place) in found {
        by_trial.entry(place).or_default().insert(request);
    }
    let mut told = Vec::new();
    for (place, requests) in by_trial {
        let it = &chosen[place];
        let path = path_of(it).map_err(|why| no_causes(it, &why))?;
        let mut explanations = explained(it, &Rows::read(&it.folder)?, &path, &requests)?;
        explanations.sort_by_key(|it| (std::cmp::Reverse(it.latency), it.request));
        told.push(Told {
            requests: explanations,
            ..Told::of(it)
        });
    }
    Ok(told)
}

fn show(chosen: &[Chosen], told: &[Told<'_>], arguments: &Arguments) -> Result<()> {
    if arguments.output.json {
        let json =
            serde_json::to_string_pretty(told).context("cannot write the explanation as JSON")?;
        return print(format_args!("{json}\n"));
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let mut text = String::new();
    for it in told {
        let of_trial = chosen
            .iter()
            .find(|chosen| chosen.record.trial.folder() == it.trial);
        let Some(Chosen { record, .. }) = of_trial else {
            continue;
        };
        if !text.is_empty() {
            text.push('\n');
        }
        let scene = words::Scene::of_trial(record);
        text.push_str(&words::heading(record, colour));
        text.push('\n');
        if !it.valid {
            text.push_str("This trial is not valid, so it is no evidence; trial.json says why.\n");
        }
        for explanation in &it.requests {
            text.push('\n');
            text.push_str(&words::request(&scene, explanation, colour));
        }
        if let Some(moment) = &it.moment {
            text.push('\n');
            text.push_str(&words::moment(&scene, moment, colour));
        }
    }
    print(format_args!("{text}"))
}
