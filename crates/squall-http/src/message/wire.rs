//! An HTTP/1.1 message as bytes: one contiguous piece for small messages, two for large ones.
//!
//! A small body is stored again behind its head, so that head and body leave in one write and one packet;
//! of a large body only the first bytes are, and the rest is sent from the shared body without a copy.

use std::sync::Arc;

/// How much of a body is stored behind its head: as much as one HTTP/2 DATA frame holds.
const INLINE_BODY_BYTES: usize = 16 * 1024;

/// A serialised head and its body.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The head and the first bytes of the body.
    first: Box<[u8]>,
    head_len: usize,
    body: Arc<[u8]>,
}

impl Wire {
    pub(crate) fn new(head: &str, body: &Arc<[u8]>) -> Wire {
        let inline = &body[..body.len().min(INLINE_BODY_BYTES)];
        Wire {
            first: [head.as_bytes(), inline].concat().into(),
            head_len: head.len(),
            body: Arc::clone(body),
        }
    }

    /// Bytes of head and body.
    pub(crate) fn len(&self) -> usize {
        self.head_len + self.body.len()
    }

    /// Bytes of the head alone.
    pub(crate) fn head_len(&self) -> usize {
        self.head_len
    }

    /// A piece that begins at byte `at`; empty only at the end.
    pub(crate) fn piece_from(&self, at: usize) -> &[u8] {
        match self.first.get(at..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self.body.get(at - self.head_len..).unwrap_or(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_message() {
        for body_len in [0, 1, INLINE_BODY_BYTES, INLINE_BODY_BYTES + 1, 100_000] {
            let body: Arc<[u8]> = (0..body_len).map(|i| i as u8).collect();
            let wire = Wire::new("head", &body);
            for step in [1, 7, 20_000] {
                let mut sent = Vec::new();
                while sent.len() < wire.len() {
                    let piece = wire.piece_from(sent.len());
                    assert!(!piece.is_empty());
                    sent.extend_from_slice(&piece[..piece.len().min(step)]);
                }
                assert_eq!(sent, [b"head", &body[..]].concat());
                assert!(wire.piece_from(sent.len()).is_empty());
            }
        }
    }
}
