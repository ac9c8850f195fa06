//! `squall compare`: compares a run with an earlier one, such as before and after a change, with an exit code for CI.
//!
//! Both are read from their records, so runs of any age can be compared. squall-analysis (`change`) decides what counts
//! as a change. Other differences (load, settings, machine) are reported, not corrected for.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use squall_analysis::change::{ChangeThreshold, Changes, changes};
use squall_analysis::{CellSummary, RunSummary, Schema, Threshold};
use squall_base::plan::Plan;
use squall_record::{RunFolder, read_json};
use squall_report::export::{Check, markdown_of_changes};
use squall_report::{Language, change_sentence_in, changes_in};

use super::differing_keys::differing_keys;
use super::named::open_run;
use super::report::summary_of;
use crate::display::{self, LanguageChoice};
use crate::environment::Environment;
use crate::outcome::{CommandOutcome, FAILED, THRESHOLD_FAILED};
use crate::output::{eprint, print, print_json};
use crate::result_files::ExportFlags;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  squall compare runs/before runs/after\n  \
                  squall compare runs/before runs/after --fail-if-worse --fail-if-unknown\n  \
                  squall compare runs/before runs/after --threshold 'p(99)<=1.1x' --threshold 'errors:rate<0.001'\n\
                  \nTrials of the same seed are compared in pairs (run both with the same --seed); six pairs are the fewest \
                  that can show a change.\n\
                  Exit codes: 0 fine, 1 failed, or no verdict with --fail-if-unknown, 2 bad usage, 3 a run has a cell without a \
                  valid trial, 99 a threshold does not hold, or p99 is worse with --fail-if-worse.")]
pub(crate) struct Arguments {
    /// Folder of the earlier run
    before: PathBuf,
    /// Folder of the later run
    after: PathBuf,
    /// Exit with code 99 if this condition fails in any cell: p(99)<=1.1x limits the change, and its whole 95 % interval
    /// must meet the limit; p(99)<50 (ms) limits the later run (may be repeated)
    #[arg(long, value_name = "CONDITION", value_parser = limit)]
    threshold: Vec<Limit>,
    /// Exit with code 99 if the p99 of any cell is shown to be higher than before
    #[arg(long)]
    fail_if_worse: bool,
    /// Exit with code 1 if the p99 of any cell cannot be judged: too few valid trials or requests, or the cell exists in only
    /// one run
    #[arg(long)]
    fail_if_unknown: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Language of the tables and of Markdown; JSON and JUnit files are always English
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En)]
    lang: LanguageChoice,
    #[command(flatten)]
    exports: ExportFlags,
}

/// What a threshold applies to.
#[derive(Clone, Debug)]
enum Limit {
    /// The ratio of after to before.
    Change(ChangeThreshold),
    /// The later run.
    After(Threshold),
}

fn limit(text: &str) -> Result<Limit, String> {
    if text.trim_end().ends_with('x') {
        let change = text.parse().map(Limit::Change);
        return change
            .map_err(|error: squall_analysis::change::ChangeThresholdError| error.to_string());
    }
    let after = text.parse().map(Limit::After);
    after.map_err(|error: squall_analysis::ThresholdError| error.to_string())
}

struct LimitResult {
    sentence: String,
    holds: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let printed = [("--json", arguments.json)];
    arguments.exports.check_beside_markdown(&printed)?;
    let (before_folder, before_plan) = open_run(&arguments.before)?;
    let (after_folder, after_plan) = open_run(&arguments.after)?;
    let absolute: Vec<Threshold> = (arguments.threshold.iter())
        .filter_map(|limit| match limit {
            Limit::After(threshold) => Some(*threshold),
            Limit::Change(_) => None,
        })
        .collect();
    let before = summary_of(&before_folder, &before_plan, &[])?;
    let after = summary_of(&after_folder, &after_plan, &absolute)?;
    let found = changes(&before, &after);
    let mut notes = differences(&before_plan, &after_plan);
    notes.extend(other_machine(&before_folder, &after_folder));
    let checked = check(arguments, &found, &after);
    show(arguments, &found, &notes, &checked)?;
    let is_worse = arguments.fail_if_worse && found.is_worse();
    let unknown = if arguments.fail_if_unknown {
        found.without_verdict()
    } else {
        Vec::new()
    };
    if !unknown.is_empty() {
        eprint(format_args!(
            "squall: no verdict on p99 is possible ({}): run more trials of the same cells, with the same --seed\n",
            unknown.join("; ")
        ));
    }
    let all_hold = checked.iter().all(|checked| checked.holds);
    Ok(match () {
        () if has_invalid_cell(&before) || has_invalid_cell(&after) => CommandOutcome::Invalid,
        () if is_worse || !all_hold => CommandOutcome::Code(THRESHOLD_FAILED),
        () if !unknown.is_empty() => CommandOutcome::Code(FAILED),
        () => CommandOutcome::Success,
    })
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct ComparedRun<'a> {
    pub(crate) folder: &'a RunFolder,
    pub(crate) plan: &'a Plan,
    pub(crate) summary: &'a RunSummary,
}

/// The width of a comparison that is not printed to a terminal.
const TEXT_WIDTH: usize = 110;

/// The comparison as one text in this language, followed by the other differences.
pub(crate) fn comparison_text(
    language: Language,
    before: ComparedRun<'_>,
    after: ComparedRun<'_>,
) -> String {
    let found = changes(before.summary, after.summary);
    let mut text = changes_in(language, &found, TEXT_WIDTH);
    let notes = differences(before.plan, after.plan);
    for note in (notes.into_iter()).chain(other_machine(before.folder, after.folder)) {
        let said = change_sentence_in(language, &found, &format!("Note: {note}"));
        text += &format!("\n{said}\n");
    }
    text
}

