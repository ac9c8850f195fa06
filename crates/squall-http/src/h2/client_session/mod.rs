//! Our own HTTP/2 session for clients (RFC 9113): frames in, frames out, streams and windows.
//!
//! nghttp2 spends nine thousand instructions on a request and its response, more than everything else that a load
//! generator does, records included. This session takes a tenth of that, because a load repeats itself. Header
//! compression is still nghttp2's, but repeated sections are not decoded or encoded again (`sections`, `encoder`).
//! benches/RESULTS.md has the figures. Servers still use nghttp2, which is also the peer that the tests run this session
//! against.
//!
//! Its interface follows nghttp2's session, so both share the policy above it: the handler receives callbacks, and the
//! owner submits. It makes no policy decisions and opens no sockets. Push is refused; priorities are neither sent nor
//! honoured.
//!
//! `receive` and `settings` read frames, `send` writes them, `stream` tracks windows and validates responses.

mod encoder;
mod hpack;
mod receive;
mod sections;
mod send;
mod settings;
mod stream;

use std::collections::VecDeque;

use squall_nghttp2::{
    Bodies, Body, Error, Handler, HeaderBlock, Http2Session, MAX_WINDOW_BYTES, Options, Setting,
};

use super::settings::INITIAL_WINDOW_BYTES;
use crate::streams::Streams;
use encoder::Encoder;
use receive::Input;
use sections::Sections;
use send::{Control, Head};
use stream::{Response, Stream, WindowToReceive, WindowToSend};

/// RFC 9113, section 5.1.1.
const MAX_STREAM_ID: u32 = i32::MAX as u32;

/// A client's session.
pub struct ClientSession<H> {
    handler: H,
    input: Input,
    sections: Sections,
    encoder: Encoder,
    streams: Streams<u32, Stream>,
    bodies: Bodies,
    /// The connection's windows.
    to_send: WindowToSend,
    to_receive: WindowToReceive,
    peer: PeerSettings,
    /// The initial window of streams, according to those of our SETTINGS that the peer has acknowledged.
    stream_window: u32,
    /// The largest frame the peer may send, according to the same SETTINGS.
    max_frame_bytes: u32,
    /// Our SETTINGS that the peer has not acknowledged.
    unacknowledged: VecDeque<Vec<Setting>>,
    /// The largest payload of a DATA frame, before the peer's limit is applied.
    data_bytes: u32,
    controls: VecDeque<Control>,
    /// Queued header sections: requests and trailers.
    heads: VecDeque<Head>,
    /// The headers of queued requests that carry none of their own, kept from one request to the next. Counting a
    /// reference per request takes two atomic instructions, or 9 ns.
    usual_headers: Option<HeaderBlock>,
    /// The rest of a header section that takes several frames, and its stream.
    continuation: Option<(u32, Vec<u8>)>,
    /// Streams whose bodies have bytes and window, in round-robin order.
    ready: VecDeque<u32>,
    next_stream: u32,
    /// The last stream of the peer's GOAWAY.
    goaway: Option<u32>,
    /// We have sent a GOAWAY ourselves.
    has_sent_goaway: bool,
    /// The peer broke the protocol: after our GOAWAY nothing is read or written.
    has_failed: bool,
    /// Consecutive empty DATA frames.
    empty_frames: u32,
    /// Acknowledgements queued in `controls`.
    queued_acknowledgements: usize,
}

/// The peer's SETTINGS (RFC 9113, section 6.5.2).
#[derive(Clone, Copy, Debug)]
struct PeerSettings {
    have_arrived: bool,
    max_streams: u32,
    stream_window: u32,
    max_frame_bytes: u32,
}

