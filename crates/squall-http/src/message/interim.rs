//! A relayed interim response (RFC 9110, section 15.2): a status and fields, without a body.
//!
//! Our own 100 (Continue) over HTTP/1.1 does not come from here: `h1::Server` sends it by itself.

use squall_nghttp2::HeaderBlock;

use super::fields;
use super::response::reason;
use crate::error::MessageError;
use crate::event::Field;

/// A validated interim response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interim {
    /// The status in digits.
    code: String,
    status: u16,
    fields: Vec<Field>,
}

impl Interim {
    /// An interim response with these fields, which must not include hop-by-hop fields. 101 (Switching Protocols)
    /// belongs to one connection and cannot be relayed.
    ///
    /// # Errors
    /// If the status is not that of an interim response, or if a field may not be relayed.
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

    /// 100 (Continue): the client may send the body that it has held back (RFC 9110, section 15.2.1).
    pub fn continue_100() -> Interim {
        Interim {
            code: "100".to_owned(),
            status: 100,
            fields: Vec::new(),
        }
    }

    /// All fields, `:status` first, as HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let status = (&b":status"[..], self.code.as_bytes());
        std::iter::once(status).chain(fields::pairs(&self.fields))
    }

    /// The header section in nghttp2's form.
    pub(crate) fn block(&self) -> HeaderBlock {
        fields::block(self.pairs())
    }

    /// The approximate length of the header section.
    pub(crate) fn len_bytes(&self) -> usize {
        self.pairs()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// The head in HTTP/1.1's form.
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
    fn interim_response_is_a_head_without_a_body() {
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
