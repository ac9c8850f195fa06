//! `squall export --to svg` and `png`: the plots of a real run's report as files, and the message without a browser.
//!
//! How the page draws them is tested in squall-report, which flags go together in the command's own tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::constructed::recipe;
use crate::export::{refused, written};
use crate::support::{
    alone_if_it_fails, have, python_with, run_until_valid, seat, squall, stderr, stdout,
};

/// Prints the name of the root and the title of each SVG; a file that is not well-formed is an error.
const TITLES: &str = "import sys, xml.etree.ElementTree as tree\n\
    for file in sys.argv[1:]:\n\
    \x20   root = tree.parse(file).getroot()\n\
    \x20   print(root.tag, root.findtext('{http://www.w3.org/2000/svg}title'), sep='\\t')\n";

/// Prints how many different bytes a PNG has in its rows.
const BYTES: &str = "import sys, zlib\n\
    data, at, packed = open(sys.argv[1], 'rb').read(), 8, b''\n\
    while at < len(data):\n\
    \x20   end = at + 8 + int.from_bytes(data[at:at + 4], 'big')\n\
    \x20   packed += data[at + 8:end] if data[at + 4:at + 8] == b'IDAT' else b''\n\
    \x20   at = end + 4\n\
    print(len(set(zlib.decompress(packed))))\n";

#[test]
fn plots_of_a_run_are_exported_as_svg_and_png() {
    if !have(&["chromium"]) {
        return;
    }
    alone_if_it_fails(seat(), || {
        let text = recipe(
            &["h1", "h2"],
            "40/s",
            ("1KiB", "3kB"),
            "drop every 41",
            "1s",
        );
        let run = run_until_valid(&text, &[]);
        let plots = written(&run.folder, "plots", &["--to", "svg"]);
        check_svgs(&plots);
        let one = ["--to", "png", "--plot", "condition-0-requests-h1"];
        check_png(&written(&run.folder, "h1.png", &one));
        let unknown = refused(&run.folder, &["--to", "svg", "--plot", "h1"]);
        assert!(unknown.contains("has no plot \"h1\""), "{unknown}");
        assert!(
            unknown.contains("\n  condition-0-requests-h1\n"),
            "{unknown}"
        );
    });
}

/// Checks that every file is well-formed and has the title of its plot.
fn check_svgs(folder: &Path) {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let files: Vec<_> = entries.map(|entry| entry.path()).collect();
    let Some(python) = python_with("xml.etree.ElementTree") else {
        return;
    };
    let said = said_by(&python, TITLES, &files);
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let titles: BTreeMap<&str, &str> = names.zip(said.lines()).collect();
    assert_eq!(titles.len(), files.len(), "{titles:?}");
    for (name, title) in [
        ("response-time-mean.svg", "mean of the response time of"),
        ("condition-0-percentiles.svg", "Response time by percentile"),
        ("condition-0-boxes.svg", "Box plots of the response time"),
        (
            "condition-0-heat-map-h2.svg",
            "h2: heat map of requests by start time and response time",
        ),
        (
            "condition-0-requests-in-flight-h2.svg",
            "h2: requests in flight over time",
        ),
        (
            "condition-0-requests.svg",
            "Start time and latency of each request: h1; h2; delay 10ms",
        ),
        (
            "condition-0-requests-h2.svg",
            "Start time and latency of each request: h2; delay 10ms",
        ),
    ] {
        let found = titles.get(name);
        let expected = format!("{{http://www.w3.org/2000/svg}}svg\t{title}");
        assert!(
            found.is_some_and(|found| found.starts_with(&expected)),
            "{name}: {titles:?}"
        );
    }
}

/// Checks that the PNG is large enough, and not blank.
fn check_png(file: &Path) {
    // PNG, sections 5.2 and 11.2.2: the signature, then the chunk with width and height.
    let png = fs::read(file).expect("a file");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", png.len());
    assert_eq!(&png[12..16], b"IHDR");
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    let (width, height) = (side(16), side(20));
    assert!(width > 600 && height > 300, "{width} x {height}");
    let Some(python) = python_with("zlib") else {
        return;
    };
    let said = said_by(&python, BYTES, &[file.to_owned()]);
    let different: u32 = said.trim().parse().expect("a number");
    assert!(different > 16, "{different} different bytes");
}

/// What a script in Python prints about these files.
fn said_by(python: &Path, script: &str, files: &[PathBuf]) -> String {
    let mut command = Command::new(python);
    let output = command.args(["-c", script]).args(files).output();
    let output = output.expect("Python starts");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn plots_without_a_browser_say_what_to_install_and_write_nothing() {
    let _seat = seat();
    let text = recipe(&["h1"], "20/s", ("1KiB", "3kB"), "drop every 41", "300ms");
    let run = run_until_valid(&text, &[]);
    let home = run.folder.parent().expect("a run is in a folder");
    let mut command = squall(home);
    command.env("PATH", "/nowhere").arg("export");
    command
        .arg(&run.folder)
        .args(["--to", "svg", "-o", "plots"]);
    let output = command.output().expect("squall starts");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("apt-get install chromium"), "{said}");
    assert!(!home.join("plots").exists());
    let flag = refused(&run.folder, &["--to", "csv", "--plot", "boxes"]);
    assert!(flag.contains("--plot is for svg and png"), "{flag}");
    let trial = run.folder.join("trials");
    let trial = fs::read_dir(trial).expect("a folder").flatten().next();
    let trial = trial.expect("a trial").path();
    let of_trial = refused(&trial, &["--to", "svg", "-o", "plots"]);
    assert!(
        of_trial.contains("is not the folder of a run"),
        "{of_trial}"
    );
}
