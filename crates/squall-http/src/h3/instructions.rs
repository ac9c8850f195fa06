//! The instructions on QPACK's two streams (RFC 9204, sections 4.3 and 4.4). Only those that need no dynamic table are
//! allowed, because it is not used in either direction.
//!
//! So an encoder may only set the table capacity to zero, and a decoder may only cancel a stream. `head` handles header
//! sections.

use super::code;
use super::inbound::{Violation, violation};

/// Set Dynamic Table Capacity with the capacity 0 (RFC 9204, section 4.3.1).
const NO_CAPACITY: u8 = 0x20;

/// How many bytes of a 62-bit integer may follow the first (RFC 9204, section 4.1.1).
const MAX_CONTINUATION_BYTES: u8 = 9;

/// Which QPACK stream it is, and the position in it.
#[derive(Debug)]
pub(super) enum Instructions {
    /// The peer's encoder, for our decoder.
    Encoder,
    /// The peer's decoder, for our encoder. Inside an integer: how many more bytes it may have.
    Decoder(Option<u8>),
}

impl Instructions {
    pub(super) fn decoder() -> Instructions {
        Instructions::Decoder(None)
    }

    /// Takes bytes, in any pieces.
    pub(super) fn receive(&mut self, input: &[u8]) -> Result<(), Violation> {
        match self {
            Instructions::Encoder if input.iter().any(|byte| *byte != NO_CAPACITY) => {
                let words = "an insertion into a dynamic table of size 0";
                Err(violation(code::QPACK_ENCODER_STREAM_ERROR, words))
            }
            Instructions::Encoder => Ok(()),
            Instructions::Decoder(left) => input.iter().try_for_each(|byte| {
                *left = follow(*left, *byte)?;
                Ok(())
            }),
        }
    }
}

/// How many more bytes an integer may have after this byte of a decoder's stream; `None` if it is complete.
fn follow(left: Option<u8>, byte: u8) -> Result<Option<u8>, Violation> {
    let wrong = |words| Err(violation(code::QPACK_DECODER_STREAM_ERROR, words));
    match (left, byte) {
        (None, 0x7f) => Ok(Some(MAX_CONTINUATION_BYTES)),
        (None, 0x40..0x7f) => Ok(None),
        (None, _) => wrong("an entry that was never sent"),
        (Some(_), 0..0x80) => Ok(None),
        (Some(1), _) => wrong("an integer that is too large"),
        (Some(left), _) => Ok(Some(left - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mut stream: Instructions, bytes: &[u8]) -> Result<(), u64> {
        let mut cut = bytes.iter();
        cut.try_for_each(|byte| stream.receive(&[*byte]))
            .map_err(|violation| violation.code)
    }

    #[test]
    fn an_encoder_may_only_set_a_capacity_of_zero() {
        assert_eq!(of(Instructions::Encoder, &[0x20, 0x20]), Ok(()));
        // Capacity 1; an insertion with a static name; one with a literal name; a duplicate.
        for wrong in [0x21, 0xc0, 0x41, 0x00] {
            let refused = of(Instructions::Encoder, &[0x20, wrong]);
            assert_eq!(refused, Err(code::QPACK_ENCODER_STREAM_ERROR), "{wrong:#x}");
        }
    }

    #[test]
    fn a_decoder_may_only_cancel_streams() {
        // Stream 0, and stream 63 + 127 + 1 * 128.
        let decoder = Instructions::decoder;
        assert_eq!(of(decoder(), &[0x40, 0x7f, 0xff, 0x01, 0x44]), Ok(()));
        let endless = [&[0x7f][..], &[0xff; 9]].concat();
        // An acknowledgment; an increment; and an endless integer.
        for wrong in [&[0x80][..], &[0x01], &endless] {
            let refused = of(decoder(), wrong);
            assert_eq!(refused, Err(code::QPACK_DECODER_STREAM_ERROR), "{wrong:?}");
        }
    }
}
