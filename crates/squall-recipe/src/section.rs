//! Tables and keys of the document: finds a value by its key and reads it by its type.
//!
//! It knows the types of values, not their meaning: it decides that a rate is text, `read` that the rate must leave a
//! request in the measured time. `shapes` has the keys of each table. Every error is reported with its place.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use squall_base::plan::Speed;
use squall_base::{BitRate, Bytes, Duration, ParseQuantityError, Probability, Rate};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::Mistake;
use crate::problems::{Problems, ReportedProblem, collect_all};
use crate::shapes::{self, Shape};
use crate::words::{did_you_mean, listed};

/// A value and its span in the text.
#[derive(Clone, Debug)]
pub(crate) struct SpannedValue<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// One table of the document.
pub(crate) struct Section<'d> {
    label: String,
    span: Range<usize>,
    table: &'d DeTable<'d>,
    problems: &'d Problems<'d>,
}

/// One value of the document, with the key by which messages refer to it.
pub(crate) struct Field<'d> {
    pub(crate) key: &'d str,
    key_span: Range<usize>,
    span: Range<usize>,
    value: &'d DeValue<'d>,
    problems: &'d Problems<'d>,
}

/// A quantity that is written as text with a unit.
pub(crate) trait Quantity: FromStr<Err = ParseQuantityError> {
    /// How it is written.
    const EXPECTED: &'static str;
}

impl Quantity for Duration {
    const EXPECTED: &'static str = "a time with its unit, such as \"25ms\", \"1.5s\" or \"15min\"";
}

impl Quantity for Bytes {
    const EXPECTED: &'static str = "a size, such as \"1024\", \"1KiB\" or \"64KiB\"";
}

impl Quantity for BitRate {
    const EXPECTED: &'static str = "a rate in bits, such as \"20mbit\" or \"500kbit\"";
}

impl Quantity for Rate {
    const EXPECTED: &'static str = "a rate, such as \"1000/s\" or \"90/min\"";
}

impl Quantity for Speed {
    const EXPECTED: &'static str = "a speed, such as \"10x\" or \"0.5x\"";
}

impl Quantity for Probability {
    const EXPECTED: &'static str = "a share, such as \"3%\" or \"0.03\"";
}

/// How a number that lacks its quotes, and perhaps its unit, is written as this quantity.
fn in_quotes<T: Quantity>(number: &str) -> String {
    match number.parse::<T>() {
        Ok(_) => format!("put it in quotes: \"{number}\""),
        Err(ParseQuantityError::NoUnit { expected, .. }) => {
            format!("put it in quotes, with its unit: {expected}")
        }
        Err(_) => "put it in quotes, with its unit".to_owned(),
    }
}

