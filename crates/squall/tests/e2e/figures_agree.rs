//! One run, read in every way that squall offers: report.html, summary.json, `squall export --to cells` as CSV and as Parquet,
//! `squall explain`, and DuckDB over the tables. All of them must say the same.
//!
//! Times of summary.json, `export`, `explain` and DuckDB are equal to the nanosecond. The page has them in milliseconds with
//! three digits (`figure::millis`), and shares in thousandths of a percent. Whether the figures are right is tested in
//! squall-analysis and in the `truth` tests; here they need only agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use squall_analysis::figure;
use squall_base::Duration;
use squall_base::record::Cause;

use crate::explain::explain;
use crate::support::{
    FinishedRun, H1, H2C_X1, python_with, recipe, run_recipe, run_squall, seat, stderr, stdout,
    summary_of,
};

/// The times that are compared, by their names in the page's columns. In summary.json and the columns of `export`, `_ns`
/// follows the name.
const TIMES: [&str; 4] = ["mean", "median", "p95", "p99"];

/// How the query for DuckDB represents the time of a failed request, which is infinite.
const NEVER: u64 = i64::MAX as u64;

/// The figures of a trial. A time is `None` if it is infinite.
#[derive(Debug, PartialEq)]
struct TrialFigures {
    validity: String,
    asked: u64,
    answered: u64,
    failed: u64,
    unfinished: u64,
    connections: u64,
    /// In nanoseconds, in the order of `TIMES`.
    times: [Option<u64>; 4],
}

/// By the trial's number.
type AllFigures = BTreeMap<u64, TrialFigures>;

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is no list"))
}

/// A time of summary.json: exact, or else its lower bound.
fn time(value: &Value) -> Option<u64> {
    value["exact"].as_u64().or(value["at_least"].as_u64())
}

/// The cells of all conditions, each with the number of its condition.
fn cells(summary: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let conditions = list(&summary["conditions"]).iter().enumerate();
    conditions.flat_map(|(index, condition)| {
        list(&condition["cells"])
            .iter()
            .map(move |cell| (index, cell))
    })
}

fn from_summary(summary: &Value) -> AllFigures {
    let trials = cells(summary).flat_map(|(_, cell)| list(&cell["trials"]));
    let figures = trials.map(|trial| {
        let figures = TrialFigures {
            validity: text(&trial["validity"]["is"]).to_owned(),
            asked: number(&trial["asked"]),
            answered: number(&trial["answered"]),
            failed: number(&trial["failed"]),
            unfinished: number(&trial["censored"]),
            connections: number(&trial["connections_opened"]),
            times: TIMES.map(|name| time(&trial[format!("{name}_ns")])),
        };
        (number(&trial["index"]), figures)
    });
    figures.collect()
}

/// The fields of a CSV line (RFC 4180); fields with commas are quoted.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => fields.last_mut().expect("a field").push(other),
        }
    }
    fields
}

