//! Decodes received header sections with nghttp2, validates them, and caches the result.
//!
//! A server that answers the same request again and again sends the same header section. Once its fields are in the
//! dynamic table (RFC 7541), the same bytes decode to the same fields until something changes the table. A response's
//! content (RFC 9113, section 8) is validated here where that does not depend on its stream: an invalid field makes the
//! message malformed.

use squall_nghttp2::{Error, Inflater};

use super::hpack::changes_table;
use crate::h2::MAX_HEADER_LIST_BYTES;
use crate::h2::listener_state::FIELD_OVERHEAD_BYTES;
use crate::message::{is_name_in_lower_case, is_relayed_value, parse_content_length};

/// How many sections are cached, and the longest one to cache.
const MAX_KNOWN: usize = 16;
const MAX_KNOWN_BYTES: usize = 4_096;

/// The decoder of a connection.
#[derive(Debug)]
pub(super) struct Sections {
    inflater: Inflater,
    known: Vec<Section>,
    /// The index of the section that arrived last; the next one is usually the same.
    recent: usize,
    /// Once the cache is full, the index of the entry that was replaced last.
    oldest: usize,
    /// A section that will not be cached.
    passing: Section,
}

/// A decoded header section.
#[derive(Debug, Default)]
pub(super) struct Section {
    block: Vec<u8>,
    /// The text of names and values, end to end.
    text: Vec<u8>,
    lengths: Vec<(usize, usize)>,
    /// Size as counted by RFC 9113, section 6.5.2.
    list_bytes: usize,
    pub(super) facts: Facts,
}

/// The parts of a section that determine how its message is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// `:status`.
    pub(super) status: Option<u16>,
    /// `content-length`.
    pub(super) length: Option<u64>,
    pub(super) has_regular: bool,
    /// Why the message is malformed.
    pub(super) fault: Option<&'static str>,
}

impl Sections {
    pub(super) fn new() -> Result<Sections, Error> {
        Ok(Sections {
            inflater: Inflater::of_endpoint()?,
            known: Vec::new(),
            recent: 0,
            oldest: 0,
            passing: Section::default(),
        })
    }

    /// The peer has acknowledged our SETTINGS_HEADER_TABLE_SIZE.
    pub(super) fn announce_table(&mut self, bytes: u32) -> Result<(), Error> {
        self.known.clear();
        self.inflater.announce_table(bytes)
    }

    /// Decodes the next section of the connection.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<&Section, Error> {
        let is_recent = |known: &Section| known.block == block;
        if !self.known.get(self.recent).is_some_and(is_recent) {
            match self.known.iter().position(is_recent) {
                Some(place) => self.recent = place,
                None => return self.decode_new(block),
            }
        }
        Ok(&self.known[self.recent])
    }

    fn decode_new(&mut self, block: &[u8]) -> Result<&Section, Error> {
        let section = &mut self.passing;
        section.text.clear();
        section.lengths.clear();
        section.list_bytes = 0;
        section.facts = Facts::default();
        self.inflater
            .inflate(block, true, |name, value| section.add(name, value))?;
        section.facts.end();
        if changes_table(block) {
            self.known.clear();
            return Ok(&self.passing);
        }
        if block.len() > MAX_KNOWN_BYTES || section.is_too_long() {
            return Ok(&self.passing);
        }
        section.block = block.to_vec();
        let section = std::mem::take(section);
        if self.known.len() < MAX_KNOWN {
            self.recent = self.known.len();
            self.known.push(section);
        } else {
            self.oldest = (self.oldest + 1) % MAX_KNOWN;
            self.recent = self.oldest;
            self.known[self.recent] = section;
        }
        Ok(&self.known[self.recent])
    }
}

impl Section {
    /// The names and values, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest: &[u8] = &self.text;
        let mut take = move |len: usize| {
            let (here, after) = rest.split_at(len);
            rest = after;
            here
        };
        (self.lengths.iter()).map(move |(name, value)| (take(*name), take(*value)))
    }

    /// Whether the section exceeds the size we announced. A few bytes can decompress to megabytes, so such sections are not
    /// kept.
    pub(super) fn is_too_long(&self) -> bool {
        self.list_bytes > MAX_HEADER_LIST_BYTES as usize
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if !self.is_too_long() {
            self.facts.note(name, value);
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(value);
            self.lengths.push((name.len(), value.len()));
        }
    }
}

