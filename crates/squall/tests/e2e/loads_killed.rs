//! Loads whose process is killed: what can be read of their files afterwards.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use squall_base::plan::Protocol;
use squall_base::record::RequestRecord;
use squall_record::{parts_of, read_exchanges, read_requests};
use tempfile::TempDir;

use crate::served::Serving;
use crate::support::{run_squall, seat, squall, stderr, stdout, wait_for};

/// More than the lines of ten requests as CSV. They are saved right after the same rows of the table.
const CSV_BYTES: u64 = 5_000;

/// Whether a part of every file that the load below writes has been saved.
fn is_saved(home: &Path) -> bool {
    let has_part = |name: &str| !parts_of(home.join(name)).expect("its parts").is_empty();
    has_part("rows.parquet")
        && has_part("exchanges.parquet")
        && fs::metadata(home.join("rows.csv")).is_ok_and(|file| file.len() > CSV_BYTES)
}

#[test]
fn killed_load_leaves_rows_that_can_be_read_and_that_the_next_load_replaces() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let server = Serving::start(home, &["--h1", "0"]);
    let outputs = ["--output", "rows.parquet", "--output", "rows.csv"];
    let mut load = squall(home)
        .args(["load", "--rate", "200", "-D", "60s", "-q"])
        .args(outputs)
        .args(["--exchanges-to", "exchanges.parquet"])
        .arg(server.url(Protocol::H1))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("squall starts");
    wait_for("the first save", || is_saved(home).then_some(()));
    load.kill().expect("SIGKILL");
    load.wait().expect("it ends");

    let parts = parts_of(home.join("rows.parquet")).expect("its parts");
    let read = |part| read_requests(part).expect("a whole table");
    let rows: Vec<RequestRecord> = parts.iter().flat_map(read).collect();
    assert!(rows.len() > 10, "{} rows", rows.len());
    assert!(rows.iter().all(RequestRecord::succeeded));
    let exchanges = parts_of(home.join("exchanges.parquet")).expect("its parts");
    assert!(!read_exchanges(&exchanges[0]).expect("a table").is_empty());
    let csv = fs::read_to_string(home.join("rows.csv")).expect("text");
    assert!(csv.lines().count() > 10, "{csv}");

    let export = ["export", "rows.parquet", "--to", "csv"];
    let output = run_squall(home, export);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(stdout(&output).lines().count(), rows.len() + 1);
    assert!(
        said.contains("the load that wrote rows.parquet was interrupted, or is still running: ")
            && said.contains(" s of it are recorded"),
        "{said}"
    );

    let again = squall(home)
        .args(["load", "-n", "7", "-q"])
        .args(outputs)
        .arg(server.url(Protocol::H1))
        .output()
        .expect("squall starts");
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(!home.join("rows.parquet.parts").exists());
    let output = run_squall(home, export);
    assert_eq!(stdout(&output).lines().count(), 8);
    assert!(
        !stderr(&output).contains("interrupted"),
        "{}",
        stderr(&output)
    );
}
