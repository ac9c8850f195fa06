//! The page as axe-core judges it, in a real Chromium: in light and dark, on a phone and on a desk, with and without a
//! dialog.
//!
//! axe-core (<https://github.com/dequelabs/axe-core>) knows the rules of WCAG that a program can check. scripts/peers
//! installs it.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::details::{open, shows};
use crate::support::chromium::Page;

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
fn axe() -> Option<String> {
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

/// Asserts that axe-core finds nothing to mend in what is shown.
fn check(page: &mut Page, what: &str) {
    let found = page.eval(&format!(
        "axe.run(document, {{ runOnly: {}, resultTypes: ['violations'] }}).then(({{ violations }}) => \
         violations.flatMap(({{ id, help, nodes }}) => nodes.map(({{ html, failureSummary }}) => \
         [id, help, html, failureSummary])))",
        json!(TAGS)
    ));
    assert_eq!(found, json!([]), "{what}");
}

#[test]
fn axe_core_finds_no_violation_on_the_page_and_in_its_dialogs() {
    let Some(axe) = axe() else {
        return;
    };
    let Some(mut page) = open("accessible", 1_280) else {
        return;
    };
    page.eval(&format!("{axe}; 0"));
    page.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; }); 0");
    for (scheme, width) in [
        ("light", 1_280),
        ("light", 390),
        ("dark", 390),
        ("dark", 1_280),
    ] {
        page.prefer(scheme);
        page.resize(width, 900);
        page.wait_for(&format!("innerWidth === {width}"));
        check(&mut page, &format!("{scheme}, {width} px"));
        for id in ["request-6-1000", "connection-6-1-0"] {
            page.eval(&format!("location.hash = '#{id}'"));
            page.wait_for(&shows(id));
            page.eval("document.querySelectorAll('#detail details').forEach((it) => { it.open = true; }); 0");
            check(&mut page, &format!("{id}, {scheme}, {width} px"));
        }
        page.click("#detail button");
        page.wait_for("!document.getElementById('detail').open");
    }
}