impl<H: Handler> ClientSession<H> {
    /// A session whose output begins with the connection preface and the SETTINGS, which must be submitted first.
    pub(super) fn new(handler: H, options: &Options) -> Result<ClientSession<H>, Error> {
        let mut session = ClientSession {
            handler,
            input: Input::default(),
            sections: Sections::new()?,
            encoder: Encoder::new()?,
            streams: Streams::default(),
            bodies: Bodies::new(options.data_bytes),
            to_send: WindowToSend(i64::from(INITIAL_WINDOW_BYTES)),
            to_receive: WindowToReceive::of(INITIAL_WINDOW_BYTES),
            peer: PeerSettings {
                have_arrived: false,
                max_streams: options.assumed_max_concurrent_streams,
                stream_window: INITIAL_WINDOW_BYTES,
                max_frame_bytes: 16_384,
            },
            stream_window: INITIAL_WINDOW_BYTES,
            max_frame_bytes: 16_384,
            unacknowledged: VecDeque::new(),
            data_bytes: options.data_bytes,
            controls: VecDeque::new(),
            heads: VecDeque::new(),
            usual_headers: None,
            continuation: None,
            ready: VecDeque::new(),
            next_stream: 1,
            goaway: None,
            has_sent_goaway: false,
            has_failed: false,
            empty_frames: 0,
            queued_acknowledgements: 0,
        };
        session.controls.push_back(Control::Preface);
        Ok(session)
    }

    /// Queues a SETTINGS frame.
    pub(super) fn submit_settings(&mut self, settings: &[Setting]) -> Result<(), Error> {
        let payload = Setting::payload(settings)?;
        self.controls.push_back(Control::Settings(payload));
        self.unacknowledged.push_back(settings.to_vec());
        Ok(())
    }

    /// Continues from HTTP/1.1 after status 101 (RFC 7540, section 3.2): queues the SETTINGS that HTTP2-Settings
    /// announced, and expects the response to a request, HEAD or not, on stream 1.
    pub(super) fn upgrade(&mut self, settings: &[Setting], is_head: bool) -> Result<(), Error> {
        self.submit_settings(settings)?;
        self.open(1, is_head);
        if let Some(stream) = self.streams.find(1) {
            stream.is_sent = true;
        }
        self.next_stream = 3;
        Ok(())
    }

    fn open(&mut self, id: u32, is_head: bool) {
        let stream = Stream {
            to_send: WindowToSend(i64::from(self.peer.stream_window)),
            to_receive: WindowToReceive::of(self.stream_window),
            is_sent: false,
            is_answered: false,
            is_reset: false,
            is_queued: false,
            response: Response::to(is_head),
        };
        self.streams.insert(id, stream);
    }

    /// Queues a request and returns its stream.
    pub(super) fn submit_request(
        &mut self,
        headers: &HeaderBlock,
        body: Body<'_>,
    ) -> Result<u32, Error> {
        if self.next_stream > MAX_STREAM_ID {
            return Err(Error::StreamIdsExhausted);
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        let has_body = !body.is_empty();
        if has_body {
            self.bodies.insert(stream, body);
        }
        let usual = self.usual_headers.as_ref();
        let headers = if usual.is_some_and(|usual| usual.is_same(headers)) {
            None
        } else if self.heads.is_empty() {
            // No queued request still refers to the previous usual headers.
            self.usual_headers = Some(headers.clone());
            None
        } else {
            Some(headers.clone())
        };
        self.heads.push_back(Head::Request {
            stream,
            headers,
            has_body,
        });
        Ok(stream)
    }

    /// Whether streams can still be opened: no GOAWAY has been sent or received, and there are ids left.
    pub(super) fn is_request_allowed(&self) -> bool {
        !self.has_failed
            && !self.has_sent_goaway
            && self.goaway.is_none()
            && self.next_stream <= MAX_STREAM_ID
    }

    /// Whether the peer's SETTINGS have arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.peer.have_arrived
    }

    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS: an assumed value until its SETTINGS arrive, 2^32 - 1 if they set no
    /// limit.
    pub(super) fn peer_max_concurrent_streams(&self) -> u32 {
        self.peer.max_streams
    }

