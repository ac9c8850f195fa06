//! What `squall run` and `squall load` draw on a terminal: nothing wider than the terminal, no remains of what is redrawn,
//! and no escape sequences on a terminal that supports none.
//!
//! The terminal is a pseudo-terminal of Python's `pty` (on_terminal.py). The texts themselves are tested in squall-report.

use std::path::Path;
use std::process::{Command, Output};

use squall_base::plan::Protocol;
use squall_report::width_of;
use tempfile::TempDir;

use crate::served::Serving;
use crate::support::{peers, python_with, recipe, seat, stderr, stdout};

const COLUMNS: usize = 60;

/// A terminal type. If `interrupted_after` is set, Ctrl-C is pressed once the program has drawn that text twice.
#[derive(Clone, Copy)]
struct Terminal {
    term: &'static str,
    interrupted_after: Option<&'static str>,
}

impl Terminal {
    fn new(term: &'static str) -> Terminal {
        Terminal {
            term,
            interrupted_after: None,
        }
    }
}

/// Runs squall on a terminal with [`COLUMNS`] and 24 rows; its output is what it drew.
fn on_terminal(terminal: Terminal, folder: &Path, arguments: &[&str]) -> Option<Output> {
    let python = python_with("pty, termios")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/on_terminal.py");
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .arg(COLUMNS.to_string())
        .args(["24", terminal.interrupted_after.unwrap_or_default()])
        .arg(env!("CARGO_BIN_EXE_squall"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env("TERM", terminal.term)
        .env("LC_ALL", "C.UTF-8")
        .env("SQUALL_PEERS", peers())
        .output()
        .expect("Python starts");
    // 3: other work disturbed the trial.
    let expected = match terminal.interrupted_after {
        None => [0, 3],
        Some(_) => [130; 2],
    };
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| expected.contains(&code)),
        "{}: {} {}",
        output.status,
        stdout(&output),
        stderr(&output)
    );
    Some(output)
}

/// An escape sequence at the start of `text`: its number, its last letter, and what follows.
fn sequence(text: &str) -> (usize, char, &str) {
    let text = text.strip_prefix("\x1b[").expect("a control sequence");
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, rest) = text.split_at(end.expect("the end of the sequence"));
    let mut rest = rest.chars();
    let letter = rest.next().expect("its letter");
    (number.parse().unwrap_or(0), letter, rest.as_str())
}

/// The lines that are on the terminal and in its scrollback after all of this was drawn, without colours.
fn left_of(drawn: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
    let mut rest = drawn;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' {
            let (number, letter, after) = sequence(rest);
            match letter {
                'A' => row = row.saturating_sub(number),
                'J' => {
                    rows[row].truncate(column);
                    rows.truncate(row + 1);
                }
                'K' => rows[row].truncate(column),
                'm' => {}
                other => panic!("a sequence that this test does not know: {other}"),
            }
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                rows.resize(rows.len().max(row + 1), Vec::new());
            }
            _ => {
                let line = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    rows.into_iter().map(String::from_iter).collect()
}

/// Everything that was drawn, line by line and without escape sequences, whether or not it was erased later.
fn lines_of(drawn: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = drawn;
    while let Some((before, _)) = rest.split_once('\x1b') {
        text += before;
        rest = sequence(&rest[before.len()..]).2;
    }
    text += rest;
    text.split(['\r', '\n']).map(str::to_owned).collect()
}

#[test]
fn test_terminal_erases_as_a_real_one_does() {
    let drawn = "one\r\ntwo\r\nthree\r\n\x1b[2A\x1b[J\x1b[1mfour\x1b[0m five\r\x1b[Ksix";
    assert_eq!(left_of(drawn), ["one", "six"]);
    let lines = lines_of(drawn);
    assert!(lines.contains(&"three".to_owned()) && lines.contains(&"four five".to_owned()));
}

/// Only the live screen contains this text.
const EXIT_HINT: &str = "Ctrl-C ends it early";

