//! The walk at the beginning of docs/RECIPES.md, command by command, in an empty folder.
//!
//! Two things are not done again: the build, which this test program has behind it, and the bundled run, which
//! `recipes_quick` makes; here its `--dry-run` stands for it.

use std::path::Path;
use std::process::{Command, Output};

use squall_base::Duration;
use tempfile::TempDir;

use crate::support::{bench, check_validity, only_run, read_trials, squall, stderr, stdout};

/// The blocks of commands in the walk.
fn blocks() -> Vec<&'static str> {
    let page = include_str!("../../../../docs/RECIPES.md");
    let (_, walk) = page
        .split_once("## The first ten minutes\n")
        .expect("the walk");
    let (walk, _) = walk.split_once("\n## ").expect("what follows it");
    let blocks = walk.split("```sh\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs a line as a shell would in `home`, where `squall` is the one under test.
fn run(home: &Path, line: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_squall"));
    let own = binary.parent().expect("its folder");
    let folders = [own, Path::new("/usr/bin"), Path::new("/bin")];
    // What `squall` sets for tests, the shell hands on.
    let mut shell = Command::new("/bin/sh");
    shell.envs(
        squall(home)
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.env("PATH", std::env::join_paths(folders).expect("plain names"));
    let output = shell.current_dir(home).args(["-c", line]).output();
    let output = output.expect("there is a shell");
    // 3: the machine disturbed a trial.
    let is_well = matches!(output.status.code(), Some(0 | 3));
    assert!(is_well, "{line}: {}\n{}", output.status, stderr(&output));
    output
}

#[test]
fn every_command_of_the_walk_works_as_it_says() {
    let _bench = bench();
    let home = TempDir::new().expect("a temporary folder");
    let blocks = blocks();
    let [build, own @ ..] = &blocks[..] else {
        panic!("it has commands");
    };
    assert!(
        build.contains("cargo build --release -p squall\n"),
        "{build}"
    );
    let mut said = Vec::new();
    for line in own.iter().flat_map(|block| block.lines()) {
        let done_elsewhere = if line.starts_with("squall run twilio") {
            " --dry-run"
        } else {
            ""
        };
        let output = run(home.path(), &format!("{line}{done_elsewhere}"));
        said.push((line, stdout(&output)));
    }
    let of = |start: &str| {
        let mut found = said.iter().filter(|(line, _)| line.starts_with(start));
        let (_, said) = found
            .next()
            .unwrap_or_else(|| panic!("no `{start}` in the walk"));
        said
    };
    assert!(of("squall recipes").contains("golden-download"));
    assert!(of("squall run twilio").starts_with("twilio, profile quick: 18 trials"));
    let checked = of("squall run ./mine.toml --profile quick --dry-run");
    assert!(
        checked.starts_with("mine, profile quick: 14 trials"),
        "{checked}"
    );
    assert!(checked.contains("\n  delay 5ms, loss 0%, "), "{checked}");
    assert!(of("squall run ./mine.toml --profile quick --brief").contains("The question: Why is"));
    assert!(of("squall report").contains("delay 5ms"));
    assert!(of("squall explain").contains("h2"));

    // What was changed took effect: 65,535 bytes in a round trip of 10 ms.
    let trials = read_trials(&only_run(home.path()));
    assert_eq!(trials.len(), 14);
    for trial in &trials {
        check_validity(trial);
        let request = &trial.requests[0];
        let least = match trial.record.trial.variant.name.as_str() {
            "h2" => Duration::from_millis(3_000_000 / 65_535 * 10),
            _ => Duration::from_millis(3_000_000 * 8 / 200_000),
        };
        let took = request.end.since(request.intended);
        assert!(took >= least, "{}: {took}", trial.record.trial.folder());
    }
}
