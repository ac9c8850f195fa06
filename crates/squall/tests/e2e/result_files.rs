//! What programs read: JSON as its schemas in docs/schemas say, JUnit XML, Markdown, and Bencher's metrics.
//!
//! `squall-report` tests the texts themselves; here the files come from real runs and loads.

use std::fs;
use std::path::Path;

use serde_json::Value;
use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{CERTIFICATE, Serving};
use crate::support::{
    H1, H2C_X1, profile, recipe, run_squall, run_until_valid, seat, squall, stderr, stdout,
    summary_of,
};

/// A schema of docs/schemas, with the keywords of JSON Schema that they use.
struct Schema {
    root: Value,
}

impl Schema {
    fn named(name: &str) -> Schema {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        let text = fs::read_to_string(folder.join(format!("{name}.schema.json")));
        let root = serde_json::from_str(&text.expect("a schema")).expect("JSON");
        Schema { root }
    }

    /// What is wrong with `value`; empty if it is valid.
    fn faults(&self, value: &Value) -> Vec<String> {
        self.faults_of(&self.root, value, "$")
    }

    fn faults_of(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        if let Some(name) = schema["$ref"].as_str() {
            let target = self.root.pointer(name.trim_start_matches('#'));
            return self.faults_of(target.expect("a definition"), value, at);
        }
        let mut faults = Vec::new();
        if schema.get("const").is_some_and(|only| only != value) {
            faults.push(format!("{at}: {value} is not {}", schema["const"]));
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            faults.push(format!("{at}: {value} is not one of {words:?}"));
        }
        if let Some(options) = schema["anyOf"].as_array() {
            let of_options = options.iter().map(|it| self.faults_of(it, value, at));
            let fewest = of_options.min_by_key(Vec::len);
            faults.extend(fewest.expect("an option"));
        }
        if !has_type(&schema["type"], value) {
            faults.push(format!("{at}: {value} is not of type {}", schema["type"]));
        }
        if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
            && number < least
        {
            faults.push(format!("{at}: {number} is less than {least}"));
        }
        faults.extend(self.faults_within(schema, value, at));
        faults
    }

