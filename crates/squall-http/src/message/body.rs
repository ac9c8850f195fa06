//! What a message carries: bytes that are there already, or bytes that will come.

use bytes::Bytes;

/// The body of a message that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// All of it, shared by everybody who sends it; empty for none.
    Whole(Bytes),
    /// Given piece by piece to the connection that sends it.
    Streamed {
        /// How long it will be, if that is known: sent as its content-length.
        length: Option<u64>,
    },
}

impl Body {
    /// No body.
    pub const EMPTY: Body = Body::Whole(Bytes::new());

    /// How long it is, if that is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Whole(bytes) => Some(bytes.len() as u64),
            Body::Streamed { length } => *length,
        }
    }

    /// Whether there certainly is none.
    pub fn is_empty(&self) -> bool {
        self.length() == Some(0)
    }

    /// The bytes that are there already.
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
