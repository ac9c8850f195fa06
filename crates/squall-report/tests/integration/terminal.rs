//! The terminal report as a whole: its layout, its width, and what never reaches a terminal.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use squall_analysis::findings::Fix;
use squall_analysis::{Threshold, TrialReadings, TrialSource};
use squall_base::Duration;
use squall_base::plan::{LoadKind, Page, PageNode, PageQuestion, ThinkTime, Urgency, Users};
use squall_base::record::{Outcome, Validity};
use squall_report::{Colour, Detail};
use unicode_width::UnicodeWidthStr;

use crate::causes;
use crate::details::found;
use crate::fixes::add_fixes;
use crate::full::{self, REASON};
use crate::support::english::{changes, findings, fixes, terminal};
use crate::support::overlay::NAMES;
use crate::support::run::{Run, Size, run, spoil};

#[test]
fn run_is_printed_as_an_answer_one_table_and_warnings() {
    let mut run = run(&["h1", "h2c x1", "h2c x8"], Size::SMALL);
    for (record, requests) in run.records.iter_mut().skip(7).step_by(9) {
        spoil(requests, 1000, 12, Outcome::Censored);
        spoil(requests, 1001, 300, Outcome::ConnectionClosed);
        record.health.rate_achieved_per_s *= 0.7;
    }
    run.records[5].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    run.records[6].0.attempt = 2;
    let text = terminal(&run.summary(), 80, Colour::Plain, Detail::Usual);
    assert_eq!(text, include_str!("terminal.txt"), "\n{text}");
    // Only the full report says how the cells compare, below a table for each condition.
    let full = terminal(&run.summary(), 200, Colour::Plain, Detail::Full);
    assert_eq!(full.matches("\n  in ms ").count(), 3, "{full}");
    for said in [
        "h2c x1's p99 was 0.47x h1's (119 ms against 251 ms; 0.41x to 0.54x over 2 pairs; MDE 1.4x)",
        "h2c x1 and h1 cannot be compared by p99: unfinished or failed requests hide which is higher",
    ] {
        assert!(full.contains(said) && !text.contains(said), "{full}");
    }
}

/// Turns the load of a run into pages of a single request each.
fn of_pages(mut run: Run) -> Run {
    let node = PageNode {
        what: 0,
        after: None,
        delay: Duration::ZERO,
        urgency: Urgency::default(),
    };
    for (record, _) in &mut run.records {
        record.trial.load.kind = LoadKind::Pages {
            page: Page::new(vec![node]).unwrap(),
            users: Users {
                count: 1,
                think: ThinkTime::default(),
                starts_over: Duration::ZERO,
            },
            pages: None,
            question: PageQuestion::PageTime,
        };
    }
    run
}

#[test]
fn reason_for_the_answer_is_printed_below_its_certainty() {
    let mut summary = run(&["h1", "h2c x1"], Size::SMALL).summary();
    let without = terminal(&summary, 400, Colour::Plain, Detail::Brief);
    assert!(!without.contains("Why: "), "{without}");
    full::add_reason(&mut summary);
    let how_sure = &summary.answer.as_ref().unwrap().how_sure;
    for detail in [Detail::Brief, Detail::Usual, Detail::Full] {
        let text = terminal(&summary, 400, Colour::Plain, detail);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], how_sure, "{text}");
        assert_eq!(
            lines[2],
            format!("Why: hol leads where they differ. {REASON}"),
            "{text}"
        );
    }
}

#[test]
fn page_times_are_printed_below_the_table_of_a_load_of_pages() {
    let mut run = of_pages(run(&["h1", "h2c x1"], Size::SMALL));
    let (_, requests) = &mut run.records[0];
    spoil(requests, 1000, 1, Outcome::Censored);
    spoil(requests, 1001, 2, Outcome::ConnectionClosed);
    let summary = run.summary();
    let cell = &summary.conditions[0].cells[0];
    let pages = cell.pages.unwrap();
    // A page of one request takes as long as the request.
    assert_eq!(
        (pages.median, pages.p99),
        (
            cell.median.map(without_interval),
            cell.p99.map(without_interval)
        )
    );
    assert_eq!(
        (pages.failed, pages.unfinished),
        (cell.failed, cell.censored)
    );
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let said = format!(
        "; {} pages loaded, ",
        squall_analysis::figure::count(pages.loaded)
    );
    let line = text.lines().find(|line| line.contains(&said)).unwrap();
    assert!(
        line.starts_with("  h1: page time mean ") && line.contains(" ms, p90 "),
        "{line}"
    );
    let failed = format!(
        "{} with a failed request, {} unfinished",
        pages.failed, pages.unfinished
    );
    assert!(line.ends_with(&failed), "{line}");
    let page = squall_report::html(&summary, &[], &[], &[]);
    assert!(page.contains("<caption>Page time in ms"), "{page}");
}

