//! Paths of sidecars over a link that loses packets: what the explanation says the requests waited for.

use std::fs;

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
    for variant in ["h2c", "h3"] {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(variant) && line.contains(" all "))
            .expect("where the time went");
        assert!(line.contains("cwnd"), "{line}");
        for foreign in [" host ", " unknown "] {
            let share = line.split(foreign).nth(1);
            let share = share.map(|rest| rest.split(' ').next().unwrap_or_default());
            let share: f64 = share.map_or(0.0, |text| text.parse().unwrap_or(0.0));
            assert!(share < 20.0, "{foreign}: {line}");
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
