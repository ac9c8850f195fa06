//! Finds the phrase from which a text was made, and translates it.
//!
//! A text is a phrase with its slots filled, or several phrases with punctuation between them: sentences, clauses, items of
//! a list, and text in parentheses. It is translated only if all of its parts are known; nothing is guessed. The tables are
//! beside this module; `markup` reads pages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::{Phrase, phrases};

/// Punctuation between the parts of a text, the strongest first, with its Chinese counterpart.
const BETWEEN: [(&str, &str); 4] = [(". ", "。"), ("; ", "；"), (": ", "："), (", ", "，")];

/// How deep texts may be nested in each other.
const DEEPEST: usize = 8;

/// Words that are the same in both languages. Words without a lower-case letter, such as TCP, and settings are too.
const SAME: [&str; 14] = [
    "us", "ms", "s", "kB", "KiB", "MiB", "kbit", "mbit", "x", "p", "squall", "bbr", "cubic", "reno",
];

/// What fills a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A text of the report without punctuation.
    Said,
    /// A sentence of the report: it may have commas and a colon.
    Sentence,
    /// A name of the run.
    Name,
    /// Any single clause; it is kept.
    Kept,
    /// Anything without a space; it is kept.
    Word,
    /// A number, perhaps with a sign, a bound or a percent sign.
    Number,
    /// The letter of a cause.
    Letter,
}

/// A piece of a phrase.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Words(&'static str),
    Slot(Kind, &'static str),
}

/// A slot of a phrase, and its value in a text.
struct Slot<'t> {
    kind: Kind,
    name: &'static str,
    value: &'t str,
}

/// A phrase with braces, in pieces.
#[derive(Debug)]
struct Pattern {
    english: Vec<Piece>,
    chinese: Vec<Piece>,
}

impl Pattern {
    fn of(phrase: &Phrase) -> Pattern {
        Pattern {
            english: pieces(phrase.en),
            chinese: pieces(phrase.zh),
        }
    }

    /// How many characters are fixed.
    fn fixed(&self) -> usize {
        let words = self.english.iter().map(|piece| match piece {
            Piece::Words(words) => words.len(),
            Piece::Slot(..) => 0,
        });
        words.sum()
    }
}

/// The phrases without braces.
static WHOLE: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let whole = phrases().filter(|phrase| !phrase.en.contains('{'));
    whole.map(|phrase| (phrase.en, phrase.zh)).collect()
});

/// The phrases with slots, those with the most fixed characters first.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let with_slots = phrases().filter(|phrase| phrase.en.contains('{'));
    let mut patterns: Vec<Pattern> = with_slots.map(Pattern::of).collect();
    patterns.sort_by_key(|pattern| Reverse(pattern.fixed()));
    patterns
});

fn pieces(text: &'static str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((words, slot, behind)) = next_slot(rest) {
        if !words.is_empty() {
            pieces.push(Piece::Words(words));
        }
        pieces.push(slot);
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Words(rest));
    }
    pieces
}

/// The words before the first slot, that slot, and the rest.
fn next_slot(text: &'static str) -> Option<(&'static str, Piece, &'static str)> {
    let (words, behind) = text.split_once('{')?;
    let (slot, behind) = behind.split_once('}')?;
    let kind = match slot.chars().next() {
        Some('@') => Kind::Name,
        Some('=') => Kind::Kept,
        Some('~') => Kind::Word,
        Some('*') => Kind::Sentence,
        Some('#') => Kind::Number,
        Some('!') => Kind::Letter,
        _ => Kind::Said,
    };
    let name = slot.trim_start_matches(['@', '=', '~', '*', '#', '!']);
    Some((words, Piece::Slot(kind, name), behind))
}

/// `text` in Chinese; what no phrase covers stays as it is. `names` are kept.
pub(super) fn said(names: &BTreeSet<String>, text: &str) -> String {
    let matcher = Matcher { names };
    let (core, trail) = ending(text);
    match matcher.known(core, DEEPEST) {
        Some(chinese) if trail.is_empty() => chinese,
        Some(chinese) => joined([chinese.as_str(), trail]),
        None => matcher.in_part(text),
    }
}

/// A text without the colon or full stop at its end, and the Chinese counterpart of that punctuation.
fn ending(text: &str) -> (&str, &'static str) {
    if let Some(core) = text.strip_suffix(':') {
        return (core, "：");
    }
    // The last dot of `...` is not a full stop.
    match text.strip_suffix('.').filter(|core| !core.ends_with('.')) {
        Some(core) => (core, "。"),
        None => (text, ""),
    }
}

struct Matcher<'n> {
    names: &'n BTreeSet<String>,
}

