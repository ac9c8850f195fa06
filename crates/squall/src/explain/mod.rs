//! `squall explain`: the slowest requests of a run with their timelines, one request, or one moment.
//!
//! This file reads the tables of the selected trials (`trials`); `near` reads only the rows near one request, and `import`
//! reads captures. squall-analysis (`explain`) interprets them, squall-report formats the text. Trials are read one at a
//! time. `arguments` has the flags.

mod arguments;
mod import;
mod near;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use squall_analysis::causes::PathShape;
use squall_analysis::detail::{ChosenRequests, TrialDetail};
use squall_analysis::explain::{Explanation, Moment, Tables, explain, moment, slowest};
use squall_base::plan::Trial;
use squall_base::record::{CausesRecord, RequestRecord, TrialRecord, Validity};
use squall_base::{Duration, Time};
use squall_record::{
    TrialFolder, read_causes, read_exchanges, read_frames, read_packets, read_requests,
    read_sockets,
};
use squall_report::{Colour, Language, explain as words};

use crate::commands::details::read_details;
use crate::display;
use crate::outcome::{BadInput, CommandOutcome};
use crate::output::{eprint, print, print_json};
use crate::trials::{SelectedTrial, only_trial, select_trials};
pub(crate) use arguments::Arguments;
use arguments::no_such_request;
use import::Import;
use near::NearTables;

/// The output of --json: one entry for each trial that has results.
#[derive(Serialize)]
struct TrialExplanation<'a> {
    trial: String,
    variant: &'a str,
    condition: String,
    /// Counted from 1.
    repetition: u32,
    valid: bool,
    /// The first arrival of the load, counted from the trial's epoch.
    load_start_ns: Duration,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<Explanation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
}