fn from_export(run: &Path) -> AllFigures {
    let output = run_squall(run, ["export", ".", "--to", "cells"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let exported = stdout(&output);
    let mut lines = exported.lines().map(fields);
    let columns = lines.next().expect("the columns");
    let figures = lines.map(|line| {
        let field = |name: &str| {
            let place = columns.iter().position(|column| column == name);
            line[place.unwrap_or_else(|| panic!("no column {name}"))].as_str()
        };
        let number = |name: &str| -> u64 { field(name).parse().expect("a number") };
        let figures = TrialFigures {
            validity: field("validity").to_owned(),
            asked: number("asked"),
            answered: number("answered"),
            failed: number("failed"),
            unfinished: number("censored"),
            connections: number("connections_opened"),
            times: TIMES.map(|name| field(&format!("{name}_ns")).parse().ok()),
        };
        (number("trial"), figures)
    });
    figures.collect()
}

/// The rows of a query over the run's tables.
fn rows(python: &Path, run: &Path, query: &str) -> Vec<Vec<Value>> {
    let script = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))";
    let output = Command::new(python)
        .args(["-c", script, query])
        .current_dir(run)
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{query}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

fn from_duckdb(python: &Path, run: &Path) -> AllFigures {
    let query = "
        WITH measured AS (
          SELECT t.trial.index AS trial, t.health.validity.is AS validity, t.connections_opened AS connections, r.outcome,
                 r.response_time_ns AS ns,
                 r.outcome NOT IN ('answered', 'censored')
                   OR (r.outcome = 'answered' AND (r.status >= 400 OR r.error IS NOT NULL)) AS failed
          FROM read_parquet('trials/*[0-9]/requests.parquet', filename = true) r
          JOIN read_json('trials/*[0-9]/trial.json', filename = true) t
            ON parse_dirpath(r.filename) = parse_dirpath(t.filename)
          WHERE r.phase = 'measure'),
        known AS (SELECT *, CASE WHEN failed THEN 9223372036854775807 ELSE ns END AS known_ns FROM measured)
        SELECT trial, validity, count(*), count(*) FILTER (outcome = 'answered' AND NOT failed), count(*) FILTER (failed),
               count(*) FILTER (outcome = 'censored'), connections,
               sum(ns) FILTER (NOT failed) // count(*) FILTER (NOT failed),
               quantile_disc(known_ns, 0.5), quantile_disc(known_ns, 0.95), quantile_disc(known_ns, 0.99)
        FROM known GROUP BY trial, validity, connections ORDER BY trial";
    let rows = rows(python, run, query);
    let figures = rows.iter().map(|row| {
        let time = |place: usize| row[place].as_u64().filter(|ns| *ns != NEVER);
        let figures = TrialFigures {
            validity: text(&row[1]).to_owned(),
            asked: number(&row[2]),
            answered: number(&row[3]),
            failed: number(&row[4]),
            unfinished: number(&row[5]),
            connections: number(&row[6]),
            times: [time(7), time(8), time(9), time(10)],
        };
        (number(&row[0]), figures)
    });
    figures.collect()
}

/// The exported table of figures, as DuckDB reads it from Parquet.
fn from_exported_parquet(python: &Path, run: &Path) -> AllFigures {
    let output = run_squall(run, ["export", ".", "--to", "cells", "-o", "cells.parquet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let times = TIMES.map(|name| format!("{name}_ns")).join(", ");
    let query = format!(
        "SELECT trial, validity, asked, answered, failed, censored, connections_opened, {times} FROM 'cells.parquet'"
    );
    let found = rows(python, run, &query);
    let figures = found.iter().map(|row| {
        let figures = TrialFigures {
            validity: text(&row[1]).to_owned(),
            asked: number(&row[2]),
            answered: number(&row[3]),
            failed: number(&row[4]),
            unfinished: number(&row[5]),
            connections: number(&row[6]),
            times: [7, 8, 9, 10].map(|place| row[place].as_u64()),
        };
        (number(&row[0]), figures)
    });
    // 400 requests are too few for the 99.9th percentile.
    let kinds = "SELECT DISTINCT typeof(trial), typeof(variant), typeof(rate_achieved_per_s), typeof(p999_ns), p999_ns
                 FROM 'cells.parquet'";
    let expected = ["UBIGINT", "VARCHAR", "DOUBLE", "UBIGINT"].map(Value::from);
    let expected: Vec<Value> = expected.into_iter().chain([Value::Null]).collect();
    assert_eq!(rows(python, run, kinds), [expected]);
    figures.collect()
}

/// The trials whose figures a report shows for a cell: the valid ones; if there are none, those that are limits; if
/// there are none of these either, the doubtful ones; and otherwise all.
fn shown<'a>(cell: &Value, all: &'a AllFigures) -> Vec<&'a TrialFigures> {
    let trials = list(&cell["trials"]).iter();
    let trials: Vec<&TrialFigures> = trials.map(|it| &all[&number(&it["index"])]).collect();
    let of = |validity: &str| {
        let trials = trials.iter().copied();
        let of_kind = trials.filter(|it| it.validity == validity);
        of_kind.collect::<Vec<_>>()
    };
    let some = ["valid", "limited", "doubtful"].map(of);
    let some = some.into_iter().find(|trials| !trials.is_empty());
    some.unwrap_or(trials)
}

/// The middle value, or both middle ones; `None` counts as infinite.
fn middle(values: impl Iterator<Item = Option<u64>>) -> Option<(u64, u64)> {
    let mut sorted: Vec<Option<u64>> = values.collect();
    sorted.sort_unstable_by_key(|value| value.unwrap_or(u64::MAX));
    Some((sorted[(sorted.len() - 1) / 2]?, sorted[sorted.len() / 2]?))
}

/// The text of a column in a variant's row, without further lines of the cell. The string `table` starts at the table.
fn column<'a>(table: &'a str, variant: &str, title: &str) -> &'a str {
    let (table, _) = table.split_once("</table>").expect("its end");
    let mut rows = table.split("<tr").skip(1);
    let row = rows.find(|row| row.contains(&format!("</i>{variant}</th>")));
    let row = row.unwrap_or_else(|| panic!("no row {variant}: {table}"));
    let cell = row.split_once(&format!("data-label=\"{title}\">"));
    let (_, cell) = cell.unwrap_or_else(|| panic!("no column {title}: {row}"));
    let end = cell.find('<').expect("a tag");
    // `>` marks a lower bound: an unfinished request would have taken longer.
    cell[..end].trim_start_matches("&gt;")
}