#[test]
fn measures_without_a_column_are_printed_below_the_table() {
    let mut run = run(&["h1", "h2c x1"], Size::SMALL);
    let names = ["response time p99", "transfer time p50", "connections"];
    run.plan.measures = names.iter().map(|name| name.parse().unwrap()).collect();
    let summary = run.summary();
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let said = text.lines().filter(|line| {
        line.contains(": median transfer time ") && line.contains(" ms, number of connections ")
    });
    let cells = summary.conditions.iter().map(|it| it.cells.len());
    assert_eq!(said.count(), cells.sum::<usize>(), "{text}");
    let page = squall_report::html(&summary, &[], &[], &[]);
    assert!(page.contains("<caption>Other measures"), "{page}");
    assert!(page.contains("<th scope=\"col\">median transfer time</th>"));
}

fn without_interval<T>(spread: squall_analysis::Spread<T>) -> squall_analysis::Spread<T> {
    squall_analysis::Spread {
        interval: None,
        ..spread
    }
}

#[test]
fn conditions_without_trials_are_only_named() {
    let mut run = run(&["h1", "h2c x1"], Size::SMALL);
    run.records.truncate(1);
    let text = terminal(&run.summary(), 100, Colour::Plain, Detail::Usual);
    assert_eq!(text.matches("\n  in ms ").count(), 1, "{text}");
    let untried = "No trials yet: delay 25ms, loss 1%; delay 25ms, loss 3%\n\nWarning: 11 of 12 trials have no record.";
    assert!(text.contains(untried), "{text}");
    run.records.clear();
    let text = terminal(&run.summary(), 100, Colour::Plain, Detail::Usual);
    assert!(!text.contains("n/a"), "{text}");
}

/// A run of two measures in which both trials of h2c x1 without loss are invalid.
fn disturbed() -> Run {
    let mut run = run(&["h1", "h2c x1"], Size::SMALL);
    let names = ["response time p99", "transfer time p50"];
    run.plan.measures = names.iter().map(|name| name.parse().unwrap()).collect();
    for place in [1, 7] {
        run.records[place].0.health.validity = Validity::Invalid {
            reasons: vec![format!("the link was up to {place} ms late")],
        };
    }
    run
}

#[test]
fn figures_of_a_cell_without_valid_trials_are_shown_as_doubtful() {
    let summary = disturbed().summary();
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let mut rows = text.lines().filter(|line| line.starts_with("  h2c x1 "));
    let fields: Vec<&str> = rows.next().unwrap().split_whitespace().skip(2).collect();
    assert!(
        fields.contains(&"50.7?") && fields.contains(&"200?"),
        "{text}"
    );
    let is_marked = |field: &&str| *field == "n/a" || field.ends_with('?');
    assert!(fields.iter().all(is_marked), "{text}");
    let below = "  h2c x1: median transfer time ";
    let below = text.lines().find(|line| line.starts_with(below)).unwrap();
    assert!(below.ends_with(" (?)"), "{below}");
    let said = "\n  ?: all trials of the cell are invalid, and no comparison uses them; the first: the link was up to 1 ms late\n";
    assert_eq!(text.matches(said).count(), 1, "{text}");
    assert_eq!(text.matches("?:").count(), 1, "{text}");
    // The valid cells beside it are not doubtful.
    let mut valid = text.lines().filter(|line| line.starts_with("  h1 "));
    assert!(valid.all(|line| !line.contains('?')), "{text}");
    let page = squall_report::html(&summary, &[], &[], &[]);
    let row = "<tr class=\"doubtful\" title=\"All trials are invalid, and no comparison uses them; the first: the link was up to 1 ms late\">";
    // The tables of response times and of other measures.
    assert_eq!(page.matches(row).count(), 2);
    assert!(page.contains("<td data-label=\"trials\">0 of 2</td>"));
}

