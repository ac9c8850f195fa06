//! Locates the programs, and runs one to its end within a time limit.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes on a busy machine with two cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the programs that a test needs are installed. If not, prints a notice, or fails where every test must run.
pub(crate) fn have(programs: &[&str]) -> bool {
    let Some(missing) = programs.iter().find(|program| find(program).is_none()) else {
        return true;
    };
    let said = format!("skipped: this test needs {missing}; scripts/peers installs it");
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    // Not eprintln!, whose output the test harness captures.
    let _ = std::io::stderr().write_all(format!("{said}\n").as_bytes());
    false
}

/// A command for this program, which must be installed. "pycurl" is the Python that has pycurl, "nginx-mainline" the
/// nginx that speaks HTTP/2 to upstreams.
pub(crate) fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| panic!("`have` is asked for {program} first")))
}

/// Looks in the folder of scripts/peers, then in PATH, then where Debian installs servers.
fn find(program: &str) -> Option<PathBuf> {
    if program == "pycurl" {
        return is_program(peers().join("python/bin/python3"));
    }
    if program == "nginx-mainline" {
        return is_program(peers().join("mainline/nginx"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(peers().join("bin"))
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .find_map(|folder| is_program(folder.join(program)))
}

fn is_program(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

/// The folder that scripts/peers uses: $SQUALL_PEERS, otherwise peers in cargo's target folder.
fn peers() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty()) {
        Some(folder) => workspace.join(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers"),
    }
}

/// Runs a program that must succeed within `PATIENCE`. Returns its output.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = attempt(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a program that may fail, and kills it after `PATIENCE`.
pub(crate) fn attempt(command: &mut Command) -> Output {
    // Output goes to files, because a leftover child process could hold a pipe open.
    let folder = TempDir::new().expect("a temporary folder");
    let file = |name: &str| File::create(folder.path().join(name)).expect("a file");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let give_up = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        if Instant::now() > give_up {
            eprintln!("{command:?} took longer than {PATIENCE:?}");
            child.kill().expect("it is still there");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("what it printed");
    Output {
        status,
        stdout: read("stdout"),
        stderr: read("stderr"),
    }
}