impl Matcher<'_> {
    /// The text in Chinese if all of it is known.
    fn known(&self, text: &str, depth: usize) -> Option<String> {
        let is_plain = !text.contains(|c: char| c.is_ascii_alphabetic());
        if is_plain || self.names.contains(text) {
            return Some(text.to_owned());
        }
        if depth == 0 {
            return None;
        }
        if let Some(chinese) = WHOLE.get(text) {
            return Some((*chinese).to_owned());
        }
        self.by_pattern(text, depth)
            .or_else(|| self.by_parts(text, depth))
            .or_else(|| is_the_same(text).then(|| text.to_owned()))
    }

    fn by_pattern(&self, text: &str, depth: usize) -> Option<String> {
        PATTERNS.iter().find_map(|pattern| {
            let found = self.fill(&pattern.english, text, &mut Vec::new(), depth)?;
            Some(filled(&pattern.chinese, &found))
        })
    }

    /// The Chinese values of the slots of these pieces, if `text` consists of the pieces. `found` has the slots before them.
    /// Values are translated only once all slots are found, because translation takes long if there are many.
    fn fill<'t>(
        &self,
        pieces: &[Piece],
        text: &'t str,
        found: &mut Vec<Slot<'t>>,
        depth: usize,
    ) -> Option<Vec<(&'static str, String)>> {
        let Some((first, rest)) = pieces.split_first() else {
            if !text.is_empty() {
                return None;
            }
            let values = found.iter();
            let values = values.map(|slot| Some((slot.name, self.value(slot, depth)?)));
            return values.collect();
        };
        let (kind, name) = match first {
            Piece::Words(words) => {
                return self.fill(rest, text.strip_prefix(words)?, found, depth);
            }
            Piece::Slot(kind, name) => (*kind, *name),
        };
        let mut ends: Vec<usize> = match rest.first() {
            Some(Piece::Words(words)) => text.match_indices(words).map(|(at, _)| at).collect(),
            _ => vec![text.len()],
        };
        // The longest value comes first: in `median response time 5 ms` it is `median response time`, not `median`.
        if matches!(kind, Kind::Said | Kind::Sentence) {
            ends.reverse();
        }
        for end in ends {
            let (value, behind) = text.split_at(end);
            if !self.can_stand(kind, value) {
                continue;
            }
            found.push(Slot { kind, name, value });
            let filled = self.fill(rest, behind, found, depth);
            found.pop();
            if filled.is_some() {
                return filled;
            }
        }
        None
    }

    /// Whether a value is of this kind. Whether clauses and sentences can be translated is decided later.
    fn can_stand(&self, kind: Kind, value: &str) -> bool {
        let has_none_of = |between: &[(&str, &str)]| {
            let mut between = between.iter();
            // A text that ends in such punctuation is a part of another.
            let is_whole = !value.is_empty() && !value.ends_with([',', ':', ';']);
            is_whole && !between.any(|(of, _)| value.contains(of))
        };
        match kind {
            Kind::Said if self.names.contains(value) => true,
            Kind::Said => has_none_of(&BETWEEN) && !value.contains(" ("),
            Kind::Sentence => has_none_of(&BETWEEN[..2]),
            Kind::Name => self.names.contains(value),
            Kind::Kept => has_none_of(&BETWEEN[..3]) && is_balanced(value),
            Kind::Word => !value.is_empty() && !value.contains(' '),
            Kind::Number => is_number(value),
            Kind::Letter => {
                let mut chars = value.chars();
                let is_letter = |c: char| c.is_ascii_uppercase() || c == '·';
                chars.next().is_some_and(is_letter) && chars.next().is_none()
            }
        }
    }

    /// The value of a slot, in Chinese.
    fn value(&self, slot: &Slot<'_>, depth: usize) -> Option<String> {
        match slot.kind {
            Kind::Said | Kind::Sentence => self.known(slot.value, depth - 1),
            Kind::Name | Kind::Kept | Kind::Word | Kind::Number | Kind::Letter => {
                Some(slot.value.to_owned())
            }
        }
    }

    /// A text with punctuation or with parentheses at its end.
    fn by_parts(&self, text: &str, depth: usize) -> Option<String> {
        let (core, trail) = ending(text);
        if !trail.is_empty() {
            let chinese = self.known(core, depth - 1)?;
            return Some(joined([chinese.as_str(), trail]));
        }
        for (between, chinese) in BETWEEN {
            let parts = self.parts(text, between);
            if parts.len() > 1 {
                let said = parts.into_iter().map(|part| self.known(part, depth - 1));
                let said: Option<Vec<String>> = said.collect();
                return said.map(|said| said.join(chinese));
            }
        }
        let (before, within) = text.strip_suffix(')')?.split_once(" (")?;
        let before = self.known(before, depth - 1)?;
        let within = self.known(within, depth - 1)?;
        Some(format!("{before}（{within}）"))
    }

    /// The text with its known parts in Chinese, and the others as they are.
    fn in_part(&self, text: &str) -> String {
        for (between, chinese) in BETWEEN {
            let parts = self.parts(text, between);
            if parts.len() > 1 {
                let said = parts.into_iter().map(|part| {
                    let (core, trail) = ending(part);
                    let known = self.known(core, DEEPEST);
                    known.map_or_else(|| self.in_part(part), |known| known + trail)
                });
                return said.collect::<Vec<String>>().join(chinese);
            }
        }
        self.known(text, DEEPEST).unwrap_or_else(|| text.to_owned())
    }

    /// The text, cut where `between` is outside of parentheses, code and names.
    fn parts<'t>(&self, text: &'t str, between: &str) -> Vec<&'t str> {
        let names = self.names.iter().map(String::as_str);
        let names: Vec<&str> = names.filter(|name| name.contains(between)).collect();
        let mut parts = Vec::new();
        let (mut from, mut at) = (0, 0);
        let (mut open, mut is_code) = (0_usize, false);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let own = names.iter().filter(|name| rest.starts_with(**name));
            if let Some(length) = own.map(|name| name.len()).max() {
                at += length;
                continue;
            }
            if open == 0 && !is_code && rest.starts_with(between) {
                parts.push(&text[from..at]);
                at += between.len();
                from = at;
                continue;
            }
            match c {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                '`' => is_code = !is_code,
                _ => {}
            }
            at += c.len_utf8();
        }
        parts.push(&text[from..]);
        parts
    }
}

