//! The formats of recordings, and places in them.
//!
//! It has only names, for errors and omissions. Each format has a parser in its own file, such as `har`.

use std::fmt;

/// The format that a recording is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An HTTP archive, version 1.2.
    Har,
    /// A timing script of h2load.
    TimingScript,
    /// Targets of vegeta as text.
    VegetaHttp,
    /// Targets of vegeta as lines of JSON.
    VegetaJson,
    /// A squall script.
    Script,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Har => "HAR file",
            Format::TimingScript => "timing script of h2load",
            Format::VegetaHttp => "targets of vegeta (format http)",
            Format::VegetaJson => "targets of vegeta (format json)",
            Format::Script => "script",
        })
    }
}

impl Format {
    /// What the user should try.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Format::Har => "save it again with the browser's \"Save all as HAR\"",
            Format::TimingScript => {
                "a line is a time in milliseconds, a tab and a URI, such as 12.5\\thttps://example.org/"
            }
            Format::VegetaHttp => {
                "a target is a line such as GET https://example.org/ (or only the URL), then lines of header fields, \
                 then @FILE for a body, then a blank line"
            }
            Format::VegetaJson => {
                "a line is an object such as {\"method\":\"GET\",\"url\":\"https://example.org/\"}"
            }
            Format::Script => "docs/RECORD.md says what a script has",
        }
    }
}

/// A location in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// A line, from 1.
    Line(u64),
    /// An entry of a HAR file, from 0, as in `log.entries[0]`.
    Entry(u64),
    /// A request of a script, from 0.
    Request(u64),
    /// A step of a script, from 0.
    Step(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Line(line) => write!(f, "line {line}"),
            Location::Entry(entry) => write!(f, "log.entries[{entry}]"),
            Location::Request(request) => write!(f, "requests[{request}]"),
            Location::Step(step) => write!(f, "steps[{step}]"),
        }
    }
}
