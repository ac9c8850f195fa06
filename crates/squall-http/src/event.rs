//! The events of a connection: the marks from which a request's record is made.
//!
//! Events carry no time: whoever reads the socket knows it. Lengths are body bytes without framing.

/// Names an exchange on its connection. HTTP/2: the stream id. HTTP/1.1: its ordinal, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What a client learns. Of one stream, events come in the order of this enum, but for an early response,
/// whose events may precede `RequestWritten`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The socket took the first byte of the request.
    RequestFirstByteWritten {
        /// The exchange.
        stream: StreamId,
    },
    /// The socket took the last byte of the request. Never comes if the stream was reset before that.
    RequestWritten {
        /// The exchange.
        stream: StreamId,
    },
    /// The first byte of the answer arrived, be it of an interim (1xx) response. HTTP/2: the frame header
    /// of its first HEADERS is complete.
    ResponseFirstByte {
        /// The exchange.
        stream: StreamId,
    },
    /// The header section of the final response is complete.
    ResponseHeaders {
        /// The exchange.
        stream: StreamId,
        /// The status code.
        status: u16,
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
    },
    /// HTTP/2: the stream ended without a whole response. The exchange has failed; nothing of it follows,
    /// except marks of request bytes that were already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7). REFUSED_STREAM (7) also for streams beyond a GOAWAY.
        code: u32,
    },
    /// HTTP/2: the server takes no more requests on this connection.
    GoAway {
        /// The last stream that it may have processed.
        last_stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u32,
    },
}

/// What a server learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The header section of a request is complete. It may be answered from now on.
    RequestHead {
        /// The exchange.
        stream: StreamId,
        /// The method.
        method: String,
        /// The path and query.
        target: String,
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
    },
    /// HTTP/2: the stream ended before request and response were complete. Nothing of it follows, except
    /// marks of response bytes that were already on their way to the socket.
    StreamReset {
        /// The exchange.
        stream: StreamId,
        /// Why (RFC 9113, section 7).
        code: u32,
    },
    /// The socket took the first byte of the response.
    ResponseFirstByteWritten {
        /// The exchange.
        stream: StreamId,
    },
    /// The socket took the last byte of the response.
    ResponseWritten {
        /// The exchange.
        stream: StreamId,
    },
}

/// Adds `len` body bytes of a response, to the last event if that is one of the same body: a peer that
/// sends tiny pieces shall not make many events.
pub(crate) fn push_response_body(events: &mut Vec<ClientEvent>, of: StreamId, bytes: usize) {
    match events.last_mut() {
        _ if bytes == 0 => {}
        Some(ClientEvent::ResponseBody { stream, len }) if *stream == of => *len += bytes as u64,
        _ => events.push(ClientEvent::ResponseBody {
            stream: of,
            len: bytes as u64,
        }),
    }
}

/// As [`push_response_body`], for requests.
pub(crate) fn push_request_body(events: &mut Vec<ServerEvent>, of: StreamId, bytes: usize) {
    match events.last_mut() {
        _ if bytes == 0 => {}
        Some(ServerEvent::RequestBody { stream, len }) if *stream == of => *len += bytes as u64,
        _ => events.push(ServerEvent::RequestBody {
            stream: of,
            len: bytes as u64,
        }),
    }
}
