//! The results of `squall compare`, `squall probe` and the list of runs in Chinese: they have no English text.
//!
//! Sentences about faults that none of the results made here has are tested in the crate (`lang/tests_sources.rs`), and those
//! of a load beside it (`load/chinese.rs`).

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::change::{Changes, changes};
use squall_base::Duration;
use squall_report::export::{Check, markdown_of_changes};
use squall_report::probe::{
    ProbePage, SweepPage, markdown_in, probe_page_in, sweep_markdown_in, sweep_page_in,
    sweep_text_in, text_in,
};
use squall_report::{Colour, Language, ListedRun, change_sentence_in, changes_in, runs_page_in};
use unicode_width::UnicodeWidthStr;

use crate::chinese::{texts, troubled};
use crate::probe_page::{endpoint, swept};
use crate::support::overlay::NAMES;
use crate::support::run::{Size, run};

/// What stays in Latin letters: units, commands, settings of links, and names.
const ALLOWED: [&str; 9] = [
    "ms", "us", "squall", "probe", "compare", "view", "runs", "delay", "loss",
];

/// The English words of a text, apart from those that stay and from names of the results.
fn english(text: &str, names: &[&str]) -> Vec<String> {
    let mut text = text.to_owned();
    for name in names {
        text = text.replace(name, " ");
    }
    let is_between = |c: char| c.is_whitespace() || !c.is_ascii() || ",;:()|*[]<>\"'".contains(c);
    let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase());
    text.split(is_between)
        .filter(is_word)
        .filter(|word| !ALLOWED.contains(word))
        .map(str::to_owned)
        .collect()
}

fn check(text: &str, names: &[&str]) {
    assert_eq!(english(text, names), Vec::<String>::new(), "\n{text}");
}

fn check_page(page: &str, names: &[&str]) {
    assert!(page.contains("<html lang=\"zh-Hans\">"));
    for text in texts(page) {
        check(&text, names);
    }
}

/// Changes between two runs, with a cell that only one of them has.
fn changed() -> Changes {
    let before = run(&NAMES[..2], Size::SMALL).summary();
    changes(&before, &troubled().summary())
}

#[test]
fn comparison_of_runs_in_chinese_has_no_english_text_and_fits_the_terminal() {
    let found = changed();
    assert!(!found.cells.is_empty() && !found.unmatched.is_empty());
    for width in [60, 80, 200] {
        let text = changes_in(Language::Zh, &found, width);
        check(&text, &[]);
        let rows = text.lines().filter(|line| line.starts_with("  p99"));
        assert!(rows.clone().count() >= 2, "{text}");
        for row in rows {
            assert!(row.width() <= width, "{width}: {row}");
        }
    }
    let text = changes_in(Language::Zh, &found, 100);
    assert!(text.contains("\n未比较：\n  h2c x8，条件为 "), "{text}");
    assert!(text.contains("，仅在之后\n"), "{text}");
}

#[test]
fn markdown_of_a_comparison_in_chinese_has_no_english_text() {
    let found = changed();
    let checks = [Check {
        of: "comparison".to_owned(),
        name: "a verdict on each p99".to_owned(),
        found: "these comparisons have no verdict: h2c x1 at loss 3%: too few trials".to_owned(),
        holds: false,
    }];
    let notes = [
        "the recipes are one-a and one-b".to_owned(),
        "another load than before, so the results are not comparable: open.rate (100.0, now 200.0)"
            .to_owned(),
    ];
    let text = markdown_of_changes(Language::Zh, &found, &checks, &notes);
    check(&text, &["details", "summary", "h2c x1 at loss 3%"]);
    assert!(text.contains("|  | 对象 | 检查项 | 结果 |\n"), "{text}");
    assert!(text.contains("- 配方分别为 one-a 与 one-b\n"), "{text}");
    let limit = change_sentence_in(
        Language::Zh,
        &found,
        &format!(
            "p(99)<=1.1x for h1 at {}: FAILED, too few trials",
            found.cells[0].condition
        ),
    );
    assert!(limit.ends_with("：未满足，试验太少"), "{limit}");
}

#[test]
fn list_of_runs_in_chinese_has_no_english_text() {
    let summary = troubled().summary();
    let runs = [("yesterday", 1), ("today", 2)].map(|(name, number)| ListedRun {
        name,
        number,
        summary: &summary,
    });
    let page = runs_page_in(Language::Zh, &runs);
    let own = [&summary.question, &summary.recipe, &summary.profile];
    let own = own.map(String::as_str);
    check_page(&page, &[&own[..], &["yesterday", "today"]].concat());
    assert!(page.contains(">与上一次运行比较</a>"), "{page}");
}

#[test]
fn probe_in_chinese_has_no_english_text() {
    let one = endpoint();
    let both = [one.diagnosis.clone(), one.diagnosis.clone()];
    let url = one.diagnosis.endpoint.url.clone();
    for of in [&both[..1], &both[..]] {
        let text = text_in(Language::Zh, of, 80, Colour::Plain);
        // A URL that is longer than its line is broken.
        check(&text.replace("\n  ", ""), &[&url]);
        check(&markdown_in(Language::Zh, of), &[&url]);
    }
    let text = text_in(Language::Zh, &both[..1], 80, Colour::Plain);
    assert!(text.starts_with("没有应答\n修复：请检查地址"), "{text}");
    for endpoints in [vec![endpoint()], vec![endpoint(), endpoint()]] {
        let page = probe_page_in(
            Language::Zh,
            &ProbePage {
                command: "squall probe https://server/".to_owned(),
                started_unix_ns: 1_763_760_301_000_000_000,
                link: Some("delay 15ms, loss 1%".to_owned()),
                endpoints,
            },
        );
        check_page(&page, &[&url]);
        assert!(page.contains("<dd>delay 15ms, loss 1%</dd>"), "{page}");
        assert!(page.contains("<h2>传输随时间的变化</h2>"), "{page}");
    }
}

#[test]
fn sweep_in_chinese_has_no_english_text() {
    let sweep = swept();
    let url = [sweep.url.as_str()];
    check(
        &sweep_text_in(Language::Zh, &sweep, 80, Colour::Plain),
        &url,
    );
    let markdown = sweep_markdown_in(Language::Zh, &sweep);
    check(&markdown, &url);
    assert!(
        markdown.contains("- delay 10ms, loss 1%：流窗口对上传而言过小：每次上传损失 2.38 s\n"),
        "{markdown}"
    );
    let page = sweep_page_in(
        Language::Zh,
        &SweepPage {
            command: "squall probe --behind 'delay 10..200ms' https://localhost:8443/".to_owned(),
            started_unix_ns: 1_763_760_301_000_000_000,
            took: Duration::from_secs(90),
            sweep: &sweep,
        },
    );
    check_page(&page, &url);
}
