//! Tests of the tables, and of how texts of a report are translated.
//!
//! Whole reports are tested in `tests/integration/chinese.rs`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use squall_analysis::findings::RunFindings;

use super::*;

const LOSSY: &str = "delay 25ms, loss 3%";

fn translator() -> Translator {
    let names = ["h1", "h2c x1", "large, slow", LOSSY].map(str::to_owned);
    Translator::of(Language::Zh, names.into_iter().collect())
}

fn check(pairs: &[(&str, &str)]) {
    for (english, chinese) in pairs {
        assert_eq!(translator().say(english), *chinese, "{english}");
        assert_eq!(Translator::english().say(english), *english);
    }
}

/// The names in braces of a text.
fn slots(text: &str) -> BTreeSet<&str> {
    let parts = text.split('{').skip(1);
    let names = parts.map(|part| part.split_once('}').unwrap().0);
    names
        .map(|name| name.trim_start_matches(['@', '=', '~', '*', '#', '!']))
        .collect()
}

/// Whether two or more words of English follow each other in a text.
fn has_english(text: &str) -> bool {
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<&str> = text.split(' ').collect();
    words.windows(2).any(|two| two.iter().all(is_word))
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn both_texts_of_a_phrase_have_the_same_parts_in_braces() {
    let mut seen = BTreeSet::new();
    for phrase in phrases() {
        assert_eq!(slots(phrase.en), slots(phrase.zh), "{phrase:?}");
        assert!(seen.insert(phrase.en), "twice: {phrase:?}");
        assert!(!phrase.en.contains("}{"), "{phrase:?}");
    }
}

#[test]
fn answer_and_its_certainty_are_translated() {
    check(&[
        (
            "h2c x1 wins: its median response time is 0.20x that of h1, at delay 25ms, loss 3%",
            "h2c x1 胜出：其响应时间中位数是 h1 的 0.20x，条件为 delay 25ms, loss 3%",
        ),
        (
            "No winner: h1 and h2c x1 differ by at most 1.04x in mean response time, at delay 25ms, loss 3%",
            "没有胜者：h1 与 h2c x1 的平均响应时间至多相差 1.04x，条件为 delay 25ms, loss 3%",
        ),
        (
            "Likely, but not proven: 2 pairs of trials all say so, and it takes 8.",
            "很可能，但未证实：2 个试验对都如此显示，而证实需要 8 个。",
        ),
        (
            "h2c x1 is slower than h1: p99 200 ms against 100 ms over 7 pairs of which 1 is doubtful, 2.0x.",
            "h2c x1 比 h1 慢：p99 200 ms，对比 100 ms（7 对，其中 1 对存疑），2.0x。",
        ),
        (
            "h2c x1 and h1 cannot be compared by p99: squall itself was so late that it may have made the difference; 1 \
             doubtful pair left out",
            "h2c x1 与 h1 无法按 p99 比较：squall 自身过于滞后，差异可能由此造成；略去 1 个存疑的对",
        ),
        (
            "No trial is valid, and comparisons use doubtful ones only where that cannot change the answer; the first: the \
             link was up to 3 ms late",
            "没有有效的试验，存疑的试验仅在不会改变答案时用于比较；首例：链路最多晚了 3 ms",
        ),
        (
            "2 doubtful pairs counted without squall's own part",
            "2 个存疑的对已扣除 squall 自身的部分后计入",
        ),
        (
            "Trial 0005-h1 is doubtful: the link was up to 3 ms late. It is compared only where that cannot change the \
             answer. Repeat it with `squall run --resume RUN`.",
            "试验 0005-h1 存疑：链路最多晚了 3 ms。仅在不会改变答案时用于比较。请用 `squall run --resume RUN` 重做。",
        ),
        (
            "In 3 trials other programs used up to 0.8 of 2 processors: real programs may have waited for a processor. \
             Leave the machine idle while squall runs.",
            "3 次试验中，其他程序最多占用了 2 个处理器中的 0.8 个：真实程序可能等待过处理器。请在 squall 运行时让机器保持空闲。",
        ),
        (
            "Not shown: 6 pairs of trials. Add repetitions with `squall run --resume RUN --repetitions 12`.",
            "未证明：6 个试验对。请用 `squall run --resume RUN --repetitions 12` 增加重复次数。",
        ),
        (
            "Proven by 8 pairs of trials: chance alone does as much in 0.78 % of runs; the ratio is 0.19x to 0.21x with 95 % confidence.",
            "已由 8 个试验对证实：仅凭偶然，0.78 % 的运行也会出现这样的差异；比值在 95 % 置信度下为 0.19x 至 0.21x。",
        ),
        (
            "Why: 84 % of what h1 takes longer than h2c x1 at the p99 is head-of-line blocking.",
            "原因：在 p99 处，h1 比 h2c x1 多花的时间中有 84 % 是队头阻塞。",
        ),
    ]);
}

#[test]
fn verdicts_are_translated_with_all_of_their_numbers() {
    check(&[
        (
            "h2c x1's p99 is 0.47x h1's (119 ms against 251 ms; 95 % 0.41x to 0.54x, 10 pairs; p 0.0020 (0.018 among 9), MDE 1.4x)",
            "h2c x1 的 p99 是 h1 的 0.47x（119 ms，对比 251 ms；95 % 区间 0.41x 至 0.54x，10 对；p 0.0020（9 个比较中为 0.018），MDE 1.4x）",
        ),
        (
            "h2c x1 cannot carry the load here: 140 of 200 requests/s",
            "h2c x1 在此无法承受负载：140 / 200 请求/s",
        ),
    ]);
}

#[test]
fn names_are_kept_even_if_they_have_punctuation_or_are_report_words() {
    check(&[
        (
            "large, slow is slower than h1: p99 2100 ms against 66 ms, 32x.",
            "large, slow 比 h1 慢：p99 2100 ms，对比 66 ms，32x。",
        ),
        (
            "large, slow, delay 25ms, loss 3%",
            "large, slow，delay 25ms, loss 3%",
        ),
    ]);
    let names = BTreeSet::from(["mean".to_owned()]);
    assert_eq!(Translator::of(Language::Zh, names).say("mean"), "mean");
}

#[test]
fn unknown_text_is_kept_while_known_text_beside_it_is_translated() {
    check(&[
        ("an utterly new sentence", "an utterly new sentence"),
        (
            "Trial 0005-h1 is invalid and left out: a cat sat there. Repeat it with `squall run --resume RUN`.",
            "试验 0005-h1 无效，已略去：a cat sat there。请用 `squall run --resume RUN` 重做。",
        ),
    ]);
}

#[test]
fn columns_of_an_explanation_stay_where_they_are() {
    for (english, chinese) in [
        (
            "  window_connection   35,150,000 ns   28.0 %  ██",
            "  连接窗口            35,150,000 ns   28.0 %  ██",
        ),
        (
            "    25.000    . its connection's window was used up 2 times, until 60.200 ms",
            "    25.000    . 其连接的窗口耗尽 2 次，直到 60.200 ms",
        ),
        ("", ""),
    ] {
        assert_eq!(translator().line(english), chinese);
    }
}

/// Findings of real runs.
#[test]
fn titles_explanations_and_fixes_of_findings_are_translated() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder("../../docs/findings")).unwrap() {
        let file = entry.unwrap().path().join("findings.json");
        let read: RunFindings = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let of_cells = read.cells.iter().flat_map(|cell| &cell.findings);
        for finding in of_cells.map(|found| &found.finding) {
            let numbers = finding.evidence.numbers.iter();
            let fixes = finding.fixes.iter();
            let texts = [finding.title.clone(), finding.explanation.clone()]
                .into_iter()
                .chain(numbers.map(|it| {
                    format!("{} 1.50 {}", it.what, it.unit)
                        .trim_end()
                        .to_owned()
                }))
                .chain(fixes.map(|it| format!("Fix: nginx: {}", it.setting)));
            for text in texts {
                let said = Language::Zh.say(&text);
                assert!(!has_english(&said), "{}: {said}", file.display());
                count += 1;
            }
        }
    }
    assert!(count > 100, "only {count} texts");
}

