//! How stations end: killed from outside, stopped, with squall, and without leaving anything behind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Protocol;
use squall_peers::{
    GenericStation, InstalledProgram, RawStation, ReadinessError, RunningStation, Station, Version,
};
use tempfile::TempDir;

use crate::support::{PATIENCE, have, installed, known, seat, server, start};

fn is_there(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Processes with this word among their arguments.
fn with_argument(word: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc")
        .expect("what the test itself makes")
        .flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| {
            let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            arguments
                .split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
        .collect()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A shell script as a station.
fn shell(folder: &Path, script: &str, ready: &str) -> RunningStation {
    let raw = RawStation {
        name: "shell".to_owned(),
        command: "/bin/sh -c {configuration}".replace("{configuration}", "'. {configuration}'"),
        configuration: Some(script.to_owned()),
        ready: ready.to_owned(),
    };
    let station = GenericStation::check(&raw).expect("what the test itself makes");
    let found = InstalledProgram {
        path: "/bin/sh".into(),
        version: Version::default(),
    };
    let order = server(folder, "shell", Protocol::H1, 0);
    Station::new(&station, &found, order)
        .expect("what the test itself makes")
        .start(None)
        .expect("what the test itself makes")
}

#[test]
fn killed_program_is_reported_with_its_last_output() {
    let _seat = seat();
    for name in ["nginx", "haproxy", "envoy", "nghttpd", "caddy"] {
        if !have(&["openssl"]) {
            return;
        }
        let Some((driver, found)) = known(name) else {
            continue;
        };
        let folder = TempDir::new().unwrap();
        let running = start(
            (driver, &found),
            server(folder.path(), name, Protocol::H2c, 10),
        );
        assert_eq!(running.has_ended(), None);
        kill(Pid::from_raw(running.id() as i32), Signal::SIGKILL).unwrap();
        wait_for("its end", || running.has_ended().is_some());
        let said = running.has_ended().unwrap().to_string();
        assert!(said.starts_with("ended with signal 9 (SIGKILL)"), "{said}");
    }
    let folder = TempDir::new().unwrap();
    let running = shell(
        folder.path(),
        "echo one; echo ready to go; echo 'it hurts' >&2; kill -SEGV $$",
        "output to go",
    );
    wait_for("its end", || running.has_ended().is_some());
    assert_eq!(
        running.has_ended().unwrap().to_string(),
        "ended with signal 11 (SIGSEGV); its last output: one | ready to go | it hurts"
    );
}

#[test]
fn a_program_that_ends_while_it_starts_says_why() {
    let _seat = seat();
    if !have(&["openssl"]) {
        return;
    }
    for (name, driver, found) in installed(["nginx", "haproxy", "nghttpd", "caddy"]) {
        let folder = TempDir::new().unwrap();
        let order = server(folder.path(), name, Protocol::H1, 10);
        let order = if name == "nghttpd" {
            server(folder.path(), name, Protocol::H2c, 10)
        } else {
            order
        };
        // The program's port is taken.
        let _holder = std::net::TcpListener::bind(order.listen).unwrap();
        let running = Station::new(driver, &found, order)
            .unwrap()
            .start(None)
            .unwrap();
        let error = running
            .wait_ready(None, Instant::now() + Duration::from_secs(20))
            .expect_err(name);
        let said = error.to_string();
        println!("{said}");
        assert!(matches!(error, ReadinessError::Ended { .. }), "{said}");
        assert!(
            said.contains("ended with code") && said.contains("last output"),
            "{said}"
        );
    }
}

#[test]
fn station_that_never_responds_is_given_up() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    let running = shell(folder.path(), "echo waiting; exec sleep 1000", "tcp");
    let began = Instant::now();
    let error = running
        .wait_ready(None, began + Duration::from_secs(2))
        .expect_err("nobody listens")
        .to_string();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(
        error.contains("did not answer at 127.0.0.1")
            && error.contains("refused")
            && error.contains("waiting"),
        "{error}"
    );
}

#[test]
fn stopped_station_leaves_no_process_running() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    // A child in its group ignores SIGTERM, as the parent does.
    let script = "trap '' TERM; sleep 987654.25 & echo up; wait; exec sleep 987654.25";
    let mut running = shell(folder.path(), script, "output up");
    running.wait_ready(None, Instant::now() + PATIENCE).unwrap();
    wait_for("its child", || !with_argument("987654.25").is_empty());
    let process = running.id();
    running.stop();
    assert!(!is_there(process));
    assert_eq!(with_argument("987654.25"), Vec::<u32>::new());
    assert!(running.has_ended().unwrap().to_string().contains("SIGKILL"));
    // A second stop, and dropping, do nothing.
    running.stop();
    drop(running);
    let polite = || {
        let polite = shell(folder.path(), "echo up; exec sleep 987654.5", "output up");
        polite.wait_ready(None, Instant::now() + PATIENCE).unwrap();
        polite
    };
    let mut stopped = polite();
    stopped.stop();
    let end = stopped.has_ended().unwrap().to_string();
    assert!(end.contains("SIGTERM"), "{end}");
    let dropped = polite();
    let process = dropped.id();
    drop(dropped);
    assert!(!is_there(process));
}

/// The test's own executable as a squall that gets killed; `a_station_of_a_killed_squall_is_killed` starts it.
#[test]
fn start_a_station_and_wait() {
    let Some(folder) = std::env::var_os("SQUALL_TEST_KILLED") else {
        return;
    };
    let running = shell(
        Path::new(&folder),
        "echo up; exec sleep 987654.75",
        "output up",
    );
    running.wait_ready(None, Instant::now() + PATIENCE).unwrap();
    std::fs::write(Path::new(&folder).join("id"), running.id().to_string()).unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_station_of_a_killed_squall_is_killed() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    let mut squall = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ends::start_a_station_and_wait"])
        .env("SQUALL_TEST_KILLED", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let id = || {
        std::fs::read_to_string(folder.path().join("id"))
            .ok()?
            .parse::<u32>()
            .ok()
    };
    wait_for("its station", || id().is_some());
    let station = id().unwrap();
    assert!(is_there(station));
    squall.kill().unwrap();
    squall.wait().unwrap();
    // The process that inherits it may take a while to reap it: dead is enough.
    wait_for("the station's end", || {
        let state = std::fs::read_to_string(format!("/proc/{station}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

#[test]
fn program_is_pinned_together_with_its_children() {
    let _seat = seat();
    let usable = squall_linux::scheduling::usable_processors().unwrap();
    let last = *usable.last().expect("there is a processor");
    assert_eq!(processors_of_two(vec![last]), [last]);
    assert_eq!(processors_of_two(Vec::new()), usable);
}

/// The processors that a shell and its child may use when started on these.
fn processors_of_two(pinned: Vec<usize>) -> Vec<usize> {
    let folder = TempDir::new().expect("a folder");
    let raw = RawStation {
        name: "shell".to_owned(),
        command: "/bin/sh -c 'sleep 1000 & echo up; wait'".to_owned(),
        configuration: None,
        ready: "output up".to_owned(),
    };
    let station = GenericStation::check(&raw).expect("it is a station");
    let found = InstalledProgram {
        path: "/bin/sh".into(),
        version: Version::default(),
    };
    let order = server(folder.path(), "shell", Protocol::H1, 0);
    let running = Station::new(&station, &found, order)
        .expect("it is configured")
        .pinned(pinned)
        .start(None)
        .expect("it starts");
    running
        .wait_ready(None, Instant::now() + PATIENCE)
        .expect("it gets ready");
    let processes = format!("/proc/{0}/task/{0}/children", running.id());
    assert!(
        !std::fs::read_to_string(processes)
            .expect("/proc has it")
            .is_empty()
    );
    running.processors().expect("its threads can be asked")
}
