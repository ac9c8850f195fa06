//! Why a recording could not be imported: what it was taken for, where it is wrong, and what would be right.
//!
//! What is merely left out of an import is no error: `omission`.

use std::fmt;

use super::omission::{Omission, listed};

/// What a text was taken for.
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
    /// A script of squall's.
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
    /// What to try.
    const fn advice(self) -> &'static str {
        match self {
            Format::Har => "save it again with the browser's \"Save all as HAR\"",
            Format::TimingScript => {
                "a line is a time in milliseconds, a tab and a URI, such as 12.5\\thttps://example.org/"
            }
            Format::VegetaHttp => {
                "a target is a line such as GET https://example.org/, then lines of header fields, then @FILE \
                 for a body, then a blank line"
            }
            Format::VegetaJson => {
                "a line is an object such as {\"method\":\"GET\",\"url\":\"https://example.org/\"}"
            }
            Format::Script => "docs/RECORD.md says what a script has",
        }
    }
}

/// Where in a recording something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// An entry of a HAR file, from 0, as in `log.entries[0]`.
    Entry(u64),
    /// A request of a script, from 0.
    Request(u64),
    /// A step of a script, from 0.
    Step(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Entry(entry) => write!(f, "log.entries[{entry}]"),
            Place::Request(request) => write!(f, "requests[{request}]"),
            Place::Step(step) => write!(f, "steps[{step}]"),
        }
    }
}

/// Why a recording could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There are more bytes than an import takes.
    #[error(
        "cannot import the {format}: it has {bytes} bytes, at most 4 GiB are read; cut it into parts"
    )]
    TooLarge {
        /// What it was taken for.
        format: Format,
        /// How many there are.
        bytes: u64,
    },
    /// The whole is not the JSON that it should be.
    #[error("cannot import the {format}: {source}; {}", format.advice())]
    Json {
        /// What it was taken for.
        format: Format,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// Something in it is wrong.
    #[error("cannot import the {format}: {place}: {fault}; {}", format.advice())]
    At {
        /// What it was taken for.
        format: Format,
        /// Where.
        place: Place,
        /// What is wrong.
        fault: Fault,
    },
    /// Not one request came of it.
    #[error("the {format} has no request that can be sent{}", listed(omissions))]
    Nothing {
        /// What it was taken for.
        format: Format,
        /// What was left out.
        omissions: Vec<Omission>,
    },
    /// A script has a path that JSON has no words for.
    #[error("cannot write the script: {source}; give its body files names in UTF-8")]
    Write {
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl ImportError {
    pub(super) fn at(format: Format, place: Place, fault: impl Into<Fault>) -> ImportError {
        ImportError::At {
            format,
            place,
            fault: fault.into(),
        }
    }
}

/// What is wrong at one place of a recording.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Bytes that are no text.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A line of a timing script without a tab.
    #[error("there is no tab in it")]
    NoTab,
    /// A time that is none.
    #[error("{text:?} is no time of 0 or more milliseconds, at most 30 years")]
    Time {
        /// What stands there.
        text: String,
    },
    /// A time that is too far from the first.
    #[error("it is more than 30 years after the first")]
    TooLate,
    /// A time before the one that precedes it.
    #[error(
        "its time is before that of the step above it; steps stand in the order of their times"
    )]
    TimeGoesBack,
    /// A method that no request can have.
    #[error("{text:?} is no method, such as GET")]
    Method {
        /// What stands there.
        text: String,
    },
    /// A target without a method or a URL.
    #[error("{text:?} is no method and URL")]
    NoTarget {
        /// What stands there.
        text: String,
    },
    /// A URL that cannot be asked.
    #[error("{0}")]
    Url(#[from] UrlFault),
    /// A header field that no request can have.
    #[error("{text:?} is no header field, such as accept: text/html")]
    Field {
        /// What stands there.
        text: String,
    },
    /// A header field that is the protocol's own, or is not in lower case.
    #[error(
        "the field {name:?} cannot be in a script: squall sets it itself, or it is not in lower case"
    )]
    OwnField {
        /// Its name.
        name: String,
    },
    /// A body file without a name.
    #[error("there is no name of a file after @")]
    NoFile,
    /// A line that is not the JSON it should be.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A body that is no base64.
    #[error("its body is no base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// A step whose request does not exist.
    #[error("there is no request {request}, the script has {requests}")]
    NoRequest {
        /// The request's number.
        request: u32,
        /// How many there are.
        requests: u64,
    },
}

/// Why a URL cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is no URL.
    #[error("{url:?} is no URL: {source}")]
    NotUrl {
        /// What stands there.
        url: String,
        /// What is wrong.
        source: url::ParseError,
    },
    /// It is asked in another way than by HTTP.
    #[error("{url:?} is not http or https")]
    NotHttp {
        /// What stands there.
        url: String,
    },
}

/// The beginning of a foreign text, for an error: enough to find it by.
pub(super) fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