#[test]
fn figures_of_doubtful_trials_are_shown_greyed_with_their_doubt() {
    let mut run = disturbed();
    for place in [1, 7] {
        run.records[place].0.health.validity = Validity::Doubtful {
            reasons: vec![format!("the link was up to {place} ms late")],
        };
    }
    let summary = run.summary();
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let mut rows = text.lines().filter(|line| line.starts_with("  h2c x1 "));
    let fields: Vec<&str> = rows.next().unwrap().split_whitespace().skip(2).collect();
    assert!(fields.contains(&"50.7?"), "{text}");
    let said = "?: no trial of the cell is valid, and comparisons use doubtful ones only where that cannot change the answer; \
                the first: the link was up to 1 ms late\n";
    assert!(
        text.contains(said) && !text.contains("are invalid"),
        "{text}"
    );
    let full = terminal(&summary, 200, Colour::Plain, Detail::Full);
    let said =
        "squall itself was so late that it may have made the difference; 2 doubtful pairs left out";
    assert!(full.contains(said), "{full}");
    let page = squall_report::html(&summary, &[], &[], &[]);
    let row = "<tr class=\"doubtful\" title=\"No trial is valid, and comparisons use doubtful ones only where that cannot \
               change the answer; the first: the link was up to 1 ms late\">";
    assert!(page.contains(row), "{page}");
}

#[test]
fn figures_of_a_link_that_was_the_bottleneck_are_shown_as_limits() {
    let mut run = disturbed();
    for place in [1, 7] {
        run.records[place].0.health.validity = Validity::Limited {
            reasons: vec!["the emulated path carries 2.00 Gbit/s here: set `rate`".to_owned()],
        };
    }
    let summary = run.summary();
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let mut rows = text.lines().filter(|line| line.starts_with("  h2c x1 "));
    let fields: Vec<&str> = rows.next().unwrap().split_whitespace().skip(2).collect();
    assert!(fields.contains(&"\u{2264}50.7"), "{text}");
    let rate = fields.last().unwrap();
    assert!(rate.starts_with('\u{2265}'), "{text}");
    let said = "limits, because the link itself was the bottleneck of the cell; the first: the emulated path carries 2.00 Gbit/s";
    assert!(
        text.contains(said) && !text.contains("are invalid"),
        "{text}"
    );
    let page = squall_report::html(&summary, &[], &[], &[]);
    assert!(page.contains("<tr class=\"doubtful\" title=\"Limits, because"));
}

#[test]
fn comparison_without_a_pair_is_named_once_for_all_measures() {
    let summary = disturbed().summary();
    let text = terminal(&summary, 200, Colour::Plain, Detail::Usual);
    let said = "No pair of valid trials yet: h2c x1 and h1";
    assert_eq!(text.matches(said).count(), 1, "{text}");
    assert!(!text.contains("there is no pair"), "{text}");
    let page = squall_report::html(&summary, &[], &[], &[]);
    // The sentence is only in the condition's section.
    assert_eq!(page.matches(said).count(), 1);
    assert!(!page.contains("there is no pair"));
}

#[test]
fn rates_above_a_thousand_keep_their_columns() {
    let size = Size {
        rate_per_s: 12_000,
        warmup_s: 0,
        duration_s: 1,
        repetitions: 1,
    };
    let text = terminal(
        &run(&["h1", "h2c x1"], size).summary(),
        100,
        Colour::Plain,
        Detail::Usual,
    );
    let mut lines = text.lines().skip_while(|line| !line.contains("rate/s"));
    let titles = lines.next().unwrap();
    // The name of the first condition stands between them.
    let row = lines.nth(1).unwrap();
    assert!(row.ends_with("  12,000"), "{row}");
    assert_eq!(row.chars().count(), titles.chars().count());
}

