//! Counts what an import left out, by reason, with the first location of each. Omissions are not errors; those are in
//! `error`.

use std::fmt;

use super::error::{Format, ImportError, Location};

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import<T> {
    /// The script or the requests.
    pub content: T,
    /// What was left out of the recording; one entry per reason.
    pub omissions: Vec<Omission>,
}

/// Things left out for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omission {
    /// Why.
    pub reason: OmissionReason,
    /// How many.
    pub count: u64,
    /// Where the first of them is.
    pub first: Location,
}

/// Why something was left out of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmissionReason {
    /// A request with another scheme than `http` and `https`: `data:`, `blob:`, `ws:`, or a browser's own.
    NotHttp,
    /// A request with an invalid URL.
    NotUrl,
    /// A request with an invalid method, or with CONNECT, which asks a proxy for a tunnel.
    Method,
    /// A request without a time.
    NoTime,
    /// A request answered from the browser's cache: it was not sent.
    FromCache,
    /// A request for something other than a media segment, if only those were wanted.
    NotMedia,
    /// A header field that no request can have, such as one with a line break in its value.
    Field,
    /// A `Host` that differs from the URL's: squall sends the URL's.
    OtherHost,
    /// A body of which only the size is known, or that is not text: the same number of bytes is sent in its place.
    BodyContent,
    /// A body whose size is unknown too: the request is sent without it.
    Body,
}

impl OmissionReason {
    /// Singular and plural descriptions.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            OmissionReason::NotHttp => (
                "request left out: not http or https",
                "requests left out: not http or https",
            ),
            OmissionReason::NotUrl => (
                "request left out: its URL is none",
                "requests left out: their URLs are none",
            ),
            OmissionReason::Method => (
                "request left out: its method is none, or CONNECT",
                "requests left out: their methods are none, or CONNECT",
            ),
            OmissionReason::NoTime => (
                "request left out: it has no time",
                "requests left out: they have no time",
            ),
            OmissionReason::FromCache => (
                "request left out: the browser's cache answered it",
                "requests left out: the browser's cache answered them",
            ),
            OmissionReason::NotMedia => (
                "request left out: no media segment",
                "requests left out: no media segments",
            ),
            OmissionReason::Field => (
                "header field left out: it cannot be sent",
                "header fields left out: they cannot be sent",
            ),
            OmissionReason::OtherHost => (
                "Host left out: it is not the URL's",
                "Hosts left out: they are not the URL's",
            ),
            OmissionReason::BodyContent => (
                "body of which only the size is kept",
                "bodies of which only the size is kept",
            ),
            OmissionReason::Body => (
                "body left out: not even its size is known",
                "bodies left out: not even their size is known",
            ),
        }
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = self.reason.words();
        match self.count {
            1 => write!(f, "1 {one} ({})", self.first),
            count => write!(f, "{count} {many} (first: {})", self.first),
        }
    }
}

/// The end of an error message, listing the omissions.
pub(super) fn listed(omissions: &[Omission]) -> String {
    let words: Vec<String> = omissions.iter().map(Omission::to_string).collect();
    if words.is_empty() {
        "; is it the right file?".to_owned()
    } else {
        format!(": {}", words.join(", "))
    }
}

/// Counts omissions.
#[derive(Debug, Default)]
pub(super) struct Tally(Vec<Omission>);

impl Tally {
    /// Counts one omission.
    pub(super) fn add(&mut self, reason: OmissionReason, location: Location) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => self.0.push(Omission {
                reason,
                count: 1,
                first: location,
            }),
        }
    }

    /// Finishes the import; an error if it is empty.
    pub(super) fn finish<T>(
        self,
        format: Format,
        content: T,
        is_empty: impl Fn(&T) -> bool,
    ) -> Result<Import<T>, ImportError> {
        if is_empty(&content) {
            let omissions = self.0;
            return Err(ImportError::Nothing { format, omissions });
        }
        Ok(Import {
            content,
            omissions: self.0,
        })
    }
}
