//! Tests that everything a load prints is Chinese if that is asked for, and fits the terminal.
//!
//! The samples of the other tests of this folder are printed. Single sentences are tested in `crate::lang`.

use squall_analysis::load::{Generator, IntervalFigures};
use squall_base::record::Phase;
use squall_base::{Duration, Time};

use super::samples::{self, FORMAT, Sample};
use super::*;
use crate::Method;
use crate::columns::width_of;
use crate::lang::Language;

const CHINESE: TextFormat = TextFormat {
    language: Language::Zh,
    ..FORMAT
};

/// Words of the output that are not ours: units, names of protocols, and what peers and the kernel say.
const ALLOWED: [&str; 16] = [
    "ms", "us", "squall", "load", "run", "reset", "by", "peer", "os", "error", "refused", "too",
    "many", "open", "files", "no",
];

/// The English words of a text that are not allowed.
fn english(text: &str) -> Vec<&str> {
    let is_between = |c: char| c.is_whitespace() || !c.is_ascii() || ",;:()<>\"'".contains(c);
    let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase());
    text.split(is_between)
        .filter(is_word)
        .filter(|word| !ALLOWED.contains(word))
        .collect()
}

fn check(text: &str, width: usize) {
    assert_eq!(english(text), Vec::<&str>::new(), "\n{text}");
    for line in text.lines() {
        assert!(width_of(line) <= width, "{width}: {line}");
    }
}

fn all() -> [Sample; 9] {
    [
        samples::empty(),
        samples::one(),
        samples::mixed(),
        samples::failed(),
        samples::grpc(),
        samples::streamed(),
        samples::connections(),
        samples::of_pages(),
        samples::millions(),
    ]
}

#[test]
fn summaries_in_chinese_have_no_english_text_and_fit_the_terminal() {
    for sample in all() {
        for width in [60, 80, 200] {
            let text = summary(&sample.finished(), &TextFormat { width, ..CHINESE });
            check(&text, width);
        }
    }
    let text = summary(&samples::mixed().finished(), &CHINESE);
    for part in [
        "20.0 s 内 2,000 个请求：每秒成功 98.8 个，要求 100 个",
        "  6 个被重置：RST_STREAM: REFUSED_STREAM\n",
        "  均值     28.6 ms   28.6 ms\n",
        "请求     累计\n",
        "  1.60 ms 至 2.50 ms  ",
        "没有空闲的连接或流",
        "完整握手 1 次，恢复 4 次\n",
    ] {
        assert!(text.contains(part), "no {part}\n{text}");
    }
}

#[test]
fn columns_of_a_summary_in_chinese_line_up() {
    let text = summary(&samples::mixed().finished(), &CHINESE);
    let table = text.lines().skip_while(|line| !line.contains("服务时间"));
    let table = table.take_while(|line| line.ends_with("ms") || !line.contains('：'));
    let widths: Vec<usize> = table.take(8).map(width_of).collect();
    assert_eq!(widths.len(), 8, "{text}");
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
}

#[test]
fn comparison_in_chinese_has_no_english_text() {
    let variants = samples::variants();
    for width in [60, 80, 200] {
        check(
            &comparison(&variants, &TextFormat { width, ..CHINESE }),
            width,
        );
    }
    let mut single = samples::variants();
    single.iter_mut().for_each(|of| of.rounds.truncate(1));
    check(&comparison(&single, &CHINESE), 80);
}

#[test]
fn screens_and_lines_in_chinese_have_no_english_text() {
    let (now, thresholds) = (
        samples::second(),
        [CheckedThreshold {
            sentence: "p(99)<50: FAILED, not measured, or too few requests for it".to_owned(),
            holds: false,
        }],
    );
    for sample in [
        samples::empty(),
        samples::mixed(),
        samples::failed(),
        samples::grpc(),
    ] {
        for phase in [Phase::Warmup, Phase::Measure] {
            let live = LiveLoad {
                now: Time::ZERO + Duration::from_secs(12),
                elapsed: Duration::from_secs(12),
                duration: Some(Duration::from_secs(30)),
                requests: None,
                phase,
                started: 12_345,
                ended: 12_335,
                in_flight: 10,
                open_connections: 4,
                interval: &now,
                totals: &sample.totals,
                thresholds: &thresholds,
                generator: Generator {
                    rate_asked_per_s: Some(1_000.0),
                    cpu_percent: Some(43.0),
                    punctuality: None,
                },
            };
            for width in [40, 80, 200] {
                let lines = screen(&live, &TextFormat { width, ..CHINESE }, 20);
                check(&lines.join("\n"), width);
            }
            check(&CHINESE.say(&line(&live)), 200);
            let without = LiveLoad {
                interval: &IntervalFigures::default(),
                ..live
            };
            // `n/a/s` does not count as a word.
            check(&CHINESE.say(&format!("load: {}", line(&without))), 200);
        }
    }
}

