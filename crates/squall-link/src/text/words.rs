//! The words of one setting, taken one after the other, with their places for error messages.
//!
//! It does not know the settings; numbers with units are read by their own types (`squall_base::quantity`).

use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use squall_base::{Duration, ParseQuantityError};

use super::error::{Mistake, TextError, nearest};

/// The text of one setting or similar, and how much of it has been taken.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    line: Option<usize>,
    /// Characters before `text` in its line.
    indent: usize,
    /// The bytes of the last word that was taken; empty before the first one.
    taken: Range<usize>,
    /// What a correct text looks like.
    example: &'static str,
}

impl<'t> Words<'t> {
    pub(super) fn new(
        text: &'t str,
        line: Option<usize>,
        indent: usize,
        example: &'static str,
    ) -> Words<'t> {
        Words {
            text,
            line,
            indent,
            taken: 0..0,
            example,
        }
    }

    /// Sets the example that messages show from now on.
    pub(super) fn like(&mut self, example: &'static str) {
        self.example = example;
    }

    /// The next word, without taking it.
    pub(super) fn peek(&self) -> Option<&'t str> {
        self.text[self.taken.end..].split_whitespace().next()
    }

    /// The word after the next one, without taking either.
    pub(super) fn peek_second(&self) -> Option<&'t str> {
        self.text[self.taken.end..].split_whitespace().nth(1)
    }

    /// Whether a name is next, not a number.
    pub(super) fn is_name_next(&self) -> bool {
        let is_letter = |first: char| first.is_ascii_alphabetic();
        self.peek().is_some_and(|word| word.starts_with(is_letter))
    }

    /// Whether a number is next, with a unit or without.
    pub(super) fn is_number_next(&self) -> bool {
        let is_digit = |first: char| first.is_ascii_digit() || first == '.';
        self.peek().is_some_and(|word| word.starts_with(is_digit))
    }

    /// The next word, if there is one.
    fn take(&mut self) -> Option<&'t str> {
        let word = self.peek()?;
        let remaining = &self.text[self.taken.end..];
        let start = self.taken.end + remaining.len() - remaining.trim_start().len();
        self.taken = start..start + word.len();
        Some(word)
    }

    /// The next word.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, TextError> {
        self.take().ok_or_else(|| self.incomplete(what))
    }

    /// The rest of the text, as one word.
    pub(super) fn rest(&mut self, what: &str) -> Result<&'t str, TextError> {
        let first = self.word(what)?;
        let end = self.text.trim_end().len();
        self.taken.end = end.max(self.taken.start + first.len());
        Ok(&self.text[self.taken.clone()])
    }

    /// The rest of the text, and how many characters precede it in its line.
    pub(super) fn remaining(&self) -> (&'t str, usize) {
        let remaining = &self.text[self.taken.end..];
        (remaining, self.column_of(self.taken.end) - 1)
    }

    /// Takes the next word if it is `word`.
    pub(super) fn skip(&mut self, word: &str) -> bool {
        self.peek() == Some(word) && self.take().is_some()
    }

    /// Takes the next word, which must be `word`.
    pub(super) fn keyword(&mut self, word: &'static str) -> Result<(), TextError> {
        if self.skip(word) {
            Ok(())
        } else {
            match self.take() {
                None => Err(self.incomplete(&format!("`{word}`"))),
                Some(_) => Err(self.unexpected(&[word], &format!("`{word}`"))),
            }
        }
    }

    /// Takes the next word, which must be one of `names`; messages show `what` before them.
    pub(super) fn name(
        &mut self,
        names: &[&'static str],
        what: &str,
    ) -> Result<&'static str, TextError> {
        let expected = format!("{what} {}", one_of(names));
        let word = self.word(&expected)?;
        match names.iter().find(|name| **name == word) {
            Some(name) => Ok(name),
            None => Err(TextError {
                meant: nearest(word, names),
                ..self.wrong(Mistake::UnknownName, &expected)
            }),
        }
    }

    /// Takes one of `options` and removes it from them; `None` at the end of the text.
    pub(super) fn option(
        &mut self,
        options: &mut Vec<&'static str>,
    ) -> Result<Option<&'static str>, TextError> {
        let Some(word) = self.take() else {
            return Ok(None);
        };
        match options.iter().position(|option| *option == word) {
            Some(at) => Ok(Some(options.remove(at))),
            None if options.is_empty() => Err(self.unexpected(&[], "nothing more")),
            None => {
                let expected = format!("{}, or nothing more", one_of(options));
                Err(self.unexpected(options, &expected))
            }
        }
    }

    /// Fails if anything is left.
    pub(super) fn end(&mut self) -> Result<(), TextError> {
        self.option(&mut Vec::new()).map(|_| ())
    }

    /// Takes a quantity.
    pub(super) fn quantity<T>(&mut self, what: &str) -> Result<T, TextError>
    where
        T: FromStr<Err = ParseQuantityError>,
    {
        let word = self.word(what)?;
        self.quantity_of(word)
    }

    /// Reads `text` as a quantity; it stands for the word that was taken last.
    pub(super) fn quantity_of<T>(&self, text: &str) -> Result<T, TextError>
    where
        T: FromStr<Err = ParseQuantityError>,
    {
        text.parse().map_err(|error| {
            let (mistake, expected) = Mistake::of(error);
            self.wrong(mistake, &expected)
        })
    }

    /// Takes a time from `least` to `most`.
    pub(super) fn time_within(
        &mut self,
        least: Duration,
        most: Duration,
    ) -> Result<Duration, TextError> {
        let time = self.quantity("a time")?;
        self.check(
            (least..=most).contains(&time),
            &format!("{least} to {most}"),
        )?;
        Ok(time)
    }

    /// Takes a whole number of at least `least`, such as the number of a packet.
    pub(super) fn whole_u64(&mut self, least: u64) -> Result<u64, TextError> {
        let word = self.word("a whole number")?;
        self.whole_of(word, least..=u64::MAX)
    }

    /// Takes a whole number of at least `least`, such as the number of a flow.
    pub(super) fn whole_u32(&mut self, least: u32) -> Result<u32, TextError> {
        let word = self.word("a whole number")?;
        self.whole_u32_of(word, least)
    }

    /// Reads `digits`, a part of the word that was taken last, as a whole number.
    pub(super) fn whole_u32_of(&self, digits: &str, least: u32) -> Result<u32, TextError> {
        let number = self.whole_of(digits, u64::from(least)..=u64::from(u32::MAX))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn whole_of(&self, digits: &str, range: RangeInclusive<u64>) -> Result<u64, TextError> {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.wrong(Mistake::NotANumber, "a whole number"));
        }
        let number = digits.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let expected = match range.end() {
                &u64::MAX => format!("a whole number from {}, below 2^64", range.start()),
                end => format!("a whole number from {} to {end}", range.start()),
            };
            self.wrong(Mistake::OutOfRange, &expected)
        })
    }

    /// Fails unless `is_possible`, with the error that the word taken last is out of range.
    pub(super) fn check(&self, is_possible: bool, expected: &str) -> Result<(), TextError> {
        if is_possible {
            Ok(())
        } else {
            Err(self.wrong(Mistake::OutOfRange, expected))
        }
    }

    /// The error that the word taken last is wrong.
    pub(super) fn wrong(&self, mistake: Mistake, expected: &str) -> TextError {
        TextError {
            line: self.line,
            column: self.column_of(self.taken.start),
            words: self.text[..self.taken.end].trim_start().to_owned(),
            mistake,
            expected: expected.to_owned(),
            meant: None,
        }
    }

    /// The error that the word taken last is unexpected.
    fn unexpected(&self, options: &[&'static str], expected: &str) -> TextError {
        let expected = format!("{expected}, as in `{}`", self.example);
        let word = &self.text[self.taken.clone()];
        TextError {
            meant: nearest(word, options),
            ..self.wrong(Mistake::Unexpected, &expected)
        }
    }

    /// The error that there is no next word.
    pub(super) fn incomplete(&self, what: &str) -> TextError {
        TextError {
            column: self.column_of(self.taken.end),
            ..self.wrong(
                Mistake::Incomplete,
                &format!("{what}, as in `{}`", self.example),
            )
        }
    }

    /// The column, from 1 in its line, of a byte of the text.
    fn column_of(&self, byte: usize) -> usize {
        self.indent + self.text[..byte].chars().count() + 1
    }
}

/// Names joined as in a sentence.
fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
