//! The end of a load: the summary or JSON, thresholds, and the exit code.
//!
//! squall-analysis computes the figures, squall-report formats them.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use squall_analysis::Schema;
use squall_analysis::load::{Round, VariantRounds};
use squall_report::export::{Check, benchmarks_of_load, markdown_of_load};
use squall_report::load::{
    CheckedThreshold, ComparisonJson, FinishedLoad, Glyphs, LoadJson, TextFormat, comparison,
    summary,
};
use squall_report::{Colour, Language};

use super::arguments::Arguments;
use super::report::{self, ReportedVariant};
use super::result::LoadResult;
use super::screen::text_format;
use super::thresholds::{LoadSource, checked};
use crate::outcome::{CommandOutcome, FAILED, THRESHOLD_FAILED};
use crate::{command_line, interrupt, output, pages};

/// Prints the result of one run.
pub(super) fn conclude(arguments: &Arguments, result: &LoadResult) -> Result<CommandOutcome> {
    let finished = result.finished();
    let format = text_format(&arguments.outputs, std::io::stdout().is_terminal());
    let checks = thresholds(arguments, result);
    let mut further = held_line(result) + &lines(&checks, &format, "");
    if result.gave_up {
        let waited = arguments.amount.give_up;
        further +=
            &format!("given up: none of the open requests had ended for {waited} (--give-up)\n");
    }
    further += &result.addresses_and_threads();
    let text = summary(&finished, &format) + &format.language.say_lines(&further);
    let all_hold = checks.iter().all(|check| check.holds);
    let is_success = result.is_success(arguments);
    let results = LoadResults {
        loads: vec![("load".to_owned(), finished)],
        comparison: None,
        checks: checks_of("load", &checks)
            .chain(succeeded("load", is_success))
            .collect(),
        text,
    };
    write(arguments, results, || {
        let mut json = as_document(arguments);
        json.extend(figures(arguments, result)?);
        Ok(json)
    })?;
    if let Some(path) = &arguments.outputs.report {
        let variants = vec![ReportedVariant::once(result)];
        report::write(path, format.language, variants, checks)?;
    }
    Ok(outcome(all_hold, is_success))
}

/// Prints the results of the rounds of several variants: how they compare, then the last round of each.
pub(super) fn conclude_comparison(
    arguments: &Arguments,
    variants: &[(String, Vec<LoadResult>)],
) -> Result<CommandOutcome> {
    let format = text_format(&arguments.outputs, std::io::stdout().is_terminal());
    let say = |lines: &str| format.language.say_lines(lines);
    let tried = || variants.iter().filter(|(_, results)| !results.is_empty());
    let rounds: Vec<VariantRounds> = tried().map(rounds_of).collect();
    let compared = comparison(&rounds, &format);
    let (mut said, mut further) = (String::new(), String::new());
    let (mut checks, mut loads, mut thresholds_said) = (Vec::new(), Vec::new(), Vec::new());
    let (mut all_hold, mut is_success) = (true, true);
    for (name, results) in tried() {
        for (round, result) in (1..).zip(results) {
            let found = thresholds(arguments, result);
            let of = format!("{name}, round {round}");
            said += &say(&lines(&found, &format, &format!("{of}: ")));
            all_hold &= found.iter().all(|check| check.holds);
            let succeeds = result.is_success(arguments);
            is_success &= succeeds;
            thresholds_said.extend(found.iter().map(|check| CheckedThreshold {
                sentence: format!("{of}: {}", check.sentence),
                holds: check.holds,
            }));
            checks.extend(checks_of(&of, &found).chain(succeeded(&of, succeeds)));
            loads.push((of, result.finished()));
        }
        if let Some(last) = results.last() {
            further += &say(&format!("\n--- {name}, last of {} rounds\n", results.len()));
            further += &summary(&last.finished(), &format);
            further += &say(&(held_line(last) + &last.addresses_and_threads()));
        }
    }
    let results = LoadResults {
        loads,
        text: format!("{compared}{said}{further}"),
        comparison: Some(comparison(&rounds, &PLAIN)),
        checks,
    };
    write(arguments, results, || {
        let mut runs = Vec::new();
        for (name, results) in variants {
            for result in results {
                runs.push(json!({ "variant": name, "figures": figures(arguments, result)? }));
            }
        }
        let mut json = as_document(arguments);
        json.insert("comparison".to_owned(), json!(ComparisonJson::of(&rounds)));
        json.insert("runs".to_owned(), runs.into());
        Ok(json)
    })?;
    if let Some(path) = &arguments.outputs.report {
        let reported = rounds.into_iter().zip(tried());
        let reported = reported
            .filter_map(|(rounds, (_, results))| ReportedVariant::of_rounds(rounds, results));
        report::write(path, format.language, reported.collect(), thresholds_said)?;
    }
    Ok(outcome(all_hold, is_success))
}

/// The format of plain text within Markdown, which is always English.
const PLAIN: TextFormat = TextFormat {
    width: 100,
    colour: Colour::Plain,
    glyphs: Glyphs::Unicode,
    language: Language::En,
};

/// The figures of a variant's rounds.
fn rounds_of((name, results): &(String, Vec<LoadResult>)) -> VariantRounds {
    let round = |result: &LoadResult| Round::of(&result.totals, result.end);
    VariantRounds {
        name: name.clone(),
        rounds: results.iter().map(round).collect(),
    }
}

