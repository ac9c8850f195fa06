//! Paths of sidecars over a link that loses packets: what the explanation says the requests waited for.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::{run, text};
use crate::support::{bench, only_run, read_trials, seat};

#[test]
fn requests_behind_one_connection_between_sidecars_wait_for_it_and_not_for_hosts() {
    let _bench = bench();
    let home = TempDir::new().expect("a temporary folder");
    // Two of its paths at 3 %, for a shorter time.
    let changes = [
        ("warmup = \"2s\"", "warmup = \"500ms\""),
        ("duration = \"10s\"", "duration = \"2s\""),
        ("drain = \"5s\"", "drain = \"1s\""),
        ("[\"0%\", \"3%\"]", "\"3%\""),
    ];
    let whole = text("six-paths", "six.toml", &changes);
    let (start, _) = whole.split_once("[[variant]]").expect("variants");
    let variants = ["h2c", "h3"].map(|protocol| {
        format!(
            "[[variant]]\nname = \"{protocol}\"\n\
             path = \"client -h1-> envoy ~{protocol}~> envoy -h1-> nginx\"\n"
        )
    });
    let recipe = format!("{start}{}", variants.concat());
    fs::write(home.path().join("six.toml"), recipe).expect("a recipe");
    let ended = run(
        home.path(),
        &["run", "./six.toml", "--stations", "embedded"],
    );
    let said = &ended.stdout;
    if ended.code == Some(3) {
        eprintln!("other work disturbs this machine");
        return;
    }
    assert_eq!(ended.code, Some(0), "{said}\n{}", ended.stderr);
    assert_eq!(read_trials(&only_run(home.path())).len(), 2);
    assert!(
        said.contains("One congestion window, cut by every loss, for all requests"),
        "{said}"
    );
    assert!(said.contains("Loss taken for congestion"), "{said}");
    let summary = fs::read(only_run(home.path()).join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&summary).expect("JSON");
    let cells = summary["causes"]["conditions"][0].as_array();
    for cell in cells.expect("cells") {
        // The first band has all requests.
        let causes = cell["bands"][0]["causes"].as_array().expect("causes");
        let ns = |of: &Value| of["ns"].as_f64().unwrap_or_default();
        let all: f64 = causes.iter().map(ns).sum();
        let share = |name: &str| {
            let of = causes.iter().find(|cause| cause["cause"] == name);
            of.map_or(0.0, ns) / all
        };
        assert!(share("cwnd") > 0.01, "{cell}");
        for foreign in ["host", "unknown"] {
            assert!(share(foreign) < 0.2, "{foreign}: {cell}");
        }
    }
}

#[test]
fn recipe_of_all_six_paths_is_understood() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let recipe = text("six-paths", "six.toml", &[]);
    fs::write(home.path().join("six.toml"), recipe).expect("a recipe");
    let dry = ["run", "./six.toml", "--stations", "embedded", "--dry-run"];
    let ended = run(home.path(), &dry);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("14 trials"), "{}", ended.stdout);
}