impl<'a> TrialExplanation<'a> {
    fn of(selected: &'a SelectedTrial) -> TrialExplanation<'a> {
        let trial = &selected.record.trial;
        TrialExplanation {
            trial: trial.folder(),
            variant: &trial.variant.name,
            condition: trial.condition.to_string(),
            repetition: trial.repetition + 1,
            valid: is_valid(&selected.record),
            load_start_ns: selected.record.load_start,
            requests: Vec::new(),
            moment: None,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    if let Some(folder) = Import::of(&arguments.run)? {
        return import::run(arguments, &folder);
    }
    let (run, others) = (
        &arguments.run,
        ", nor that of a capture imported by `squall import pcap`",
    );
    let selected = select_trials(run, &arguments.selection, "explain", others)?;
    let entries = match (arguments.request, arguments.at) {
        (Some(request), _) => {
            let trial = only_trial(&selected, run)?;
            vec![one_request(trial, &near_tables(trial)?, request)?]
        }
        (None, Some(at)) => vec![one_moment(
            only_trial(&selected, run)?,
            at,
            arguments.around,
        )?],
        (None, None) => slowest_of_cells(&selected, arguments.worst)?,
    };
    show(&selected, &entries, arguments)?;
    Ok(CommandOutcome::Success)
}

/// Columns of a text on a page.
const PAGE_WIDTH: usize = 120;

/// A trial whose requests `squall view` explains one after another.
pub(crate) struct ExplainedTrial {
    selected: SelectedTrial,
    near: NearTables,
}

impl ExplainedTrial {
    /// Checks the trial's tables, and reads what all of its requests need.
    pub(crate) fn open(folder: TrialFolder) -> Result<ExplainedTrial> {
        let record = folder.read_record()?;
        let selected = SelectedTrial { folder, record };
        let near = near_tables(&selected)?;
        Ok(ExplainedTrial { selected, near })
    }

    /// One request: what --json prints of it, and the same as text in a language.
    pub(crate) fn request(&self, request: u64, language: Language) -> Result<(Value, String)> {
        let entry = one_request(&self.selected, &self.near, request)?;
        let text = text_of(&self.selected.record, &entry, Colour::Plain);
        let text = words::fitted_in(language, names_of(&entry), &text, PAGE_WIDTH);
        Ok((serde_json::to_value(&entry)?, text))
    }

    /// The trial's record.
    pub(crate) fn record(&self) -> &TrialRecord {
        &self.selected.record
    }

    /// One request in full, with its connections, as a report shows chosen ones.
    pub(crate) fn detail(&self, request: u64) -> Result<TrialDetail> {
        if let Some(detail) = self.near.detail(&self.selected, request)? {
            return Ok(detail);
        }
        let SelectedTrial { folder, record } = &self.selected;
        let chosen = ChosenRequests::from([(request, Vec::new())]);
        let Some(detail) = read_details(folder, record, &chosen)? else {
            let why = "it has no causes.parquet, or lacks packets, exchanges, frames or sockets";
            return Err(no_causes(&self.selected, why));
        };
        if detail.requests.is_empty() {
            let last = record.requests.checked_sub(1);
            return Err(no_such_request(folder.root(), request, last).into());
        }
        Ok(detail)
    }
}

fn is_valid(record: &TrialRecord) -> bool {
    record.health.validity == Validity::Valid
}

/// The path of a trial, or the reason why its causes are unknown.
fn path_shape(selected: &SelectedTrial) -> Result<PathShape, String> {
    if !selected.folder.causes().is_file() {
        return Err(
            "it has no causes.parquet: an older squall made it, or the file was removed".to_owned(),
        );
    }
    Ok(PathShape::of(&selected.record.trial.variant))
}

/// All tables of a trial in memory.
struct LoadedTables {
    requests: Vec<RequestRecord>,
    exchanges: Vec<squall_base::record::ExchangeRecord>,
    frames: Vec<squall_base::record::FrameRecord>,
    packets: Vec<squall_base::record::PacketRecord>,
    sockets: Vec<squall_base::record::SocketRecord>,
}

impl LoadedTables {
    fn read(SelectedTrial { folder, record }: &SelectedTrial) -> Result<LoadedTables> {
        Ok(LoadedTables {
            requests: folder.read_checked(record, &folder.requests(), read_requests)?,
            exchanges: folder.read_checked(record, &folder.exchanges(), read_exchanges)?,
            frames: folder.read_checked(record, &folder.frames(), read_frames)?,
            packets: folder.read_checked(record, &folder.packets(), read_packets)?,
            sockets: folder.read_checked(record, &folder.sockets(), read_sockets)?,
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

fn near_tables(selected: &SelectedTrial) -> Result<NearTables> {
    let path = path_shape(selected).map_err(|why| no_causes(selected, &why))?;
    NearTables::open(selected, path)
}

fn one_request<'s>(
    selected: &'s SelectedTrial,
    near: &NearTables,
    request: u64,
) -> Result<TrialExplanation<'s>> {
    let explanations = match near.explain(selected, request)? {
        Some(explanation) => vec![explanation],
        None => with_all_tables(selected, request)?,
    };
    Ok(TrialExplanation {
        requests: explanations,
        ..TrialExplanation::of(selected)
    })
}

/// Explains one request from all tables of its trial.
fn with_all_tables(selected: &SelectedTrial, request: u64) -> Result<Vec<Explanation>> {
    let path = path_shape(selected).map_err(|why| no_causes(selected, &why))?;
    let rows = LoadedTables::read(selected)?;
    let explanations = explain_requests(selected, &rows, &path, &BTreeSet::from([request]))?;
    if explanations.is_empty() {
        let last = rows.requests.iter().map(|row| row.request).max();
        return Err(no_such_request(selected.folder.root(), request, last).into());
    }
    Ok(explanations)
}

fn no_causes(selected: &SelectedTrial, why: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot explain requests of {}: {why}; --at TIME shows what the link did",
        selected.folder.root().display()
    )
}

/// Explains these requests, and prints a notice if causes.parquet disagrees.
fn explain_requests(
    selected: &SelectedTrial,
    rows: &LoadedTables,
    path: &PathShape,
    requests: &BTreeSet<u64>,
) -> Result<Vec<Explanation>> {
    let explanations = explain(&rows.tables(), path, requests);
    let folder = &selected.folder;
    let written = folder.read_checked(&selected.record, &folder.causes(), read_causes)?;
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
        eprint(format_args!(
            "{}: causes.parquet has other causes for {others} of these requests: it was made by another squall, or altered; \
             shown are the causes that this squall finds in the other tables\n",
            selected.folder.root().display()
        ));
    }
    Ok(explanations)
}

fn one_moment(
    selected: &SelectedTrial,
    at: Duration,
    around: Duration,
) -> Result<TrialExplanation<'_>> {
    let load = &selected.record.trial.load;
    let span = load.warmup + load.duration + load.drain;
    if at > span {
        return Err(BadInput::new(format!(
            "{at} is after the end of {}: its load and drain lasted {span}",
            selected.folder.root().display()
        ))
        .into());
    }
    let path = path_shape(selected);
    if let Err(why) = &path {
        eprint(format_args!(
            "what requests waited for is not known: {why}\n"
        ));
    }
    let rows = LoadedTables::read(selected)?;
    let at = Time::from_nanos(selected.record.load_start.as_nanos()) + at;
    Ok(TrialExplanation {
        moment: Some(moment(&rows.tables(), path.ok().as_ref(), at, around)),
        ..TrialExplanation::of(selected)
    })
}

/// The slowest requests of a cell: latency, number, and index of the selected trial.
type SlowestRequests = Vec<(Duration, u64, usize)>;

/// The slowest requests of each cell, over its valid trials, or over all trials if none is valid.
fn slowest_of_cells(selected: &[SelectedTrial], count: usize) -> Result<Vec<TrialExplanation<'_>>> {
    let mut cells: Vec<(&Trial, Vec<usize>)> = Vec::new();
    for (index, it) in selected.iter().enumerate() {
        let trial = &it.record.trial;
        let is_same = |(other, _): &&mut (&Trial, Vec<usize>)| {
            other.variant.name == trial.variant.name && other.condition == trial.condition
        };
        match cells.iter_mut().find(is_same) {
            Some((_, indices)) => indices.push(index),
            None => cells.push((trial, vec![index])),
        }
    }
    let mut entries = Vec::new();
    let mut unknown = Vec::new();
    for (_, indices) in cells {
        if let Err(why) = path_shape(&selected[indices[0]]) {
            unknown.push((indices[0], why));
            continue;
        }
        entries.extend(slowest_of_cell(selected, indices, count)?);
    }
    for (index, why) in &unknown {
        let name = &selected[*index].record.trial.variant.name;
        eprint(format_args!(
            "requests of {name} cannot be explained: {why}\n"
        ));
    }
    match unknown.first() {
        Some((index, why)) if entries.is_empty() => Err(no_causes(&selected[*index], why)),
        _ => Ok(entries),
    }
}

fn slowest_of_cell(
    selected: &[SelectedTrial],
    indices: Vec<usize>,
    count: usize,
) -> Result<Vec<TrialExplanation<'_>>> {
    let valid: Vec<usize> = indices
        .iter()
        .copied()
        .filter(|&index| is_valid(&selected[index].record))
        .collect();
    let indices = if valid.is_empty() { indices } else { valid };
    let mut found: SlowestRequests = Vec::new();
    for index in indices {
        let SelectedTrial { folder, record } = &selected[index];
        let requests = folder.read_checked(record, &folder.requests(), read_requests)?;
        let of_trial = slowest(&requests, count);
        found.extend(
            of_trial
                .iter()
                .map(|row| (row.response_time(), row.request, index)),
        );
    }
    found.sort_by_key(|(latency, request, index)| (std::cmp::Reverse(*latency), *index, *request));
    found.truncate(count);
    let mut by_trial: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (_, request, index) in found {
        by_trial.entry(index).or_default().insert(request);
    }
    let mut entries = Vec::new();
    for (index, requests) in by_trial {
        let it = &selected[index];
        let path = path_shape(it).map_err(|why| no_causes(it, &why))?;
        let mut explanations = explain_requests(it, &LoadedTables::read(it)?, &path, &requests)?;
        explanations.sort_by_key(|it| (std::cmp::Reverse(it.latency), it.request));
        entries.push(TrialExplanation {
            requests: explanations,
            ..TrialExplanation::of(it)
        });
    }
    Ok(entries)
}

