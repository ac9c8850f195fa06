//! The progress of a run in words: its size, the line of a trial that runs or has ended, and why one is repeated.
//!
//! It measures no time and moves no cursor, which the binary does (`run/progress.rs`). `load::live` has the screen of a load.

use std::time::Duration;

use crate::columns::{is_wide, width_of};
use crate::lang::{Language, Translator};
use crate::text::clock;

/// How lines about the progress of a run are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressLines {
    /// The language of the lines.
    pub language: Language,
    /// The columns of the terminal on which the line of a trial is redrawn; `None` for lines of any length.
    pub columns: Option<usize>,
}

impl ProgressLines {
    /// Lines of any length in this language.
    pub fn of(language: Language) -> ProgressLines {
        ProgressLines {
            language,
            columns: None,
        }
    }

    /// The number of trials and how long they take: `12 trials, about 1:05 at most`.
    pub fn size(self, trials: usize, at_most: Duration) -> String {
        let noun = if trials == 1 { "trial" } else { "trials" };
        let at_most = clock(at_most.as_secs());
        self.say(&format!("{trials} {noun}, about {at_most} at most"))
    }

    /// The recipe of a run and its profile, with the run's size.
    pub fn plan(self, recipe: &str, profile: &str, size: &str) -> String {
        let names = vec![recipe.to_owned(), profile.to_owned()];
        let said =
            Translator::of_names(self.language, names).say(&format!("{recipe}, profile {profile}"));
        self.labelled(&said, size)
    }

    /// `name: text`, both of which are in the language already.
    pub fn labelled(self, name: &str, text: &str) -> String {
        let Marks { colon, .. } = self.marks();
        format!("{name}{colon}{text}")
    }

    /// An English text of a run's progress in the language.
    pub fn say(self, text: &str) -> String {
        self.language.say(text)
    }

    /// The line of a trial that runs: `TITLE ... 1:05 left`.
    pub fn running(self, title: &str, left: Duration) -> String {
        self.line(title, &format!(" ... {}", self.left(left)))
    }

    /// The line of a trial that has ended. `found` has its figures, in English.
    pub fn ended(self, title: &str, found: &str, left: Duration) -> String {
        let Marks {
            colon, semicolon, ..
        } = self.marks();
        let (found, left) = (self.say(found), self.left(left));
        self.line(title, &format!("{colon}{found}{semicolon}{left}"))
    }

    /// Why a trial is repeated: what happened, in English, and why its last attempt does not count.
    pub fn repeated(self, title: &str, what: &str, reasons: &[String]) -> String {
        let Marks {
            colon, semicolon, ..
        } = self.marks();
        let reasons: Vec<String> = reasons.iter().map(|reason| self.say(reason)).collect();
        let reasons = match reasons.as_slice() {
            [] => String::new(),
            reasons => self.in_parentheses(&reasons.join(semicolon)),
        };
        let (what, again) = (self.say(what), self.say("trying again"));
        format!("{title}{colon}{what}{reasons}{semicolon}{again}")
    }

    /// Which fix is tried: its variant, the English title of the finding, and the settings with their station, such as
    /// `http2.stream_window = 1MiB on client`.
    pub fn trying_fix(self, variant: &str, title: &str, settings: &str) -> String {
        let tries = Translator::of_names(self.language, vec![variant.to_owned()])
            .say(&format!("tries a fix for {variant}"));
        let title = self.in_parentheses(&self.say(title));
        self.labelled(&format!("{tries}{title}"), &self.say(settings))
    }

    fn left(self, left: Duration) -> String {
        self.say(&format!("{} left", clock(left.as_secs())))
    }

    fn in_parentheses(self, text: &str) -> String {
        let Marks { open, close, .. } = self.marks();
        format!("{open}{text}{close}")
    }

    fn marks(self) -> Marks {
        match self.language {
            Language::En => Marks {
                colon: ": ",
                semicolon: "; ",
                open: " (",
                close: ")",
            },
            Language::Zh => Marks {
                colon: "：",
                semicolon: "；",
                open: "（",
                close: "）",
            },
        }
    }

    /// `title` and `rest` on one line of the terminal, if `rest` leaves room for a part of the title.
    fn line(self, title: &str, rest: &str) -> String {
        let Some(columns) = self.columns else {
            return format!("{title}{rest}");
        };
        // Some terminals move the cursor to the next line once the last column is filled.
        let room = columns.saturating_sub(1 + width_of(rest));
        fitting(title, room) + rest
    }
}

/// The punctuation of a language, with the spaces around it.
struct Marks {
    colon: &'static str,
    semicolon: &'static str,
    open: &'static str,
    close: &'static str,
}

