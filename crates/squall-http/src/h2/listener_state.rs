//! State that the listeners of both sides share: the frame being read, the fields of its header section, the streams
//! that closed, and why the connection ends.

use squall_nghttp2::FieldDecision;

use super::settings::MAX_HEADER_LIST_BYTES;
use crate::error::ConnectionError;
use crate::event::Field;
use crate::frames::Frame;
use crate::section::Section;

/// What HTTP/2 counts for each field in addition to its text (RFC 9113, section 6.5.2).
pub(super) const FIELD_OVERHEAD_BYTES: usize = 32;

/// What a listener knows besides its streams.
#[derive(Debug, Default)]
pub struct ListenerState {
    /// The frame whose bytes nghttp2 is being given.
    pub(super) frame: Option<Frame>,
    /// Body bytes that nghttp2 delivered.
    pub(super) delivered_bytes: u64,
    /// The streams that closed, with their codes.
    pub(super) closed: Vec<(u32, u32)>,
    section_bytes: usize,
    fields: Section,
    /// What was wrong with the last frame that was refused.
    refusal: Option<&'static str>,
    offence: Option<ConnectionError>,
}

impl ListenerState {
    /// The offset of the frame being read.
    pub(super) fn offset(&self) -> u64 {
        self.frame.map_or(0, |frame| frame.offset)
    }

    /// The offset after the frame being read.
    pub(super) fn end(&self) -> u64 {
        self.frame.map_or(0, |frame| frame.end())
    }

    /// Begins a header section.
    pub(super) fn begin_section(&mut self) {
        self.section_bytes = 0;
        self.fields.clear();
    }

    /// Counts a field. Keeps it if it is wanted and not a pseudo-header field other than `:authority`.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8], is_wanted: bool) -> FieldDecision {
        self.section_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.section_bytes > MAX_HEADER_LIST_BYTES as usize {
            self.fields.clear();
            return FieldDecision::Refuse;
        }
        let name = match name {
            // The field that carries it in an HTTP/1.1 message (RFC 9113, section 8.3.1).
            b":authority" => b"host",
            name => name,
        };
        if is_wanted && !name.starts_with(b":") {
            self.fields.push(name, value);
        }
        FieldDecision::Continue
    }

    /// Takes the fields of the completed section.
    pub(super) fn take_fields(&mut self) -> Vec<Field> {
        self.fields.take()
    }

    /// Records why a frame was refused, in case nghttp2 supplies no reason with its GOAWAY.
    pub(super) fn refused(&mut self, reason: &'static str) {
        self.refusal = Some(reason);
    }

    /// Handles an outgoing GOAWAY: with an error code, it means that the peer broke the protocol.
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
