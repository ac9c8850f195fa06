//! axe-core (<https://github.com/dequelabs/axe-core>), which knows the rules of WCAG that a program can check. scripts/peers
//! installs it.
//!
//! The tests decide what is shown while it checks, such as in `accessible` and `probe_page`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::chromium::Page;

/// WCAG 2.2 to level AA, and what axe-core itself advises.
const TAGS: [&str; 6] = [
    "wcag2a",
    "wcag2aa",
    "wcag21a",
    "wcag21aa",
    "wcag22aa",
    "best-practice",
];

/// axe-core's script. Without it, prints a notice, or fails where every test must run.
pub fn script() -> Option<String> {
    let peers = match std::env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty()) {
        Some(folder) => Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../peers"),
    };
    let script = fs::read_to_string(peers.join("axe.min.js"));
    if script.is_err() {
        let words = "skipped: axe-core is not installed; scripts/peers installs it";
        assert!(
            std::env::var_os("SQUALL_REQUIRE_PEERS").is_none_or(|v| v != "1"),
            "{words}"
        );
        // Not eprintln!, which the test harness captures.
        let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
    }
    script.ok()
}

/// Asserts that axe-core finds no violation in what is shown. Its script must have been evaluated in the page.
pub fn check(page: &mut Page, what: &str) {
    let began = std::time::Instant::now();
    let found = page.eval(&format!(
        "axe.run(document, {{ runOnly: {}, resultTypes: ['violations'] }}).then(({{ violations }}) => \
         violations.flatMap(({{ id, help, nodes }}) => nodes.map(({{ html, failureSummary }}) => \
         [id, help, html, failureSummary])))",
        json!(TAGS)
    ));
    eprintln!("{what}: examined in {:?}", began.elapsed());
    assert_eq!(found, json!([]), "{what}");
}