/// The part of the page after these words.
fn behind<'a>(page: &'a str, words: &str) -> &'a str {
    let parts = page.split_once(words);
    parts.unwrap_or_else(|| panic!("no {words}")).1
}

/// Checks that the figures of each cell, on the page and in summary.json, follow from those of its trials.
fn check_cells(page: &str, summary: &Value, all: &AllFigures) {
    for (condition, cell) in cells(summary) {
        let variant = text(&cell["variant"]);
        let table = behind(page, &format!("data-name=\"response-times-{condition}\""));
        let trials = shown(cell, all);
        let has_valid = trials.iter().all(|trial| trial.validity == "valid");
        for (place, name) in TIMES.iter().enumerate() {
            let middle = middle(trials.iter().map(|trial| trial.times[place]));
            let expected = middle.map(|(low, high)| low.midpoint(high));
            if has_valid {
                let found = time(&cell[format!("{name}_ns")]["median"]);
                assert_eq!(found, expected, "{variant}: {name}");
            }
            let words = expected.map_or_else(
                || "never".to_owned(),
                |ns| figure::millis(Duration::from_nanos(ns)),
            );
            assert_eq!(column(table, variant, name), words, "{variant}: {name}");
        }
        let sum = |of: fn(&TrialFigures) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
        let (failed, unfinished) = (sum(|it| it.failed), sum(|it| it.unfinished));
        assert_eq!(column(table, variant, "failed"), figure::count(failed));
        assert_eq!(
            column(table, variant, "unfinished"),
            figure::count(unfinished)
        );
        let opened = middle(trials.iter().map(|trial| Some(trial.connections)));
        let opened = opened.map(|(low, high)| f64::midpoint(low as f64, high as f64));
        let opened = opened.expect("a trial");
        assert_eq!(column(table, variant, "connections"), figure::rate(opened));
        if has_valid {
            assert_eq!(cell["asked"], sum(|it| it.asked));
            assert_eq!(cell["failed"], failed);
            assert_eq!(cell["censored"], unfinished);
            assert_eq!(cell["connections_opened"]["median"], opened);
        }
    }
}

/// A request in causes.parquet, as DuckDB reads it.
struct CauseRow {
    is_measured: bool,
    response_time: u64,
    total: u64,
    /// In the order of `Cause::ALL`.
    causes: Vec<u64>,
}

/// By trial and request.
type CauseRows = BTreeMap<(u64, u64), CauseRow>;

fn causes_from_duckdb(python: &Path, run: &Path) -> CauseRows {
    let columns = Cause::ALL.map(|cause| format!("c.{}_ns", cause.name()));
    let query = format!(
        "SELECT t.trial.index, r.request, r.phase = 'measure', r.response_time_ns, c.total_ns, {}
         FROM read_parquet('trials/*[0-9]/requests.parquet', filename = true) r
         JOIN read_json('trials/*[0-9]/trial.json', filename = true) t
           ON parse_dirpath(r.filename) = parse_dirpath(t.filename)
         JOIN read_parquet('trials/*[0-9]/causes.parquet', filename = true) c
           ON parse_dirpath(r.filename) = parse_dirpath(c.filename) AND r.request = c.request AND c.hop = 0",
        columns.join(", ")
    );
    let rows = rows(python, run, &query);
    let by_request = rows.iter().map(|row| {
        let found = CauseRow {
            is_measured: row[2] == true,
            response_time: number(&row[3]),
            total: number(&row[4]),
            causes: row[5..].iter().map(number).collect(),
        };
        ((number(&row[0]), number(&row[1])), found)
    });
    by_request.collect()
}

