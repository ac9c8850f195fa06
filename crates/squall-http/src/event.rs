//! The events of a connection: the marks from which a request's record is built.
//!
//! Events carry no time, because the code that moves the bytes knows it. Lengths count body bytes without framing.
//! Offsets count bytes of HTTP in their direction, from the first byte of the connection (over TLS: of the plaintext).
//! HTTP/3 offsets count from the start of the stream.

use bytes::Bytes;
use squall_base::traceparent::{self, TRACEPARENT};

/// Identifies an exchange on its connection. HTTP/2 and HTTP/3: the stream id. HTTP/1.1: its ordinal, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A received header field, in message order; its name is in lower case for every protocol. All fields of a section
/// share one allocation, so keeping one field keeps all of them in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Bytes,
    /// Its value.
    pub value: Bytes,
}

impl Field {
    /// A field with its own allocation.
    pub fn new(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Field {
        Field {
            name: Bytes::copy_from_slice(name.as_ref()),
            value: Bytes::copy_from_slice(value.as_ref()),
        }
    }
}

/// The scheduled request named by the `traceparent` among these request fields, which a trial's client writes. `None`
/// if there is no such field or more than one.
pub fn traced_request(fields: &[Field]) -> Option<u64> {
    let is_it = |field: &&Field| *field.name == *TRACEPARENT.as_bytes();
    let mut values = fields.iter().filter(is_it);
    let (first, second) = (values.next()?, values.next());
    match second {
        None => traceparent::traced_request(&first.value),
        Some(_) => None,
    }
}

/// What a client reports. The events of one stream come in the order of this enum, except that the events of an early
/// response may precede `RequestWritten`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The socket took the first byte of the request.
    RequestFirstByteWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// The socket took the last byte of the request. Not reported if the stream was reset before that.
    RequestWritten {
        /// The exchange.
        stream: StreamId,
        /// Offset after that byte.
        end: u64,
    },
    /// The first byte of the response arrived, including an interim (1xx) response. HTTP/2: the frame header of its
    /// first HEADERS is complete.
    ResponseFirstByte {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// HTTP/1.1 switched to HTTP/2, as the client requested (`upgrade: h2c`): the exchange continues under another
    /// stream id.
    Switched {
        /// Its id until now.
        from: StreamId,
        /// Its id from now on.
        to: StreamId,
    },
    /// An interim response arrived (RFC 9110, section 15.2). Reported only if the inbox wants fields.
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
    /// Part of the response's body arrived.
    ResponseBody {
        /// The exchange.
        stream: StreamId,
        /// Its length in bytes, at least 1.
        len: u64,
    },
    /// The response is complete, and with it the exchange. Only marks of request bytes may follow.
    ResponseEnd {
        /// The exchange.
        stream: StreamId,
        /// Offset after its last byte.
        end: u64,
    },
    /// HTTP/2 and HTTP/3: the stream ended without a complete response. The exchange has failed. No more events follow,
    /// except marks of request bytes already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7; RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/3: the response was malformed or too large, so we reset the stream. Otherwise like
    /// [`ClientEvent::StreamReset`].
    ResponseRefused {
        /// The exchange.
        stream: StreamId,
        /// The error code we sent to the server (RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/2 and HTTP/3: according to the server's GOAWAY, it did not and will not process this request (RFC 9113,
    /// section 6.8; RFC 9114, section 5.2). Neither side reset the stream. Otherwise like [`ClientEvent::StreamReset`].
    RequestRefused {
        /// The exchange.
        stream: StreamId,
    },
    /// HTTP/2 and HTTP/3: the server accepts no more requests on this connection.
    GoAway {
        /// The last stream that it may have processed.
        last_stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u64,
    },
}

/// What a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The first byte of a request arrived. HTTP/2: the frame header of its HEADERS is complete.
    RequestFirstByte {
        /// The exchange.
        stream: StreamId,
        /// Offset of that byte.
        offset: u64,
    },
    /// The header section of a request is complete. The request may be answered from now on.
    RequestHead {
        /// The exchange.
        stream: StreamId,
        /// The method.
        method: String,
        /// The path and query.
        target: String,
        /// The header fields, if the inbox wants them: without pseudo-header fields, but `:authority` appears as `host`.
        fields: Vec<Field>,
        /// HTTP/2 and HTTP/3: whether the client may wait for a 100 (Continue) before it sends the body, which the owner must
        /// then send ([`crate::ServerStreams::inform`]). HTTP/1.1: false, because the engine sends it by itself.
        expects_continue: bool,
    },
    /// Part of the request's body arrived.
    RequestBody {
        /// The exchange.
        stream: StreamId,
        /// Its length in bytes, at least 1.
        len: u64,
    },
    /// The request is complete.
    RequestEnd {
        /// The exchange.
        stream: StreamId,
        /// Offset after its last byte.
        end: u64,
    },
    /// HTTP/2 and HTTP/3: the stream ended before request and response were complete. No more events follow, except
    /// marks of response bytes already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u64,
    },
    /// HTTP/3: the request was malformed or too large, so we reset the stream. Otherwise like
    /// [`ServerEvent::StreamReset`].
    RequestBroken {
        /// The exchange.
        stream: StreamId,
        /// The error code we sent to the client (RFC 9114, section 8.1).
        code: u64,
    },
    /// HTTP/1.1: the engine rejected the request, and the socket took the last byte of its error response. The
    /// request's head was reported only if the fault came after it. The connection reports nothing more.
    RequestRefused {
        /// The exchange.
        stream: StreamId,
        /// The status code of the error response.
        status: u16,
        /// Offset after its last byte.
        end: u64,
    },
    /// The socket took the first byte of the response, whether the caller's or the engine's own.
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