#[test]
fn whether_the_run_can_be_trusted_is_a_line_of_the_full_report() {
    let size = Size {
        repetitions: 8,
        ..Size::SMALL
    };
    let mut run = run(&NAMES, size);
    let full = |run: &Run| terminal(&run.summary(), 80, Colour::Plain, Detail::Full);
    let text = full(&run);
    let mut lines = text.lines();
    assert!(
        lines.any(|line| line == "sound: 72 of 72 trials valid"),
        "{text}"
    );
    run.records[5].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    let text = full(&run);
    let mut lines = text.lines();
    assert!(
        lines.any(|line| line.starts_with("doubtful: 71 of 72 trials valid; ")),
        "{text}"
    );
}

#[test]
fn sentences_wrap_at_the_width() {
    let run = run(&["h1", "h2c x1"], Size::SMALL);
    for width in [60, 80, 120] {
        let text = terminal(&run.summary(), width, Colour::Plain, Detail::Full);
        let sentences = text.lines().filter(|line| line.contains("p99 was"));
        assert!(sentences.clone().count() > 0);
        assert!(
            sentences.clone().all(|line| line.chars().count() <= width),
            "{text}"
        );
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_columns_without_figures_are_left_out() {
    let run = run(&["h1", "a variant with a name of many words"], Size::SMALL);
    for width in [40, 60, 80, 200] {
        for detail in [Detail::Usual, Detail::Full] {
            let text = terminal(&run.summary(), width, Colour::Plain, detail);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}:\n{text}");
            for word in ["p99", "variant", "words"] {
                assert!(text.contains(word), "{width}: {word}:\n{text}");
            }
            // With two trials, there is no interval.
            assert!(
                !text.contains("95 % of p99") && !text.contains('…'),
                "{text}"
            );
        }
    }
}

#[test]
fn chinese_question_of_an_english_report_fits_the_terminal() {
    let mut summary = run(&["h1", "h2c x1"], Size::SMALL).summary();
    summary.question = "丢包对 HTTP/2 的影响，与 HTTP/1.1 相比有多大？".repeat(3);
    for width in [60, 80, 200] {
        let text = terminal(&summary, width, Colour::Plain, Detail::Usual);
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(width), "{width}:\n{text}");
        assert!(text.contains("\nThe question: 丢包对 HTTP/2"), "{text}");
    }
}

/// The run's report, findings and tried fixes, as a run prints them.
fn everything(width: usize, detail: Detail) -> String {
    let run = run(&NAMES, Size::SMALL);
    let mut summary = causes::summary(&run, &NAMES);
    full::add_reason(&mut summary);
    add_fixes(&mut summary, NAMES[1]);
    let mut cells = [found(&run, vec![7])];
    let finding = &mut cells[0].findings[0].finding;
    finding.fixes.push(Fix {
        station: "server".to_owned(),
        setting: "a sender that sends again without waiting for a timeout".to_owned(),
        changes: Vec::new(),
    });
    let colour = Colour::Plain;
    terminal(&summary, width, colour, detail)
        + &findings(&cells, width, colour, detail)
        + &fixes(&summary, width, colour, detail)
}

#[test]
fn causes_findings_and_tried_fixes_fit_the_terminal_and_no_word_is_cut() {
    for detail in [Detail::Usual, Detail::Full] {
        let wide = everything(10_000, detail);
        let whole: BTreeSet<&str> = wide.split_whitespace().collect();
        for part in [
            "where the time went",
            "Why: ",
            "What is wrong",
            "Tried fixes",
            "Not tried for h1",
        ] {
            assert!(wide.contains(part), "no {part}:\n{wide}");
        }
        for width in [60, 80, 200] {
            let text = everything(width, detail);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}:\n{text}");
            assert!(!text.contains('…'), "{width}:\n{text}");
            let cut = text.split_whitespace().find(|word| !whole.contains(word));
            assert_eq!(cut, None, "{width}:\n{text}");
            // No word of the sentences is lost.
            let joined = text.split_whitespace().collect::<Vec<&str>>().join(" ");
            for sentence in [
                REASON,
                "http2.connection_window = 1MiB on client: p99 412 ms",
            ] {
                assert!(joined.contains(sentence), "{width}:\n{text}");
            }
        }
    }
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let run = run(&["h1", "evil\u{1b}[2J\u{7}\nname"], Size::SMALL);
    let text = terminal(&run.summary(), 100, Colour::Plain, Detail::Usual);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    assert!(text.contains("evil\u{fffd}[2J"), "{text}");
}

