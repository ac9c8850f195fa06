//! Finds the end of a message's body (RFC 9112, section 6.3), once its head has stated the framing.

use super::chunked::{BodyProgress, Chunked};
use crate::error::ChunkError;

/// A body being received, or announced by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// This many bytes are still to come, at least 1 at first.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(Chunked),
    /// Everything until the connection ends; responses only.
    UntilEnd,
}

impl Body {
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
