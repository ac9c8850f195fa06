//! Parses the head of a message: the start line and the few fields that determine its framing.
//!
//! httparse handles the syntax. This module adds the limits, rejects what httparse accepts but we do not, and buffers
//! heads that arrive in pieces. `fields` interprets the fields.

use std::mem::MaybeUninit;

use httparse::{Error, ParserConfig, Status};

use super::body::Body;
use super::fields::{Facts, owned_fields};
use super::folds::unfold;
use super::limits::{MAX_FIELDS, MAX_HEAD_BYTES};
use super::target::Target;
use super::version::Version;
use crate::error::ConnectionError;
use crate::event::Field;
use crate::inbox::InboxOptions;

/// The head of a request.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Vec<Field>,
    pub(super) version: Version,
    pub(super) body: Option<Body>,
    pub(super) keeps_alive: bool,
    pub(super) expects_continue: bool,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) fields: Vec<Field>,
    pub(super) body: Option<Body>,
    pub(super) keeps_alive: bool,
    pub(super) upgrades_to_h2c: bool,
}

/// The request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredMethod {
    /// A HEAD request: the response has no body, regardless of its head.
    Head,
    /// Any other request, or an unknown one.
    Other,
}

impl AnsweredMethod {
    pub(super) fn of(is_head: bool) -> AnsweredMethod {
        if is_head {
            AnsweredMethod::Head
        } else {
            AnsweredMethod::Other
        }
    }
}

/// Buffers the part of a head received so far.
#[derive(Debug, Default)]
pub(super) struct HeadBuffer {
    /// May also hold the CR of an empty line before the head.
    partial: Vec<u8>,
}

/// The last response head that arrived in one piece, with its parsed form. Servers usually send the same head every time,
/// except for a date that changes every second, and comparing two heads takes a fiftieth of the time of parsing one. The
/// parsed form depends only on the head's bytes and the request's method, and where the head ends only on its bytes.
#[derive(Debug, Default)]
pub(super) struct LastHead {
    bytes: Vec<u8>,
    parsed: Option<(AnsweredMethod, ResponseHead)>,
}

/// Longer heads are not remembered, because every connection stores one.
const MAX_REMEMBERED_BYTES: usize = 1024;

impl LastHead {
    /// The length and parsed form of the head at the start of `bytes`, if it is the remembered one.
    pub(super) fn repeated(
        &self,
        bytes: &[u8],
        answered: AnsweredMethod,
    ) -> Option<(usize, ResponseHead)> {
        let (known, head) = self.parsed.as_ref()?;
        let is_same = *known == answered && bytes.starts_with(&self.bytes);
        is_same.then(|| (self.bytes.len(), head.clone()))
    }

    /// Remembers a complete head that was parsed without its fields.
    pub(super) fn remember(&mut self, bytes: &[u8], answered: AnsweredMethod, head: &ResponseHead) {
        self.parsed = None;
        if bytes.len() <= MAX_REMEMBERED_BYTES {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            self.parsed = Some((answered, head.clone()));
        }
    }
}

/// A head and its length in bytes, or `None` if it is incomplete.
type ParseResult<T> = Result<Option<(usize, T)>, ConnectionError>;

impl HeadBuffer {
    /// Whether a head has begun.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.partial[..], [] | [b'\r'])
    }

    /// How many bytes of a head have arrived. This may be a lone CR that could still turn out to be part of an empty
    /// line.
    pub(super) fn len(&self) -> u64 {
        self.partial.len() as u64
    }

    /// Skips empty lines before a head (RFC 9112, section 2.2); returns how many bytes.
    pub(super) fn skip_empty_lines(&mut self, bytes: &[u8]) -> usize {
        let mut skipped = 0;
        if self.partial == b"\r" && bytes.first() == Some(&b'\n') {
            self.partial.clear();
            skipped = 1;
        }
        if self.partial.is_empty() {
            while bytes[skipped..].starts_with(b"\r\n") {
                skipped += 2;
            }
            if bytes[skipped..] == *b"\r" {
                self.partial.push(b'\r');
                skipped += 1;
            }
        }
        skipped
    }

    /// Takes bytes up to their end or the end of the head; returns how many, and the head if it is complete. Empty
    /// lines must have been skipped.
    pub(super) fn take<T>(
        &mut self,
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> ParseResult<T>,
    ) -> Result<(usize, Option<T>), ConnectionError> {
        let before = self.partial.len();
        if let Some(b'\r' | b'\n') = self.partial.first().or(bytes.first()) {
            return Err(ConnectionError::Head(Error::NewLine));
        }
        let more = &bytes[..bytes.len().min((MAX_HEAD_BYTES + 1).saturating_sub(before))];
        let parsed = if before == 0 {
            // The usual case: the whole head is here, and nothing is copied.
            parse(more)?
        } else {
            self.partial.extend_from_slice(more);
            // Only the end of a line can complete a head, so a head that trickles in is not parsed again for every byte.
            // Because the number of fields is limited, it is parsed at most about 130 times.
            if more.contains(&b'\n') {
                parse(&self.partial)?
            } else {
                None
            }
        };
        match parsed {
            Some((len, _)) if len > MAX_HEAD_BYTES => Err(ConnectionError::HeadTooLong),
            Some((len, head)) => {
                self.partial.clear();
                Ok((len.saturating_sub(before), Some(head)))
            }
            None if before + bytes.len() > MAX_HEAD_BYTES => Err(ConnectionError::HeadTooLong),
            None => {
                if before == 0 {
                    self.partial.extend_from_slice(bytes);
                }
                Ok((bytes.len(), None))
            }
        }
    }
}

