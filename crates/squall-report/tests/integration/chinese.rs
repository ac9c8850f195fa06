//! The report in Chinese: it has no English text, and it fits a terminal.
//!
//! The translations of single texts are tested in the crate (`lang/tests.rs`).

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::RunSummary;
use squall_analysis::causes::{RunBandTimes, TrialBandTimes};
use squall_base::record::{Cause, CauseSpans, Outcome, Validity};
use squall_report::{Colour, Detail, Language, Method, findings_in, html_with_method, terminal_in};
use unicode_width::UnicodeWidthStr;

use crate::details::{REQUEST, detailed, found};
use crate::support::chromium;
use crate::support::overlay::NAMES;
use crate::support::run::{Run, Size, run, spoil};

/// A run with everything that a report can say: failures, overload, an invalid trial and a repeated one.
pub(crate) fn troubled() -> Run {
    let mut run = run(&NAMES, Size::SMALL);
    for (record, requests) in run.records.iter_mut().skip(7).step_by(9) {
        spoil(requests, 1000, 12, Outcome::Censored);
        spoil(requests, 1001, 300, Outcome::ConnectionClosed);
        record.health.rate_achieved_per_s *= 0.7;
    }
    run.records[5].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    run.records[6].0.attempt = 2;
    run
}

/// The run's summary with causes: all time is loss.
fn summary(run: &Run) -> RunSummary {
    let trials = run.records.iter().map(|(record, requests)| {
        let rows = requests.iter().map(|request| {
            let mut spans = CauseSpans::default();
            spans[Cause::Loss] = request.response_time();
            squall_made::causes(request.request, spans)
        });
        TrialBandTimes::of(record, requests, &rows.collect::<Vec<_>>())
    });
    let mut summary = run.summary();
    summary.causes = RunBandTimes::of(&run.plan, &trials.collect::<Vec<_>>());
    summary
}

/// The page in English, with requests in full, a finding and the method.
fn english(run: &Run) -> String {
    let mut method = Method::new(None, None, vec![("processor", "A Chip".to_owned())]);
    for (record, _) in &run.records {
        method.add_trial(record);
    }
    let mut cells = [found(run, vec![REQUEST])];
    let finding = &mut cells[0].findings[0].finding;
    finding.explanation = "Bytes of these requests had arrived, but TCP held them back because bytes of other \
                           requests before them were missing. So one lost packet delays every request that shares its \
                           connection."
        .to_owned();
    let plots = detailed(run, |detail| {
        detail.requests[0].reasons = vec!["the slowest of its variant and condition".to_owned()];
    });
    html_with_method(&summary(run), &plots, &cells, &[], &method)
}

fn chinese(run: &Run) -> String {
    Language::Zh.page(english(run), &summary(run))
}

/// The texts of a page that a reader sees or hears, outside of scripts and styles.
pub(crate) fn texts(page: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = page;
    while let Some((text, behind)) = rest.split_once('<') {
        texts.push(text.to_owned());
        let (tag, behind) = behind.split_once('>').unwrap();
        for attribute in ["aria-label", "title", "data-label"] {
            if let Some((_, value)) = tag.split_once(&format!(" {attribute}=\"")) {
                texts.push(value.split('"').next().unwrap().to_owned());
            }
        }
        let name = tag.split(' ').next().unwrap();
        rest = match name {
            "script" | "style" | "pre" => behind.split_once(&format!("</{name}>")).unwrap().1,
            _ => behind,
        };
    }
    texts
}

/// Two consecutive English words in a text, leaving out the names of the run.
fn english_words(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for name in [
        "What does packet loss do to HTTP/2, compared with HTTP/1.1?",
        "squall explain",
        "squall run",
    ] {
        text = text.replace(name, "");
    }
    let words: Vec<&str> = text.split([' ', '\n', ':', ',', '.', '(', ')']).collect();
    let is_word = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    let two = words
        .windows(2)
        .find(|two| is_word(two[0]) && is_word(two[1]))?;
    Some(two.join(" "))
}

