//! What an import left out: counted by reason, with the first place of each. Not an error: those are in `error`.

use std::fmt;

use super::error::{Format, ImportError, Place};

/// What an import came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported<T> {
    /// The script or the requests.
    pub content: T,
    /// What of the recording is not in it; one for each reason.
    pub omissions: Vec<Omission>,
}

/// Things that were left out for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omission {
    /// Why.
    pub reason: Reason,
    /// How many.
    pub count: u64,
    /// Where the first of them is.
    pub first: Place,
}

/// Why something is not in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A request by another scheme than `http` and `https`: `data:`, `blob:`, `ws:`, a browser's own.
    NotHttp,
    /// A request whose URL is none.
    NotUrl,
    /// A request whose method is none, or is CONNECT, which asks a proxy for a tunnel.
    Method,
    /// A request without a time.
    NoTime,
    /// A request that the browser's cache answered: it was not sent.
    FromCache,
    /// A request for something else than a media segment, where only those were wanted.
    NotMedia,
    /// A header field that no request can have, such as one with a line break in its value.
    Field,
    /// A `Host` that is not the URL's: squall sends the URL's.
    OtherHost,
    /// A body of which only the size is known, or that is no text: as many bytes are sent in its place.
    BodyContent,
    /// A body of which not even the size is known: the request is sent without.
    Body,
}

impl Reason {
    /// One of them, and many.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Reason::NotHttp => (
                "request left out: not http or https",
                "requests left out: not http or https",
            ),
            Reason::NotUrl => (
                "request left out: its URL is none",
                "requests left out: their URLs are none",
            ),
            Reason::Method => (
                "request left out: its method is none, or CONNECT",
                "requests left out: their methods are none, or CONNECT",
            ),
            Reason::NoTime => (
                "request left out: it has no time",
                "requests left out: they have no time",
            ),
            Reason::FromCache => (
                "request left out: the browser's cache answered it",
                "requests left out: the browser's cache answered them",
            ),
            Reason::NotMedia => (
                "request left out: no media segment",
                "requests left out: no media segments",
            ),
            Reason::Field => (
                "header field left out: it cannot be sent",
                "header fields left out: they cannot be sent",
            ),
            Reason::OtherHost => (
                "Host left out: it is not the URL's",
                "Hosts left out: they are not the URL's",
            ),
            Reason::BodyContent => (
                "body of which only the size is kept",
                "bodies of which only the size is kept",
            ),
            Reason::Body => (
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

/// The end of a sentence that lists omissions.
pub(super) fn listed(omissions: &[Omission]) -> String {
    let words: Vec<String> = omissions.iter().map(Omission::to_string).collect();
    match words.is_empty() {
        true => "; is it the right file?".to_owned(),
        false => format!(": {}", words.join(", ")),
    }
}

/// Omissions while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally(Vec<Omission>);

impl Tally {
    /// Counts one.
    pub(super) fn add(&mut self, reason: Reason, place: Place) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => self.0.push(Omission {
                reason,
                count: 1,
                first: place,
            }),
        }
    }

    /// The import, unless nothing came of it.
    pub(super) fn finish<T>(
        self,
        format: Format,
        content: T,
        is_empty: impl Fn(&T) -> bool,
    ) -> Result<Imported<T>, ImportError> {
        if is_empty(&content) {
            let omissions = self.0;
            return Err(ImportError::Nothing { format, omissions });
        }
        Ok(Imported {
            content,
            omissions: self.0,
        })
    }
}
