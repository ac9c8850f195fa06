//! `squall report`: makes a run's summary and report from its records. `squall run` uses the same code.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Result;
use squall_analysis::answer::add_findings;
use squall_analysis::causes::{RunBandTimes, TrialBandTimes};
use squall_analysis::detail::{ChosenRequests, DetailCandidates, choose_detailed};
use squall_analysis::findings::{CellFindings, Finding, RunFindings, TrialFindings, aggregate};
use squall_analysis::{
    BulkPhase, Delivery, LinkPacket, RunSummary, Threshold, TrialReadings, TrialRows, TrialSource,
    TrialStats, delivery_counters, summarise, trial_evidence, tried_fixes,
};
use squall_base::plan::{Measure, Plan};
use squall_base::record::{CausesRecord, DropRecord, RequestRecord, TrialRecord};
use squall_record::{
    RecordError, RunFolder, TrialFolder, each_projected, read_causes, read_drops, read_exchanges,
    read_json, read_requests, write_json, write_whole, write_whole_private,
};
use squall_report::export::{benchmarks_of_run, checks_of_run, markdown_of_run};
use squall_report::{
    Colour, Detail, Language, TrialPoints, findings_in, fixes_in, html_with_method, live_html,
    terminal_in,
};

use super::details::read_details;
use super::method::{command_words, read_method};
use super::named::{complete_trials, open_run};
use crate::display::{self, ColourChoice, LanguageChoice};
use crate::outcome::{BadInput, CommandOutcome, THRESHOLD_FAILED};
use crate::output::{eprint, error_chain, print, print_json};
use crate::result_files::{ExportFlags, MetricFlags};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall report runs/twilio-20261121T120000Z\n  \
                  squall report runs/twilio-20261121T120000Z --threshold 'p(99)<80'"
)]
pub(crate) struct Arguments {
    /// Folder of the run, or one with only its summary.json and findings.json
    run: PathBuf,
    #[command(flatten)]
    reporting: ReportFlags,
}

/// What to report of a run, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportFlags {
    #[command(flatten)]
    output: OutputFlags,
    /// Print only the answer
    #[arg(long, conflicts_with_all = ["full", "json"])]
    brief: bool,
    /// Print everything: how all variants compare, the causes under all conditions, and every finding with its explanation
    #[arg(short = 'v', long, visible_alias = "verbose", conflicts_with = "json")]
    full: bool,
    /// Language of the page and of the printed text; JSON, Markdown and JUnit files are always English
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En)]
    lang: LanguageChoice,
    /// Exit with code 99 if this condition fails in any cell, such as p(99)<50 or errors:rate<0.01 (may be repeated)
    #[arg(long, value_name = "CONDITION")]
    threshold: Vec<Threshold>,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    metrics: MetricFlags,
}

/// How results are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputFlags {
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(
        long = "color", visible_alias = "colour", value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto,
        conflicts_with = "json"
    )]
    pub(crate) colour: ColourChoice,
}

impl ReportFlags {
    fn detail(&self) -> Detail {
        match (self.brief, self.full) {
            (true, _) => Detail::Brief,
            (_, true) => Detail::Full,
            _ => Detail::Usual,
        }
    }

    pub(crate) fn language(&self) -> Language {
        self.lang.into()
    }

    /// Refuses combinations in which a flag would have no effect, beyond those that clap refuses.
    pub(crate) fn check(&self) -> Result<(), BadInput> {
        self.exports.check_beside_markdown(&[
            ("--json", self.output.json),
            ("--brief", self.brief),
            ("--full", self.full),
            ("--color", self.output.colour != ColourChoice::Auto),
        ])
    }
}

impl OutputFlags {
    /// Whether to use colours, on a terminal or elsewhere.
    pub(crate) fn colour_for(&self, is_terminal: bool) -> Colour {
        self.colour.for_stream(is_terminal)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let (run, reporting) = (&arguments.run, &arguments.reporting);
    reporting.check()?;
    if let Some(stored) = StoredSummary::find(run) {
        return stored.print(reporting);
    }
    let (folder, plan) = open_run(run)?;
    let results = make_results(&folder, &plan, &reporting.threshold, reporting.language())?;
    let written = results.write(&folder);
    if let Err(error) = &written {
        // The run's folder may be read-only.
        eprint(format_args!(
            "squall: the report is printed, but not saved: {}\n",
            error_chain(error)
        ));
    }
    results.show(&folder, written.is_ok(), reporting)
}

/// The summary.json and findings.json of a run, kept without its trials.
struct StoredSummary {
    summary: PathBuf,
    findings: PathBuf,
}

impl StoredSummary {
    /// Finds a summary in a folder that is not a run's folder, which would have a plan.
    fn find(folder: &Path) -> Option<StoredSummary> {
        let stored = StoredSummary {
            summary: folder.join("summary.json"),
            findings: folder.join("findings.json"),
        };
        let is_run = folder.join("plan.json").exists();
        (!is_run && stored.summary.is_file()).then_some(stored)
    }

