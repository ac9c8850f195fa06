//! An interim response that is passed on (RFC 9110, section 15.2): a status and fields, without a body.
//!
//! Our own 100 (Continue) over HTTP/1.1 is not made here: `h1::Server` says it by itself.

use squall_nghttp2::HeaderBlock;

use super::fields;
use super::response::reason;
use crate::error::MessageError;
use crate::event::Field;

/// An interim response, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interim {
    /// The status in digits.
    code: String,
    status: u16,
    fields: Vec<Field>,
}

impl Interim {
    /// One of these fields, without those of one hop. 101 (Switching Protocols) is of one connection and cannot be
    /// passed on.
    ///
    /// # Errors
    /// If the status is not that of an interim response, or a field is not one that is passed on.
    pub fn relayed(status: u16, fields: Vec<Field>) -> Result<Interim, MessageError> {
        if !matches!(status, 100 | 102..=199) {
            return Err(MessageError::Status(status));
        }
        fields::check_relayed(&fields)?;
        Ok(Interim {
            code: status.to_string(),
            status,
            fields,
        })
    }

    /// All fields, `:status` first, as HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let status = (&b":status"[..], self.code.as_bytes());
        std::iter::once(status).chain(fields::pairs(&self.fields))
    }

    /// As nghttp2 takes it.
    pub(crate) fn block(&self) -> HeaderBlock {
        fields::block(self.pairs())
    }

    /// About how long it is.
    pub(crate) fn len_bytes(&self) -> usize {
        self.pairs()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// As HTTP/1.1 has it.
    pub(crate) fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for part in ["HTTP/1.1 ", &self.code, " ", reason(self.status), "\r\n"] {
            lines.extend_from_slice(part.as_bytes());
        }
        fields::write_lines(&mut lines, &self.fields);
        lines.extend_from_slice(b"\r\n");
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_head_without_a_body() {
        let interim = Interim::relayed(103, vec![Field::new("link", "</a>")]).unwrap();
        assert_eq!(
            interim.lines(),
            b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        );
        for status in [99, 101, 200] {
            assert!(Interim::relayed(status, Vec::new()).is_err(), "{status}");
        }
        let bad = vec![Field::new("connection", "close")];
        assert!(Interim::relayed(103, bad).is_err());
    }
}
