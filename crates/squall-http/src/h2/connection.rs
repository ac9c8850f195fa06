//! One side of an HTTP/2 connection: bytes in, bytes out, streams, windows, frames, failure.
//!
//! Received bytes are passed to the session frame by frame, so that the listener knows which frame each callback
//! belongs to. The listener decides which events to report; `client` and `server` hold the listeners and what only one
//! side does.

use std::mem;

use squall_base::plan::Http2Settings;
use squall_base::record::Way;
use squall_nghttp2::{Body, Error, FrameKind, Handler, Http2Session};

use super::allowance::FrameAllowance;
use super::listener_state::ListenerState;
use super::output::{BufferLimit, Mark, MessagePart, Output};
use super::settings::{Windows, options};
use super::updates::{DataPiece, Updates};
use crate::engine::{Engine, Http2Announcements, StreamIo};
use crate::error::{ConnectionError, CreateError};
use crate::event::StreamId;
use crate::frames::{FRAME_HEADER_BYTES, Frame, FrameTap, FrameWalker};
use crate::inbox::Inbox;
use crate::message::{self, Trailers};

/// Limit on queued frames, beyond one per open stream. Only a peer that does not read can make us queue more.
const MAX_QUEUED_FRAMES: usize = 20_000;

/// RFC 9113, section 7.
const PROTOCOL_ERROR: u32 = 0x1;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Why a connection that has used up its `FrameAllowance` is ended.
const TOO_MANY_FRAMES: &str = "too many frames without content";

/// Turns one side's session callbacks into events, and knows what differs between the sides.
pub trait Listener: Handler + Sized {
    /// The side's events.
    type Event;

    /// The session that calls it.
    type Session: Http2Session<Self>;

    /// Where its events go.
    fn inbox(&mut self) -> &mut Inbox<Self::Event>;

    /// The state that listeners of both sides keep.
    fn shared(&mut self) -> &mut ListenerState;

    /// The event for a mark that the socket has taken.
    fn event_of(mark: Mark) -> Self::Event;

    /// Called after the session has taken bytes from the peer, while events still go to the caller's inbox.
    fn on_received(connection: &mut Connection<Self>);

    /// Whether the connection, which has not failed, can still be used: see [`Engine::is_open`].
    fn is_usable(connection: &Connection<Self>) -> bool;

    /// Whether an exchange would be cut off if the peer closed its side now.
    fn is_inside_exchange(&self) -> bool;

    /// How many streams are open.
    fn open_streams(&self) -> usize;

    /// Whether the stream is open.
    fn is_open(&mut self, stream: u32) -> bool;

    /// Called when part of a message has been produced.
    fn on_produced(&mut self, _stream: u32, _part: MessagePart) {}

    /// Whether HEADERS for this stream are too late, because the peer has already opened later streams.
    fn is_out_of_order(&mut self, _stream: u32) -> bool {
        false
    }

    /// Returns the last stream that is accepted, once, after it has arrived.
    fn take_last_stream(&mut self) -> Option<u32> {
        None
    }
}

/// One side's connection.
pub struct Connection<L: Listener> {
    pub(super) session: L::Session,
    output: Output,
    tap: FrameTap,
    updates: Updates,
    allowance: FrameAllowance,
    failure: Option<ConnectionError>,
    /// The peer closed its side.
    pub(super) has_ended: bool,
}

impl<L: Listener> Connection<L> {
    /// A connection over a session whose SETTINGS are submitted. `walker` and `tap` begin where the session does.
    pub(super) fn over(
        mut session: L::Session,
        walker: FrameWalker,
        tap: FrameTap,
        settings: &Http2Settings,
    ) -> Result<Connection<L>, CreateError> {
        let windows = Windows::of(settings)?;
        windows.announce(&mut session)?;
        Ok(Connection {
            session,
            output: Output::new(walker, options(settings)?.data_bytes),
            tap,
            updates: Updates::new(settings.window_updates, windows),
            allowance: FrameAllowance::new(),
            failure: None,
            has_ended: false,
        })
    }