/// Writes the files that were asked for, and prints the comparison.
fn show(
    arguments: &Arguments,
    found: &Changes,
    notes: &[String],
    checked: &[LimitResult],
) -> Result<()> {
    let checks = checks_of(arguments, found, checked);
    let language: Language = arguments.lang.into();
    let markdown = || markdown_of_changes(language, found, &checks, notes);
    let exported = arguments.exports.write("squall.compare", &checks, markdown);
    if arguments.json {
        print_json(&as_json(found, notes, checked), "comparison")?;
        return exported;
    }
    if arguments.exports.is_markdown_on_stdout() {
        print(markdown())?;
        return exported;
    }
    print(changes_in(language, found, display::width()))?;
    let say = |sentence: &str| change_sentence_in(language, found, sentence);
    let lines: Vec<String> = checked.iter().map(|c| say(&c.sentence) + "\n").collect();
    if !lines.is_empty() {
        print(format_args!("\n{}", lines.concat()))?;
    }
    for note in notes {
        eprint(format_args!("squall: {}\n", say(note)));
    }
    exported
}

/// What determines the exit code, as checks for other tools.
fn checks_of(arguments: &Arguments, found: &Changes, checked: &[LimitResult]) -> Vec<Check> {
    let check = |name: &str, said: String, holds| Check {
        of: "comparison".to_owned(),
        name: name.to_owned(),
        found: said,
        holds,
    };
    let limits = checked.iter().map(|limit| {
        // The sentence has the limit first, then what was found.
        let name = limit
            .sentence
            .rsplit_once(": ")
            .map_or("limit", |(name, _)| name);
        check(name, limit.sentence.clone(), limit.holds)
    });
    let mut checks: Vec<Check> = limits.collect();
    if arguments.fail_if_worse {
        checks.push(check(
            "no p99 is worse",
            found.sentence(),
            !found.is_worse(),
        ));
    }
    if arguments.fail_if_unknown {
        let unknown = found.without_verdict();
        let said = match unknown.as_slice() {
            [] => "there is one for each cell".to_owned(),
            unknown => format!("these comparisons have no verdict: {}", unknown.join("; ")),
        };
        checks.push(check("a verdict on each p99", said, unknown.is_empty()));
    }
    checks
}

/// Whether some cell has trials, but no valid one.
fn has_invalid_cell(summary: &RunSummary) -> bool {
    let is_without =
        |cell: &CellSummary| !cell.trials.is_empty() && cell.valid_trials().next().is_none();
    let mut cells = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.cells);
    cells.any(is_without)
}

fn check(arguments: &Arguments, found: &Changes, after: &RunSummary) -> Vec<LimitResult> {
    let mut checked = Vec::new();
    for limit in &arguments.threshold {
        let Limit::Change(threshold) = limit else {
            continue;
        };
        // Without a common cell nothing can be shown.
        if found.cells.is_empty() {
            checked.push(LimitResult {
                sentence: format!("{threshold}: FAILED, the runs have no cell in common"),
                holds: false,
            });
        }
        checked.extend(found.cells.iter().map(|cell| {
            let (sentence, holds) = threshold.check(cell);
            LimitResult { sentence, holds }
        }));
    }
    checked.extend(after.thresholds.iter().map(|held| LimitResult {
        sentence: held.sentence.clone(),
        holds: held.holds,
    }));
    checked
}

/// Differences between the plans, other than those between repetitions of one run.
fn differences(before: &Plan, after: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if before.recipe != after.recipe {
        notes.push(format!(
            "the recipes are {} and {}",
            before.recipe, after.recipe
        ));
    }
    if before.profile != after.profile {
        notes.push(format!(
            "the profiles are {} and {}",
            before.profile, after.profile
        ));
    }
    for variant in &after.variants {
        let mut earlier = before.variants.iter();
        let earlier = earlier.find(|other| other.name == variant.name);
        if let Some(keys) = earlier.and_then(|earlier| differing_keys(earlier, variant)) {
            notes.push(format!(
                "{} has different settings or a different path than before, so the comparison includes these changes: {keys}",
                variant.name
            ));
        }
    }
    if let (Some(a), Some(b)) = (before.trials.first(), after.trials.first()) {
        let differing = [
            ("another load", differing_keys(&a.load, &b.load)),
            (
                "other requests",
                differing_keys(&before.requests, &after.requests),
            ),
            ("another response", differing_keys(&a.response, &b.response)),
        ];
        for (what, keys) in differing {
            notes.extend(keys.map(|keys| {
                format!("{what} than before, so the results are not comparable: {keys}")
            }));
        }
    }
    notes
}

/// A note if the runs were made on different machines.
fn other_machine(before: &RunFolder, after: &RunFolder) -> Option<String> {
    let environment = |folder: &RunFolder| read_json::<Environment>(folder.environment()).ok();
    let is_other = match (environment(before), environment(after)) {
        (Some(before), Some(after)) => before != after,
        // Without an environment, the machines cannot be known to be the same.
        _ => true,
    };
    is_other.then(|| {
        "the kernel, processor, memory, squall's version or processor sleep setting differs from the earlier run or is \
         unknown: this may explain the changes"
            .to_owned()
    })
}

fn as_json(found: &Changes, notes: &[String], checked: &[LimitResult]) -> Value {
    let thresholds: Vec<_> = checked
        .iter()
        .map(|checked| json!({ "sentence": checked.sentence, "holds": checked.holds }))
        .collect();
    json!({
        "schema": Schema::new("squall.comparison", 2),
        "sentence": found.sentence(),
        "changes": found,
        "notes": notes,
        "thresholds": thresholds,
    })
}