    /// Prints the summary as `squall report` printed it for the run. Writes nothing.
    fn print(&self, reporting: &ReportFlags) -> Result<CommandOutcome> {
        if !reporting.threshold.is_empty() {
            let summary = self.summary.display();
            return Err(BadInput::new(format!(
                "--threshold needs the records of the trials, and {summary} was kept without them. Name the folder of \
                 the run"
            ))
            .into());
        }
        let unreadable = |path: &Path, error: RecordError| {
            BadInput::new(format!(
                "{} was not written by this version of squall: {error}",
                path.display()
            ))
        };
        let summary: RunSummary =
            read_json(&self.summary).map_err(|error| unreadable(&self.summary, error))?;
        let findings: RunFindings =
            read_json(&self.findings).map_err(|error| unreadable(&self.findings, error))?;
        show(&summary, &findings.cells, reporting, None)?;
        Ok(outcome_of(&summary))
    }
}

/// Writes summary.json, findings.json and report.html from all complete trials, and prints the summary. If they cannot
/// be written, the summary is printed before the error is returned.
pub(crate) fn write_and_print(
    folder: &RunFolder,
    plan: &Plan,
    reporting: &ReportFlags,
) -> Result<CommandOutcome> {
    let results = make_results(folder, plan, &reporting.threshold, reporting.language())?;
    let written = results.write(folder);
    let outcome = results.show(folder, written.is_ok(), reporting)?;
    written?;
    Ok(outcome)
}

fn outcome_of(summary: &RunSummary) -> CommandOutcome {
    let is_invalid = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.cells)
        .any(|cell| !cell.trials.is_empty() && cell.evidence().is_empty());
    let all_hold = summary.thresholds.iter().all(|held| held.holds);
    match () {
        () if is_invalid || summary.has_failed_programs() => CommandOutcome::Invalid,
        () if !all_hold => CommandOutcome::Code(THRESHOLD_FAILED),
        () => CommandOutcome::Success,
    }
}

/// The results derived from a run's trials.
struct RunResults {
    summary: RunSummary,
    findings: RunFindings,
    /// The HTML report.
    page: String,
    /// Whether secrets were removed from the recipe on the page. Others that squall does not recognise may be left in
    /// it.
    had_secrets: bool,
}

impl RunResults {
    fn write(&self, folder: &RunFolder) -> Result<()> {
        write_json(folder.summary(), &self.summary)?;
        write_json(folder.findings(), &self.findings)?;
        if self.had_secrets {
            write_whole_private(folder.report(), &self.page)?;
        } else {
            write_whole(folder.report(), &self.page)?;
        }
        Ok(())
    }

    fn show(
        &self,
        folder: &RunFolder,
        is_written: bool,
        reporting: &ReportFlags,
    ) -> Result<CommandOutcome> {
        let report = is_written.then(|| folder.report());
        show(
            &self.summary,
            &self.findings.cells,
            reporting,
            report.as_deref(),
        )?;
        Ok(outcome_of(&self.summary))
    }
}

/// The page of a run as `squall report` writes it, in English.
pub(crate) fn page(folder: &RunFolder, plan: &Plan) -> Result<String> {
    Ok(make_results_for(folder, plan, &[], None)?.page)
}

/// The page of a run as `squall view` serves it. `source` is the path of the run there.
pub(crate) fn live_page(
    folder: &RunFolder,
    plan: &Plan,
    source: &str,
    language: Language,
) -> Result<String> {
    let results = make_results_for(folder, plan, &[], Some(source))?;
    Ok(language.page(results.page, &results.summary))
}

/// The results, with a page in this language that needs no server.
fn make_results(
    folder: &RunFolder,
    plan: &Plan,
    thresholds: &[Threshold],
    language: Language,
) -> Result<RunResults> {
    let results = make_results_for(folder, plan, thresholds, None)?;
    Ok(RunResults {
        page: language.page(results.page, &results.summary),
        ..results
    })
}

