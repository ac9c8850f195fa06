//! Inputs from the field, and further ones of the same kinds: recordings, captures, lists of targets, servers. The inputs
//! are in `tests/data/cases`, each with a README that says where they are from, which command reads them and what is
//! expected. Here the commands run, on servers and ports of the test.
//!
//! How a format is parsed is tested in the crate that parses it; here is what a user gets.

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
