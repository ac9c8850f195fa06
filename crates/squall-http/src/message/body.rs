//! The body of a message: bytes already available, or bytes still to come.

use bytes::Bytes;

/// The body of an outgoing message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The complete body, shared by everything that sends it; empty for no body.
    Whole(Bytes),
    /// A body passed piece by piece to the connection that sends it.
    Streamed {
        /// The body's length, if known: sent as the content-length.
        length: Option<u64>,
    },
}

impl Body {
    /// No body.
    pub const EMPTY: Body = Body::Whole(Bytes::new());

    /// The body's length, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Whole(bytes) => Some(bytes.len() as u64),
            Body::Streamed { length } => *length,
        }
    }

    /// Whether the body is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.length() == Some(0)
    }

    /// The bytes, if they are already available.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match self {
            Body::Whole(bytes) => Some(bytes),
            Body::Streamed { .. } => None,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Whole(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::Whole(bytes.into())
    }
}
