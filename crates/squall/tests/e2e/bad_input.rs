//! Input errors are reported with their position and what was expected, before anything starts.

use std::fs;

use tempfile::TempDir;

use crate::support::{H1, recipe, run_recipe_in, run_squall, stderr, stdout};

const PROFILE: &str = "duration = \"1s\"";

fn good() -> String {
    recipe("100/s", "delay = \"1ms\"", &[H1], PROFILE)
}

/// Runs an invalid recipe. Returns the error message.
fn refused(text: &str) -> String {
    let home = TempDir::new().expect("a temporary folder");
    let output = run_recipe_in(home.path(), text);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(!home.path().join("runs").exists(), "something was started");
    stderr(&output)
}

/// Line and column, from 1, of `what` in `text`.
fn place(text: &str, what: &str) -> String {
    let at = text.find(what).expect("it is in the text");
    let line = text[..at].matches('\n').count() + 1;
    let column = at - text[..at].rfind('\n').map_or(0, |newline| newline + 1) + 1;
    format!("./recipe.toml:{line}:{column}: ")
}

#[test]
fn recipe_errors_are_reported_with_file_line_and_column() {
    let cases = [
        ("unknown key", "delay = ", "dleay = ", "dleay", "delay"),
        ("bad unit", "\"1ms\"", "\"1 parsec\"", "\"1 parsec\"", "ms"),
        (
            "impossible value",
            "delay = \"1ms\"",
            "delay = \"1ms\"\nloss = \"140%\"",
            "\"140%\"",
            "100%",
        ),
        (
            "no time at all",
            "duration = \"1s\"",
            "duration = \"0s\"",
            "\"0s\"",
            "expected",
        ),
        ("unknown protocol", "~h1~>", "~h9~>", "h9", "h2c"),
    ];
    for (what, right, wrong, at, expected) in cases {
        let text = good().replacen(right, wrong, 1);
        let said = refused(&text);
        assert!(
            said.contains(&place(&text, at)),
            "{what}: expected {}\n{said}",
            place(&text, at)
        );
        assert!(
            said.contains(expected),
            "{what}: no {expected:?} in\n{said}"
        );
    }
    let broken = good().replacen("rate = ", "rate == ", 1);
    let said = refused(&broken);
    assert!(
        said.contains("./recipe.toml:4:"),
        "syntax error without its place:\n{said}"
    );
}

#[test]
fn unknown_names_are_reported_with_the_known_ones() {
    let home = TempDir::new().expect("a temporary folder");
    let run = |arguments: &[&str]| {
        let output = run_squall(home.path(), arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        stderr(&output)
    };
    assert!(run(&["run", "twillio"]).contains("twilio"));
    assert!(run(&["run", "twilio", "--profile", "quikc"]).contains("quick"));
    assert!(run(&["run", "./missing.toml"]).contains("missing.toml"));
    assert!(run(&["run", "twilio", "--fast"]).contains("--fast"));
    assert!(run(&["run"]).contains("squall run"));
    assert!(run(&["recipes", "twillio"]).contains("twilio"));
    assert!(run(&["report", "nowhere"]).contains("nowhere"));
    assert!(run(&["view", "nowhere"]).contains("nowhere"));
    assert!(run(&["run", "--resume", "nowhere"]).contains("nowhere"));
    assert!(!home.path().join("runs").exists());
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let home = TempDir::new().expect("a temporary folder");
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["recipes", "--help"],
        &["report", "--help"],
        &["view", "--help"],
        &["doctor", "--help"],
    ] {
        let output = run_squall(home.path(), arguments);
        assert!(output.status.success());
        let help = stdout(&output);
        assert!(
            help.contains("Example") && help.contains("Usage: squall"),
            "{arguments:?}:\n{help}"
        );
    }
}

#[test]
fn bundled_recipe_is_found_anywhere_and_a_local_one_takes_precedence() {
    let home = TempDir::new().expect("a temporary folder");
    let print = |name: &str| {
        let output = run_squall(home.path(), ["recipes", name]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(
        print("twilio"),
        include_str!("../../../../recipes/twilio.toml")
    );
    fs::create_dir(home.path().join("recipes")).expect("a folder");
    fs::write(home.path().join("recipes/twilio.toml"), good()).expect("a recipe");
    assert_eq!(print("twilio"), good());
}
