//! What both sides' listeners hear in the same way: which frame is being read, the fields of its header section,
//! streams that closed, and why the connection ends.

use squall_nghttp2::Verdict;

use super::settings::MAX_HEADER_LIST_BYTES;
use crate::error::ConnectionError;
use crate::event::Field;
use crate::frames::Frame;
use crate::section::Section;

/// What HPACK counts for a field besides its text (RFC 9113, section 6.5.2).
pub(super) const FIELD_OVERHEAD_BYTES: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Ear {
    /// The frame whose bytes nghttp2 is being given.
    pub(super) frame: Option<Frame>,
    /// Bytes of bodies that it passed on.
    pub(super) delivered_bytes: u64,
    /// The streams that closed, with their codes.
    pub(super) closed: Vec<(u32, u32)>,
    section_bytes: usize,
    fields: Section,
    /// What was wrong with the last frame that was refused.
    refusal: Option<&'static str>,
    offence: Option<ConnectionError>,
}

impl Ear {
    /// Where the frame begins that is being read.
    pub(super) fn offset(&self) -> u64 {
        self.frame.map_or(0, |frame| frame.offset)
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.frame.map_or(0, |frame| frame.end())
    }

    /// A header section begins.
    pub(super) fn begin_section(&mut self) {
        self.section_bytes = 0;
        self.fields.clear();
    }

    /// Counts a field, and keeps it if it is wanted and no pseudo-header field but `:authority`.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8], is_wanted: bool) -> Verdict {
        self.section_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.section_bytes > MAX_HEADER_LIST_BYTES as usize {
            self.fields.clear();
            return Verdict::Refuse;
        }
        let name = match name {
            // What an HTTP/1.1 message has in its place (RFC 9113, section 8.3.1).
            b":authority" => b"host",
            name => name,
        };
        if is_wanted && !name.starts_with(b":") {
            self.fields.push(name, value);
        }
        Verdict::GoOn
    }

    /// The fields of the section, which is complete.
    pub(super) fn take_fields(&mut self) -> Vec<Field> {
        self.fields.take()
    }

    /// A frame was refused: what GOAWAY says if nghttp2 gives it no reason.
    pub(super) fn refused(&mut self, reason: &'static str) {
        self.refusal = Some(reason);
    }

    /// GOAWAY goes out: with a code, the peer broke the protocol.
    pub(super) fn goaway(&mut self, code: u32, reason: &[u8]) {
        if code != 0 && self.offence.is_none() {
            let reason = match (reason, self.refusal) {
                ([], Some(refusal)) => refusal.to_owned(),
                (reason, _) => String::from_utf8_lossy(reason).into_owned(),
            };
            self.offence = Some(ConnectionError::Http2 { code, reason });
        }
    }

    pub(super) fn take_offence(&mut self) -> Option<ConnectionError> {
        self.offence.take()
    }
}