fn show(
    selected: &[SelectedTrial],
    entries: &[TrialExplanation<'_>],
    arguments: &Arguments,
) -> Result<()> {
    if arguments.output.json {
        return print_json(entries, "explanation");
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let mut text = String::new();
    // With several requests, an overview of what each waited for comes first.
    if entries.iter().map(|it| it.requests.len()).sum::<usize>() > 1 {
        for it in entries {
            let name = format!(
                "{}, {}, repetition {}",
                it.variant, it.condition, it.repetition
            );
            text += &words::overview(&name, &it.requests);
        }
    }
    for it in entries {
        let of_trial = selected
            .iter()
            .find(|selected| selected.record.trial.folder() == it.trial);
        let Some(SelectedTrial { record, .. }) = of_trial else {
            continue;
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&text_of(record, it, colour));
    }
    let names = entries.iter().flat_map(names_of);
    let (language, width) = (arguments.lang.into(), display::narrow_width());
    print(words::fitted_in(language, names.collect(), &text, width))
}

/// Names that are the same in every language.
fn names_of(entry: &TrialExplanation<'_>) -> Vec<String> {
    vec![
        entry.variant.to_owned(),
        entry.condition.clone(),
        entry.trial.clone(),
    ]
}

/// The explanations of one trial as text.
fn text_of(record: &TrialRecord, entry: &TrialExplanation<'_>, colour: Colour) -> String {
    let context = words::ExplanationContext::of_trial(record);
    let mut text = words::heading(record, colour);
    text.push('\n');
    if !entry.valid {
        text.push_str("This trial is not valid; trial.json says why.\n");
    }
    for explanation in &entry.requests {
        text.push('\n');
        text.push_str(&words::request(&context, explanation, colour));
    }
    if let Some(moment) = &entry.moment {
        text.push('\n');
        text.push_str(&words::moment(&context, moment, colour));
    }
    text
}
