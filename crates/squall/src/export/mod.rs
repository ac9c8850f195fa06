//! `squall export`: the records of a trial, of several, or of a load in the formats of other programs, and the plots of a
//! run's report.
//!
//! squall-record writes the formats, squall-analysis computes figures and stages; this folder selects the trials
//! (`trials`), reads their tables (`rows`) and puts both together. `requests` has the formats of requests alone, `trace` the
//! trace, `connections` qlog, `packets` captures and time-sequence graphs, `metrics` OpenMetrics, `cells` the table of
//! figures, `plots` the plots.

mod arguments;
mod cells;
mod connections;
mod destination;
mod metrics;
mod packets;
mod plots;
mod requests;
mod rows;
mod trace;

use std::path::Path;

use anyhow::Result;
use squall_base::Time;
use squall_base::record::RequestRecord;
use squall_record::{RecordError, parts_of, read_requests};

use crate::outcome::{BadInput, CommandOutcome};
use crate::output::eprint;
use crate::trials::{only_trial, select_trials};
pub(crate) use arguments::Arguments;
use arguments::Kind;
use requests::Load;

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let kind = arguments.to.kind();
    if let Kind::Plots(format) = kind {
        plots::check(arguments, format)?;
    } else if arguments.plot.is_some() {
        return Err(
            BadInput::new("--plot is for svg and png; the other formats have no plots").into(),
        );
    }
    if arguments.part.is_given() && !kind.is_of_a_hop() {
        return Err(BadInput::new(
            "--hop, --connection and --side are for qlog, qlog-seq, pcapng and xpl; this format has the whole trial",
        )
        .into());
    }
    if arguments.part.is_of_a_connection() && kind == Kind::Packets {
        return Err(BadInput::new(
            "--connection and --side are for qlog, qlog-seq and xpl; pcapng has all packets of a link",
        )
        .into());
    }
    if arguments.run.is_file() {
        of_table(arguments)?;
        Ok(CommandOutcome::Success)
    } else {
        of_trials(arguments)
    }
}

fn of_trials(arguments: &Arguments) -> Result<CommandOutcome> {
    let others = ", nor a table of requests written by `squall load --output`";
    let selected = select_trials(&arguments.run, &arguments.selection, "export", others)?;
    let only = || only_trial(&selected, &arguments.run);
    let output = arguments.output();
    match arguments.to.kind() {
        Kind::Requests(format) => requests::export(format, &Load::of_trial(only()?)?, output)?,
        Kind::Trace => trace::export(&selected, output)?,
        Kind::Metrics => metrics::export(&selected, output)?,
        Kind::Cells => cells::export(&selected, output)?,
        Kind::Qlog => connections::export_all(only()?, &arguments.part, output)?,
        Kind::QlogSequence => connections::export_one(only()?, &arguments.part, output)?,
        Kind::Packets => packets::export_capture(only()?, &arguments.part, output)?,
        Kind::TimeSequence => packets::export_time_sequence(only()?, &arguments.part, output)?,
        Kind::Plots(format) => return plots::export(arguments, format),
    }
    Ok(CommandOutcome::Success)
}

/// Exports a table of requests alone. The table does not say when its load began, so times count from 1970.
fn of_table(arguments: &Arguments) -> Result<()> {
    let path = &arguments.run;
    if arguments.selection.is_given() {
        return Err(BadInput::new(format!(
            "{} is a table, which has no trials, variants, conditions and repetitions: leave --trial, --variant, \
             --condition and --repetition out",
            path.display()
        ))
        .into());
    }
    let output = arguments.output();
    if output.is_some_and(|output| is_same_file(output, path)) {
        return Err(BadInput::new(format!(
            "the export would replace {}, from which it reads: name another file with -o",
            path.display()
        ))
        .into());
    }
    let requests = requests_of_table(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match arguments.to.kind() {
        Kind::Requests(format) => {
            let load = Load::of_table(name.into_owned(), requests);
            requests::export(format, &load, output)
        }
        Kind::Trace => trace::export_table(&name, &requests, output),
        Kind::Metrics => metrics::export_table(&requests, output),
        Kind::Cells
        | Kind::Qlog
        | Kind::QlogSequence
        | Kind::Packets
        | Kind::TimeSequence
        | Kind::Plots(_) => Err(BadInput::new(format!(
            "this format needs more than the table of requests {}: name the folder of a run or of a trial",
            path.display()
        ))
        .into()),
    }
}

/// The requests of a table. If its load was killed, they are read from the table's parts, and stderr says so.
fn requests_of_table(path: &Path) -> Result<Vec<RequestRecord>> {
    let error = match read_requests(path) {
        Ok(requests) => return Ok(requests),
        Err(error) => error,
    };
    let parts = match &error {
        RecordError::NotParquet(..) => parts_of(path)?,
        _ => Vec::new(),
    };
    if parts.is_empty() {
        return Err(not_a_table(path, &error).into());
    }
    let mut requests = Vec::new();
    for part in &parts {
        requests.extend(read_requests(part).map_err(|error| not_a_table(part, &error))?);
    }
    let last = requests.iter().map(|request| request.end).max();
    let recorded = last.unwrap_or(Time::ZERO).since(Time::ZERO);
    eprint(format_args!(
        "squall: the load that wrote {} was interrupted, or is still running: {:.1} s of it are recorded\n",
        path.display(),
        recorded.as_secs_f64()
    ));
    Ok(requests)
}

/// Whether both paths exist and lead to the same file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|path| Some(path) == real(other))
}

/// Why a file cannot be exported. The errors' own messages are worded for the tables of a trial.
fn not_a_table(path: &Path, error: &RecordError) -> BadInput {
    let why = match error {
        RecordError::NotParquet { .. } => "it is not a Parquet file, or was cut short".to_owned(),
        RecordError::Damaged(_, source) => format!("it is damaged: {source}"),
        other => other.to_string(),
    };
    BadInput::new(format!(
        "{} is not a table of requests, as `squall load --output FILE.parquet` writes it: {why}. Name the folder of a run",
        path.display()
    ))
}