#[test]
fn page_in_chinese_has_no_english_text() {
    let run = troubled();
    let page = chinese(&run);
    assert!(page.contains("<html lang=\"zh-Hans\">"));
    let left: Vec<(String, String)> = texts(&page)
        .into_iter()
        .filter_map(|text| Some((english_words(&text)?, text)))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
    for heading in ["比较", "问题所在", "请求详情", "方法与环境", "谁在何处胜出"]
    {
        assert!(page.contains(&format!(">{heading}</h")), "{heading}");
    }
    // The same test finds the English of the page that it was made from.
    assert!(
        texts(&english(&run))
            .iter()
            .any(|text| english_words(text).is_some())
    );
}

#[test]
fn page_in_chinese_keeps_its_numbers_links_and_data() {
    let run = troubled();
    let (english, chinese) = (english(&run), chinese(&run));
    for mark in [
        "<svg",
        "<path",
        "<td",
        "<th",
        "<button",
        "href=\"#",
        "popovertarget=",
        "id=\"detail-",
        "<details",
    ] {
        assert_eq!(
            chinese.matches(mark).count(),
            english.matches(mark).count(),
            "{mark}"
        );
    }
    assert_eq!(Language::En.page(english.clone(), &summary(&run)), english);
}

#[test]
fn terminal_report_in_chinese_has_no_english_text_and_fits_the_terminal() {
    let mut summary = summary(&troubled());
    // The recipe's own words stay, and are broken into lines.
    summary.question = "HTTP/2?".to_owned();
    for width in [60, 80, 200] {
        for detail in [Detail::Brief, Detail::Usual, Detail::Full] {
            let text = terminal_in(Language::Zh, &summary, width, Colour::Plain, detail);
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
                assert_eq!(english_words(line), None, "{line}");
            }
        }
    }
}

#[test]
fn columns_of_a_table_in_chinese_line_up() {
    let summary = summary(&troubled());
    for width in [60, 80, 200] {
        let text = terminal_in(Language::Zh, &summary, width, Colour::Plain, Detail::Usual);
        let titles = text
            .lines()
            .find(|line| line.starts_with("  单位 ms"))
            .unwrap();
        assert!(titles.contains("中位数"), "{titles}");
        let rows = text.lines().filter(|line| {
            let is_row = NAMES
                .iter()
                .any(|name| line.starts_with(&format!("  {name} ")));
            is_row && line.ends_with(|c: char| c.is_ascii_digit()) && !line.contains('：')
        });
        let widths: Vec<usize> = rows.map(UnicodeWidthStr::width).collect();
        assert_eq!(widths.len(), 9, "{text}");
        assert!(widths.iter().all(|row| *row == titles.width()), "{text}");
    }
}

#[test]
fn findings_in_chinese_keep_the_names_of_settings() {
    let run = troubled();
    let cells = [found(&run, vec![REQUEST])];
    let text = findings_in(Language::Zh, &cells, 80, Colour::Plain, Detail::Usual);
    assert!(
        text.starts_with("\n问题所在\n  TCP 队头阻塞：严重，占响应时间的 50 %"),
        "{text}"
    );
    assert!(
        text.contains("    修复：client：connections = 8\n"),
        "{text}"
    );
}

#[test]
fn controls_of_the_page_are_chinese_too() {
    let markup = chinese(&run(&NAMES, Size::SMALL));
    let Some(mut page) = chromium::open_markup("chinese", &markup, 1_280, 800) else {
        return;
    };
    page.middle_of(".plots");
    page.wait_for("document.querySelector('.plots .reset') !== null");
    assert_eq!(
        page.text("document.querySelector('.plots .reset').innerText"),
        "重置缩放"
    );
    assert_eq!(
        page.text("document.querySelector('.print').innerText"),
        "打印"
    );
    let chosen = "document.querySelector('.bars select')";
    assert_eq!(page.text(&format!("{chosen}.value")), "p99");
    assert_eq!(page.text(&format!("{chosen}.options[0].text")), "均值");
    page.eval("location.hash = document.querySelector('#details tbody tr').id; 0");
    page.wait_for("document.getElementById('detail').open");
    let summary = page.text("document.querySelector('#detail summary').innerText");
    assert!(!summary.is_ascii(), "{summary}");
}