impl Facts {
    /// Records a field.
    fn note(&mut self, name: &[u8], value: &[u8]) {
        if name.first() == Some(&b':') {
            self.note_pseudo(name, value);
            return;
        }
        self.has_regular = true;
        if !is_name_in_lower_case(name) || !is_relayed_value(value) {
            self.blame("an invalid name or value (RFC 9113, section 8.2.1)");
        }
        match name {
            b"content-length" => self.note_length(value),
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => {
                self.blame("a field of one hop in a response (RFC 9113, section 8.2.2)");
            }
            _ => {}
        }
    }

    fn note_pseudo(&mut self, name: &[u8], value: &[u8]) {
        if name != b":status" || self.has_regular || self.status.is_some() {
            self.blame("a pseudo-header field that is not allowed there (RFC 9113, section 8.3)");
            return;
        }
        match value {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                let digit = |byte: &u8| u16::from(byte - b'0');
                self.status = Some(digit(a) * 100 + digit(b) * 10 + digit(c));
            }
            _ => self.blame(":status does not have three digits"),
        }
    }

    fn note_length(&mut self, value: &[u8]) {
        match parse_content_length(value) {
            Some(length) if self.length.is_none() => self.length = Some(length),
            _ => self.blame("an ambiguous or malformed content-length"),
        }
    }

    /// Checks the section once all fields have been recorded.
    fn end(&mut self) {
        match (self.status, self.length) {
            (Some(101), _) => self.blame("status 101 over HTTP/2 (RFC 9113, section 8.6)"),
            (Some(100..200), Some(_)) | (Some(204), Some(1..)) => {
                self.blame("a content-length in a response that has no content");
            }
            _ => {}
        }
    }

    fn blame(&mut self, fault: &'static str) {
        self.fault.get_or_insert(fault);
    }
}

#[cfg(test)]
mod tests {
    use squall_nghttp2::{Deflater, HeaderBlock};

    use super::*;

    fn facts(fields: &[(&str, &str)]) -> Facts {
        let mut block = Vec::new();
        let headers = HeaderBlock::new(fields.iter().copied()).unwrap();
        Deflater::new()
            .unwrap()
            .deflate(&headers, &mut block)
            .unwrap();
        Sections::new().unwrap().decode(&block).unwrap().facts
    }

    #[test]
    fn invalid_fields_make_a_response_malformed() {
        let ok = (":status", "200");
        let fine = [
            vec![ok],
            vec![ok, ("content-length", "0"), ("x", "")],
            vec![(":status", "204"), ("content-length", "0")],
            vec![ok, ("x", "blanks \t inside")],
            vec![("x-trailer", "1")],
        ];
        for fields in fine {
            assert_eq!(facts(&fields).fault, None, "{fields:?}");
        }
        let malformed = [
            vec![ok, ok],
            vec![ok, ("X-Upper", "1")],
            vec![ok, ("x y", "1")],
            vec![ok, ("x:", "1")],
            vec![ok, ("", "1")],
            vec![ok, ("x", " 1")],
            vec![ok, ("x", "1\t")],
            vec![ok, ("x", "1\r\ny: 2")],
            vec![ok, ("x", "\0")],
            vec![("x", "1"), ok],
            vec![(":path", "/")],
            vec![(":status", "20")],
            vec![(":status", "+20")],
            vec![(":status", "2000")],
            vec![(":status", "101")],
            vec![ok, ("connection", "close")],
            vec![ok, ("transfer-encoding", "chunked")],
            vec![ok, ("content-length", "1"), ("content-length", "1")],
            vec![ok, ("content-length", "+1")],
            vec![ok, ("content-length", "")],
            vec![ok, ("content-length", "18446744073709551616")],
            vec![(":status", "103"), ("content-length", "0")],
            vec![(":status", "204"), ("content-length", "1")],
        ];
        for fields in malformed {
            assert!(facts(&fields).fault.is_some(), "{fields:?}");
        }
    }

    #[test]
    fn cached_and_fresh_sections_decode_alike() {
        let mut deflater = Deflater::new().unwrap();
        let mut sections = Sections::new().unwrap();
        let mut lengths = Vec::new();
        for turn in 0..300_usize {
            let date = (turn / 50).to_string();
            let fields = [(":status", "200"), ("date", &date)];
            let block = HeaderBlock::new(fields).unwrap();
            let mut bytes = Vec::new();
            deflater.deflate(&block, &mut bytes).unwrap();
            lengths.push(bytes.len());
            let section = sections.decode(&bytes).unwrap();
            assert_eq!(section.facts.status, Some(200));
            let read: Vec<_> = section.fields().collect();
            assert_eq!(
                read,
                [(&b":status"[..], &b"200"[..]), (b"date", date.as_bytes())]
            );
        }
        assert_eq!(lengths[299], 2, "by their places");
        assert_eq!(sections.known.len(), 1);
    }
}