    /// The SETTINGS of both sides, and counts of GOAWAYs and resets.
    pub fn announced(&self) -> Http2Announcements<'_> {
        Http2Announcements {
            sent: self.tap.settings_sent(),
            received: self.tap.settings_received(),
            recent_sent: self.tap.recent_settings_sent(),
            recent_received: self.tap.recent_settings_received(),
            endings: self.tap.endings(),
        }
    }

    pub(super) fn listener(&self) -> &L {
        self.session.handler()
    }

    pub(super) fn listener_mut(&mut self) -> &mut L {
        self.session.handler_mut()
    }

    /// The error that every call returns once the connection has failed.
    pub(super) fn state(&self) -> Result<(), ConnectionError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: ConnectionError) {
        self.failure.get_or_insert(error);
    }

    /// Records a failure of the session.
    pub(super) fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.fail(error.into());
        }
    }

    /// Takes the bytes of one frame, as far as they have arrived, or of the preface. Returns how many.
    fn receive_piece(&mut self, bytes: &[u8]) -> usize {
        let listener = self.session.handler_mut();
        let inbox = listener.inbox();
        let mut tap = |bytes| self.tap.step(Way::Received, bytes, inbox.wanted_frames());
        let mut step = tap(bytes);
        let mut len = step.len;
        let mut payload_bytes = step.len;
        if let Some(frame) = step.begun {
            payload_bytes = step.len.saturating_sub(FRAME_HEADER_BYTES);
            if step.ended.is_none() && len < bytes.len() {
                step = tap(&bytes[len..]);
                payload_bytes = step.len;
                len += step.len;
            }
            listener.shared().frame = Some(frame);
            // nghttp2 misses these errors: it ignores PRIORITY altogether (RFC 9113, section 6.3), and it does not
            // remember which earlier streams were opened (section 5.1.1).
            let is_wrong = match frame.kind {
                FrameKind::PRIORITY => frame.stream == 0,
                FrameKind::HEADERS => listener.is_out_of_order(frame.stream),
                _ => false,
            };
            if is_wrong {
                let result = self.session.terminate(PROTOCOL_ERROR);
                self.note(result);
            }
            if !self.allowance.take_frame() {
                self.end_flood();
                return len;
            }
        }
        let result = self.session.receive(&bytes[..len]);
        self.note(result);
        let frame = self.listener_mut().shared().frame;
        if let Some(frame) = frame.filter(|frame| frame.kind == FrameKind::DATA) {
            self.count(frame, payload_bytes, step.ended.is_some());
        }
        if step.ended.is_some() {
            // The first bytes of the next frame header may arrive on their own.
            self.listener_mut().shared().frame = None;
        }
        self.settle();
        len
    }

    /// Ends the connection because the peer sends too many frames without content. Its GOAWAY gets space even if the
    /// peer does not read.
    fn end_flood(&mut self) {
        self.listener_mut().shared().refused(TOO_MANY_FRAMES);
        let result = self.session.terminate(ENHANCE_YOUR_CALM);
        self.note(result);
        self.pull(BufferLimit::Beyond);
        self.fail(ConnectionError::Http2 {
            code: ENHANCE_YOUR_CALM,
            reason: TOO_MANY_FRAMES.to_owned(),
        });
    }

    /// Counts bytes of a DATA frame against its windows.
    fn count(&mut self, frame: Frame, len: usize, ends_frame: bool) {
        if len == 0 && !ends_frame {
            return;
        }
        let listener = self.session.handler_mut();
        let ends_stream = ends_frame && frame.ends_stream();
        let delivered_bytes = mem::take(&mut listener.shared().delivered_bytes);
        self.allowance
            .receive_data(frame, delivered_bytes, ends_frame);
        let piece = DataPiece {
            stream: frame.stream,
            is_open: !ends_stream && listener.is_open(frame.stream),
            len_bytes: len as u64,
            delivered_bytes,
            ends_frame,
        };
        let result = self.updates.received(piece, &mut self.session);
        self.note(result);
    }

    /// Acts on what the listener recorded.
    fn settle(&mut self) {
        self.settle_closed();
        if let Some(last) = self.listener_mut().take_last_stream() {
            let result = self.session.submit_goaway(last, 0);
            self.note(result);
            // The next frame may open another stream, which is refused only once the GOAWAY has been produced.
            self.pull(BufferLimit::Beyond);
        }
    }

    /// Moves events that arose while output was produced to the caller's inbox.
    pub(super) fn move_events(&mut self, inbox: &mut Inbox<L::Event>) {
        inbox.append(self.listener_mut().inbox());
    }

    /// Lets the session produce frames.
    pub(super) fn pull(&mut self, limit: BufferLimit) {
        if self.failure.is_some() {
            return;
        }
        let result = self.updates.submit_held(&mut self.session);
        self.note(result);
        let result = self.output.pull(limit, &mut self.session, L::on_produced);
        self.note(result);
        self.allowance.send(self.output.take_content());
        if let Some(offence) = self.listener_mut().shared().take_offence() {
            self.fail(offence);
        }
        self.settle_closed();
    }

    fn settle_closed(&mut self) {
        while let Some((stream, code)) = self.listener_mut().shared().closed.pop() {
            self.output.forget(stream);
            let result = self.updates.closed(stream, code, &mut self.session);
            self.note(result);
        }
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.output.pending()
    }

    /// Whether part of a message has not been taken by the socket.
    pub(super) fn holds_message(&self) -> bool {
        self.output.holds_message()
    }

    /// Whether the socket has been offered bytes that it has not taken.
    pub(super) fn is_offered(&self) -> bool {
        self.output.is_offered()
    }
}