#[test]
fn every_setting_that_a_fix_can_name_is_translated() {
    let settings = folder("../squall-analysis/src/findings/golden/settings.txt");
    for line in std::fs::read_to_string(settings).unwrap().lines() {
        let (_, setting) = line.split_once(": ").unwrap();
        let said = Language::Zh.say(&format!("Fix: nginx: {setting}"));
        assert!(said.starts_with("修复：nginx："), "{said}");
        assert!(!has_english(&said), "{said}");
    }
}

#[test]
fn scripts_show_exactly_the_texts_of_their_table() {
    let mut scripts = String::new();
    for entry in std::fs::read_dir(folder("assets")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "js") {
            scripts += &std::fs::read_to_string(path).unwrap();
        }
    }
    for phrase in script::PHRASES {
        assert!(scripts.contains(phrase.en), "no script says {phrase:?}");
    }
    let known: BTreeSet<&str> = script::PHRASES.iter().map(|phrase| phrase.en).collect();
    for said in scripts.split("say(\"").skip(1) {
        let said = said.split('"').next().unwrap();
        assert!(known.contains(said), "not in the table: {said}");
    }
}

#[test]
fn term_within_a_sentence_stays_a_button() {
    let english = "<html lang=\"en\"><p>h1 and h2c x1: no difference of p99 beyond <button type=\"button\" class=\"term\" \
                   popovertarget=\"term-own-error\">our own error</button> of 2.00 ms</p><script id=\"x\">a < b</script>";
    let page = markup::page(&translator(), english);
    let expected = "<html lang=\"zh-Hans\"><p>h1 与 h2c x1：p99 的差异未超出 2.00 ms 的<button type=\"button\" class=\"term\" \
                    popovertarget=\"term-own-error\">自身误差</button></p><script type=\"application/json\" id=\"words\">";
    assert!(page.starts_with(expected), "{page}");
    assert!(page.ends_with("<script id=\"x\">a < b</script>"), "{page}");
}

#[test]
fn labels_are_translated_and_foreign_text_stays_escaped() {
    let english = "<td data-label=\"valid trials\" title=\"&lt;b&gt;\">&lt;i&gt; &amp;</td><pre>the server</pre>";
    assert_eq!(
        markup::page(&translator(), english),
        "<td data-label=\"有效试验\" title=\"&lt;b&gt;\">&lt;i&gt; &amp;</td><pre>the server</pre>"
    );
}
