//! A load on a server that stalls: no request's wait is left out.
//!
//! Every other kind of load is in `loads`.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Protocol;
use squall_base::record::RequestRecord;
use tempfile::TempDir;

use crate::loads::{load, response_ms};
use crate::served::Serving;
use crate::support::{OtherWork, quiet_seat, say_disturbed, stderr};

/// No coordinated omission: a server that stalls for a second delays every request that was due during the stall, each
/// by what was left of the second.
#[test]
fn stall_shows_in_every_latency_that_it_affects() {
    const PER_MS: f64 = 1.0;
    let _seat = quiet_seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let (pid, url) = (Pid::from_raw(server.pid()), server.url(Protocol::H1));
    let stall = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1_500));
        let before = Instant::now();
        kill(pid, Signal::SIGSTOP).expect("the server is there");
        let stopped = Instant::now();
        thread::sleep(Duration::from_secs(1));
        let still = stopped.elapsed();
        kill(pid, Signal::SIGCONT).expect("the server is there");
        (still, before.elapsed())
    });
    let other_work = OtherWork::watch();
    let arguments = ["--rate", "1000", "-D", "4s", "-c", "8"];
    let (output, rows) = load(home.path(), Protocol::H1, &arguments, &url);
    let (at_least, at_most) = stall.join().expect("it stalled");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(rows.len(), 4_000);
    for longer_than_ms in [100.0, 300.0, 500.0, 700.0, 900.0] {
        let count = rows
            .iter()
            .filter(|row| response_ms(row) > longer_than_ms)
            .count() as f64;
        // Requests that were due at least this long before the end of the stall. The backlog is then served in a burst
        // of some tens of milliseconds.
        let least = (at_least.as_secs_f64() * 1e3 - longer_than_ms) * PER_MS;
        let most = (at_most.as_secs_f64() * 1e3 - longer_than_ms) * PER_MS;
        let said = format!("{longer_than_ms} ms: {count} requests, expected {least} to {most}");
        assert!(count > least - 2.0, "{said}");
        if count >= most + 150.0 {
            assert!(other_work.disturbs_a_second(), "{said}");
            // The server may have waited for a processor, too.
            say_disturbed(&said);
        }
    }
    // Measured from when they got their connection, only the eight requests in flight are slow.
    let services = rows.iter().filter_map(RequestRecord::service_time);
    let slow = services.filter(|time| time.as_millis_f64() > 900.0).count();
    assert!(slow <= 8, "{slow}");
}