/// The results in English. `source` is the path of the run on the server of a live page; `None` for a page that needs no
/// server.
fn make_results_for(
    folder: &RunFolder,
    plan: &Plan,
    thresholds: &[Threshold],
    source: Option<&str>,
) -> Result<RunResults> {
    let (mut plots, mut found, mut phases) = (Vec::new(), Vec::new(), Vec::new());
    let mut candidates = Vec::new();
    let mut method = read_method(folder, plan);
    let mut summary = summarise_trials(folder, plan, thresholds, |read| {
        let points = TrialPoints::of(read.record, read.requests);
        let drops = read_drop_rows(read.trial, read.record)?;
        let points = points.with_drops(read.record, &drops);
        plots.push(match read.causes {
            Some(causes) => points.with_causes(causes),
            None => points,
        });
        let findings = read_findings(read.trial, read.record)?;
        found.push(TrialFindings::of(read.record, findings));
        phases.extend(BulkPhase::of(read.record, read.requests));
        candidates.push(DetailCandidates::of(read.record, read.requests));
        method.add_trial(read.record);
        Ok(())
    })?;
    let cells = aggregate(&found);
    add_findings(&mut summary, &cells);
    summary.command = command_words(folder, plan);
    let delivered = read_deliveries(folder, &summary, &phases)?;
    let chosen = choose_detailed(&candidates, &cells);
    for (points, of) in plots.iter_mut().zip(&candidates) {
        add_details(folder, of.folder(), &chosen, points)?;
    }
    let page = match source {
        Some(source) => live_html(&summary, &plots, &cells, &delivered, &method, source),
        None => html_with_method(&summary, &plots, &cells, &delivered, &method),
    };
    Ok(RunResults {
        findings: RunFindings {
            command: summary.command.clone(),
            ..RunFindings::of(cells)
        },
        summary,
        page,
        had_secrets: plan.has_secrets() || plan.is_redacted(),
    })
}

/// Adds the details of a trial's chosen requests to its drawing, if any were chosen.
fn add_details(
    folder: &RunFolder,
    name: &str,
    chosen: &BTreeMap<String, ChosenRequests>,
    points: &mut TrialPoints,
) -> Result<()> {
    let Some((chosen, trial)) = chosen.get(name).zip(folder.complete_trial(name)) else {
        return Ok(());
    };
    let record = trial.read_record()?;
    if let Some(detail) = read_details(&trial, &record, chosen)? {
        points.add_detail(&record, &detail);
    }
    Ok(())
}

/// What the link delivered in a trial of each cell with large bodies. Cells whose trial has no table of packets are left
/// out. `phases` are those of the run's trials.
fn read_deliveries(
    folder: &RunFolder,
    summary: &RunSummary,
    phases: &[BulkPhase],
) -> Result<Vec<Delivery>> {
    let mut delivered = Vec::new();
    let conditions = summary.conditions.iter();
    for mut counter in conditions.flat_map(|condition| delivery_counters(condition, phases)) {
        let trial = folder.complete_trial(counter.folder());
        let Some(trial) = trial.filter(|trial| trial.packets().is_file()) else {
            continue;
        };
        let record = trial.read_record()?;
        trial.read_checked(&record, &trial.packets(), |path| {
            each_projected(path, |packet: LinkPacket| counter.add(packet))
        })?;
        delivered.extend(counter.finish());
    }
    Ok(delivered)
}

/// The findings of a trial; empty for trials made before findings existed.
fn read_findings(trial: &TrialFolder, record: &TrialRecord) -> Result<Vec<Finding>> {
    let path = trial.findings();
    if !trial.has(record, &path) {
        return Ok(Vec::new());
    }
    Ok(trial.read_checked(record, &path, read_json)?)
}

/// The packets that the links of a trial dropped; empty if its causes are not known.
fn read_drop_rows(trial: &TrialFolder, record: &TrialRecord) -> Result<Vec<DropRecord>> {
    let path = trial.drops();
    if !trial.has(record, &path) {
        return Ok(Vec::new());
    }
    Ok(trial.read_checked(record, &path, read_drops)?)
}

/// The findings of a run's planned trials, by cell.
pub(crate) fn findings_of(folder: &RunFolder, plan: &Plan) -> Result<Vec<CellFindings>> {
    let mut found = Vec::new();
    for trial in complete_trials(folder, "find fixes for")? {
        let record = trial.read_record()?;
        if !plan.is_of_fix(&record.trial) {
            let findings = read_findings(&trial, &record)?;
            found.push(TrialFindings::of(&record, findings));
        }
    }
    Ok(aggregate(&found))
}

/// The summary of a run from its records, without a report; `thresholds` are checked.
pub(crate) fn summary_of(
    folder: &RunFolder,
    plan: &Plan,
    thresholds: &[Threshold],
) -> Result<RunSummary> {
    summarise_trials(folder, plan, thresholds, |_| Ok(()))
}

/// A trial while its rows are in memory.
struct LoadedTrial<'a> {
    trial: &'a TrialFolder,
    record: &'a TrialRecord,
    requests: &'a [RequestRecord],
    /// `None` if they are unknown.
    causes: Option<&'a [CausesRecord]>,
}

