//! Interprets the fields of a head: where the body ends (RFC 9112, section 6.3), whether the connection continues, and
//! which host is addressed. All other fields are only stored, if they are wanted.

use httparse::{Header, Status};

use super::body::Body;
use super::chunked::Chunked;
use super::folds::unfold;
use super::limits::MAX_FIELDS;
use super::target::is_host;
use super::version::Version;
use crate::error::ConnectionError;
use crate::event::Field;
use crate::message::parse_content_length;
use crate::section;

/// The transfer codings of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Only chunked.
    Chunked,
    /// Others, with chunked as the last one.
    OthersThenChunked,
    /// Others, without chunked.
    Other,
}

/// The relevant content of the fields.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    content_length: Option<u64>,
    /// Content-Length appears more than once, with the same value.
    repeats_length: bool,
    coding: Option<Coding>,
    /// The value of Host, and the number of Host fields.
    host: Option<&'a [u8]>,
    hosts: u32,
    pub(super) closes: bool,
    pub(super) keeps_alive: bool,
    pub(super) expects_continue: bool,
    /// Names cleartext HTTP/2 as the protocol to switch to (RFC 7540, section 3.2).
    pub(super) upgrades_to_h2c: bool,
}

impl<'a> Facts<'a> {
    pub(super) fn of(headers: &[Header<'a>]) -> Result<Facts<'a>, ConnectionError> {
        let mut facts = Facts::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                4 if is("host") => {
                    facts.host = Some(header.value);
                    facts.hosts += 1;
                }
                6 if is("expect") => {
                    facts.expects_continue |= header.value.eq_ignore_ascii_case(b"100-continue");
                }
                7 if is("upgrade") => {
                    let is_h2c = |protocol: &[u8]| protocol.eq_ignore_ascii_case(b"h2c");
                    facts.upgrades_to_h2c |= elements(header.value).any(is_h2c);
                }
                10 if is("connection") => {
                    for option in elements(header.value) {
                        facts.closes |= option.eq_ignore_ascii_case(b"close");
                        facts.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                14 if is("content-length") => facts.add_length(header.value)?,
                17 if is("transfer-encoding") => facts.add_coding(header.value)?,
                _ => {}
            }
        }
        Ok(facts)
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), ConnectionError> {
        match (parse_content_length(value), self.content_length) {
            (Some(new), None) => self.content_length = Some(new),
            (Some(new), Some(old)) if new == old => self.repeats_length = true,
            _ => return Err(ConnectionError::BodyLength),
        }
        Ok(())
    }

    fn add_coding(&mut self, value: &[u8]) -> Result<(), ConnectionError> {
        for coding in elements(value) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.coding = Some(match self.coding {
                // An empty element, which some parsers would skip, or anything after chunked (RFC 9112, section 6.1).
                _ if coding.is_empty() => return Err(ConnectionError::BodyLength),
                Some(Coding::Chunked | Coding::OthersThenChunked) => {
                    return Err(ConnectionError::BodyLength);
                }
                None if is_chunked => Coding::Chunked,
                Some(Coding::Other) if is_chunked => Coding::OthersThenChunked,
                None | Some(Coding::Other) => Coding::Other,
            });
        }
        Ok(())
    }

    /// The body that follows a request's head, if any.
    pub(super) fn request_body(&self, version: Version) -> Result<Option<Body>, ConnectionError> {
        // A repeated length: RFC 9110, section 8.6, allows two ways to handle it. Of these, only rejection cannot be
        // interpreted differently by a proxy.
        if self.repeats_length {
            return Err(ConnectionError::BodyLength);
        }
        match (self.coding, self.content_length) {
            (None, None | Some(0)) => Ok(None),
            (None, Some(length)) => Ok(Some(Body::Length(length))),
            // Both Content-Length and Transfer-Encoding, or chunks over HTTP/1.0: either could smuggle a request.
            (Some(_), Some(_)) => Err(ConnectionError::BodyLength),
            (Some(_), None) if version == Version::Http10 => Err(ConnectionError::BodyLength),
            (Some(Coding::Chunked), None) => Ok(Some(Body::Chunked(Chunked::of_request()))),
            (Some(_), None) => Err(ConnectionError::TransferCoding),
        }
    }

    /// The body that follows a response's head, if any.
    pub(super) fn response_body(&self, version: Version) -> Result<Option<Body>, ConnectionError> {
        match (self.coding, self.content_length) {
            (None, None) => Ok(Some(Body::UntilEnd)),
            (None, Some(0)) => Ok(None),
            (None, Some(length)) => Ok(Some(Body::Length(length))),
            (Some(_), Some(_)) => Err(ConnectionError::BodyLength),
            (Some(_), None) if version == Version::Http10 => Err(ConnectionError::BodyLength),
            (Some(Coding::Other), None) => Ok(Some(Body::UntilEnd)),
            (Some(Coding::Chunked | Coding::OthersThenChunked), None) => {
                Ok(Some(Body::Chunked(Chunked::of_response())))
            }
        }
    }

    /// Whether the sender wants to keep the connection: in HTTP/1.1 unless it says otherwise, in HTTP/1.0 only if it says so
    /// (RFC 9112, section 9.3 and appendix C.2.2).
    pub(super) fn keeps_connection(&self, version: Version) -> bool {
        !self.closes && (version == Version::Http11 || self.keeps_alive)
    }

    /// Every HTTP/1.1 request must have exactly one host (RFC 9112, section 3.2).
    pub(super) fn check_host(&self, version: Version) -> Result<(), ConnectionError> {
        let is_right = match self.host {
            Some(host) => self.hosts == 1 && is_host(host),
            None => version == Version::Http10,
        };
        is_right.then_some(()).ok_or(ConnectionError::Host)
    }
}

/// The fields in the form for the owner. `authority` comes from the target, and overrides Host (RFC 9112, section
/// 3.2.2).
pub(super) fn owned_fields(headers: &[Header<'_>], authority: Option<&str>) -> Vec<Field> {
    section::build_section(headers.iter().map(|header| {
        let value = match authority {
            Some(authority) if header.name.eq_ignore_ascii_case("host") => authority.as_bytes(),
            _ => header.value,
        };
        (header.name.as_bytes(), value)
    }))
}

/// The part of a chunked body's trailers received so far.
#[derive(Debug, Default)]
pub(super) struct TrailerBuffer {
    bytes: Vec<u8>,
}

impl TrailerBuffer {
    /// Adds the part of the trailer section at the end of `bytes`.
    pub(super) fn add(&mut self, bytes: &[u8], trailer_bytes: usize) {
        self.bytes
            .extend_from_slice(&bytes[bytes.len() - trailer_bytes..]);
    }

    /// Takes the fields of a complete section. Its syntax was checked as it arrived.
    pub(super) fn take(&mut self) -> Vec<Field> {
        let fields = match self.bytes.len() {
            // No trailers, only the empty line.
            0..=2 => Vec::new(),
            _ => self.parse(),
        };
        self.bytes.clear();
        fields
    }

    /// Not inlined: otherwise every message would pay for the stack space of `MAX_FIELDS` headers.
    #[inline(never)]
    fn parse(&self) -> Vec<Field> {
        // The first field continues no other.
        let unfolded = unfold(&self.bytes, 1).ok().flatten();
        let bytes = unfolded
            .as_ref()
            .map_or(&self.bytes[..], |section| &section.bytes[..]);
        let mut headers = [httparse::EMPTY_HEADER; MAX_FIELDS];
        match httparse::parse_headers(bytes, &mut headers) {
            Ok(Status::Complete((_, headers))) => owned_fields(headers, None),
            Ok(Status::Partial) | Err(_) => Vec::new(),
        }
    }
}

/// The elements of a comma-separated list, including empty ones (RFC 9110, section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}
