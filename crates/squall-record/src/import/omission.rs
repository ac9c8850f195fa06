//! Counts what an import left out, by reason, with the first location of each. Omissions are not errors; those are in
//! `error`.

use std::fmt;

use squall_base::plan::message::{MAX_HEADERS, MAX_HEADERS_BYTES, MAX_TARGET_LEN_BYTES};

use super::place::Location;

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
    /// A request with a longer path and query than [`MAX_TARGET_LEN_BYTES`].
    UrlTooLong,
    /// A request with an invalid method, or with CONNECT, which asks a proxy for a tunnel.
    Method,
    /// A request without a time, or with an invalid one.
    NoTime,
    /// A request whose time is so far from the others' that it cannot be right, such as in 1970.
    FarTime,
    /// A request answered from the browser's cache: it was not sent.
    FromCache,
    /// A request of a page that a service worker answered. What the worker itself sent is another request.
    ServiceWorker,
    /// A request that the browser, its developer tools or a test answered: it was not sent. Among them are redirects to
    /// https because of HSTS.
    AnsweredInside,
    /// A request that was blocked, or that failed before a response.
    Failed,
    /// A request that opened a WebSocket.
    WebSocket,
    /// A CORS preflight (Fetch Standard, "CORS-preflight fetch").
    Preflight,
    /// A request for something other than a media segment, if only those were wanted.
    NotMedia,
    /// A request with more header fields than [`MAX_HEADERS`], or with more bytes in them than [`MAX_HEADERS_BYTES`].
    HeadersTooLong,
    /// A request whose body is not recorded, and is longer than squall generates: 1 GiB.
    BodyTooLong,
    /// An entry that lacks a necessary field, or whose field has the wrong type.
    Malformed,
    /// A header field that no request can have, such as one with a line break in its value.
    Field,
    /// A header field that squall sets itself, such as `content-length`, or that concerns a single connection.
    ProtocolField,
    /// A `Host` that differs from the URL's: squall sends the URL's.
    OtherHost,
    /// A body of which only the size is known, or that is not text: the same number of bytes is sent in its place.
    BodyContent,
    /// A body whose size is unknown too: the request is sent without it.
    Body,
}

// `OmissionReason::of_request` states these limits.
const _: () =
    assert!(MAX_TARGET_LEN_BYTES == 8_000 && MAX_HEADERS == 126 && MAX_HEADERS_BYTES == 48 * 1024);

impl OmissionReason {
    /// Why a request was left out, for one and for several; `None` if only a part of it was.
    const fn of_request(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            OmissionReason::NotHttp => ("not http or https", "not http or https"),
            OmissionReason::NotUrl => ("its URL is invalid", "their URLs are invalid"),
            OmissionReason::UrlTooLong => (
                "the path and query of its URL are longer than 8000 bytes",
                "the paths and queries of their URLs are longer than 8000 bytes",
            ),
            OmissionReason::Method => (
                "its method is invalid, or CONNECT",
                "their methods are invalid, or CONNECT",
            ),
            OmissionReason::NoTime => ("it has no valid time", "they have no valid time"),
            OmissionReason::FarTime => (
                "its time is more than a year from that of most others",
                "their times are more than a year from those of most others",
            ),
            OmissionReason::FromCache => (
                "the browser's cache answered it",
                "the browser's cache answered them",
            ),
            OmissionReason::ServiceWorker => (
                "a service worker answered it",
                "service workers answered them",
            ),
            OmissionReason::AnsweredInside => (
                "the browser or a test answered it, without a server",
                "the browser or a test answered them, without a server",
            ),
            OmissionReason::Failed => (
                "it was blocked or failed, without a response",
                "they were blocked or failed, without a response",
            ),
            OmissionReason::WebSocket => ("it opened a WebSocket", "they opened WebSockets"),
            OmissionReason::Preflight => (
                "the browser asked for permission with it (CORS preflight)",
                "the browser asked for permission with them (CORS preflights)",
            ),
            OmissionReason::NotMedia => ("no media segment", "no media segments"),
            OmissionReason::HeadersTooLong => (
                "its header fields are more than 126, or longer than 48 KiB",
                "their header fields are more than 126, or longer than 48 KiB",
            ),
            OmissionReason::BodyTooLong => (
                "its body is longer than 1 GiB",
                "their bodies are longer than 1 GiB",
            ),
            OmissionReason::Malformed => (
                "a field is missing, or of another type than in HAR 1.2",
                "a field is missing, or of another type than in HAR 1.2",
            ),
            _ => return None,
        })
    }

    /// What was left out of a request, in the singular and the plural.
    const fn of_part(self) -> (&'static str, &'static str) {
        match self {
            OmissionReason::Field => (
                "header field left out: it cannot be sent",
                "header fields left out: they cannot be sent",
            ),
            OmissionReason::ProtocolField => (
                "header field left out: squall sets it itself (content-length), or it concerns the connection \
                 (connection, te, upgrade)",
                "header fields left out: squall sets them itself (content-length), or they concern the connection \
                 (connection, te, upgrade)",
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
            _ => ("request left out", "requests left out"),
        }
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = self.reason.of_part();
        let (why_one, why_many) = self.reason.of_request().unwrap_or_default();
        let colon = if why_one.is_empty() { "" } else { ": " };
        match self.count {
            1 => write!(f, "1 {one}{colon}{why_one} ({})", self.first),
            count => write!(f, "{count} {many}{colon}{why_many} (first: {})", self.first),
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
pub(super) struct Tally(pub(super) Vec<Omission>);

impl Tally {
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

    /// Adds the omissions of a later part of the recording.
    pub(super) fn append(&mut self, later: Tally) {
        for omission in later.0 {
            match self.0.iter_mut().find(|it| it.reason == omission.reason) {
                Some(known) => known.count += omission.count,
                None => self.0.push(omission),
            }
        }
    }
}