impl<'d> Section<'d> {
    /// A table of the given shape. Keys outside the shape are reported.
    pub(crate) fn new(
        shape: &Shape,
        label: String,
        span: Range<usize>,
        table: &'d DeTable<'d>,
        problems: &'d Problems<'d>,
    ) -> Section<'d> {
        let keys = shape.keys();
        for key in table
            .keys()
            .filter(|key| !keys.contains(&key.get_ref().as_ref()))
        {
            let name = key.get_ref().to_string();
            let hint = did_you_mean(&name, keys.iter().copied()).or_else(|| {
                let home = shapes::ALL
                    .iter()
                    .find(|s| s.keys().contains(&name.as_str()))?;
                Some(format!("`{name}` is a key of {}", home.label))
            });
            let mistake = Mistake::UnknownKey {
                key: name,
                table: label.clone(),
            };
            problems.report(key.span(), mistake, listed(&keys), hint);
        }
        Section {
            label,
            span,
            table,
            problems,
        }
    }

    /// The value of `key`, if the table has one.
    pub(crate) fn field(&self, key: &str) -> Option<Field<'d>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(Field::new(key, value, self.problems))
    }

    /// Reads `key`, if the table has it.
    pub(crate) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(Field<'d>) -> Result<T, ReportedProblem>,
    ) -> Result<Option<T>, ReportedProblem> {
        self.field(key).map(read).transpose()
    }

    /// Reads `key`, and reports it if it is missing.
    pub(crate) fn required<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(Field<'d>) -> Result<T, ReportedProblem>,
    ) -> Result<T, ReportedProblem> {
        match self.field(key) {
            Some(field) => read(field),
            None => Err(self.missing(key, expected)),
        }
    }

    pub(crate) fn missing(&self, key: &str, expected: &str) -> ReportedProblem {
        let mistake = Mistake::MissingKey {
            key: key.to_owned(),
            table: self.label.clone(),
        };
        self.problems
            .report(self.span.clone(), mistake, expected, None)
    }

    /// Reports a mistake of the table as a whole.
    pub(crate) fn refuse(&self, mistake: Mistake, expected: &str) -> ReportedProblem {
        self.problems
            .report(self.span.clone(), mistake, expected, None)
    }

    pub(crate) fn refuse_both(&self, key: &str, other: &'static str) -> ReportedProblem {
        let mistake = Mistake::ExclusiveKeys {
            key: key.to_owned(),
            other,
        };
        let expected = format!("`{other}` alone, or `{key}` alone");
        match self.field(key) {
            Some(field) => field.refuse_key(mistake, &expected),
            None => self.refuse(mistake, &expected),
        }
    }

    /// The line where the table begins.
    pub(crate) fn line(&self) -> usize {
        self.problems.line_of(self.span.start)
    }

    /// The collector of problems in this text.
    pub(crate) fn problems(&self) -> &'d Problems<'d> {
        self.problems
    }
}

