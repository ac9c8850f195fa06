//! The interface of an HTTP/2 session, whether nghttp2's or that of another engine.

use crate::bodies::Bodies;
use crate::error::Error;
use crate::headers::HeaderBlock;

/// A session that reports to a handler and sends the bodies that it is given. Operations of only one side, such as
/// submitting a request, are not part of it.
pub trait Http2Session<H> {
    /// The handler.
    fn handler(&self) -> &H;

    /// The handler, for changes between calls.
    fn handler_mut(&mut self) -> &mut H;

    /// Processes bytes from the peer. An error ends the session. A peer's connection error that the session handles itself
    /// does not return an error (see [`crate::Handler::goaway_sending`]).
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Appends the next frame that can be sent now and returns its size; 0 if there is no such frame.
    fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error>;

    /// Whether [`Http2Session::send`] would produce something; false also while windows are exhausted.
    fn wants_write(&self) -> bool;

    /// The number of queued frames other than DATA.
    fn queued_frames(&self) -> usize;

    /// The peer's SETTINGS_MAX_FRAME_SIZE, in bytes.
    fn peer_max_frame_bytes(&self) -> u32;

    /// Raises the connection's receive window to at most [`crate::MAX_WINDOW_BYTES`] by a WINDOW_UPDATE.
    fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error>;

    /// Queues WINDOW_UPDATE for a stream, or for the connection (0), by 1 to 2^31 - 1 bytes. Does nothing if the stream is
    /// gone. Fails if the window would exceed [`crate::MAX_WINDOW_BYTES`].
    fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error>;

    /// How much DATA the peer's windows let us send on a stream: the smaller of the stream's window and the connection's. A
    /// stream that is still to be opened has the window that it will begin with, if that is known. For a stream that is
    /// gone, the result has no meaning.
    fn send_window(&self, stream: u32) -> usize;

    /// How much DATA the peer may send on a stream, or on the connection (0), once it has received every queued
    /// WINDOW_UPDATE; 0 if the stream is not open.
    fn window_to_receive(&mut self, stream: u32) -> u32;

    /// How much of that window was used and not returned by WINDOW_UPDATE; 0 if the stream is not open.
    fn used_window(&mut self, stream: u32) -> u32;

    /// Queues RST_STREAM.
    fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error>;

    /// Queues GOAWAY: streams up to `last` may complete, later ones are refused.
    fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error>;

    /// Ends the session with GOAWAY, for a peer that broke a rule the session does not know.
    fn terminate(&mut self, code: u32) -> Result<(), Error>;

    /// The bodies being sent.
    fn bodies(&self) -> &Bodies;

    /// The bodies being sent, for changes.
    fn bodies_mut(&mut self) -> &mut Bodies;

    /// Makes the session ask again for a body that had no bytes available.
    fn resume(&mut self, stream: u32) -> Result<(), Error>;

    /// Accepts bytes of a streamed body, as many as there is room for ([`Bodies::room`]), and returns how many.
    fn send_body(&mut self, stream: u32, bytes: &[u8]) -> Result<usize, Error> {
        let (accepted, must_resume) = self.bodies_mut().add(stream, bytes);
        if must_resume {
            self.resume(stream)?;
        }
        Ok(accepted)
    }

    /// Ends a streamed body after the bytes accepted so far, followed by these trailers, if any.
    fn end_body(&mut self, stream: u32, trailers: Option<HeaderBlock>) -> Result<(), Error> {
        if self.bodies_mut().end(stream, trailers) {
            self.resume(stream)?;
        }
        Ok(())
    }
}
