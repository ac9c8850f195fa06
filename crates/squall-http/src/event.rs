//! The events of a connection: the marks from which a request's record is made.
//!
//! Events carry no time: whoever moves the bytes knows it. Lengths are body bytes without framing. Offsets count the
//! bytes of HTTP in their direction, from the connection's first one (over TLS: of the plaintext); for HTTP/3 those of
//! the stream.

use bytes::Bytes;
use squall_base::traceparent::{self, TRACEPARENT};

/// Names an exchange on its connection. HTTP/2 and HTTP/3: the stream id. HTTP/1.1: its ordinal, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A header field as it came, in the order of the message; names in lower case for every protocol. All fields of a
/// section share its memory: to keep one keeps that of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Bytes,
    /// Its value.
    pub value: Bytes,
}

impl Field {
    /// A field by itself.
    pub fn new(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Field {
        Field {
            name: Bytes::copy_from_slice(name.as_ref()),
            value: Bytes::copy_from_slice(value.as_ref()),
        }
    }
}

/// The request of the schedule that these fields of a request name, by the `traceparent` that a trial's client writes;
/// `None` where there is none, or several.
pub fn traced_request(fields: &[Field]) -> Option<u64> {
    let is_it = |field: &&Field| *field.name == *TRACEPARENT.as_bytes();
    let mut values = fields.iter().filter(is_it);
    let (first, second) = (values.next()?, values.next());
    match second {
        None => traceparent::traced_request(&first.value),
        Some(_) => None,
    }
}

/// What a client learns. Of one stream, events come in the order of this enum, but for an early response,
/// whose events may precede `RequestWritten`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The socket took the first byte of the request.
    RequestFirstByteWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// The socket took the last byte of the request. Never comes if the stream was reset before that.
    RequestWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset after that byte.
        end: u64,
    },
    /// The first byte of the answer arrived, be it of an interim (1xx) response. HTTP/2: the frame header
    /// of its first HEADERS is complete.
    ResponseFirstByte {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// HTTP/1.1 became HTTP/2, as the client had asked (`upgrade: h2c`): the exchange goes on as another stream.
    Switched {
        /// What it was called so far.
        from: StreamId,
        /// What it is called from now on.
        to: StreamId,
    },
    /// An interim response came (RFC 9110, section 15.2), if the inbox wants fields; others skip them.
    Interim {
        /// The exchange.
        stream: StreamId,
        /// The status code, below 200.
        status: u16,
        /// Its fields.
        fields: Vec<Field>,
    },
    /// The header section of the final response is complete.
    ResponseHeaders {
        /// The exchange.
        stream: StreamId,
        /// The status code.
        status: u16,
        /// Its fields without pseudo-header fields, if the inbox wants them.
        fields: Vec<Field>,
    },
    /// So much of the response's body arrived.
    ResponseBody {
        /// The exchange.
        stream: StreamId,
        /// Bytes, at least 1.
        len: u64,
    },
    /// The response is complete: the exchange is answered. Only marks of request bytes may follow.
    ResponseEnd {
        /// The exchange.
        stream: StreamId,
        /// Offset after its last byte.
        end: u64,
    },
    /// HTTP/2 and HTTP/3: the stream ended without a whole response. The exchange has failed; nothing of it follows,
    /// except marks of request bytes that were already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7; RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/3: the response broke the rules of a message, or was too much, so we gave the stream up. Otherwise as
    /// [`ClientEvent::StreamReset`].
    ResponseRefused {
        /// The exchange.
        stream: StreamId,
        /// What we told the server (RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/2 and HTTP/3: the server's GOAWAY says that it did not, and will not, process this request (RFC 9113,
    /// section 6.8; RFC 9114, section 5.2). Nobody reset the stream. Otherwise as [`ClientEvent::StreamReset`].
    RequestRefused {
        /// The exchange.
        stream: StreamId,
    },
    /// HTTP/2 and HTTP/3: the server takes no more requests on this connection.
    GoAway {
        /// The last stream that it may have processed.
        last_stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u64,
    },
}

/// What a server learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The first byte of a request arrived. HTTP/2: the frame header of its HEADERS is complete.
    RequestFirstByte {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// The header section of a request is complete. It may be answered from now on.
    RequestHead {
        /// The exchange.
        stream: StreamId,
        /// The method.
        method: String,
        /// The path and query.
        target: String,
        /// Its other fields without pseudo-header fields, if the inbox wants them; `:authority` is there as `host`.
        fields: Vec<Field>,
    },
    /// So much of the request's body arrived.
    RequestBody {
        /// The exchange.
        stream: StreamId,
        /// Bytes, at least 1.
        len: u64,
    },
    /// The request is complete.
    RequestEnd {
        /// The exchange.
        stream: StreamId,
        /// Offset after its last byte.
        end: u64,
    },
    /// HTTP/2 and HTTP/3: the stream ended before request and response were complete. Nothing of it follows, except
    /// marks of response bytes that were already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u64,
    },
    /// HTTP/3: the request broke the rules of a message, or was too much, so we gave the stream up. Otherwise as
    /// [`ServerEvent::StreamReset`].
    RequestBroken {
        /// The exchange.
        stream: StreamId,
        /// What we told the client (RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/1.1: the request could not be taken, and the socket took the last byte of the engine's own answer, which
    /// says so. Its head was told only if the fault was behind it. Nothing follows on the connection.
    RequestRefused {
        /// The exchange.
        stream: StreamId,
        /// The status code of that answer.
        status: u16,
        /// Offset after its last byte.
        end: u64,
    },
    /// The socket took the first byte of the response, or of the engine's own.
    ResponseFirstByteWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// The socket took the last byte of the response.
    ResponseWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset after that byte.
        end: u64,
    },
}
