//! The interface that both sides' sessions share: nghttp2's for servers, our own for clients.
//!
//! See [`squall_nghttp2::Session`] for documentation of the methods. Operations of only one side, such as submitting a
//! request, are not part of it.

use squall_nghttp2::{Error, Handler, HeaderBlock};

/// A session that reports to a handler.
pub trait Session<H> {
    fn handler(&self) -> &H;
    fn handler_mut(&mut self) -> &mut H;
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error>;
    fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error>;
    fn wants_write(&self) -> bool;
    fn queued_frames(&self) -> usize;
    fn peer_max_frame_bytes(&self) -> u32;
    fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error>;
    fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error>;
    fn window_to_receive(&mut self, stream: u32) -> u32;
    fn used_window(&mut self, stream: u32) -> u32;
    fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error>;
    fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error>;
    fn terminate(&mut self, code: u32) -> Result<(), Error>;
    fn body_room(&self, stream: u32) -> usize;
    fn has_body(&self, stream: u32) -> bool;
    fn send_body(&mut self, stream: u32, bytes: &[u8]) -> Result<usize, Error>;
    fn end_body(&mut self, stream: u32) -> Result<(), Error>;
    fn end_body_with(&mut self, stream: u32, trailers: &HeaderBlock) -> Result<(), Error>;
}

impl<H: Handler> Session<H> for squall_nghttp2::Session<H> {
    fn handler(&self) -> &H {
        self.handler()
    }

    fn handler_mut(&mut self) -> &mut H {
        self.handler_mut()
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.receive(bytes)
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error> {
        self.send(out)
    }

    fn wants_write(&self) -> bool {
        self.wants_write()
    }

    fn queued_frames(&self) -> usize {
        self.queued_frames()
    }

    fn peer_max_frame_bytes(&self) -> u32 {
        self.peer_max_frame_bytes()
    }

    fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error> {
        self.set_connection_window(bytes)
    }

    fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error> {
        self.submit_window_update(stream, increment)
    }

    fn window_to_receive(&mut self, stream: u32) -> u32 {
        (*self).window_to_receive(stream)
    }

    fn used_window(&mut self, stream: u32) -> u32 {
        (*self).used_window(stream)
    }

    fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error> {
        self.submit_reset(stream, code)
    }

    fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error> {
        self.submit_goaway(last, code)
    }

    fn terminate(&mut self, code: u32) -> Result<(), Error> {
        self.terminate(code)
    }

    fn body_room(&self, stream: u32) -> usize {
        self.body_room(stream)
    }

    fn has_body(&self, stream: u32) -> bool {
        self.has_body(stream)
    }

    fn send_body(&mut self, stream: u32, bytes: &[u8]) -> Result<usize, Error> {
        self.send_body(stream, bytes)
    }

    fn end_body(&mut self, stream: u32) -> Result<(), Error> {
        self.end_body(stream)
    }

    fn end_body_with(&mut self, stream: u32, trailers: &HeaderBlock) -> Result<(), Error> {
        self.end_body_with(stream, trailers)
    }
}
