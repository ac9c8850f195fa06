//! Runs clients under test that may succeed or fail but must end in time: each in its own folder, several in parallel.
//!
//! This module does not know the peers that they run against: see `hostile_servers` and `truncated_servers`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{peak_kib, seat};

/// A client that has exited.
pub(crate) struct ClientOutput {
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    /// The highest memory use observed.
    pub(crate) peak_kib: u64,
    /// Stdout followed by stderr; both are also files of these names in its folder.
    pub(crate) output: String,
}

/// Runs the client until it exits, which must happen within `most`.
pub(crate) fn run(client: &mut Command, home: &Path, most: Duration, name: &str) -> ClientOutput {
    let file = |name| File::create(home.join(name)).expect("a file");
    let began = Instant::now();
    let mut client = (client.stdin(Stdio::null()))
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("squall starts");
    let mut most_kib = 0;
    let status = loop {
        if let Some(status) = client.try_wait().expect("it can be waited for") {
            break status;
        }
        if began.elapsed() > most {
            // It may have exited in the meantime.
            let _ = client.kill();
            let _ = client.wait();
            panic!("{name}: it does not end");
        }
        most_kib = peak_kib(&client).unwrap_or(most_kib);
        thread::sleep(Duration::from_millis(5));
    };
    let took = began.elapsed();
    let read = |name| fs::read_to_string(home.join(name)).expect("text");
    ClientOutput {
        status,
        took,
        peak_kib: most_kib,
        output: read("stdout") + &read("stderr"),
    }
}

/// Checks up to `at_once` cases in parallel, each in its own folder.
pub(crate) fn check_each<T: Sync>(cases: &[T], at_once: usize, check: impl Fn(&T, &Path) + Sync) {
    let _seat = seat();
    for some in cases.chunks(at_once) {
        thread::scope(|scope| {
            for case in some {
                let check = &check;
                scope.spawn(move || {
                    let home = TempDir::new().expect("a temporary folder");
                    check(case, home.path());
                });
            }
        });
    }
}
