//! The trailer section of a message that is passed on (RFC 9110, section 6.5).
//!
//! HTTP/1.1 has a place for it only behind chunks: elsewhere it is left out, as everybody must expect of it.

use squall_nghttp2::HeaderBlock;

use super::fields;
use crate::error::MessageError;
use crate::event::Field;

/// Trailers, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    fields: Vec<Field>,
}

impl Trailers {
    /// Trailers of these fields. Those of one hop, and those that say where a message ends or whom it is for, cannot be
    /// among them (RFC 9110, section 6.5.1).
    pub fn relayed(fields: Vec<Field>) -> Result<Trailers, MessageError> {
        fields::check_relayed(&fields)?;
        Ok(Trailers { fields })
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// As HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        fields::pairs(&self.fields)
    }

    /// As lines of HTTP/1.1.
    pub(crate) fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        fields::write_lines(&mut lines, &self.fields);
        lines
    }

    /// As nghttp2 takes them.
    pub(crate) fn block(&self) -> HeaderBlock {
        fields::block(self.pairs())
    }
}
