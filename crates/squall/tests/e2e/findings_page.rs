//! docs/FINDINGS.md: what the page shows of each kept run matches what `squall report` prints about it today.
//!
//! A block of the page that begins with `$ squall report ...` shows the output of that command in order; a line `[...]`
//! stands for omitted lines. The page describes the runs; `results` tests kept summaries themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{run_squall, stderr, stdout};

/// Stands for omitted lines.
const LEFT_OUT: &str = "[...]";

/// A command, and its output according to the page.
struct Block {
    arguments: Vec<String>,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for fenced in page.split("```text\n$ squall ").skip(1) {
        let (text, _) = fenced.split_once("\n```").expect("the end of a block");
        let mut lines = text.lines().map(str::to_owned);
        let command = lines.next().expect("a command");
        blocks.push(Block {
            arguments: command.split_whitespace().map(str::to_owned).collect(),
            lines: lines.filter(|line| !line.is_empty()).collect(),
        });
    }
    blocks
}

/// Whether `printed` matches `shown`, apart from omitted lines.
fn is_shown(shown: &[String], printed: &[&str]) -> bool {
    let Some((first, shown)) = shown.split_first() else {
        return printed.is_empty();
    };
    if first != LEFT_OUT {
        let Some((line, printed)) = printed.split_first() else {
            return false;
        };
        return first == line && is_shown(shown, printed);
    }
    (0..=printed.len()).any(|skipped| is_shown(shown, &printed[skipped..]))
}

#[test]
fn findings_page_matches_the_reports_of_the_kept_summaries() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/FINDINGS.md")).expect("docs/FINDINGS.md");
    let blocks = blocks(&page);
    let mut shown = BTreeSet::new();
    for block in &blocks {
        assert_eq!(block.arguments[0], "report", "{:?}", block.arguments);
        let output = run_squall(&root, &block.arguments);
        // 3: all trials of a cell were disturbed, as the page states.
        let is_well = matches!(output.status.code(), Some(0 | 3));
        assert!(is_well, "{}: {}", output.status, stderr(&output));
        let text = stdout(&output);
        let printed: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let command = block.arguments.join(" ");
        assert!(is_shown(&block.lines, &printed), "{command}:\n{text}");
        shown.insert(block.arguments[1].clone());
    }
    let kept = fs::read_dir(root.join("docs/findings")).expect("docs/findings");
    let kept: BTreeSet<String> = kept
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| format!("docs/findings/{}", name.to_string_lossy()))
        .collect();
    assert_eq!(shown, kept, "kept summaries, and those that the page shows");
}

#[test]
fn omission_marker_matches_any_lines_and_other_lines_match_exactly() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(is_shown(&lines("a [...] d"), &["a", "b", "c", "d"]));
    assert!(is_shown(&lines("a b"), &["a", "b"]));
    for wrong in ["a", "a c", "a [...] c", "[...] a"] {
        assert!(!is_shown(&lines(wrong), &["a", "b"]), "{wrong}");
    }
}