/// Checks that the causes of each request add up to its response time, and those of a cell to what summary.json and the page
/// say.
fn check_causes(page: &str, summary: &Value, all: &AllFigures, rows: &CauseRows) {
    for ((trial, request), row) in rows {
        let sum: u64 = row.causes.iter().sum();
        assert_eq!(
            [row.total, sum],
            [row.response_time; 2],
            "{trial}: {request}"
        );
    }
    for (condition, cell) in cells(summary) {
        let trials = list(&cell["trials"]).iter();
        let trials: Vec<u64> = trials.map(|trial| number(&trial["index"])).collect();
        // Only valid trials are added up.
        let valid = |trial: &u64| trials.contains(trial) && all[trial].validity == "valid";
        let of_cell = rows
            .iter()
            .filter(|((trial, _), row)| valid(trial) && row.is_measured);
        let of_cell: Vec<&CauseRow> = of_cell.map(|(_, row)| row).collect();
        if of_cell.is_empty() {
            continue;
        }
        let variant = text(&cell["variant"]);
        let known = list(&summary["causes"]["conditions"][condition]).iter();
        let mut known = known.filter(|it| it["variant"] == variant);
        let band = &known.next().expect("its causes")["bands"][0];
        assert_eq!(band["requests"], of_cell.len());
        let bar = behind(page, &format!("data-name=\"causes-{condition}\""));
        let bar = behind(
            bar,
            &format!(">{variant}</th><td>{}</td>", text(&band["band"])),
        );
        let (bar, _) = bar.split_once("</div>").expect("the end of the bar");
        let total: u64 = of_cell.iter().map(|row| row.response_time).sum();
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            let ns: u64 = of_cell.iter().map(|row| row.causes[place]).sum();
            let mut told = list(&band["causes"]).iter();
            let told = told.find(|it| it["cause"] == cause.name());
            assert_eq!(
                told.map_or(0, |it| number(&it["ns"])),
                ns,
                "{variant}: {cause:?}"
            );
            let share = 100.0 * (ns as f64 / total as f64);
            let piece = format!(
                "class=\"cause-{}\" style=\"width: {share:.3}%\"",
                cause.name()
            );
            assert!(ns == 0 || bar.contains(&piece), "no {piece}: {bar}");
        }
    }
}

/// Checks what `squall explain` says of the slowest requests against the tables and the page's list of requests in full.
fn check_explanations(page: &str, run: &Path, rows: Option<&CauseRows>) {
    let output = explain(run, &["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut listed = 0;
    for of_trial in list(&told) {
        let (number_of_trial, _) = text(&of_trial["trial"]).split_once('-').expect("a number");
        let trial: u64 = number_of_trial.parse().expect("a number");
        for it in list(&of_trial["requests"]) {
            let (request, latency) = (number(&it["request"]), number(&it["latency_ns"]));
            let causes = list(&it["causes"]);
            let sum: u64 = causes.iter().map(|share| number(&share["ns"])).sum();
            assert_eq!(sum, latency, "{it}");
            if let Some(row) = rows.map(|rows| &rows[&(trial, request)]) {
                assert_eq!(row.response_time, latency, "{it}");
                for (cause, ns) in Cause::ALL.into_iter().zip(&row.causes) {
                    let mut told = causes.iter().filter(|share| share["cause"] == cause.name());
                    let told = told.next().map_or(0, |share| number(&share["ns"]));
                    assert_eq!(told, *ns, "{it}");
                }
            }
            let row = page.split_once(&format!("<tr id=\"request-{trial}-{request}\""));
            let Some((row, _)) = row.and_then(|(_, rest)| rest.split_once("</tr>")) else {
                continue;
            };
            listed += 1;
            let words = figure::millis(Duration::from_nanos(latency));
            let cell = format!("data-label=\"response time in ms\">{words}</td>");
            assert!(row.contains(&cell), "no {cell}: {row}");
            let mostly = format!("</span>{}</td>", text(&causes[0]["cause"]));
            assert!(row.contains(&mostly), "no {mostly}: {row}");
        }
    }
    assert!(listed > 0, "the page has the slowest request of each cell");
}

/// Enough requests for percentiles, in two repetitions, so that the figures of a cell are not those of a trial.
fn lossy_run() -> FinishedRun {
    let text = recipe(
        "800/s",
        "delay = \"5ms\"\nloss = [\"0%\", \"2%\"]",
        &[H1, H2C_X1],
        "warmup = \"0s\"\nduration = \"500ms\"\ndrain = \"2s\"\nrepetitions = 2",
    );
    run_recipe(&text, &[])
}

#[test]
fn page_summary_export_explanations_and_tables_agree() {
    let _seat = seat();
    let run = lossy_run();
    let page = fs::read_to_string(run.folder.join("report.html")).expect("report.html");
    let summary = summary_of(&run.folder);
    let all = from_summary(&summary);
    assert_eq!(all.len(), 8);
    assert!(all.values().all(|trial| trial.asked == 400), "{all:?}");
    assert_eq!(from_export(&run.folder), all);
    check_cells(&page, &summary, &all);
    let Some(python) = python_with("duckdb") else {
        check_explanations(&page, &run.folder, None);
        return;
    };
    assert_eq!(from_duckdb(&python, &run.folder), all);
    assert_eq!(from_exported_parquet(&python, &run.folder), all);
    let rows = causes_from_duckdb(&python, &run.folder);
    check_causes(&page, &summary, &all, &rows);
    check_explanations(&page, &run.folder, Some(&rows));
}
