//! `squall selftest`: every row of each group is present, and rows that do not depend on a quiet machine meet their targets.
//!
//! Each group runs by itself, so that only those that load the processors or that judge microseconds have the whole machine.
//! That all groups run if none is selected, and how rows are judged, is covered by unit tests next to the measuring code.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{bench, quiet_seat, squall, stderr, stdout};

const DELAYS_MS: [u32; 5] = [1, 10, 25, 100, 250];
const CONDITIONS: [&str; 3] = [
    "idle",
    "1,000 requests/s, processors busy",
    "50,000 packets/s",
];

struct Rows(Vec<Value>);

impl Rows {
    /// Measures a group, which has this many rows. selftest announces that all groups take about a minute; a busy machine may
    /// take more than twice as long.
    fn of_group(group: &str, count: usize, ends_within: Duration) -> Rows {
        let home = TempDir::new().expect("a temporary folder");
        let began = Instant::now();
        let output = squall(home.path())
            .args(["selftest", "--json", "--only", group])
            .output()
            .expect("squall starts");
        let took = began.elapsed();
        let said = stderr(&output);
        assert!(took < ends_within, "{took:?}\n{said}");
        assert!(said.contains(group), "{said}");
        let rows = Rows::parse(&stdout(&output));
        let missed = rows.0.iter().any(|row| row["pass"] == false);
        let code = if missed { 3 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(rows.0.iter().all(|row| row["group"] == group));
        assert_eq!(rows.0.len(), count, "{group}");
        let left: Vec<_> = home.path().read_dir().expect("it is there").collect();
        assert!(left.is_empty(), "{left:?}");
        rows
    }

    fn parse(json: &str) -> Rows {
        let rows: Vec<Value> = serde_json::from_str(json).expect("an array as JSON");
        for row in &rows {
            let mut keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
            // The order of keys depends on a feature of serde_json that any dependency may enable.
            keys.sort();
            let expected = ["group", "name", "pass", "target", "unit", "value"];
            assert_eq!(keys, expected, "{row}");
            assert!(row["unit"].is_string(), "{row}");
            assert!(row["pass"].is_null() || row["target"].is_string(), "{row}");
        }
        Rows(rows)
    }

    fn row(&self, name: &str) -> &Value {
        let found: Vec<&Value> = self.0.iter().filter(|row| row["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    }

    fn check_met(&self, name: &str) {
        assert_eq!(self.row(name)["pass"], true, "{}", self.row(name));
    }

    /// What depends on a quiet machine only needs to be plausible.
    fn check_within(&self, name: &str, least: f64, most: f64) {
        let value = self.row(name)["value"].as_f64().expect("a number");
        assert!((least..=most).contains(&value), "{}", self.row(name));
    }
}

#[test]
fn delays_have_all_rows_and_no_packet_is_early() {
    let _bench = bench();
    let rows = Rows::of_group("delay", 69, Duration::from_secs(60));
    rows.check_within("round trip at no delay, median", 5.0, 5_000.0);
    let over_veth = "round trip at no delay, median, over a veth pair";
    rows.check_within(over_veth, 5.0, 5_000.0);
    for condition in CONDITIONS {
        rows.check_met(&format!("released early, {condition}"));
        rows.check_within(&format!("link lateness, p99, {condition}"), 0.0, 1e6);
        for delay_ms in DELAYS_MS {
            let error = |what: &str| format!("error of {delay_ms} ms, {what}, {condition}");
            rows.check_met(&error("least"));
            rows.check_within(&error("median"), 1.0, 1e5);
            rows.check_within(&error("p99"), 1.0, 1e6);
        }
    }
}

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

/// The kernel's timers: a loss at the end waits for at least 200 ms.
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