impl<L: Listener> StreamIo for Connection<L> {
    /// Limited by the peer's windows: otherwise a peer that never opens them could make each of its streams fill a
    /// buffer.
    fn body_room(&self, stream: StreamId) -> usize {
        let Some(stream) = number(stream) else {
            return 0;
        };
        let bodies = self.session.bodies();
        match bodies.room(stream) {
            0 => 0,
            room => {
                let window = self.session.send_window(stream);
                room.min(window.saturating_sub(bodies.waiting(stream)))
            }
        }
    }

    fn body_waiting(&self, stream: StreamId) -> usize {
        number(stream).map_or(0, |stream| self.session.bodies().waiting(stream))
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.body_room(stream))];
        let taken = number(stream).map_or(Ok(0), |id| self.session.send_body(id, bytes));
        match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.fail(error.into());
                0
            }
        }
    }

    fn end_body(&mut self, stream: StreamId) {
        let result = number(stream).map_or(Ok(()), |id| self.session.end_body(id, None));
        self.note(result);
    }

    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        let Some(stream) = number(stream) else {
            return;
        };
        if !trailers.fields().is_empty() && self.session.bodies().is_streamed(stream) {
            self.output.expect_trailers(stream);
            let result = self.session.end_body(stream, Some(trailers.block()));
            self.note(result);
        } else {
            self.end_body(StreamId(u64::from(stream)));
        }
    }

    fn consume(&mut self, stream: StreamId, n: u64) {
        let Some(stream) = number(stream).filter(|_| self.failure.is_none()) else {
            return;
        };
        let result = self.updates.consumed(stream, n, &mut self.session);
        self.note(result);
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        let Some(stream) = number(stream).filter(|_| self.failure.is_none()) else {
            return;
        };
        if self.listener_mut().is_open(stream) {
            // HTTP/2 error codes have 32 bits (RFC 9113, section 7).
            let code = u32::try_from(code).unwrap_or(u32::MAX);
            let result = self.session.submit_reset(stream, code);
            self.note(result);
        }
    }
}

impl<L: Listener> Engine for Connection<L> {
    type Event = L::Event;

    fn receive(
        &mut self,
        mut bytes: &[u8],
        inbox: &mut Inbox<L::Event>,
    ) -> Result<(), ConnectionError> {
        self.state()?;
        // The listener appends to the caller's inbox directly.
        self.move_events(inbox);
        mem::swap(self.listener_mut().inbox(), inbox);
        while !bytes.is_empty() && self.failure.is_none() {
            let len = self.receive_piece(bytes);
            bytes = &bytes[len..];
        }
        if self.session.queued_frames() > MAX_QUEUED_FRAMES + self.listener().open_streams() {
            self.fail(Error::FLOODED.into());
        }
        if self.failure.is_none() {
            L::on_received(self);
        }
        mem::swap(self.listener_mut().inbox(), inbox);
        self.state()
    }

    fn receive_end(&mut self, inbox: &mut Inbox<L::Event>) -> Result<(), ConnectionError> {
        self.move_events(inbox);
        self.has_ended = true;
        if self.listener().is_inside_exchange() {
            self.fail(ConnectionError::UnexpectedEnd);
        }
        self.state()
    }

    fn output(&mut self) -> &[u8] {
        self.pull(BufferLimit::Usual);
        self.output.offer()
    }

    fn advance_output(&mut self, n: usize, inbox: &mut Inbox<L::Event>) {
        let taken = self.output.advance(n, |mark| inbox.push(L::event_of(mark)));
        self.tap.walk(Way::Sent, taken, inbox.wanted_frames());
        self.move_events(inbox);
    }

    fn set_manual_consumption(&mut self) {
        self.updates.wait_for_owner();
    }

    fn is_open(&self) -> bool {
        self.failure.is_none() && L::is_usable(self)
    }

    fn buffered_bytes(&self) -> usize {
        self.pending().len() + self.session.bodies().buffered_bytes()
    }

    fn http2_settings(&self) -> Option<Http2Announcements<'_>> {
        Some(self.announced())
    }
}

/// Converts to an HTTP/2 stream id, if it fits.
pub(super) fn number(stream: StreamId) -> Option<u32> {
    u32::try_from(stream.0).ok()
}

/// A message's body in nghttp2's form.
pub(super) fn body(body: &message::Body) -> Body<'_> {
    match body.whole() {
        Some(bytes) => Body::Whole(bytes),
        None => Body::Streamed,
    }
}
