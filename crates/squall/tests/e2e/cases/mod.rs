//! Inputs from the field, and further ones of the same kinds: recordings, captures, lists of targets, servers. The inputs
//! are in `tests/data/cases`, each with a README that says where they are from, which command reads them and what is
//! expected. Here the commands run, on servers and ports of the test.
//!
//! How a format is parsed is tested in the crate that parses it; these tests show what a user gets.

mod answers;
mod captures;
mod loads;
mod marks;
mod recordings;
mod targets;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{self, squall};

/// An input file of a case.
fn file(case: &str, name: &str) -> PathBuf {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    cases.join(case).join(name)
}

/// The text of an input file, with the addresses in it replaced by those of the test's servers.
pub(crate) fn text(case: &str, name: &str, addresses: &[(&str, &str)]) -> String {
    let text = fs::read_to_string(file(case, name)).expect("an input of a case");
    let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    addresses.iter().fold(text, replace)
}

/// How a command ended, and what it printed.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs squall to its end in this folder, with nothing on stdin.
pub(crate) fn run(home: &Path, arguments: &[&str]) -> Ended {
    run_with(home, arguments, b"")
}

/// Runs squall to its end in this folder, with this text on stdin.
fn run_with(home: &Path, arguments: &[&str], stdin: &[u8]) -> Ended {
    let mut child = squall(home)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    let mut pipe = child.stdin.take().expect("stdin is a pipe");
    // A command that refuses its arguments does not read.
    let _ = pipe.write_all(stdin);
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    Ended {
        code: output.status.code(),
        stdout: support::stdout(&output),
        stderr: support::stderr(&output),
    }
}

/// Checks that tests read every case and every input: an input that no test reads would prove nothing.
#[test]
fn each_case_and_each_of_its_inputs_is_in_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut sources = entries(&tests.join("e2e/cases"));
    sources.push(tests.join("e2e/alone/sidecar_paths.rs"));
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source");
    let sources: String = sources.iter().map(read).collect();
    let cases = entries(&tests.join("data/cases"));
    assert!(cases.len() >= 19, "{cases:?}");
    for case in cases {
        let named = name(&case);
        assert!(sources.contains(&named), "no test names {named}");
        assert!(case.join("README").is_file(), "{named} has no README");
        for path in entries(&case) {
            let input = name(&path);
            let is_read = input == "README" || sources.contains(&format!("{input:?}"));
            assert!(is_read, "no test reads {input} of {named}");
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

fn name(path: &Path) -> String {
    let name = path.file_name().expect("it has a name");
    name.to_string_lossy().into_owned()
}
