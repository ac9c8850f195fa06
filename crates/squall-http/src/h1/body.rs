//! Finds the end of a message's body (RFC 9112, section 6.3), once its head has stated the framing.

use super::chunked::{BodyProgress, Chunked};
use crate::error::ChunkError;

/// How to find the end of a body, as its head states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is no body.
    Empty,
    /// This many bytes, at least 1.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilEnd,
}

/// A body being received.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// This many bytes are still to come.
    Length(u64),
    /// Chunked.
    Chunked(Chunked),
    /// Until the connection ends.
    UntilEnd,
}

impl Body {
    /// The expected body; `None` for a message without one.
    pub(super) fn of(framing: Framing) -> Option<Body> {
        match framing {
            Framing::Empty => None,
            Framing::Length(bytes) => Some(Body::Length(bytes)),
            Framing::Chunked => Some(Body::Chunked(Chunked::new())),
            Framing::UntilEnd => Some(Body::UntilEnd),
        }
    }

    /// Takes the bytes that belong to the body, and passes its data to `on_data`.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<BodyProgress, ChunkError> {
        match self {
            Body::Length(left) => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= used as u64;
                on_data(&bytes[..used]);
                Ok(BodyProgress {
                    used,
                    is_done: *left == 0,
                    trailer_bytes: 0,
                })
            }
            Body::Chunked(chunked) => chunked.take(bytes, on_data),
            Body::UntilEnd => {
                on_data(bytes);
                Ok(BodyProgress {
                    used: bytes.len(),
                    is_done: false,
                    trailer_bytes: 0,
                })
            }
        }
    }
}
