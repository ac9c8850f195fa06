//! Outputs that cannot be written, such as on a full disk (/dev/full), and foreign text that reaches the terminal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Protocol;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::served::Serving;
use crate::support::{
    H1, recipe, run_squall, run_whatever, seat, squall, stderr, stdout, wait_for,
};

#[test]
fn load_on_a_full_disk_is_measured_to_its_end() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let full = ["full.csv", "full.hgrm", "full.parquet", "full.json"];
    for name in full {
        symlink("/dev/full", home.join(name)).expect("a link");
    }
    let server = Serving::start(home, &["--h1", "0"]);
    let output = squall(home)
        .args(["load", "-n", "2000", "-c", "4", "--output", "full.csv"])
        .args(["--output", "full.hgrm", "--output", "rows.parquet"])
        .args(["--exchanges-to", "full.parquet", "--json", "full.json"])
        .arg(server.url(Protocol::H1))
        .output()
        .expect("squall starts");
    let (said, shown) = (stderr(&output), stdout(&output));
    assert_eq!(output.status.code(), Some(1), "{said}");
    for name in full {
        assert!(said.contains(name), "no {name} in {said}");
    }
    let incomplete = said.matches("the load goes on without it").count();
    assert_eq!(incomplete, 3, "each is said once:\n{said}");
    assert!(shown.contains("2,000 succeeded (100 %)"), "{shown}");
    let rows = read_requests(home.join("rows.parquet")).expect("the other file is complete");
    assert_eq!(rows.len(), 2000);
}

/// Runs a load of a minute with these outputs, and interrupts it as soon as it says that a file is incomplete, long before
/// it is over. Returns what it had said until then and its results.
fn interrupt_when_incomplete(
    home: &Path,
    outputs: &[&str],
    begun: impl FnOnce(),
) -> (String, String) {
    let server = Serving::start(home, &["--h1", "0"]);
    let mut load = squall(home)
        .args(["load", "--rate", "500/s", "-D", "60s"])
        .args(outputs)
        .arg(server.url(Protocol::H1))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    begun();
    let mut talk = BufReader::new(load.stderr.take().expect("stderr is a pipe"));
    let mut said = String::new();
    while !said.contains("the load goes on without it") {
        let length = talk.read_line(&mut said).expect("text");
        assert!(length > 0, "the load ended without a word: {said}");
    }
    assert!(load.try_wait().expect("its state").is_none());
    kill(Pid::from_raw(load.id() as i32), Signal::SIGINT).expect("the load is there");
    let output = load.wait_with_output().expect("it ends");
    (said, stdout(&output))
}

#[test]
fn full_disk_is_reported_while_the_load_runs() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    symlink("/dev/full", home.path().join("full.csv")).expect("a link");
    let outputs = ["--output", "full.csv"];
    let (said, shown) = interrupt_when_incomplete(home.path(), &outputs, || ());
    assert!(said.contains("full.csv is incomplete"), "{said}");
    assert!(shown.contains(" succeeded ("), "{shown}");
}

/// Rows are saved every second, into a folder that has been removed. The other file is complete.
#[test]
fn table_that_can_no_longer_be_saved_is_given_up_while_the_load_runs() {
    let _seat = seat();
    for (option, name) in [
        ("--output", "requests.parquet"),
        ("--exchanges-to", "exchanges.parquet"),
    ] {
        let home = TempDir::new().expect("a temporary folder");
        let parts = home.path().join(format!("{name}.parts"));
        let outputs = [option, name, "--output", "rows.csv"];
        let (said, shown) = interrupt_when_incomplete(home.path(), &outputs, || {
            wait_for("the folder of the parts", || parts.exists().then_some(()));
            fs::remove_dir_all(&parts).expect("it is removed");
        });
        assert!(said.contains(&format!("{name} is incomplete")), "{said}");
        let rows = fs::read_to_string(home.path().join("rows.csv")).expect("text");
        let requests = rows.lines().count() - 1;
        let requests = format!("{} requests in ", with_commas(requests));
        assert!(shown.starts_with(&requests), "{requests}: {shown}");
    }
}

/// The number as squall prints it.
fn with_commas(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

#[test]
fn report_is_printed_if_its_folder_cannot_be_written() {
    let _seat = seat();
    let text = recipe("100/s", "delay = \"1ms\"", &[H1], "duration = \"1s\"");
    let run = run_whatever(&text, &[]);
    let before = run_squall(&run.folder, ["report", "."]);
    // Not even root can replace a folder with a file.
    fs::remove_file(run.folder.join("summary.json")).expect("it is there");
    fs::create_dir(run.folder.join("summary.json")).expect("a folder");
    let after = run_squall(&run.folder, ["report", "."]);
    assert_eq!(after.status.code(), before.status.code());
    assert!(
        stderr(&after).contains("the report is printed, but not saved: ")
            && stderr(&after).contains("summary.json"),
        "{}",
        stderr(&after)
    );
    let expected = stdout(&before);
    let (expected, _) = expected.split_once("\nReport: ").expect("its path");
    assert_eq!(stdout(&after).trim_end(), expected.trim_end());
    for entry in fs::read_dir(&run.folder).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        assert!(!name.to_string_lossy().ends_with(".tmp"), "{name:?}");
    }
}

#[test]
fn foreign_text_in_messages_does_not_control_the_terminal() {
    let home = TempDir::new().expect("a temporary folder");
    let name = "gone\x1b]0;title\x07\u{202e}";
    let url = "http://127.0.0.1:9/";
    for (file, text) in [
        ("odd.toml", "\"a\\u001b[2J\" = 1\n"),
        (
            "odd.har",
            "{\"log\": {\"\\u001b[2J\": 1, \"entries\": \"\\u009b2J\\u202e\"}}",
        ),
        (
            "word.json",
            "{\"requests\": [{\"method\": \"GET\", \"url\": \"/\", \"body\": {\"\\u001b[2J\\u202e\": 1}}], \
             \"steps\": []}",
        ),
        (
            "url.json",
            "{\"requests\": [{\"method\": \"GET\", \"url\": \"http://a:\\u001b[2J\\u202e/\"}], \
             \"steps\": [{\"at\": 0, \"request\": 0}]}",
        ),
        ("odd.txt", "GET http://a:\x1b[2J\u{202e}/\n"),
        ("odd.tsv", "0.0\x1b[2J\t/\n"),
    ] {
        fs::write(home.path().join(file), text).expect("a file");
    }
    for arguments in [
        &["fetch", "-d", name, url][..],
        &["fetch", "http://a\x1b[2J\u{202e}b/"],
        &["load", "--targets", name],
        &["load", "--targets", "odd.txt"],
        &["load", "--script", "word.json", url],
        &["load", "--script", "url.json", url],
        &["import", "har", "odd.har"],
        &["import", "timing", "odd.tsv"],
        &["report", name],
        &["report", "a", name],
        &["run", "./odd.toml"],
    ] {
        let output = run_squall(home.path(), arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let is_obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(is_obeyed), "{arguments:?}: {said:?}");
        assert!(said.ends_with('\n'), "{said:?}");
    }
}
