//! The relayed trailer section of a message (RFC 9110, section 6.5).
//!
//! HTTP/1.1 can only carry trailers after chunks. Otherwise they are dropped, which every recipient must tolerate.

use squall_nghttp2::HeaderBlock;

use super::fields;
use crate::error::MessageError;
use crate::event::Field;

/// Validated trailers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    fields: Vec<Field>,
}

impl Trailers {
    /// Trailers with these fields. Hop-by-hop fields, and fields for message framing or routing, are refused (RFC 9110,
    /// section 6.5.1).
    pub fn relayed(fields: Vec<Field>) -> Result<Trailers, MessageError> {
        fields::check_relayed(&fields)?;
        Ok(Trailers { fields })
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields as HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        fields::pairs(&self.fields)
    }

    /// The trailers as field lines of HTTP/1.1.
    pub(crate) fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        fields::write_lines(&mut lines, &self.fields);
        lines
    }

    /// The fields in nghttp2's form.
    pub(crate) fn block(&self) -> HeaderBlock {
        fields::block(self.pairs())
    }
}
