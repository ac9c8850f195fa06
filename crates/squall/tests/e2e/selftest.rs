//! `squall selftest --only delay`: every row is present, and no packet is early, however busy the machine is.
//!
//! Groups that need the machine for themselves, or a quiet one, are in `alone::selftest`.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{seat, squall, stderr, stdout};

const DELAYS_MS: [u32; 5] = [1, 10, 25, 100, 250];
const CONDITIONS: [&str; 3] = [
    "idle",
    "1,000 requests/s, processors busy",
    "50,000 packets/s",
];

/// The rows of a group.
pub(crate) struct Rows(pub(crate) Vec<Value>);

impl Rows {
    /// Measures a group, which has this many rows. selftest announces that all groups take about a minute; a busy machine may
    /// take more than twice as long.
    pub(crate) fn of_group(group: &str, count: usize, ends_within: Duration) -> Rows {
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

    pub(crate) fn check_met(&self, name: &str) {
        assert_eq!(self.row(name)["pass"], true, "{}", self.row(name));
    }

    /// Checks that a value that depends on a quiet machine is plausible.
    pub(crate) fn check_within(&self, name: &str, least: f64, most: f64) {
        let value = self.row(name)["value"].as_f64().expect("a number");
        assert!((least..=most).contains(&value), "{}", self.row(name));
    }
}

/// A busy machine makes packets late, never early: only that is judged, and the rows of lateness need to be plausible.
#[test]
fn delays_have_all_rows_and_no_packet_is_early() {
    let _seat = seat();
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
