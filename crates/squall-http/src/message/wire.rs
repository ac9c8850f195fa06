//! An HTTP/1.1 message as bytes: one contiguous piece for small messages, two for large ones.
//!
//! A small body is copied after its head, so that both leave in one write and one packet. Of a large body only the
//! first bytes are copied; the rest is sent from the shared body without a copy. A connection that needs a different
//! head, because it will close or must chunk the body, derives one from this.

use bytes::Bytes;

use super::Body;

/// How much of a body is copied after its head: as much as fits into one HTTP/2 DATA frame.
const INLINE_BODY_BYTES: usize = 16 * 1024;

const LINE_END: &str = "\r\n";

/// A serialised head and its body.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The head and the first bytes of the body.
    first: Vec<u8>,
    /// Offset in the head where the start line and the message's own fields end and the framing begins.
    framing_at: usize,
    head_len: usize,
    body: Body,
}

impl Wire {
    /// `head` holds the start line and the fields; from `framing_at` on, the field that delimits the body. All lines
    /// include their ends. Nothing is reallocated if `head` has the capacity of [`Wire::room_for`].
    pub(crate) fn new(head: Vec<u8>, framing_at: usize, body: &Body) -> Wire {
        let mut first = head;
        first.extend_from_slice(LINE_END.as_bytes());
        let head_len = first.len();
        first.extend_from_slice(inline(body));
        Wire {
            first,
            framing_at,
            head_len,
            body: body.clone(),
        }
    }

    /// The capacity needed for a head of `len` bytes and what is copied after it.
    pub(crate) fn room_for(len: usize, body: &Body) -> usize {
        len + LINE_END.len() + inline(body).len()
    }

    /// The same message with `extra` fields.
    pub(crate) fn with_fields(&self, extra: &str) -> Wire {
        let head = &self.first[..self.head_len - LINE_END.len()];
        let room = Wire::room_for(head.len() + extra.len(), &self.body);
        let mut with = Vec::with_capacity(room);
        with.extend_from_slice(head);
        with.extend_from_slice(extra.as_bytes());
        Wire::new(with, self.framing_at, &self.body)
    }

    /// The same head with a different `framing` and with `extra` fields.
    pub(crate) fn head_with(&self, framing: &str, extra: &str) -> Vec<u8> {
        let start = &self.first[..self.framing_at];
        let rest = [framing, extra, LINE_END].map(str::as_bytes);
        [start, rest[0], rest[1], rest[2]].concat()
    }

    /// The length of the head and the available body.
    pub(crate) fn len(&self) -> usize {
        self.head_len + self.body.whole().map_or(0, Bytes::len)
    }

    /// The head alone.
    pub(crate) fn head(&self) -> &[u8] {
        &self.first[..self.head_len]
    }

    /// The body.
    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    /// The piece that begins at byte `at`; empty only at the end.
    pub(crate) fn piece_from(&self, at: usize) -> &[u8] {
        match (self.first.get(at..), self.body.whole()) {
            (Some(rest), _) if !rest.is_empty() => rest,
            (_, Some(body)) => body.get(at - self.head_len..).unwrap_or(&[]),
            (_, None) => &[],
        }
    }
}

/// The first bytes of a body.
fn inline(body: &Body) -> &[u8] {
    let whole = body.whole().map_or(&[][..], |body| body);
    &whole[..whole.len().min(INLINE_BODY_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_message() {
        for body_len in [0, 1, INLINE_BODY_BYTES, INLINE_BODY_BYTES + 1, 100_000] {
            let body: Bytes = (0..body_len).map(|i| i as u8).collect();
            let wire = Wire::new(b"head".to_vec(), 4, &Body::Whole(body.clone()));
            for step in [1, 7, 20_000] {
                let mut sent = Vec::new();
                while sent.len() < wire.len() {
                    let piece = wire.piece_from(sent.len());
                    assert!(!piece.is_empty());
                    sent.extend_from_slice(&piece[..piece.len().min(step)]);
                }
                assert_eq!(sent, [b"head\r\n", &body[..]].concat());
                assert!(wire.piece_from(sent.len()).is_empty());
            }
        }
    }

    #[test]
    fn heads_with_other_fields_and_framing_are_derived() {
        let wire = Wire::new(
            b"start\r\nlength\r\n".to_vec(),
            7,
            &Body::from(b"body".to_vec()),
        );
        assert_eq!(wire.head(), b"start\r\nlength\r\n\r\n");
        let closing = wire.with_fields("close\r\n");
        assert_eq!(
            closing.piece_from(0),
            b"start\r\nlength\r\nclose\r\n\r\nbody"
        );
        assert_eq!(closing.head_with("", ""), b"start\r\n\r\n");
        assert_eq!(
            wire.head_with("chunked\r\n", "close\r\n"),
            b"start\r\nchunked\r\nclose\r\n\r\n"
        );
    }
}
