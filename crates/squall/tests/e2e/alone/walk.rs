//! The first walkthrough of docs/TUTORIAL.md: its commands run in order in an empty folder, and the files and
//! output that it shows match.
//!
//! Two things are not repeated: this test program's own build replaces the lines that build squall, and the bundled run is
//! only planned, because `recipes_quick` runs the recipe exactly as shown.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use squall_base::Duration;
use squall_base::record::Validity;
use tempfile::TempDir;

use crate::support::{
    TrialFiles, check_validity, only_run, quiet_seat, read_trials, say_disturbed, squall, stderr,
    stdout,
};

/// The run that `recipes_quick` makes.
const BUNDLED: &str = "squall run twilio --profile quick --stations embedded";
const OWN: &str = "squall run ./mine.toml --profile quick --brief";

/// The walkthrough's code blocks in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let page = include_str!("../../../../../docs/TUTORIAL.md");
    let (_, walk) = page.split_once("## A first recipe\n").expect("the walk");
    let (walk, _) = walk.split_once("\n## ").expect("what follows it");
    // Splitting alternates between text outside and inside of fences.
    let inside = walk.split("```").skip(1).step_by(2);
    inside
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .collect()
}

/// The walkthrough's commands that are run here.
fn commands() -> Vec<&'static str> {
    let lines = blocks("sh").into_iter().flat_map(str::lines);
    let builds = |line: &&str| {
        ["make ", "cargo ", "export "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    lines.filter(|line| !builds(line)).collect()
}

/// Runs a line in a shell in `home`, with `squall` resolving to the binary under test.
fn run(home: &Path, line: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_squall"));
    let own = binary.parent().expect("its folder");
    let folders = [own, Path::new("/usr/bin"), Path::new("/bin")];
    // The shell passes on the variables that tests set for `squall`.
    let mut shell = Command::new("/bin/sh");
    shell.envs(
        squall(home)
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.env("PATH", env::join_paths(folders).expect("plain names"));
    let output = shell.current_dir(home).args(["-c", line]).output();
    let output = output.expect("there is a shell");
    // 3: the machine disturbed a trial.
    let is_well = matches!(output.status.code(), Some(0 | 3));
    assert!(is_well, "{line}: {}\n{}", output.status, stderr(&output));
    output
}

#[test]
fn every_command_of_the_walkthrough_works_as_shown() {
    let _seat = quiet_seat();
    let home = TempDir::new().expect("a temporary folder");
    let mut said = Vec::new();
    for line in commands() {
        let asked = match line {
            BUNDLED => format!("{line} --dry-run"),
            _ => line.to_owned(),
        };
        said.push((line, stdout(&run(home.path(), &asked))));
    }
    let of = |start: &str| {
        let mut found = said.iter().filter(|(line, _)| line.starts_with(start));
        let (_, said) = found
            .next()
            .unwrap_or_else(|| panic!("no `{start}` in the walk"));
        said
    };
    assert!(of("squall doctor").contains("network namespaces"));
    assert!(of("squall recipes").contains("golden-download"));
    assert!(of(BUNDLED).starts_with("twilio, profile quick: "));
    let checked = of("squall run ./mine.toml --profile quick --dry-run");
    assert!(
        checked.starts_with("mine, profile quick: 14 trials"),
        "{checked}"
    );
    assert!(checked.contains("\n  delay 5ms, loss 0%, "), "{checked}");
    assert!(of("squall report").contains("delay 5ms"));
    assert!(of("squall explain").contains("window_stream"));

    let shown = blocks("toml");
    let mine = fs::read_to_string(home.path().join("mine.toml")).expect("the copy");
    assert!(!shown.is_empty());
    for part in shown {
        assert!(mine.contains(part), "{part}");
    }
    let trials = read_trials(&only_run(home.path()));
    assert_eq!(trials.len(), 14);
    trials.iter().for_each(check_change);
    check_answer(of(OWN), &trials);
}

/// Checks that the edit took effect: a window of 65,535 bytes takes a round trip of 10 ms.
fn check_change(trial: &TrialFiles) {
    check_validity(trial);
    let request = &trial.requests[0];
    let least = match trial.record.trial.variant.name.as_str() {
        "h2" => Duration::from_millis(3_000_000 / 65_535 * 10),
        _ => Duration::from_millis(3_000_000 * 8 / 200_000),
    };
    let took = request.end.since(request.intended);
    assert!(took >= least, "{}: {took}", trial.record.trial.folder());
}

/// Checks that the answer matches the one in the walkthrough, apart from its figures.
fn check_answer(said: &str, trials: &[TrialFiles]) {
    let [shown] = blocks("text")[..] else {
        panic!("one answer is shown");
    };
    let is_valid = |trial: &TrialFiles| trial.record.health.validity == Validity::Valid;
    if !trials.iter().all(is_valid) {
        say_disturbed("the answer is not compared");
        return;
    }
    assert_eq!(without_figures(said), without_figures(shown));
}

/// The text with `N` in place of each word that has a digit.
fn words(text: &str) -> String {
    let is_figure = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let words = text.split_whitespace();
    let words: Vec<&str> = words
        .map(|word| if is_figure(word) { "N" } else { word })
        .collect();
    words.join(" ")
}

/// The sentences of an answer: what is compared and which one is slower, why, and the question.
fn without_figures(answer: &str) -> Vec<String> {
    let answer = answer.replace("\n  ", " ");
    let lines = answer.lines().map(str::to_owned);
    let compared = |line: String| match line.split_once(':') {
        Some((start @ ("Why" | "The question"), rest)) => format!("{start}: {}", words(rest)),
        Some((start, _)) => start.to_owned(),
        None => line,
    };
    let is_certainty = |line: &String| line.starts_with("Proven by ");
    lines
        .filter(|line| !is_certainty(line))
        .map(compared)
        .collect()
}