#[test]
fn live_screen_of_a_load_fits_the_terminal_and_leaves_nothing_behind() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let arguments = ["load", "-D", "60s", "--rate", "200", &url];
    // Ctrl-C comes only after the second screen, however slowly a busy machine draws.
    let terminal = Terminal {
        interrupted_after: Some(EXIT_HINT),
        ..Terminal::new("xterm-256color")
    };
    let Some(output) = on_terminal(terminal, home.path(), &arguments) else {
        return;
    };
    let drawn = stdout(&output);
    let lines = lines_of(&drawn);
    let screens = lines.iter().filter(|line| line.contains(EXIT_HINT)).count();
    assert!(screens >= 2, "{screens} screens: {drawn}");
    let wide = lines.iter().find(|line| width_of(line) > COLUMNS);
    assert_eq!(wide, None, "{drawn}");
    let left = left_of(&drawn);
    let of_screen = left.iter().find(|line| line.contains(EXIT_HINT));
    assert_eq!(of_screen, None, "{left:#?}");
    let requests = |line: &String| line.split_once(" requests in ")?.0.parse::<u64>().ok();
    let is_summary = |line: &String| requests(line).is_some_and(|count| count > 0);
    assert_eq!(
        left.iter().filter(|line| is_summary(line)).count(),
        1,
        "{left:#?}"
    );
}

/// Writes a recipe whose progress line is too wide for the terminal unless it is shortened.
fn write_recipe(home: &Path) {
    let variant = "[[variant]]\nname = \"a variant whose name has many characters\"\npath = \"client ~h1~> server\"\n";
    let profile = "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"1s\"";
    let text = recipe(
        "100/s",
        "delay = \"5ms\"\nloss = \"1.25%\"",
        &[variant],
        profile,
    );
    std::fs::write(home.join("recipe.toml"), text).expect("the recipe is written");
}

#[test]
fn progress_of_a_run_fits_and_only_its_last_line_is_left() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    write_recipe(home.path());
    let arguments = ["run", "./recipe.toml"];
    let Some(output) = on_terminal(Terminal::new("xterm"), home.path(), &arguments) else {
        return;
    };
    let drawn = stdout(&output);
    // A repeated trial has a line of its own, with the reasons in full.
    let is_progress = |line: &&String| line.starts_with("[1/1]") && !line.contains("trying again");
    let lines = lines_of(&drawn);
    let progress: Vec<&String> = lines.iter().filter(is_progress).collect();
    let is_live = |line: &String| line.contains("… ... ") && line.ends_with(" left");
    assert!(progress.iter().any(|line| is_live(line)), "{drawn}");
    // The last column stays free: otherwise some terminals begin the next line.
    let wide = progress.iter().find(|line| width_of(line) >= COLUMNS);
    assert_eq!(wide, None, "{drawn}");
    let left = left_of(&drawn);
    let of_trial: Vec<&String> = left.iter().filter(is_progress).collect();
    assert_eq!(of_trial.len(), 1, "{left:#?}");
    assert!(
        of_trial[0].contains(": p50 ") && !is_live(of_trial[0]),
        "{left:#?}"
    );
}

#[test]
fn dumb_terminal_gets_no_escape_sequences() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    write_recipe(home.path());
    let commands: [&[&str]; 2] = [
        &[
            "load",
            "-D",
            "1200ms",
            "--rate",
            "200",
            "--threshold",
            "p(50)<10s",
            &url,
        ],
        &["run", "./recipe.toml"],
    ];
    for arguments in commands {
        let Some(output) = on_terminal(Terminal::new("dumb"), home.path(), arguments) else {
            return;
        };
        let drawn = stdout(&output);
        assert!(!drawn.is_empty() && !drawn.contains('\x1b'), "{drawn:?}");
        // Nothing is overwritten either: each carriage return ends a line.
        assert_eq!(
            drawn.matches('\r').count(),
            drawn.matches("\r\n").count(),
            "{drawn:?}"
        );
    }
}
