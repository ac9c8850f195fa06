//! `squall selftest`: every row of each group is present, and rows that do not depend on a quiet machine meet their targets.
//!
//! Each group runs by itself, so that only those that load the processors have the whole machine. `selftest` of the main
//! module has the group of delays, which may run beside any other test. That all groups run if none is selected, and how rows
//! are judged, is covered by unit tests next to the measuring code.

use std::time::Duration;

use tempfile::TempDir;

use crate::selftest::Rows;
use crate::support::{bench, quiet_seat, squall, stderr, stdout};

#[test]
fn rates_have_all_rows_and_are_exact_by_the_log() {
    let _bench = bench();
    let rows = Rows::of_group("rate", 12, Duration::from_secs(20));
    for megabits in [1, 10, 100, 500] {
        rows.check_met(&format!("{megabits} Mbit/s: least time between packets"));
        rows.check_met(&format!("{megabits} Mbit/s: error by the log"));
        let by_receiver = format!("{megabits} Mbit/s: error by the receiver");
        rows.check_within(&by_receiver, 0.0, 50.0);
    }
}

#[test]
fn throughput_has_all_rows_and_is_plausible() {
    let _bench = bench();
    let rows = Rows::of_group("throughput", 7, Duration::from_secs(20));
    for name in [
        "64-byte packets a second of the link's processor time",
        "the same of a bare forwarder's",
        "64-byte packets a second, by their reader",
    ] {
        rows.check_within(name, 10_000.0, 1e7);
    }
    rows.check_within("one TCP connection", 50.0, 1e5);
    rows.check_within("the same over a bare forwarder", 50.0, 1e5);
    for name in [
        "64-byte packets a second of the link's processor time, of a bare forwarder's",
        "one TCP connection, of that over a bare forwarder",
    ] {
        rows.check_within(name, 0.05, 20.0);
    }
}

#[test]
fn exactness_has_all_rows_and_meets_its_targets() {
    /// When packets of a trace arrived, as seen by their reader, which must be scheduled in each millisecond. The link's
    /// own behaviour is in the log, whose row is exact on any machine.
    const TRACE_BY_ITS_READER: &str = "trace: packets off the opportunities, p99 at the receiver";
    let _seat = quiet_seat();
    let rows = Rows::of_group("exactness", 8, Duration::from_secs(15));
    for row in rows.0.iter().filter(|row| !row["target"].is_null()) {
        assert!(
            row["pass"] == true || row["name"] == TRACE_BY_ITS_READER,
            "{row}"
        );
    }
    rows.check_within(TRACE_BY_ITS_READER, 0.0, 100.0);
}

/// Without later segments, a lost one waits for the kernel's timer, which is at least 200 ms.
#[test]
fn repairs_have_all_rows_and_plausible_costs() {
    let _seat = quiet_seat();
    let rows = Rows::of_group("repair", 24, Duration::from_secs(25));
    let cost = |loss: &str| format!("round trip {loss} lost: cost");
    rows.check_within(&cost("0 ms, segment 1 of 1"), 150.0, 2_000.0);
    rows.check_within(&cost("40 ms, segment 1 of 4"), 30.0, 200.0);
}

#[test]
fn random_loss_has_all_rows_and_meets_its_targets() {
    let _bench = bench();
    let home = TempDir::new().expect("a temporary folder");
    let output = squall(home.path())
        .args(["selftest", "--only", "loss"])
        .output()
        .expect("squall starts");
    let table = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{table}{}", stderr(&output));
    let rows = table.lines().filter(|line| line.starts_with("loss "));
    assert_eq!(rows.count(), 8, "{table}");
    assert!(table.contains("all 6 targets are met"), "{table}");
    for text in [table, stderr(&output)] {
        assert!(!text.contains("throughput"), "{text}");
    }
}
