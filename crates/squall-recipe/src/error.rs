//! The mistakes that a recipe can contain, and how they are printed: file, line, column, the offending line, what was
//! expected, and a hint if there is a close match.
//!
//! Nothing here looks for mistakes: `section`, `read` and `path` find them, and `problems` collects them.

use std::fmt::{self, Write as _};
use std::ops::Range;

use squall_base::plan::{PageError, Side};
use thiserror::Error;

use crate::conflict::Conflict;
use crate::path::PathMistake;
use crate::words::printable;

/// Every mistake in a recipe's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeError {
    /// At least one, in text order.
    problems: Vec<Problem>,
}

/// One mistake and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub mistake: Mistake,
    /// Where it is, as a byte range of the text.
    pub span: Range<usize>,
    /// The line on which the span begins, from 1.
    pub line: usize,
    /// The column at which the span begins, from 1, in characters.
    pub column: usize,
    /// What was expected instead.
    pub expected: String,
    /// A guess at what was meant.
    pub hint: Option<String>,
}

/// A kind of mistake, with the offending text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mistake {
    /// The text is not TOML, with the message of the parser.
    #[error("{0}")]
    Syntax(String),
    /// An unknown key.
    #[error("unknown key `{key}` in {table}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The table, such as `[load]`.
        table: String,
    },
    /// A required key that is missing.
    #[error("missing key `{key}` in {table}")]
    MissingKey {
        /// The key.
        key: String,
        /// The table, such as `[load]`.
        table: String,
    },
    /// A value of the wrong TOML type.
    #[error("`{key}` is {found}")]
    WrongType {
        /// The key of the value.
        key: String,
        /// The type that was found, such as `a whole number`.
        found: &'static str,
    },
    /// A quantity that does not begin with a plain number.
    #[error("{0:?} does not begin with a plain number")]
    NotANumber(String),
    /// A quantity without its unit.
    #[error("no unit in {0:?}")]
    NoUnit(String),
    /// A quantity whose unit is unknown, or belongs to another kind of quantity.
    #[error("unknown unit {unit:?} in {text:?}")]
    UnknownUnit {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// A value of the right type that is out of range.
    #[error("`{key}` is out of range: {value}")]
    OutOfRange {
        /// The key of the value.
        key: String,
        /// The value as it was understood.
        value: String,
    },
    /// A text that does not have the format that its key requires.
    #[error("{text:?} is not {rule}")]
    Malformed {
        /// The text.
        text: String,
        /// What it should have been, such as `a method`.
        rule: &'static str,
    },
    /// Invalid settings of the link: where in the text, and what is wrong.
    #[error("{0}")]
    Link(String),
    /// A file that is missing or has invalid contents.
    #[error("{path}: {reason}")]
    File {
        /// The file, as the recipe names it.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that belongs to another kind of load.
    #[error("`{key}` in a load of kind `{kind}`")]
    OtherKind {
        /// The key.
        key: String,
        /// The kind that the load has.
        kind: &'static str,
    },
    /// Two keys that exclude each other.
    #[error("`{key}` together with `{other}`")]
    ExclusiveKeys {
        /// The key.
        key: String,
        /// The key that it conflicts with.
        other: &'static str,
    },
    /// Requests that do not form a page.
    #[error("{0}")]
    Page(#[from] PageError),
    /// A list that needs at least one element.
    #[error("`{0}` is an empty list")]
    EmptyList(String),
    /// A duplicate name or value.
    #[error("{what} `{name}` is already on line {first_line}")]
    Duplicate {
        /// What it is, such as `variant`.
        what: &'static str,
        /// Its name or value.
        name: String,
        /// The line of the first one, from 1.
        first_line: usize,
    },
    /// Too many header fields for at least one protocol engine; every value of a list counts.
    #[error("{0} header fields")]
    TooManyHeaders(usize),
    /// Header fields whose size (`squall_base::plan::message::header_bytes`) at least one protocol engine refuses.
    #[error("header fields of {0} bytes")]
    HeadersTooLong(usize),
    /// A header field that the protocol engines write themselves.
    #[error("header `{0}` is written by the protocol engines")]
    EngineHeader(String),
    /// The header field that announces trailers, which requests of a recipe do not have.
    #[error("header `trailer` announces trailers, and squall sends none")]
    TrailerHeader,
    /// A `te` other than `trailers`, which HTTP/2 and HTTP/3 forbid (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
    #[error("header `te` asks for transfer codings, which HTTP/2 and HTTP/3 do not have")]
    TransferCodings,
    /// A connection-specific header field, which HTTP/2 forbids (RFC 9113, section 8.2.2).
    #[error("header `{0}` is about one connection")]
    ConnectionHeader(String),
    /// Settings of a protocol that is not used there.
    #[error("`{key}` without {lacking}")]
    Unused {
        /// The key.
        key: String,
        /// The protocol that is not used, such as `HTTP/2`.
        lacking: &'static str,
    },
    /// A table that takes exactly one of its keys, but has none or several.
    #[error("`{key}` has {count} of its keys")]
    NotOneKey {
        /// The key of the table.
        key: String,
        /// How many it has.
        count: usize,
    },
    /// An unknown preset.
    #[error("unknown preset `{0}`")]
    UnknownPreset(String),
    /// Settings that contradict each other.
    #[error("{0}")]
    Conflict(#[from] Conflict),
    /// An assignment without `=`.
    #[error("no `=`")]
    NotAnAssignment,
    /// A response body where HTTP allows none (RFC 9110, sections 6.4.1 and 9.3.2).
    #[error("a response to {method} with status {status} has no body")]
    NoResponseBody {
        /// The request's method.
        method: String,
        /// The response's status.
        status: u16,
    },
    /// A load that sends no request during its measured time.
    #[error("no request is due in the measured {duration} of profile `{profile}`")]
    NoRequest {
        /// The profile.
        profile: String,
        /// Its measured time.
        duration: String,
    },
    /// More trials than a run can number.
    #[error("profile `{profile}` has {count} trials")]
    TooManyTrials {
        /// The profile.
        profile: String,
        /// How many it would have.
        count: u64,
    },
    /// An unknown profile.
    #[error("unknown profile `{0}`")]
    UnknownProfile(String),
    /// An unknown variant.
    #[error("unknown variant `{0}`")]
    UnknownVariant(String),
    /// A profile that replaces the size of a request body that has no size.
    #[error("there is no size of a request's body to replace")]
    NoSize,
    /// A comparison with a variant that the profile leaves out.
    #[error("profile `{profile}` leaves variant `{name}` out")]
    NotInProfile {
        /// The variant.
        name: String,
        /// The profile.
        profile: String,
    },
    /// A primary comparison that matches none or several of a profile's conditions.
    #[error("the primary comparison matches {count} conditions of profile `{profile}`")]
    NotOneCondition {
        /// The profile.
        profile: String,
        /// How many conditions it matches.
        count: usize,
    },
    /// Server times of some targets, on a path whose requests carry no identifier.
    #[error("the server of `{0}` cannot tell which request is which")]
    UntaggedRequests(String),
    /// A hop that the path does not have.
    #[error("there is no hop `{0}`")]
    UnknownHop(String),
    /// Settings of our own stations, for a third-party program.
    #[error("`{0}` is a program with its own settings")]
    NotEmbedded(String),
    /// A station that the path does not have.
    #[error("there is no station `{0}` on the path")]
    UnknownStation(String),
    /// A setting that squall cannot pass to this program.
    #[error("`{station}` is a program, which cannot be given `{key}`")]
    UnsupportedSetting {
        /// The station.
        station: String,
        /// The key.
        key: String,
    },
    /// A key that needs `extends`, in a station without it.
    #[error("`{0}` without `extends`")]
    WithoutExtends(String),
    /// A setting that only the other side uses.
    #[error("`{key}` of a {}", side.name())]
    OtherSide {
        /// The key.
        key: String,
        /// The side that would ignore it.
        side: Side,
    },
    /// Conditions of a link that no path has; links count from 1.
    #[error("there is no link {0}")]
    NoSuchLink(usize),
    /// A host setting that differs between two hops that share a host.
    #[error("`{key}` differs on hops {before} and {behind}, which share a host")]
    SharedHost {
        /// The key.
        key: &'static str,
        /// The hop that leads to the host.
        before: u8,
        /// The hop that leads out of it.
        behind: u8,
    },
    /// A host setting, on a hop that stays inside one host.
    #[error("`{0}` on a hop inside a host")]
    InsideHost(String),
    /// A setting of our own stations, on a hop between programs.
    #[error("`{0}` between programs")]
    OnlyPrograms(String),
    /// A setting of the client of a path, on a hop that a proxy opens.
    #[error("`{0}` of a proxy")]
    InProxy(String),
    /// A setting of proxies, on a hop that does not lead to one of our own.
    #[error("`{key}` of `{station}`, which is not one of squall's own proxies")]
    NoProxy {
        /// The key.
        key: String,
        /// The station.
        station: String,
    },
    /// A station, or what the path has in its place, that cannot be pinned to a processor.
    #[error("{0} cannot be pinned")]
    NotPinned(String),
    /// A path that cannot be parsed or run.
    #[error("{0}")]
    Path(#[from] PathMistake),
}

impl RecipeError {
    pub(crate) fn new(mut problems: Vec<Problem>) -> RecipeError {
        problems.sort_by_key(|p| p.span.start);
        RecipeError { problems }
    }

    /// Whether the first problem of the text satisfies `is_such`.
    pub(crate) fn begins_with(&self, is_such: impl Fn(&Mistake) -> bool) -> bool {
        self.problems.first().is_some_and(|p| is_such(&p.mistake))
    }

    /// The first problem of the text.
    pub(crate) fn into_first(self) -> Problem {
        let first = self.problems.into_iter().next();
        first.expect("without a problem there is no error")
    }

    /// Every problem, in the order of the text; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The problems for a person to read, one paragraph each; `text` is the text that was parsed.
    ///
    /// ```
    /// let text = "name = 5\nquestion = \"?\"\n[load]\nrate = \"1/s\"\nduration = \"1s\"\n\
    ///             [[variant]]\nname = \"a\"\npath = \"client ~h1~> server\"\n";
    /// let error = squall_recipe::parse(text).unwrap_err();
    /// assert_eq!(
    ///     error.render("x.toml", text),
    ///     "x.toml:1:8: `name` is a whole number\n  |\n1 | name = 5\n  |        ^\n  \
    ///      = expected a text in quotes\n"
    /// );
    /// ```
    pub fn render(&self, file_name: &str, text: &str) -> String {
        let paragraphs: Vec<String> = self
            .problems
            .iter()
            .map(|p| p.render(file_name, text))
            .collect();
        paragraphs.join("\n")
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RecipeError {}

impl Problem {
    fn render(&self, file_name: &str, text: &str) -> String {
        let line_text = text.lines().nth(self.line - 1).unwrap_or_default();
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let shown = printable(line_text);
        // Keep tabs, so that the marks line up with the line above.
        let indent: String = shown
            .chars()
            .take(self.column - 1)
            .map(|c| if c == '\t' { c } else { ' ' })
            .collect();
        let mistake = printable(&self.mistake.to_string());
        let mut out = format!("{file_name}:{}:{}: {mistake}\n", self.line, self.column);
        let _ = writeln!(out, "{gutter} |\n{number} | {shown}");
        let _ = writeln!(
            out,
            "{gutter} | {indent}{}",
            "^".repeat(self.width_within(text))
        );
        let _ = writeln!(out, "{gutter} = expected {}", self.expected);
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "{gutter} = help: {hint}");
        }
        out
    }

    /// How many characters of the span are on its first line; at least 1.
    fn width_within(&self, text: &str) -> usize {
        let spanned = text.get(self.span.clone()).unwrap_or_default();
        spanned
            .lines()
            .next()
            .map_or(0, |line| line.chars().count())
            .max(1)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}",
            self.line,
            self.column,
            printable(&self.mistake.to_string())
        )?;
        write!(f, ": expected {}", self.expected)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}