/// The pieces of a phrase, with its slots filled.
fn filled(pieces: &[Piece], found: &[(&'static str, String)]) -> String {
    let words = pieces.iter().map(|piece| match piece {
        Piece::Words(words) => *words,
        Piece::Slot(_, name) => {
            let own = found.iter().find(|(other, _)| other == name);
            own.map_or("", |(_, value)| value.as_str())
        }
    });
    joined(words)
}

/// Pieces of text one after the other, with a space between a Chinese character and a Latin letter or a digit, and none between
/// Chinese characters.
fn joined<'t>(pieces: impl IntoIterator<Item = &'t str>) -> String {
    let mut text = String::new();
    for piece in pieces {
        let (before, behind) = (text.trim_end(), piece.trim_start());
        let (last, first) = (before.chars().next_back(), behind.chars().next());
        let kept = before.len();
        if last.is_some_and(is_chinese) && first.is_some_and(is_chinese) {
            text.truncate(kept);
            text.push_str(behind);
            continue;
        }
        let ends = text.chars().next_back().zip(piece.chars().next());
        let is_spaced = ends.is_some_and(|(last, first)| {
            (is_ideograph(last) && is_latin(first)) || (is_latin(last) && is_ideograph(first))
        });
        if is_spaced {
            text.push(' ');
        }
        text.push_str(piece);
    }
    text
}

/// A character or the punctuation of Chinese.
fn is_chinese(c: char) -> bool {
    is_ideograph(c) || matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ff65}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3fffd}')
}

fn is_latin(c: char) -> bool {
    (c.is_alphanumeric() && !is_ideograph(c)) || "%`<>≤≥/-".contains(c)
}

/// `1,448`, `>0.16x`, `95 %`, `1:05`: a number, without a unit.
fn is_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || ".,%<>≤≥-–x: \u{2009}".contains(c);
    let is_whole = !text.contains(": ") && !text.ends_with(':');
    is_whole && text.chars().all(is_part) && text.contains(|c: char| c.is_ascii_digit())
}

/// Whether each parenthesis of a text ends within it.
fn is_balanced(text: &str) -> bool {
    let mut open = 0_i32;
    for c in text.chars() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open < 0 {
            return false;
        }
    }
    open == 0
}

/// Whether a text has only words that are the same in both languages, or is a setting with its value.
fn is_the_same(text: &str) -> bool {
    let is_assignment = |(key, value): (&str, &str)| !key.contains(' ') && !value.contains(' ');
    if text.split_once(" = ").is_some_and(is_assignment) {
        return true;
    }
    text.split_whitespace().all(|word| {
        let word = word.trim_matches(|c: char| ",;:.()[]\"'“”’".contains(c));
        let is_of_setting = |c: char| c.is_ascii_digit() || "_./=\\".contains(c);
        !word.contains(|c: char| c.is_ascii_lowercase())
            || word.contains(is_of_setting)
            || word.starts_with('-')
            || SAME.contains(&word)
    })
}