impl<'d> Field<'d> {
    fn new(
        key: &'d Spanned<DeString<'d>>,
        value: &'d Spanned<DeValue<'d>>,
        problems: &'d Problems<'d>,
    ) -> Field<'d> {
        Field {
            key: key.get_ref(),
            key_span: key.span(),
            span: value.span(),
            value: value.get_ref(),
            problems,
        }
    }

    pub(crate) fn text(&self) -> Result<SpannedValue<&'d str>, ReportedProblem> {
        match self.value {
            DeValue::String(text) => Ok(self.with_span(text.as_ref())),
            _ => Err(self.wrong_type("a text in quotes", None)),
        }
    }

    /// A text that follows a rule; `rule` says what such a text is, such as `a method`.
    pub(crate) fn text_that(
        &self,
        rule: &'static str,
        expected: &str,
        obeys: impl FnOnce(&str) -> bool,
    ) -> Result<String, ReportedProblem> {
        let text = self.text()?.value;
        if obeys(text) {
            return Ok(text.to_owned());
        }
        Err(self.malformed(text, rule, expected, &[]))
    }

    /// A quantity with its unit.
    pub(crate) fn quantity<T: Quantity>(&self) -> Result<T, ReportedProblem> {
        let DeValue::String(text) = self.value else {
            let hint = self.number().map(in_quotes::<T>);
            return Err(self.wrong_type(T::EXPECTED, hint));
        };
        text.parse::<T>().map_err(|error| {
            let (mistake, expected) = match error {
                ParseQuantityError::NotANumber { text, expected } => {
                    (Mistake::NotANumber(text), expected.to_owned())
                }
                ParseQuantityError::NoUnit { text, expected } => (Mistake::NoUnit(text), expected),
                ParseQuantityError::Unit {
                    text,
                    unit,
                    expected,
                } => (Mistake::UnknownUnit { text, unit }, expected.to_owned()),
                ParseQuantityError::Range { text, expected } => (
                    Mistake::OutOfRange {
                        key: self.key.to_owned(),
                        value: text,
                    },
                    expected.to_owned(),
                ),
            };
            self.refuse(mistake, &expected)
        })
    }

    /// The digits of a decimal number without quotes.
    fn number(&self) -> Option<&'d str> {
        match self.value {
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => None,
        }
    }

    /// A quantity within `range`; `expected` describes the range.
    pub(crate) fn within<T: Quantity + PartialOrd>(
        &self,
        range: &RangeInclusive<T>,
        expected: &str,
    ) -> Result<T, ReportedProblem> {
        let found = self.quantity::<T>()?;
        if range.contains(&found) {
            return Ok(found);
        }
        // The message shows the value as it was written: `25h`, not `1500min`.
        Err(self.out_of_range(self.text()?.value, expected))
    }

    /// A whole number within `range`.
    pub(crate) fn integer(&self, range: &RangeInclusive<u32>) -> Result<u32, ReportedProblem> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(number) = self.value else {
            return Err(self.wrong_type(&expected, None));
        };
        u32::from_str_radix(number.as_str(), number.radix())
            .ok()
            .filter(|value| range.contains(value))
            .ok_or_else(|| self.out_of_range(number, &expected))
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self) -> Result<bool, ReportedProblem> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false", None)),
        }
    }

    /// One of `words`; `rule` names what they are, such as `a kind of load`.
    pub(crate) fn word<T: Copy>(
        &self,
        rule: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<T, ReportedProblem> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let DeValue::String(text) = self.value else {
            let is_number = matches!(self.value, DeValue::Integer(_) | DeValue::Float(_));
            let hint = is_number.then(|| "put it in quotes".to_owned());
            return Err(self.wrong_type(&listed(&names), hint));
        };
        words
            .iter()
            .find(|(name, _)| name == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| self.malformed(text, rule, &listed(&names), &names))
    }

    /// Reports that the text of this value breaks its rule; `words` are the candidates for a hint.
    pub(crate) fn malformed(
        &self,
        text: &str,
        rule: &'static str,
        expected: &str,
        words: &[&str],
    ) -> ReportedProblem {
        let mistake = Mistake::Malformed {
            text: text.to_owned(),
            rule,
        };
        let hint = did_you_mean(text, words.iter().copied());
        self.problems
            .report(self.span.clone(), mistake, expected, hint)
    }

    /// The value of `key` in this table, without a check of the other keys.
    pub(crate) fn inner(&self, key: &str) -> Option<Field<'d>> {
        let DeValue::Table(table) = self.value else {
            return None;
        };
        let (key, value) = table.get_key_value(key)?;
        Some(Field::new(key, value, self.problems))
    }

    /// One value, or a list of at least one.
    pub(crate) fn one_or_more<T>(
        &self,
        read: impl Fn(&Field<'d>) -> Result<SpannedValue<T>, ReportedProblem>,
    ) -> Result<Vec<SpannedValue<T>>, ReportedProblem> {
        let DeValue::Array(array) = self.value else {
            return Ok(vec![read(self)?]);
        };
        if array.is_empty() {
            let mistake = Mistake::EmptyList(self.key.to_owned());
            return Err(self.refuse(mistake, "at least one value"));
        }
        collect_all(self.elements().iter().map(read))
    }

    /// A table of the given shape.
    pub(crate) fn section(
        &self,
        shape: &Shape,
        label: &str,
    ) -> Result<Section<'d>, ReportedProblem> {
        let span = self.span.clone();
        match self.value {
            DeValue::Table(table) => Ok(Section::new(
                shape,
                label.to_owned(),
                span,
                table,
                self.problems,
            )),
            _ => Err(self.wrong_type("a table", None)),
        }
    }

    /// The entries of a table whose keys are names, in text order.
    pub(crate) fn entries(&self, expected: &str) -> Result<Vec<Field<'d>>, ReportedProblem> {
        let DeValue::Table(table) = self.value else {
            return Err(self.wrong_type(expected, None));
        };
        let mut fields: Vec<Field<'d>> = table
            .iter()
            .map(|(key, value)| Field::new(key, value, self.problems))
            .collect();
        fields.sort_by_key(|field| field.key_span.start);
        Ok(fields)
    }

    /// The elements of a list of tables, each under this field's key.
    pub(crate) fn tables(
        &self,
        expected: &str,
        hint: &str,
    ) -> Result<Vec<Field<'d>>, ReportedProblem> {
        match self.value {
            DeValue::Array(array) if array.is_empty() => {
                let mistake = Mistake::EmptyList(self.key.to_owned());
                Err(self.refuse(mistake, expected))
            }
            DeValue::Array(_) => Ok(self.elements()),
            _ => Err(self.wrong_type(expected, Some(hint.to_owned()))),
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// The raw TOML value, for readers that accept several types.
    pub(crate) fn value(&self) -> &'d DeValue<'d> {
        self.value
    }

    pub(crate) fn wrong_type(&self, expected: &str, hint: Option<String>) -> ReportedProblem {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let mistake = Mistake::WrongType {
            key: self.key.to_owned(),
            found,
        };
        self.problems
            .report(self.span.clone(), mistake, expected, hint)
    }

    pub(crate) fn out_of_range(&self, value: impl Display, expected: &str) -> ReportedProblem {
        let mistake = Mistake::OutOfRange {
            key: self.key.to_owned(),
            value: value.to_string(),
        };
        self.refuse(mistake, expected)
    }

    /// Reports a mistake at the value.
    pub(crate) fn refuse(&self, mistake: Mistake, expected: &str) -> ReportedProblem {
        self.problems
            .report(self.span.clone(), mistake, expected, None)
    }

    /// Reports a mistake at the key.
    pub(crate) fn refuse_key(&self, mistake: Mistake, expected: &str) -> ReportedProblem {
        self.problems
            .report(self.key_span.clone(), mistake, expected, None)
    }

    /// Reports a mistake at the key, with a guess at what was meant.
    pub(crate) fn refuse_key_with(
        &self,
        mistake: Mistake,
        expected: &str,
        hint: Option<String>,
    ) -> ReportedProblem {
        self.problems
            .report(self.key_span.clone(), mistake, expected, hint)
    }

    /// Reports a mistake at a byte range of this value's text.
    pub(crate) fn refuse_part(
        &self,
        part: Range<usize>,
        mistake: Mistake,
        expected: &str,
        hint: Option<String>,
    ) -> ReportedProblem {
        self.problems
            .report(self.span_of_part(part), mistake, expected, hint)
    }

    /// The span in the file of a byte range of this text. The bytes of a text with escapes do not map to bytes of the
    /// file, so the span is then that of the whole value.
    fn span_of_part(&self, part: Range<usize>) -> Range<usize> {
        let DeValue::String(text) = self.value else {
            return self.span.clone();
        };
        let raw = self
            .problems
            .text()
            .get(self.span.clone())
            .unwrap_or_default();
        // One or three quotes on each side, and the text between them without escapes.
        let quotes = [1, 3].into_iter().find(|&quotes| {
            raw.len() == text.len() + 2 * quotes
                && raw.get(quotes..quotes + text.len()) == Some(text)
        });
        match quotes {
            Some(quotes) => {
                let start = self.span.start + quotes;
                start + part.start..start + part.end
            }
            None => self.span.clone(),
        }
    }

    fn elements(&self) -> Vec<Field<'d>> {
        let DeValue::Array(array) = self.value else {
            return Vec::new();
        };
        array
            .iter()
            .map(|element| Field {
                key: self.key,
                key_span: self.key_span.clone(),
                span: element.span(),
                value: element.get_ref(),
                problems: self.problems,
            })
            .collect()
    }

    pub(crate) fn with_span<T>(&self, value: T) -> SpannedValue<T> {
        SpannedValue {
            value,
            span: self.span.clone(),
        }
    }
}
