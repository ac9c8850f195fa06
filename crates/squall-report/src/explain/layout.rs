//! The lines of an explanation within the width of a terminal, and what a reader of several explanations sees first.
//!
//! It only breaks lines between words; `request` and `moment` decide what they say.

use squall_analysis::explain::{CauseTime, Explanation};

use crate::causes::percent;
use crate::columns::{chinese_lines, width_of};
use crate::explain::words::millis;
use crate::lang::{Language, Translator};
use crate::text::{printable, unbroken_words};

/// The text with lines of at most `width` columns. What does not fit continues below the beginning of its line's text.
pub fn fitted(text: &str, width: usize) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.lines() {
        if columns(line) <= width {
            fitted.push_str(line);
        } else {
            push_broken(&mut fitted, line, width);
        }
        fitted.push('\n');
    }
    fitted
}

/// The text in a language, with lines as [`fitted`] makes them. `names` stay as they are: variants, conditions and folders.
pub fn fitted_in(language: Language, names: Vec<String>, text: &str, width: usize) -> String {
    if language == Language::En {
        return fitted(text, width);
    }
    let translator = Translator::of_names(language, names);
    let mut fitted = String::new();
    for line in text.lines() {
        let (open, plain, close) = without_style(line);
        let line = format!("{open}{}{close}", translator.line(plain));
        if columns(&line) <= width {
            fitted.push_str(&line);
        } else {
            push_broken_chinese(&mut fitted, &line, width);
        }
        fitted.push('\n');
    }
    fitted
}

/// Splits a line that is styled as a whole: the escape sequence before it, its text, and the escape sequence after it.
fn without_style(line: &str) -> (&str, &str, &str) {
    const END: &str = "\x1b[0m";
    let begin = line.starts_with('\x1b').then(|| line.find('m')).flatten();
    let styled = begin.and_then(|begin| {
        let (open, rest) = line.split_at(begin + 1);
        Some((open, rest.strip_suffix(END)?, END))
    });
    styled.unwrap_or(("", line, ""))
}

fn push_broken_chinese(fitted: &mut String, line: &str, width: usize) {
    let (head, rest) = line.split_at(text_start(line));
    let indent = further_indent(head);
    fitted.push_str(head);
    for (place, piece) in chinese_lines(rest, width.saturating_sub(indent), "")
        .iter()
        .enumerate()
    {
        if place > 0 {
            fitted.push('\n');
            fitted.push_str(&" ".repeat(indent));
        }
        fitted.push_str(piece.trim_start());
    }
}

/// The indent of the lines after the first, which begins with `head`.
fn further_indent(head: &str) -> usize {
    match head.trim() {
        "" => head.chars().count() + 2,
        // A time, and perhaps the mark of an event.
        _ => head.chars().count(),
    }
}

fn push_broken(fitted: &mut String, line: &str, width: usize) {
    let (head, rest) = line.split_at(text_start(line));
    let indent = further_indent(head);
    fitted.push_str(head);
    let (mut used, mut has_word) = (columns(head), false);
    for word in unbroken_words(rest) {
        let length = columns(&word);
        if has_word && used + 1 + length > width {
            fitted.push('\n');
            fitted.push_str(&" ".repeat(indent));
            (used, has_word) = (indent, false);
        }
        if has_word {
            fitted.push(' ');
            used += 1;
        }
        fitted.push_str(&word);
        used += length;
        has_word = true;
    }
}

/// Where the text of a line begins: after its indent and, if it has one, after the time of its event.
fn text_start(line: &str) -> usize {
    let after_spaces = |from: usize| {
        let rest = &line[from..];
        from + rest.len() - rest.trim_start().len()
    };
    let begin = after_spaces(0);
    let first = line[begin..].split(' ').next().unwrap_or_default();
    let is_time = begin > 0 && first.contains('.') && first.parse::<f64>().is_ok();
    if !is_time {
        return begin;
    }
    let text = after_spaces(begin + first.len());
    match line[text..].strip_prefix(". ") {
        Some(_) => text + ". ".len(),
        None => text,
    }
}

/// The columns that a text takes, without its colours.
fn columns(text: &str) -> usize {
    let mut pieces = text.split('\x1b');
    let plain = pieces.next().map_or(0, width_of);
    let coloured = pieces.map(|piece| {
        let shown = piece.split_once('m').map_or(piece, |(_, shown)| shown);
        width_of(shown)
    });
    plain + coloured.sum::<usize>()
}

/// `request 7: 402.100 ms, most of it loss (61 %)`, a line for each request, below the name of what they belong to.
pub fn overview(name: &str, requests: &[Explanation]) -> String {
    let lines = requests.iter().map(|it| {
        let total = it.latency.as_nanos().max(1) as f64;
        let most = it.causes.iter().max_by_key(|share| share.time);
        let most = most.map_or_else(String::new, |CauseTime { cause, time }| {
            let share = percent(time.as_nanos() as f64 / total);
            format!(", most of it {} ({share})", cause.name())
        });
        format!(
            "  request {}: {} ms{most}\n",
            it.request,
            millis(it.latency)
        )
    });
    printable(name) + "\n" + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_below_their_text() {
        let event = "    25.200    . packet down 20: bytes 0 to 1,448, arrived at 50.100 ms";
        let text = "    25.200    . packet down 20: bytes 0 to\n                1,448, arrived at\n                50.100 ms\n";
        assert_eq!(fitted(event, 42), text);
        let stage = "    25.200  cwnd for 3.000 ms, in 2 pieces with 0.050 ms between them";
        let text =
            "    25.200  cwnd for 3.000 ms, in 2 pieces\n            with 0.050 ms between them\n";
        assert_eq!(fitted(stage, 42), text);
        assert_eq!(
            fitted("request 7: answered with 200\n", 20),
            "request 7: answered\n  with 200\n"
        );
    }

    #[test]
    fn explanations_in_chinese_keep_their_columns_and_their_colours() {
        let text = "\x1b[1mrequest 7: answered after 125.400 ms, due at 1.000000 s; no connection\x1b[0m\n  \
                    window_connection   35,150,000 ns\n    25.000    . its connection's window was used up 2 times, \
                    until 60.200 ms\n";
        let said = fitted_in(Language::Zh, Vec::new(), text, 40);
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            lines[0].starts_with("\x1b[1m请求 7：125.400 ms 后应答"),
            "{said}"
        );
        assert!(lines[1].ends_with("没有连接\x1b[0m"), "{said}");
        assert_eq!(
            lines[2..],
            [
                "  连接窗口            35,150,000 ns",
                "    25.000    . 其连接的窗口耗尽 2 次，",
                "                直到 60.200 ms",
            ]
        );
        assert_eq!(
            fitted_in(Language::En, Vec::new(), text, 40),
            fitted(text, 40)
        );
    }

    #[test]
    fn colours_take_no_columns() {
        let title = "\x1b[1mrequest 7: answered\x1b[0m\n";
        assert_eq!(fitted(title, 19), title);
    }
}