#[test]
fn colours_are_printed_only_if_asked_for_and_do_not_change_the_text() {
    let run = run(&["h1", "h2c x1"], Size::SMALL);
    let plain = terminal(&run.summary(), 100, Colour::Plain, Detail::Usual);
    let coloured = terminal(&run.summary(), 100, Colour::Ansi, Detail::Usual);
    let mut stripped = coloured.clone();
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m"] {
        stripped = stripped.replace(code, "");
    }
    assert_ne!(coloured, plain);
    assert_eq!(stripped, plain);
}

#[test]
fn run_with_six_trials_has_intervals_and_an_answer() {
    let size = Size {
        repetitions: 6,
        ..Size::SMALL
    };
    let run = run(&["h1", "h2c x1"], size);
    let mut summary = run.summary();
    let threshold: Threshold = "p(99)<100".parse().unwrap();
    let readings: Vec<TrialReadings> = run
        .records
        .iter()
        .map(|(record, requests)| TrialReadings {
            folder: record.trial.folder(),
            readings: vec![threshold.measure.read(&TrialSource::of(record, requests))],
        })
        .collect();
    summary.check_thresholds(&[threshold], &readings);
    let text = terminal(&summary, 140, Colour::Plain, Detail::Usual);
    let answer = summary.answer.as_ref().unwrap();
    let first = text.replace("\n  ", " ");
    assert!(first.starts_with(&answer.sentence), "{text}");
    let brief = terminal(&summary, 140, Colour::Plain, Detail::Brief);
    let unbroken = brief.replace("\n  ", " ");
    assert!(unbroken.contains(&answer.how_sure), "{brief}");
    assert!(
        text.starts_with(&brief) && brief.lines().count() < 7,
        "{brief}"
    );
    let full = terminal(&summary, 140, Colour::Plain, Detail::Full);
    let also = &answer.also[0];
    assert!(full.contains(also) && !text.contains(also), "{full}");
    let p99 = summary.conditions[2].cells[0].p99.unwrap();
    let interval = p99.interval.unwrap();
    let words = [interval.low, interval.high].map(squall_analysis::figure::quantile);
    assert!(text.contains(&words.join("–")), "{text}");
    assert!(
        text.contains("h1 at delay 25ms, loss 0%: p(99)<100: holds, 50.7 ms\n"),
        "{text}"
    );
    assert!(
        text.contains("h1 at delay 25ms, loss 3%: p(99)<100: FAILED, "),
        "{text}"
    );
    assert_eq!(summary.thresholds.len(), 6);
    // Narrow tables leave out columns, the least important first, and never the p99.
    let narrow = terminal(&summary, 80, Colour::Plain, Detail::Usual);
    let titles = narrow.lines().find(|line| line.contains("rate/s")).unwrap();
    assert!(
        titles.contains("p99") && !titles.contains("IQR"),
        "{titles}"
    );
    assert!(titles.chars().count() <= 80, "{titles}");
}

#[test]
fn two_runs_are_printed_as_tables_of_changes() {
    let before = run(&["h1", "evil\u{1b}[2J"], Size::SMALL).summary();
    let after = run(&["h1", "h3"], Size::SMALL).summary();
    let found = squall_analysis::change::changes(&before, &after);
    let text = changes(&found, 100);
    assert!(text.contains("\nh1, delay 25ms, loss 3%\n"), "{text}");
    assert!(text.contains("2 pairs of the same seeds"), "{text}");
    assert!(text.contains("within our own error"), "{text}");
    assert!(
        text.contains("\nNot compared:\n  h3 at delay 25ms, loss 0%, only after\n"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
    // With two pairs, there is no interval, so its column is left out.
    assert!(!text.contains("95 %") && text.contains(" ratio "), "{text}");
    for width in [60, 80, 200] {
        let text = changes(&found, width);
        let mut rows = text.lines().filter(|line| line.starts_with("  "));
        assert!(rows.all(|line| line.chars().count() <= width), "{text}");
    }
}