/// As much of `text` as fits into `columns`, but at least one word. It is cut at a space or beside a character that takes two
/// columns.
fn fitting(text: &str, columns: usize) -> String {
    if width_of(text) <= columns {
        return text.to_owned();
    }
    let mut end = 0;
    let mut before = text.chars().next().unwrap_or(' ');
    for (at, c) in text.char_indices().skip(1) {
        if c == ' ' || is_wide(c) || is_wide(before) {
            // The mark takes a column.
            if end > 0 && width_of(&text[..at]) + 1 > columns {
                break;
            }
            end = at;
        }
        before = c;
    }
    if end == 0 {
        return text.to_owned();
    }
    text[..end].trim_end_matches([' ', ',', '，']).to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "[ 1/12] two envoys h2c, delay 25ms, loss 3%";

    fn lines(language: Language, columns: usize) -> ProgressLines {
        ProgressLines {
            language,
            columns: Some(columns),
        }
    }

    #[test]
    fn a_long_title_loses_whole_words() {
        assert_eq!(fitting(TITLE, 80), TITLE);
        assert_eq!(fitting(TITLE, 31), "[ 1/12] two envoys h2c, delay…");
        assert_eq!(fitting(TITLE, 25), "[ 1/12] two envoys h2c…");
        assert_eq!(fitting("word", 2), "word");
    }

    #[test]
    fn a_line_with_any_characters_fits_the_terminal() {
        let left = Duration::from_secs(65);
        for title in [TITLE, "[1/9] 两个代理之间的连接, delay 25ms, loss 3%"] {
            for language in [Language::En, Language::Zh] {
                for columns in [40, 60, 80] {
                    let lines = lines(language, columns);
                    for line in [
                        lines.running(title, left),
                        lines.ended(title, "p50 5 ms", left),
                    ] {
                        assert!(width_of(&line) < columns, "{columns}: {line}");
                    }
                }
            }
        }
        let line = lines(Language::En, 30).running("[1/9] 两个代理之间的连接", left);
        assert_eq!(line, "[1/9] 两个代理… ... 1:05 left");
    }

    #[test]
    fn progress_is_shown_in_both_languages() {
        let (en, zh) = (
            ProgressLines::of(Language::En),
            ProgressLines::of(Language::Zh),
        );
        let left = Duration::from_secs(65);
        assert_eq!(en.size(12, left), "12 trials, about 1:05 at most");
        assert_eq!(zh.size(12, left), "12 次试验，最多约 1:05");
        assert_eq!(en.size(1, left), "1 trial, about 1:05 at most");
        assert_eq!(
            zh.plan("window", "quick", "1 次试验"),
            "window，配置档 quick：1 次试验"
        );
        // The variant and the condition have the user's own words.
        let title = "[1/2] window, delay 5ms";
        assert_eq!(
            en.running(title, left),
            "[1/2] window, delay 5ms ... 1:05 left"
        );
        assert_eq!(
            zh.running(title, left),
            "[1/2] window, delay 5ms ... 剩余 1:05"
        );
        let found = "p50 5.100 ms, p99 never ms, 3 failed, 2 unfinished; pages: 4 loaded, 1 with a failed request, 0 \
                     unfinished; page time ms: least 3.000, median 5.000, most 9.000, INVALID";
        let said = zh.ended(title, found, left);
        assert_eq!(
            en.ended(title, found, left),
            format!("{title}: {found}; 1:05 left")
        );
        assert!(
            said.starts_with("[1/2] window, delay 5ms：p50 5.100 ms，p99 未应答，3 个失败，"),
            "{said}"
        );
        let end = "：最短 3.000，中位数 5.000，最长 9.000，无效；剩余 1:05";
        assert!(said.ends_with(end), "{said}");
        let few = zh.ended(title, "mean 5.100 ms", left);
        assert_eq!(few, format!("{title}：平均 5.100 ms；剩余 1:05"));
    }

    #[test]
    fn repeats_and_tried_fixes_are_shown_in_both_languages() {
        let (en, zh) = (
            ProgressLines::of(Language::En),
            ProgressLines::of(Language::Zh),
        );
        let reasons = [
            "the link was up to 3.100 ms late".to_owned(),
            "something new".to_owned(),
        ];
        assert_eq!(
            en.repeated("[1/2] h1", "disturbed", &reasons),
            "[1/2] h1: disturbed (the link was up to 3.100 ms late; something new); trying again"
        );
        assert_eq!(
            zh.repeated("[1/2] h1", "disturbed", &reasons),
            "[1/2] h1：受到干扰（链路最多晚了 3.100 ms；something new）；正在重试"
        );
        let ended = "nginx was killed by SIGSEGV after 1.20 s; its log: runs/x/nginx.log";
        assert_eq!(
            zh.repeated("[1/2] h1", ended, &[]),
            "[1/2] h1：nginx 在 1.20 s 后被 SIGSEGV 终止；其日志：runs/x/nginx.log；正在重试"
        );
        let settings = "http2.stream_window = 1MiB on client";
        assert_eq!(
            en.trying_fix("h2c", "Stream window too small", settings),
            format!("tries a fix for h2c (Stream window too small): {settings}")
        );
        let said = zh.trying_fix("h2c", "Stream window too small", settings);
        assert!(
            said.starts_with("尝试修复 h2c（")
                && said.ends_with("：client 上 http2.stream_window = 1MiB"),
            "{said}"
        );
        assert_eq!(
            zh.say(
                "interrupted: 3 of 4 trials are complete; go on with: squall run --resume runs/x"
            ),
            "已中断：4 次试验中已完成 3 次；继续运行：squall run --resume runs/x"
        );
    }
}
