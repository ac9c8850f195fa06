//! Why a recording could not be imported: the format it was read as, where it is wrong, and what would be right.
//!
//! A part that is merely left out of an import is not an error: see `omission`.

use super::omission::{Omission, listed};
use super::place::{Format, Location};

/// Why a recording could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input is larger than an import accepts.
    #[error(
        "cannot import the {format}: it has {bytes} bytes, at most 4 GiB are read; cut it into parts"
    )]
    TooLarge {
        /// The format it was read as.
        format: Format,
        /// The size of the input.
        bytes: u64,
    },
    /// The input is not the expected JSON.
    #[error("cannot import the {format}: {source}; {}", format.advice())]
    Json {
        /// The format it was read as.
        format: Format,
        /// The error, with line and column.
        source: serde_json::Error,
    },
    /// A part of the input is wrong.
    #[error("cannot import the {format}: {location}: {fault}; {}", format.advice())]
    At {
        /// The format it was read as.
        format: Format,
        /// The location.
        location: Location,
        /// The fault.
        fault: Fault,
    },
    /// The import has no request.
    #[error("no request in the {format} can be sent{}", listed(omissions))]
    Nothing {
        /// The format it was read as.
        format: Format,
        /// What was left out.
        omissions: Vec<Omission>,
    },
    /// A script has a path that cannot be written as JSON.
    #[error("cannot write the script: {0}; give its body files names in UTF-8")]
    Write(#[source] serde_json::Error),
}

impl ImportError {
    pub(super) fn at(format: Format, location: Location, fault: impl Into<Fault>) -> ImportError {
        ImportError::At {
            format,
            location,
            fault: fault.into(),
        }
    }
}

/// What is wrong at one location of a recording.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Bytes that are not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A line of a timing script without a tab.
    #[error("it contains no tab")]
    NoTab,
    /// A time that is not a valid number of milliseconds.
    #[error("{0:?} is not a time from 0 ms to 30 years")]
    Time(String),
    /// A time that is too far from the first.
    #[error("it is more than 30 years after the first")]
    TooLate,
    /// A time that is earlier than the previous step's.
    #[error("its time is before that of the step above it; steps must be sorted by time")]
    TimeGoesBack,
    /// An invalid method.
    #[error("{0:?} is not a method, such as GET")]
    Method(String),
    /// A target without a method or a URL.
    #[error("{0:?} is not a method and URL")]
    NoTarget(String),
    /// A URL that cannot be requested.
    #[error("{0}")]
    Url(#[from] UrlFault),
    /// A header field that no request can have.
    #[error("{0:?} is not a header field, such as accept: text/html")]
    Field(String),
    /// A header field that squall sets itself, or that concerns a single connection, or whose name is not in lower case.
    #[error(
        "the field {0:?} cannot be in a script: squall sets it itself (content-length), or it concerns the connection \
         (connection, upgrade, te other than trailers), or it is not in lower case"
    )]
    OwnField(String),
    /// A body file without a name.
    #[error("the file name after @ is missing")]
    NoFile,
    /// A line that is not the expected JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A body that is not base64.
    #[error("its body is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// A step whose request does not exist.
    #[error("there is no request {request}; the script has only {requests}")]
    NoRequest {
        /// The request's index.
        request: u32,
        /// The number of requests in the script.
        requests: u64,
    },
}

/// Why a URL cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is not a valid URL.
    #[error("{url:?} is not a URL: {source}")]
    NotUrl {
        /// The text found there.
        url: String,
        /// The parser's error.
        source: url::ParseError,
    },
    /// Its scheme is neither http nor https.
    #[error("{0:?} is not http or https")]
    NotHttp(String),
}

/// The beginning of an untrusted text for an error message, long enough to find it.
pub(super) fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