/// How a load ended: whether all thresholds hold, and whether every request was answered and every file written.
fn outcome(all_hold: bool, is_success: bool) -> CommandOutcome {
    match () {
        () if interrupt::is_requested() => CommandOutcome::Interrupted,
        () if !all_hold => CommandOutcome::Code(THRESHOLD_FAILED),
        () if is_success => CommandOutcome::Success,
        () => CommandOutcome::Code(FAILED),
    }
}

fn thresholds(arguments: &Arguments, result: &LoadResult) -> Vec<CheckedThreshold> {
    checked(&arguments.outputs.threshold, &result.totals, result.end)
}

/// A line for each threshold: `of`, its mark, and its sentence.
fn lines(checks: &[CheckedThreshold], format: &TextFormat, of: &str) -> String {
    let line = |check: &CheckedThreshold| format!("{of}{}\n", check.marked(format.glyphs));
    checks.iter().map(line).collect()
}

/// The thresholds as checks for other tools.
fn checks_of(of: &str, checks: &[CheckedThreshold]) -> impl Iterator<Item = Check> {
    let of = of.to_owned();
    checks.iter().map(move |check| Check {
        of: of.clone(),
        // The sentence has the condition first, then what was found.
        name: check
            .sentence
            .split(": ")
            .next()
            .unwrap_or_default()
            .to_owned(),
        found: check.sentence.clone(),
        holds: check.holds,
    })
}

/// Whether all requests were answered, as a check for other tools.
fn succeeded(of: &str, holds: bool) -> std::iter::Once<Check> {
    let found = if holds {
        "all requests succeeded"
    } else {
        "a request failed or had no answer, or a file could not be written"
    };
    std::iter::once(Check {
        of: of.to_owned(),
        name: "all requests succeed".to_owned(),
        found: found.to_owned(),
        holds,
    })
}

/// What the JSON begins with: its format, the command and the URLs, without credentials.
fn as_document(arguments: &Arguments) -> Map<String, Value> {
    let urls = arguments
        .urls
        .iter()
        .map(|url| command_line::without_user(url));
    let mut document = Map::new();
    document.insert("schema".to_owned(), json!(Schema::new("squall.load", 2)));
    document.insert("command".to_owned(), json!(command_line::shown()));
    document.insert("urls".to_owned(), urls.collect());
    document
}

/// All figures of a run, as JSON.
fn figures(arguments: &Arguments, result: &LoadResult) -> Result<Map<String, Value>> {
    let Value::Object(mut figures) = serde_json::to_value(LoadJson::of(&result.finished()))? else {
        bail!("the figures are not a JSON object");
    };
    let source = LoadSource {
        totals: &result.totals,
        end: result.end,
    };
    let thresholds: Vec<Value> = (arguments.outputs.threshold.iter())
        .map(|threshold| {
            let checked = threshold.check(&source);
            json!({
                "condition": threshold.to_string(),
                "holds": checked.holds,
                "measured": checked.measured,
                "unit": threshold.measure.unit_name(),
            })
        })
        .collect();
    figures.insert("thresholds".to_owned(), thresholds.into());
    figures.insert("threads".to_owned(), result.threads.into());
    figures.insert("addresses".to_owned(), json!(result.addresses));
    Ok(figures)
}

/// For `--hold`: a line that says whether the second request had to wait for the first.
fn held_line(result: &LoadResult) -> String {
    pages::held(&result.answers).map_or_else(String::new, |said| said + "\n")
}

/// The results of a load, to be written in several formats.
struct LoadResults<'a> {
    /// Each load with its name.
    loads: Vec<(String, FinishedLoad<'a>)>,
    /// How they compare, if there are several variants.
    comparison: Option<String>,
    checks: Vec<Check>,
    /// The text for the terminal.
    text: String,
}

/// Writes the files that were asked for, and to stdout the JSON, the Markdown or the text.
fn write(
    arguments: &Arguments,
    results: LoadResults<'_>,
    figures: impl FnOnce() -> Result<Map<String, Value>>,
) -> Result<()> {
    let LoadResults {
        loads,
        comparison,
        checks,
        text,
    } = results;
    let outputs = &arguments.outputs;
    let markdown = || markdown_of_load(&loads, comparison.as_deref(), &checks);
    let exported = outputs
        .exports
        .write("squall.load", &checks, markdown)
        .and_then(|()| outputs.metrics.write(|| benchmarks_of_load(&loads)));
    let pretty = |figures: Map<String, Value>| -> Result<String> {
        Ok(serde_json::to_string_pretty(&figures)? + "\n")
    };
    let written = match outputs.json.as_deref() {
        None => Ok(()),
        Some("-") => {
            output::print(pretty(figures()?)?)?;
            return exported;
        }
        Some(path) => {
            let path = Path::new(path);
            std::fs::write(path, pretty(figures()?)?)
                .with_context(|| format!("cannot write {}", path.display()))
        }
    };
    // If the disk is full, this text is all that is left of the load.
    if outputs.exports.is_markdown_on_stdout() {
        output::print(markdown())?;
    } else {
        output::print(text)?;
    }
    written.and(exported)
}