    /// The faults of an object's fields or of an array's entries.
    fn faults_within(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                faults.push(format!("{at}: no {name}"));
            }
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            match (
                schema["properties"].get(name),
                &schema["additionalProperties"],
            ) {
                (Some(of_field), _) => faults.extend(self.faults_of(of_field, field, &at)),
                (None, Value::Bool(false)) => faults.push(format!("{at}: not in the schema")),
                (None, Value::Object(_)) => {
                    let of_others = &schema["additionalProperties"];
                    faults.extend(self.faults_of(of_others, field, &at));
                }
                (None, _) => {}
            }
        }
        if let Some(of_items) = schema.get("items") {
            for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                faults.extend(self.faults_of(of_items, item, &format!("{at}[{place}]")));
            }
        }
        faults
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("a type that this test does not know: {other}"),
    };
    match types {
        Value::Null => true,
        Value::String(name) => is(name),
        types => (types.as_array().into_iter().flatten()).any(|name| name.as_str().is_some_and(is)),
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_value(path: &Path) -> Value {
    serde_json::from_str(&read(path)).expect("JSON")
}

#[track_caller]
pub(crate) fn check(schema: &str, value: &Value) {
    let faults = Schema::named(schema).faults(value);
    assert!(faults.is_empty(), "{schema}: {faults:#?}");
}

#[test]
fn schemas_reject_what_they_do_not_describe() {
    let mut summary =
        serde_json::json!({ "cells": [], "schema": { "name": "squall.findings", "version": 2 } });
    let schema = Schema::named("findings");
    assert_eq!(schema.faults(&summary), Vec::<String>::new());
    summary["cells"] = Value::Null;
    summary["more"] = Value::Null;
    summary["schema"]["name"] = "squall.other".into();
    assert_eq!(schema.faults(&summary).len(), 3);
}

#[test]
fn results_of_a_run_are_written_for_other_tools() {
    let _seat = seat();
    let text = recipe(
        "1000/s",
        "delay = \"5ms\"",
        &[H1, H2C_X1],
        &profile("500ms", 1),
    );
    let run = run_until_valid(&text, &[]);
    let summary = summary_of(&run.folder);
    check("summary", &summary);
    let findings = read_value(&run.folder.join("findings.json"));
    check("findings", &findings);
    let environment = read_value(&run.folder.join("environment.json"));
    assert_eq!(summary["command"][1], "run", "{summary}");
    assert_eq!(summary["command"], environment["command"]);
    assert_eq!(findings["command"], environment["command"]);
    if run.has_disturbed_trials() {
        return;
    }
    let result = &summary["answer"]["result"];
    assert_eq!(
        (&result["measure"], &result["variant"], &result["pairs"]),
        (&"response time p99".into(), &"h2c x1".into(), &1.into())
    );
    let report = squall(&run.folder)
        .args([
            "report",
            ".",
            "--threshold",
            "p(50)<0.001",
            "--junit",
            "junit.xml",
        ])
        .args(["--markdown=report.md", "--bmf", "bmf.json"])
        .output()
        .expect("squall starts");
    assert_eq!(report.status.code(), Some(99), "{}", stderr(&report));
    let junit = read(&run.folder.join("junit.xml"));
    assert!(
        junit.contains("<failure message=\"h1 at delay 5ms, loss 0%: p(50)&lt;"),
        "{junit}"
    );
    let markdown = read(&run.folder.join("report.md"));
    assert!(
        markdown.starts_with("### squall: Does it hold?\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| h1 | delay 5ms, loss 0% | "),
        "{markdown}"
    );
    let metrics = read_value(&run.folder.join("bmf.json"));
    let median = &metrics["h1, delay 5ms, loss 0%"]["response-time-p50-ns"]["value"];
    assert!(median.as_f64() > Some(10e6), "{metrics}");
    let compared = run_squall(
        &run.folder,
        ["compare", ".", ".", "--json", "--markdown=compared.md"],
    );
    check(
        "comparison",
        &serde_json::from_str(&stdout(&compared)).expect("JSON"),
    );
    let markdown = read(&run.folder.join("compared.md"));
    assert!(markdown.starts_with("### squall compare\n"), "{markdown}");
}

#[test]
fn results_of_a_load_are_written_for_other_tools() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let output = squall(home.path())
        .args([
            "load",
            "-n",
            "40",
            "-H",
            "authorization: secret",
            "--threshold",
            "p(50)<0.001",
        ])
        .args([
            "--json",
            "load.json",
            "--junit",
            "load.xml",
            "--bmf",
            "bmf.json",
        ])
        .args(["--markdown", &url])
        .output()
        .expect("squall starts");
    assert_eq!(output.status.code(), Some(99), "{}", stderr(&output));
    let figures = read_value(&home.path().join("load.json"));
    check("load", &figures);
    assert_eq!(figures["urls"][0], Value::from(url.as_str()));
    assert_eq!(figures["command"][1], "load");
    assert!(!read(&home.path().join("load.json")).contains("secret"));
    let junit = read(&home.path().join("load.xml"));
    assert!(
        junit.starts_with("<?xml") && junit.contains("failures=\"1\""),
        "{junit}"
    );
    // Without a file, the Markdown takes the place of the text.
    let markdown = stdout(&output);
    assert!(markdown.starts_with("### squall load\n"), "{markdown}");
    assert!(markdown.contains("| \u{274c} | load | "), "{markdown}");
    let metrics = read_value(&home.path().join("bmf.json"));
    assert_eq!(metrics["load"]["failed-requests"]["value"], 0.0);
}

#[test]
fn load_of_several_versions_prints_their_comparison_first() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--https", "0"]);
    let output = squall(home.path())
        .args([
            "load",
            "--http",
            "1.1,2",
            "--rounds",
            "2",
            "-n",
            "10",
            "--json",
            "load.json",
        ])
        .args(["--threshold", "p(50)<10s", "--color", "always"])
        .args(["--cacert", CERTIFICATE])
        .arg(format!("https://{}/", server.address("https")))
        .output()
        .expect("squall starts");
    let shown = stdout(&output);
    let place = |words: &str| {
        shown
            .find(words)
            .unwrap_or_else(|| panic!("no {words} in {shown}"))
    };
    assert!(place("median of rounds") < place("round 1: "), "{shown}");
    assert!(place("round 1: ") < place("last of 2 rounds"), "{shown}");
    assert!(shown.contains('\x1b'), "colours although it is no terminal");
    check("load", &read_value(&home.path().join("load.json")));
}