/// Parses the head of a request.
pub(super) fn parse_request(bytes: &[u8], wants: InboxOptions) -> ParseResult<RequestHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let status = request.parse_with_uninit_headers(bytes, &mut headers);
    let Status::Complete(len) = status.map_err(ConnectionError::Head)? else {
        return Ok(None);
    };
    check_line_ends(&bytes[..len])?;
    let facts = Facts::of(request.headers)?;
    let version = Version::of(request.version);
    facts.check_host(version)?;
    let method = request.method.unwrap_or_default();
    let target = Target::read(method, request.path.unwrap_or_default())?;
    let fields = if wants.fields {
        owned_fields(request.headers, target.authority)
    } else {
        Vec::new()
    };
    let head = RequestHead {
        method: method.to_owned(),
        target: target.path.into_owned(),
        fields,
        version,
        body: facts.request_body(version)?,
        keeps_alive: facts.keeps_connection(version),
        expects_continue: version == Version::Http11 && facts.expects_continue,
    };
    Ok(Some((len, head)))
}

/// Parses the head of a response to a HEAD request or to any other. Values may be folded.
pub(super) fn parse_response(
    bytes: &[u8],
    answered: AnsweredMethod,
    wants: InboxOptions,
) -> ParseResult<ResponseHead> {
    let parsed = parse_unfolded_response(bytes, answered, wants);
    // The first byte of a folded line is a blank, which no name contains.
    let Err(ConnectionError::Head(Error::HeaderName)) = parsed else {
        return parsed;
    };
    // Neither the status line nor the first field continues another.
    let Some(unfolded) = unfold(bytes, 2)? else {
        return parsed;
    };
    let parsed = parse_unfolded_response(&unfolded.bytes, answered, wants)?;
    Ok(parsed.map(|(_, head)| (unfolded.used, head)))
}

fn parse_unfolded_response(
    bytes: &[u8],
    answered: AnsweredMethod,
    wants: InboxOptions,
) -> ParseResult<ResponseHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let Status::Complete(len) = parsed.map_err(ConnectionError::Head)? else {
        return Ok(None);
    };
    check_line_ends(&bytes[..len])?;
    let facts = Facts::of(response.headers)?;
    let version = Version::of(response.version);
    let status = response.code.unwrap_or_default();
    let body = match (answered, status) {
        (AnsweredMethod::Head, _) | (_, 100..=199 | 204 | 304) => None,
        _ => facts.response_body(version)?,
    };
    let keeps_alive = facts.keeps_connection(version);
    let fields = if wants.fields {
        owned_fields(response.headers, None)
    } else {
        Vec::new()
    };
    let head = ResponseHead {
        status,
        fields,
        body,
        keeps_alive: keeps_alive && body != Some(Body::UntilEnd),
        upgrades_to_h2c: facts.upgrades_to_h2c,
    };
    Ok(Some((len, head)))
}