    /// Closes a stream that both sides have finished or one has reset.
    fn close(&mut self, id: u32, code: u32) {
        if let Some(stream) = self.streams.remove(id) {
            if stream.is_queued {
                self.ready.retain(|ready| *ready != id);
            }
            // The unsent part of the body is no longer needed.
            self.bodies.remove(id);
            self.handler.stream_closed(id, code);
        }
    }

    /// Queues a body that has bytes, if its stream is open and has window.
    fn enqueue(&mut self, id: u32) {
        if let Some(stream) = self.streams.find(id)
            && !stream.is_queued
            && !stream.is_sent
            && !stream.is_reset
            && stream.to_send.0 > 0
        {
            stream.is_queued = true;
            self.ready.push_back(id);
        }
    }

    fn window(&mut self, stream: u32) -> Option<&mut WindowToReceive> {
        match stream {
            0 => Some(&mut self.to_receive),
            _ => self.streams.find(stream).map(|open| &mut open.to_receive),
        }
    }
}

impl<H: Handler> Http2Session<H> for ClientSession<H> {
    fn handler(&self) -> &H {
        &self.handler
    }

    fn handler_mut(&mut self) -> &mut H {
        &mut self.handler
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.take(bytes)
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Result<usize, Error> {
        self.write(out)
    }

    fn wants_write(&self) -> bool {
        !self.controls.is_empty()
            || !self.heads.is_empty()
            || self.continuation.is_some()
            || (self.to_send.0 > 0 && !self.ready.is_empty())
    }

    fn queued_frames(&self) -> usize {
        self.controls.len() + self.heads.len()
    }

    fn peer_max_frame_bytes(&self) -> u32 {
        self.peer.max_frame_bytes
    }

    fn set_connection_window(&mut self, bytes: u32) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.to_receive.left());
        self.submit_window_update(0, more)
    }

    fn submit_window_update(&mut self, stream: u32, increment: u32) -> Result<(), Error> {
        if increment == 0 || increment > MAX_WINDOW_BYTES {
            return Err(Error::INVALID_ARGUMENT);
        }
        let Some(window) = self.window(stream) else {
            return Ok(());
        };
        window
            .give(increment)
            .map_err(|stream::TooLarge| Error::INVALID_ARGUMENT)?;
        self.controls
            .push_back(Control::WindowUpdate { stream, increment });
        Ok(())
    }

    fn send_window(&self, stream: u32) -> usize {
        let own = match self.streams.get(stream) {
            Some(open) => open.to_send.0,
            // The request's head is still queued.
            None => i64::from(self.peer.stream_window),
        };
        usize::try_from(own.min(self.to_send.0)).unwrap_or(0)
    }

    fn window_to_receive(&mut self, stream: u32) -> u32 {
        self.window(stream).map_or(0, |window| window.left())
    }

    fn used_window(&mut self, stream: u32) -> u32 {
        let used = self.window(stream).map_or(0, |window| window.used);
        u32::try_from(used).unwrap_or(0)
    }

    fn submit_reset(&mut self, stream: u32, code: u32) -> Result<(), Error> {
        match self.streams.find(stream) {
            Some(open) if open.is_reset => return Ok(()),
            Some(open) => open.is_reset = true,
            // The request is still queued, so it need not be sent.
            None => {
                self.heads.retain(|head| head.stream() != stream);
                self.bodies.remove(stream);
            }
        }
        self.controls.push_back(Control::Reset { stream, code });
        Ok(())
    }

    fn submit_goaway(&mut self, last: u32, code: u32) -> Result<(), Error> {
        self.controls.push_back(Control::GoAway {
            last,
            code,
            reason: "",
        });
        Ok(())
    }

    fn terminate(&mut self, code: u32) -> Result<(), Error> {
        self.offend(code, "");
        Ok(())
    }

    fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    fn bodies_mut(&mut self) -> &mut Bodies {
        &mut self.bodies
    }

    fn resume(&mut self, stream: u32) -> Result<(), Error> {
        self.enqueue(stream);
        Ok(())
    }
}