#[test]
fn lines_below_a_summary_in_chinese_have_no_english_text() {
    let said = Language::Zh.say_lines(
        "held: the first response took 100.000 ms, the second 90.000 ms: \
         the second request waited for the first\n\
         HTTP/2, round 1: \u{2717} errors:rate<0.01: FAILED, 0.75 % errors\n\
         given up: none of the open requests had ended for 10min (--give-up)\n\
         asked 127.0.0.1:8080\nthreads 1\n",
    );
    assert_eq!(
        said,
        "阻塞测试：第一个应答耗时 100.000 ms，另一个耗时 90.000 ms：它等待了前者\n\
         HTTP/2，第 1 轮：\u{2717} errors:rate<0.01：未满足，错误占 0.75 %\n\
         已放弃：10min 内没有一个未完成的请求结束（--give-up）\n\
         目标地址 127.0.0.1:8080\n线程 1\n"
    );
}

/// The texts of a page that a reader sees or hears, outside of styles.
fn texts(page: &str) -> Vec<&str> {
    let (_, body) = page.split_once("</style>").unwrap();
    // Scripts have no text; their words are tested in `crate::lang`.
    let (body, _) = body.split_once("<script").unwrap();
    let pieces = body.split('<').map(|piece| piece.split_once('>'));
    let (mut texts, mut tags) = (Vec::new(), Vec::new());
    for (tag, text) in pieces.flatten() {
        texts.push(text);
        tags.push(tag);
    }
    for label in ["aria-label=\"", "title=\"", "data-label=\""] {
        let labels = tags.iter().filter_map(|tag| Some(tag.split_once(label)?.1));
        texts.extend(labels.filter_map(|value| value.split('"').next()));
    }
    texts
}

#[test]
fn page_in_chinese_has_no_english_text() {
    let samples = [samples::mixed(), samples::failed()];
    let variants = samples::variants().into_iter().zip(&samples);
    let series = samples.iter().zip(["/a/path", "HTTP/2"]);
    let machine = vec![
        ("processors", "4, kept awake".to_owned()),
        (
            "load averages at the beginning (1, 5, 15 min)",
            "0.1 0.2 0.3".to_owned(),
        ),
    ];
    let command = "squall load -H ... /a/path".to_owned();
    let mut load = LoadPage {
        ended_unix_ns: 1_763_760_301_000_000_000,
        addresses: vec!["127.0.0.1:8080".to_owned()],
        series: series
            .map(|(sample, name)| sample.series(name, 2))
            .collect(),
        urls_together: Some(12),
        method: Method::new(Some(command), None, machine),
        variants: variants
            .map(|(rounds, sample)| LoadPageVariant {
                rounds,
                last: sample.finished(),
                intervals: vec![samples::second(), samples::second()],
            })
            .collect(),
        thresholds: vec![CheckedThreshold {
            sentence: "HTTP/2, round 1: p(99)<1: FAILED, 3.00 ms".to_owned(),
            holds: false,
        }],
    };
    for rounds in [2, 1] {
        for series in &mut load.series {
            series.rounds.truncate(rounds);
        }
        let page = load_page_in(Language::Zh, &load);
        assert!(page.contains("<html lang=\"zh-Hans\">"));
        for text in texts(&page) {
            assert_eq!(english(text), Vec::<&str>::new(), "{text}");
        }
    }
    let page = load_page_in(Language::Zh, &load);
    // The manifest and the words of the scripts are Chinese, too, and the points are the same.
    for part in [
        "\"caption\":\"全部 2,200 个请求\"",
        "\"负载结束时未完成\"",
        "id=\"words\"",
        "squall load -H ... /a/path</pre>",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    // The text of all figures is Chinese, too.
    assert!(
        page.contains("<pre tabindex=\"0\">20.0 s 内 2,000 个请求："),
        "{page}"
    );
    let in_english = load_page_in(Language::En, &load);
    assert_eq!(
        page.matches("<svg").count(),
        in_english.matches("<svg").count()
    );
}