/// httparse also accepts a bare LF as the end of a line, but CR only before LF. So every line ends with CRLF exactly if
/// there are as many CRs as LFs.
fn check_line_ends(head: &[u8]) -> Result<(), ConnectionError> {
    // The counters are bytes, so that the compiler can process 16 or more at a time. They cannot differ by 256, because
    // a head with that many lines exceeds the limit on fields.
    let count = |byte| {
        let add = |count: u8, &b: &u8| count.wrapping_add(u8::from(b == byte));
        head.iter().fold(0, add)
    };
    if count(b'\r') == count(b'\n') {
        Ok(())
    } else {
        Err(ConnectionError::BareLineFeed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::h1::chunked::Chunked;

    fn response(fields: &str) -> Result<(Option<Body>, bool), ConnectionError> {
        let text = format!("HTTP/1.1 200\r\n{fields}\r\n");
        let parsed = parse_response(
            text.as_bytes(),
            AnsweredMethod::Other,
            InboxOptions::default(),
        )?;
        let (len, head) = parsed.expect("the head is complete");
        assert_eq!(len, text.len());
        Ok((head.body, head.keeps_alive))
    }

    fn request(fields: &str) -> Result<Option<Body>, ConnectionError> {
        let text = format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        let parsed = parse_request(text.as_bytes(), InboxOptions::default())?;
        Ok(parsed.expect("the head is complete").1.body)
    }

    #[test]
    fn response_framing_follows_from_its_head() {
        let chunked = Some(Body::Chunked(Chunked::of_response()));
        assert_eq!(response(""), Ok((Some(Body::UntilEnd), false)));
        assert_eq!(
            response("Content-Length: 7\r\n"),
            Ok((Some(Body::Length(7)), true))
        );
        assert_eq!(response("content-length: 0\r\n"), Ok((None, true)));
        assert_eq!(
            response("Transfer-Encoding: Chunked\r\n"),
            Ok((chunked, true))
        );
        assert_eq!(
            response("transfer-encoding: gzip, chunked\r\n"),
            Ok((chunked, true))
        );
        assert_eq!(
            response("content-length: 7\r\nconnection: Close\r\n"),
            Ok((Some(Body::Length(7)), false))
        );
    }

    #[test]
    fn ambiguous_lengths_are_refused() {
        for fields in [
            "content-length: 7\r\ncontent-length: 8\r\n",
            "content-length: 7, 7\r\n",
            "content-length: +7\r\n",
            "content-length: \r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 7\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n",
            "transfer-encoding: \r\n",
            "transfer-encoding: ,chunked\r\n",
        ] {
            assert_eq!(
                response(fields),
                Err(ConnectionError::BodyLength),
                "{fields:?}"
            );
            assert_eq!(
                request(fields),
                Err(ConnectionError::BodyLength),
                "{fields:?}"
            );
        }
        assert_eq!(
            request("transfer-encoding: gzip, chunked\r\n"),
            Err(ConnectionError::TransferCoding)
        );
        assert_eq!(request(""), Ok(None));
    }

    #[test]
    fn a_folded_response_value_means_the_same_as_an_unfolded_one() {
        assert_eq!(
            response("x: a\r\n b\r\ncontent-length:\r\n\t7\r\n"),
            Ok((Some(Body::Length(7)), true))
        );
        assert_eq!(
            response("content-length: 7\r\nconnection: a,\r\n close\r\n"),
            Ok((Some(Body::Length(7)), false))
        );
        assert_eq!(
            response("content-length: 7\r\n 1\r\n"),
            Err(ConnectionError::BodyLength)
        );
        for fields in [
            " x: a\r\n",
            " x: a\r\ny: b\r\n c\r\n",
            "x\r\n : a\r\n",
            "x: a\r\n b\r\ny : c\r\n",
        ] {
            assert_eq!(
                response(fields),
                Err(ConnectionError::Head(Error::HeaderName)),
                "{fields:?}"
            );
        }
        assert_eq!(
            request("x: a\r\n b\r\n"),
            Err(ConnectionError::Head(Error::HeaderName))
        );
    }

    #[test]
    fn too_long_heads_and_too_many_fields_are_refused() {
        let parse =
            |bytes: &[u8]| parse_response(bytes, AnsweredMethod::Other, InboxOptions::default());
        let start = format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(MAX_HEAD_BYTES));
        for step in [1000, 65_536, start.len()] {
            let mut buffer = HeadBuffer::default();
            let mut results = start
                .as_bytes()
                .chunks(step)
                .map(|piece| buffer.take(piece, parse));
            let error = results.find_map(Result::err);
            assert_eq!(
                error,
                Some(ConnectionError::HeadTooLong),
                "in steps of {step}"
            );
        }
        let many = "x: y\r\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            response(&many),
            Err(ConnectionError::Head(httparse::Error::TooManyHeaders))
        );
    }

    #[test]
    fn a_slow_peer_causes_little_parsing() {
        let short_fields = format!("GET / HTTP/1.1\r\n{}", "x:\r\n".repeat(30_000));
        let empty_lines = "\n".repeat(70_000);
        let long_field = format!("GET / HTTP/1.1\r\nx: {}\n", "y".repeat(70_000));
        for text in [short_fields, empty_lines, long_field] {
            let parsed_bytes = Cell::new(0);
            let parse = |bytes: &[u8]| {
                parsed_bytes.set(parsed_bytes.get() + bytes.len());
                parse_request(bytes, InboxOptions::default())
            };
            let mut buffer = HeadBuffer::default();
            let mut pieces = text.as_bytes().chunks(1);
            let error = pieces.find_map(|piece| buffer.take(piece, parse).err());
            assert!(error.is_some());
            assert!(parsed_bytes.get() < 2 * MAX_HEAD_BYTES);
        }
    }

    #[test]
    fn bare_line_feeds_are_refused() {
        for head in [
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "GET / HTTP/1.1\nhost: a\n\n",
            "\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        ] {
            let parsed = parse_request(head.as_bytes(), InboxOptions::default());
            assert_eq!(
                parsed.err(),
                Some(ConnectionError::BareLineFeed),
                "{head:?}"
            );
        }
    }
}
