//! What the engines of all HTTP versions have in common.
//!
//! [`StreamIo`] is what an owner does with the streams of a connection; every engine implements it. [`Engine`] adds the
//! byte stream below HTTP/1.1 and HTTP/2. Nothing here knows the engines: they are in `h1`, `h2` and `h3`, and `side`
//! chooses between them.

use squall_base::record::EndingCounts;

use crate::error::ConnectionError;
use crate::event::StreamId;
use crate::inbox::Inbox;
use crate::message::Trailers;

/// The SETTINGS of both sides of an HTTP/2 connection, as identifiers and values, and counts of GOAWAYs and resets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Announcements<'a> {
    /// The settings we sent.
    pub sent: &'a [(u16, u32)],
    /// The settings the peer sent.
    pub received: &'a [(u16, u32)],
    /// The settings of each of our most recent SETTINGS frames, oldest first, at most eight.
    pub recent_sent: &'a [Vec<(u16, u32)>],
    /// The settings of each of the peer's most recent SETTINGS frames.
    pub recent_received: &'a [Vec<(u16, u32)>],
    /// GOAWAYs and resets so far.
    pub endings: EndingCounts,
}

/// What an owner does with the streams of a connection, whichever HTTP version it speaks. Calls for a stream that is
/// gone do nothing.
pub trait StreamIo {
    /// How many bytes of a streamed body could be taken now.
    fn body_room(&self, stream: StreamId) -> usize;

    /// How many bytes of a streamed body were taken and still wait, for windows or for the socket.
    fn body_waiting(&self, _stream: StreamId) -> usize {
        0
    }

    /// Takes the next bytes of a streamed body and returns how many; 0 if there is no room or no such body.
    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize;

    /// Completes a streamed body.
    fn end_body(&mut self, stream: StreamId);

    /// Completes a streamed body with trailers. HTTP/1.1 drops the trailers if the body is not chunked.
    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers);

    /// Returns `n` received body bytes to the peer's windows, if they count until they are consumed. HTTP/1.1 has no
    /// windows; there, the owner stops reading the socket instead.
    fn consume(&mut self, _stream: StreamId, _n: u64) {}

    /// Abandons an exchange. HTTP/1.1 can only do so by abandoning the connection, and sends no code.
    fn reset(&mut self, stream: StreamId, code: u64);
}

/// An engine over a byte stream: HTTP/1.1 or HTTP/2, one side of one connection.
pub trait Engine: StreamIo {
    /// The events that the engine reports.
    type Event;

    /// Takes bytes from the peer. After an error the connection stays failed and its exchanges in flight are lost;
    /// `output` may still hold a final message for the peer.
    fn receive(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox<Self::Event>,
    ) -> Result<(), ConnectionError>;

    /// Handles the peer closing its side. That properly ends some HTTP/1.1 messages, and is an error inside others.
    fn receive_end(&mut self, inbox: &mut Inbox<Self::Event>) -> Result<(), ConnectionError>;

    /// Bytes to write; empty if there are none now. Bytes stay in the output until they are taken.
    fn output(&mut self) -> &[u8];

    /// Reports that the first `n` bytes of the output were taken, capped at its length.
    fn advance_output(&mut self, n: usize, inbox: &mut Inbox<Self::Event>);

    /// Makes body bytes count against the peer's windows until they are consumed. Call it at the start of the
    /// connection.
    fn set_manual_consumption(&mut self) {}

    /// Whether the connection can still be used. A client's cannot once it can take no further request, except that after
    /// the last request that its settings allow it stays usable until all requests have ended: the client itself ends it
    /// then. A server's cannot once no more requests can arrive and every response has been written.
    fn is_open(&self) -> bool;

    /// How many bytes wait here: output, streamed bodies and an incomplete head. Bodies that were passed whole are
    /// shared, so they count only in the output of HTTP/2, which copies them.
    fn buffered_bytes(&self) -> usize;

    /// The SETTINGS of both sides, and counts of GOAWAYs and resets, if it speaks HTTP/2.
    fn http2_settings(&self) -> Option<Http2Announcements<'_>> {
        None
    }
}