/// Summarises a run, reading one trial at a time because the rows of a long run do not fit into memory together.
/// `visit` sees each planned trial; trials of fixes are only compared with each other.
fn summarise_trials(
    folder: &RunFolder,
    plan: &Plan,
    thresholds: &[Threshold],
    mut visit: impl FnMut(LoadedTrial<'_>) -> Result<()>,
) -> Result<RunSummary> {
    let (mut stats, mut readings, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    let mut of_fixes = Vec::new();
    for trial in complete_trials(folder, "report")? {
        let record = trial.read_record()?;
        let requests = trial.read_checked(&record, &trial.requests(), read_requests)?;
        let rows = if trial.has(&record, &trial.causes()) {
            let rows = trial.read_checked(&record, &trial.causes(), read_causes)?;
            Some(in_total(rows))
        } else {
            None
        };
        let wants_servers =
            (plan.measures.iter()).any(|measure| matches!(measure, Measure::ServerTime(..)));
        let exchanges = wants_servers
            .then(|| trial.read_checked(&record, &trial.exchanges(), read_exchanges))
            .transpose()?;
        let evidence = TrialRows {
            requests: &requests,
            causes: rows.as_deref(),
            exchanges: exchanges.as_deref(),
            plan: Some(plan),
        };
        let own = trial_evidence(&record, evidence);
        if plan.is_of_fix(&record.trial) {
            of_fixes.push(own);
            continue;
        }
        if !thresholds.is_empty() {
            readings.push(readings_of(&own, &record, &requests, thresholds));
        }
        stats.push(own);
        causes.extend((rows.as_ref()).map(|rows| TrialBandTimes::of(&record, &requests, rows)));
        visit(LoadedTrial {
            trial: &trial,
            record: &record,
            requests: &requests,
            causes: rows.as_deref(),
        })?;
    }
    let mut summary = summarise(plan, stats);
    summary.add_failed_attempts(folder.failed_attempts()?);
    summary.check_thresholds(thresholds, &readings);
    summary.causes = RunBandTimes::of(plan, &causes);
    summary.tried_fixes = tried_fixes(plan, &of_fixes);
    summary.fixes_not_tried = plan.fixes_not_tried().to_vec();
    Ok(summary)
}

/// Keeps the rows of whole paths, which reports are about; `explain` also shows each hop.
fn in_total(mut causes: Vec<CausesRecord>) -> Vec<CausesRecord> {
    causes.retain(CausesRecord::is_in_total);
    causes
}

fn readings_of(
    stats: &TrialStats,
    record: &TrialRecord,
    requests: &[RequestRecord],
    thresholds: &[Threshold],
) -> TrialReadings {
    let source = TrialSource::of(record, requests);
    TrialReadings {
        folder: stats.folder.clone(),
        readings: (thresholds.iter())
            .map(|threshold| threshold.measure.read(&source))
            .collect(),
    }
}

fn show(
    summary: &RunSummary,
    cells: &[CellFindings],
    reporting: &ReportFlags,
    report: Option<&Path>,
) -> Result<()> {
    let checks = checks_of_run(summary);
    let markdown = || markdown_of_run(summary, cells, &checks);
    let suite = format!("squall.run.{}", summary.recipe);
    let exported = reporting
        .exports
        .write(&suite, &checks, markdown)
        .and_then(|()| reporting.metrics.write(|| benchmarks_of_run(summary)));
    if reporting.output.json {
        print_json(summary, "summary")?;
    } else if reporting.exports.is_markdown_on_stdout() {
        print(markdown())?;
    } else {
        print_text(summary, cells, reporting, report)?;
    }
    // Returned last: if the disk is full, what was printed is all that is left.
    exported
}

fn print_text(
    summary: &RunSummary,
    cells: &[CellFindings],
    reporting: &ReportFlags,
    report: Option<&Path>,
) -> Result<()> {
    let output = &reporting.output;
    let colour = output.colour_for(std::io::stdout().is_terminal());
    let (width, detail) = (display::width(), reporting.detail());
    let language = reporting.language();
    let mut text = terminal_in(language, summary, width, colour, detail)
        + &findings_in(language, cells, width, colour, detail)
        + &fixes_in(language, summary, width, colour, detail);
    if detail == Detail::Usual {
        let more = language.say("-v: how all variants compare, all causes and findings");
        text += &format!("\n{more}\n");
    }
    let heading = language.say("Report:");
    match report {
        Some(report) => print(format_args!("{text}\n{heading} {}\n", report.display())),
        None => print(format_args!("{text}")),
    }
}
