//! What both sides of an HTTP/3 connection share: QUIC with quiche, the streams of HTTP/3, and the marks.
//!
//! The sides differ in what a message is and what follows from it; they implement [`Side`]. Streams take turns in
//! sending, 16 KiB each, as they do in nghttp2 over HTTP/2. `reading` reads streams, `packets` fills batches.

mod packets;
mod reading;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use boring::ssl::SslRef;
use bytes::Bytes;
use quiche::{RecvInfo, Shutdown};
use squall_base::plan::{Http3Settings, QuicCongestionControl};
use squall_base::record::FrameFacts;

use super::CloseReason;
use super::allowance::Allowance;
use super::announced::Announcements;
use super::batch::Batch;
use super::buffers::{ConnectionBuffers, EndpointBuffers};
use super::code::{self, StreamError};
use super::control::{CriticalStream, UniStream};
use super::inbound::{Message, Role};
use super::keys::KeyLog;
use super::outbound::{Frames, Outbound};
use super::pacer::Pacer;
use super::pieces::{Edge, Emissions, Piece, Pieces};
use super::qlog::FrameLog;
use super::unvalidated::UnvalidatedAddress;
use super::wire::{self, GOAWAY, MAX_KEPT_BYTES, SETTINGS};
use crate::engine::StreamIo;
use crate::event::StreamId;
use crate::message::Trailers;

/// How much a stream may pass to quiche per turn.
const TURN_BYTES: usize = 16 * 1024;

/// How much is read from a stream per call.
const READ_BYTES: usize = 4 * 1024;

/// Why a connection that has used up its `Allowance` is ended.
const TOO_MUCH_WITHOUT_CONTENT: &str = "too many frames or datagrams without content";

/// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114, section 7.2.4.1).
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;

/// What was received as part of a message.
pub(super) enum MessageEvent<'a> {
    /// The message's first byte.
    FirstByte,
    /// Bytes of the message's body.
    Body(&'a [u8]),
    /// The message's end, with the length of the stream.
    End(u64),
    /// The peer reset the stream.
    Reset(u64),
    /// We reset the stream because of what the peer sent.
    Rejected(u64),
    /// The peer stopped reading what we send.
    Stopped(u64),
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadKind {
    /// Another head.
    Interim,
    /// A body, of this length if it is known.
    Final(Option<u64>),
}

/// A mark of a sent message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The first byte of a stream.
    First(u64),
    /// The last byte of a stream, and the stream's length.
    Last(u64, u64),
}

/// The client or the server, with the inbox of the current call.
pub(super) trait Side {
    /// Handles a received head.
    fn head(&mut self, stream: u64, block: &[u8]) -> Result<HeadKind, StreamError>;
    /// Handles received trailers.
    fn trailers(&mut self, stream: u64, block: &[u8]) -> Result<(), StreamError>;
    /// Handles anything else received.
    fn on_event(&mut self, stream: u64, event: MessageEvent<'_>);
    /// Handles a mark of a sent message.
    fn mark(&mut self, mark: Mark);
    /// Handles a received GOAWAY.
    fn go_away(&mut self, id: u64);
    /// The peer's streams on which nothing has been sent yet.
    fn unanswered(&self) -> Vec<u64>;
    /// Whether the peer may open this stream for a message.
    fn accepts(&mut self, stream: u64) -> Result<(), StreamError>;
    /// Where to put frames, if they are wanted.
    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>>;
}

/// A client's or a server's end of a connection, with its open streams. Each side keeps its own state for a stream.
pub(super) trait ConnectionEnd {
    /// The part that both sides share.
    fn connection(&self) -> &Connection;
    /// The part that both sides share, for changes.
    fn connection_mut(&mut self) -> &mut Connection;
    /// Drops the side's own state of a stream.
    fn forget(&mut self, stream: u64);
}

impl<E: ConnectionEnd> StreamIo for E {
    fn body_room(&self, stream: StreamId) -> usize {
        self.connection().body_room(stream.0)
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.connection_mut().send_body(stream.0, bytes)
    }

    fn end_body(&mut self, stream: StreamId) {
        self.connection_mut().send(stream.0, Outbound::end_here);
    }

    fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        self.connection_mut()
            .send(stream.0, |out| out.push_trailers(trailers));
    }

    /// The next call of `receive` or `output` for the connection may report more of the body.
    fn consume(&mut self, stream: StreamId, n: u64) {
        self.connection_mut().consume(stream.0, n);
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        self.forget(stream.0);
        self.connection_mut().reset(stream.0, code);
    }
}

/// One end of a connection.
pub(super) struct Connection {
    conn: quiche::Connection<Pieces>,
    role: Role,
    datagrams: Datagrams,
    emissions: Emissions,
    frame_log: Option<FrameLog>,
    keys: KeyLog,
    outbound: BTreeMap<u64, Outbound>,
    /// How much `outbound` and the owner may hold.
    buffers: ConnectionBuffers,
    /// Streams with bytes that quiche has not taken.
    queue: VecDeque<u64>,
    messages: BTreeMap<u64, Message>,
    /// Bytes of the incomplete sections of `messages`.
    section_bytes: usize,
    unidirectional: BTreeMap<u64, UniStream>,
    /// Our control stream, once it is open.
    control: Option<u64>,
    /// The peer's critical streams, once they are known.
    peer_critical: BTreeMap<CriticalStream, u64>,
    is_manual: bool,
    announced: Announcements,
    /// Bytes of messages that quiche has taken.
    sent_bytes: u64,
    /// Streams whose owner has consumed bytes since they were last read.
    consumed: Vec<u64>,
    /// How many streams the peer has stopped and reset, as of the last check.
    stopped_count: u64,
    reset_count: u64,
    /// Streams that the client has stopped but not ended.
    stopped: BTreeSet<u64>,
    /// A packet that did not fit the last batch, because it was longer than those before it or has another destination.
    carried: Option<CarriedPacket>,
    /// Until when the owner holds a paced batch.
    held_until: Option<Instant>,
    /// Our own pacer, if packets should be paced and quiche does not do it.
    pacer: Option<Pacer>,
    /// The bytes exchanged with the peer's address, while that may be forged.
    unvalidated: Option<UnvalidatedAddress>,
    /// How much more the peer may send without content.
    pub(super) allowance: Allowance,
}

/// A datagram that begins the next batch.
struct CarriedPacket {
    bytes: Vec<u8>,
    info: quiche::SendInfo,
    release: Option<Instant>,
    frames: Vec<FrameFacts>,
    marks: Vec<(u64, Edge)>,
}

/// How many datagrams a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Datagrams {
    One,
    Many,
}

impl Connection {
    pub(super) fn new(
        mut conn: quiche::Connection<Pieces>,
        role: Role,
        settings: &Http3Settings,
        buffers: &EndpointBuffers,
    ) -> Connection {
        let keys = KeyLog::default();
        conn.set_keylog(keys.writer());
        Connection {
            conn,
            role,
            datagrams: if settings.gso {
                Datagrams::Many
            } else {
                Datagrams::One
            },
            emissions: Emissions::default(),
            frame_log: None,
            keys,
            outbound: BTreeMap::new(),
            buffers: buffers.connection(),
            queue: VecDeque::new(),
            messages: BTreeMap::new(),
            section_bytes: 0,
            unidirectional: BTreeMap::new(),
            control: None,
            peer_critical: BTreeMap::new(),
            is_manual: false,
            announced: Announcements::default(),
            sent_bytes: 0,
            consumed: Vec::new(),
            stopped_count: 0,
            reset_count: 0,
            stopped: BTreeSet::new(),
            carried: None,
            held_until: None,
            pacer: (settings.pacing && settings.congestion_control != QuicCongestionControl::Bbr2)
                .then(|| Pacer::new(settings.max_udp_payload.get())),
            unvalidated: None,
            allowance: Allowance::new(settings),
        }
    }

    /// Limits what is sent until [`Connection::set_validated`].
    pub(super) fn set_unvalidated(&mut self) {
        self.unvalidated = Some(UnvalidatedAddress::default());
    }

    /// Lifts the limit: the peer has shown that it receives at its address.
    pub(super) fn set_validated(&mut self) {
        self.unvalidated = None;
    }

    /// The bytes exchanged with the peer's address, if that may be forged.
    pub(super) fn unvalidated(&mut self) -> Option<&mut UnvalidatedAddress> {
        self.unvalidated.as_mut()
    }

    pub(super) fn quic(&self) -> &quiche::Connection<Pieces> {
        &self.conn
    }

    /// The group of the key exchange, once it is known.
    pub(super) fn group(&mut self) -> Option<&'static str> {
        let ssl: &mut SslRef = self.conn.as_mut();
        ssl.curve_name()
    }

    /// For tests: operations that this engine never performs.
    #[cfg(test)]
    pub(super) fn quic_mut(&mut self) -> &mut quiche::Connection<Pieces> {
        &mut self.conn
    }

    /// The settings announced so far, and counts of GOAWAYs and resets. quiche counts the frames that reset or stop
    /// streams.
    pub(super) fn announced(&self) -> Announcements {
        let stats = self.conn.stats();
        let mut announced = self.announced.clone();
        announced.endings.resets_sent =
            stats.reset_stream_count_local + stats.stopped_stream_count_local;
        announced.endings.resets_received =
            stats.reset_stream_count_remote + stats.stopped_stream_count_remote;
        announced
    }

    /// Bytes of messages that could be sent so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    pub(super) fn take_key_log(&self) -> Vec<u8> {
        self.keys.take()
    }

    pub(super) fn set_manual_consumption(&mut self) {
        self.is_manual = true;
    }

    /// Why the connection is over, once it is.
    pub(super) fn closing(&self) -> Option<CloseReason> {
        CloseReason::of(&self.conn)
    }

    /// Whether HTTP/3 can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.conn.is_established() && self.closing().is_none()
    }

    pub(super) fn close(&mut self, code: u64, words: &str) {
        // `Done`: the connection was already closed.
        let _ = self.conn.close(true, code, words.as_bytes());
    }

    /// When [`Connection::on_timeout`] or [`Connection::output`] next has something to do.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let timers = [self.conn.timeout_instant(), self.held_until];
        timers.into_iter().flatten().min()
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
        }
        self.conn.on_timeout();
    }

    /// Opens stream `id`; false if the peer allows no more streams.
    pub(super) fn open(&mut self, id: u64) -> bool {
        // An empty write creates the stream; before that its capacity cannot be queried.
        if self.conn.stream_send(id, b"", false).is_err() {
            return false;
        }
        if self.role == Role::Client && is_bidirectional(id) {
            self.messages.insert(id, Message::new());
        }
        self.prepare_to_send(id);
        true
    }

    /// Changes what a stream has to send, and queues the stream.
    pub(super) fn send<T>(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Outbound) -> T,
    ) -> Option<T> {
        let out = self.outbound.get_mut(&id)?;
        let held = out.held_bytes();
        let result = change(out);
        self.buffers.update(held, out.held_bytes());
        if !out.is_idle() && !out.is_queued {
            out.is_queued = true;
            self.queue.push_back(id);
        }
        Some(result)
    }

    /// Prepares to send on a stream that is open, such as one of the peer's, unless that has already been done or the
    /// connection is over.
    pub(super) fn prepare_to_send(&mut self, id: u64) {
        if self.closing().is_some() {
            return;
        }
        let frames = match self.frame_log {
            Some(_) => Frames::Logged,
            None => Frames::Ignored,
        };
        self.outbound
            .entry(id)
            .or_insert_with(|| Outbound::new(frames));
    }

    pub(super) fn body_room(&self, id: u64) -> usize {
        let share = self.buffers.share(self.outbound.len());
        self.outbound.get(&id).map_or(0, |out| out.room(share))
    }

    /// Takes as much of a streamed body as there is room for, and returns how much.
    pub(super) fn send_body(&mut self, id: u64, bytes: &[u8]) -> usize {
        let share = self.buffers.share(self.outbound.len());
        self.send(id, |out| out.push_some(bytes, share))
            .unwrap_or(0)
    }

    /// Forgets what a stream has to send.
    fn forget(&mut self, id: u64) {
        if let Some(out) = self.outbound.remove(&id) {
            self.buffers.update(out.held_bytes(), 0);
        }
    }

    /// Gives back the memory of what can no longer be sent.
    fn forget_waiting(&mut self) {
        self.queue.clear();
        let buffers = &mut self.buffers;
        self.outbound.retain(|_, out| {
            if !out.is_idle() {
                buffers.update(out.held_bytes(), 0);
            }
            out.is_idle()
        });
    }

    pub(super) fn consume(&mut self, id: u64, n: u64) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.consume(n);
            self.consumed.push(id);
        }
    }

    /// Abandons both directions of a stream.
    pub(super) fn reset(&mut self, id: u64, code: u64) {
        self.stop_reading(id, code);
        // An error means that the direction is already over.
        let _ = self.conn.stream_shutdown(id, Shutdown::Write, code);
        self.forget(id);
    }

    fn stop_reading(&mut self, id: u64, code: u64) {
        // A stream that was read to its end is not stopped, although quiche would count it as such.
        if !self.conn.stream_finished(id) {
            let _ = self.conn.stream_shutdown(id, Shutdown::Read, code);
        }
        self.forget_message(id);
    }

    /// Forgets what a stream was receiving.
    fn forget_message(&mut self, id: u64) {
        if let Some(message) = self.messages.remove(&id) {
            self.section_bytes = self.section_bytes.saturating_sub(message.counted_bytes);
        }
    }

    /// How many bytes wait here: streamed bodies and incomplete sections.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffers.held_bytes() + self.section_bytes
    }

    /// Sends GOAWAY: requests from stream `id` on are not served.
    pub(super) fn go_away(&mut self, id: u64) {
        let mut payload = Vec::new();
        wire::put_varint(&mut payload, id);
        if let Some(control) = self.control {
            let frame = wire::frame(GOAWAY, &payload);
            self.announced.endings.goaways_sent += 1;
            self.send(control, |out| out.push_frame(frame, Some(id)));
        }
    }

    /// Takes a datagram.
    pub(super) fn receive<S: Side>(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        side: &mut S,
    ) {
        self.log_frames(side);
        // On error quiche has closed the connection, and `closing` reports it.
        let _ = self.conn.recv(datagram, RecvInfo { from, to });
        // Path events would accumulate. Migration is not supported, so they need no handling.
        while self.conn.path_event_next().is_some() {}
        let frames = self.take_logged();
        self.pass_on_frames(frames, side);
        self.open_control();
        if self.conn.local_error().is_some() {
            return;
        }
        // A stream that is not read to its end, because its owner has not consumed enough, stays readable. It is
        // checked again each time, so a reset is noticed.
        for id in self.conn.readable() {
            self.read(id, side);
        }
        self.read_consumed(side);
        self.allowance.receive_datagram();
        if self.allowance.is_exceeded() {
            self.close(code::EXCESSIVE_LOAD, TOO_MUCH_WITHOUT_CONTENT);
        }
    }

    /// Fills a batch; false if there is nothing to send now.
    pub(super) fn output<S: Side>(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        side: &mut S,
    ) -> bool {
        batch.clear();
        // CONNECTION_CLOSE is not paced: a peer that broke the protocol learns it immediately.
        let is_closing = self.conn.local_error().is_some();
        if self.held_until.is_some_and(|until| until > now) && !is_closing {
            return false;
        }
        self.held_until = None;
        if self.closing().is_some() {
            self.forget_waiting();
        }
        self.log_frames(side);
        self.open_control();
        self.read_consumed(side);
        self.find_abandoned(side);
        self.feed(side);
        let release = self.fill(now, batch, side);
        if let Some(at) = release
            && !batch.is_empty()
        {
            batch.release_at(at, now);
            self.held_until = Some(at);
        }
        !batch.is_empty()
    }

    /// Turns on quiche's log at the first call whose owner wants frames.
    fn log_frames<S: Side>(&mut self, side: &mut S) {
        if self.frame_log.is_none() && side.frames().is_some() {
            let log = FrameLog::default();
            let level = quiche::QlogLevel::Core;
            self.conn
                .set_qlog_with_level(log.writer(), String::new(), String::new(), level);
            self.frame_log = Some(log);
        }
    }

    fn take_logged(&self) -> Vec<FrameFacts> {
        self.frame_log
            .as_ref()
            .map_or_else(Vec::new, FrameLog::take)
    }

    /// Passes on the QUIC frames of packets, and after each the HTTP/3 frames that it completes.
    fn pass_on_frames<S: Side>(&mut self, logged: Vec<FrameFacts>, side: &mut S) {
        let Some(frames) = side.frames() else {
            return;
        };
        for frame in logged {
            frames.push(frame);
            let (Some(stream), Some(offset)) = (frame.stream, frame.offset) else {
                continue;
            };
            let is_sent = frame.way == squall_base::record::Way::Sent;
            let Some(out) = self.outbound.get_mut(&stream).filter(|_| is_sent) else {
                continue;
            };
            while let Some(mut sent) = out.sent_frame(offset + frame.length) {
                sent.stream = Some(stream);
                sent.packet = frame.packet;
                frames.push(sent);
            }
        }
    }

    fn pass_on_marks<S: Side>(&mut self, marks: Vec<(u64, Edge)>, side: &mut S) {
        for (id, edge) in marks {
            let Some(out) = self.outbound.get_mut(&id) else {
                continue;
            };
            if edge == Edge::Last {
                let end = out.end();
                self.forget(id);
                side.mark(Mark::Last(id, end));
            } else if !out.has_begun {
                out.has_begun = true;
                side.mark(Mark::First(id));
            }
        }
    }

    /// Opens our control stream with SETTINGS, once the handshake allows it.
    fn open_control(&mut self) {
        if self.control.is_some() || !self.is_usable() {
            return;
        }
        let id = match self.role {
            Role::Client => 2,
            Role::Server => 3,
        };
        if !self.open(id) {
            return;
        }
        self.control = Some(id);
        self.announced.sent = vec![(MAX_FIELD_SECTION_SIZE, MAX_KEPT_BYTES)];
        let mut settings = Vec::new();
        for &(id, value) in &self.announced.sent {
            wire::put_varint(&mut settings, id);
            wire::put_varint(&mut settings, value);
        }
        self.send(id, |out| {
            out.push(Bytes::from_static(&[0x0]));
            out.push_frame(wire::frame(SETTINGS, &settings), None);
        });
    }

    /// Passes to quiche what it accepts, stream by stream in turn.
    fn feed<S: Side>(&mut self, side: &mut S) {
        let mut stalled = 0;
        while stalled < self.queue.len()
            && let Some(id) = self.queue.pop_front()
        {
            match self.feed_one(id) {
                Ok(FeedOutcome::Progress) => {
                    stalled = 0;
                    self.queue.push_back(id);
                }
                Ok(FeedOutcome::Blocked) => {
                    stalled += 1;
                    self.queue.push_back(id);
                }
                Ok(FeedOutcome::Done) => {}
                Err(quiche::Error::StreamStopped(code)) => self.stopped(id, code, side),
                // The stream is over.
                Err(_) => self.forget(id),
            }
        }
    }

    fn feed_one(&mut self, id: u64) -> quiche::Result<FeedOutcome> {
        let Some(out) = self.outbound.get_mut(&id) else {
            return Ok(FeedOutcome::Done);
        };
        let mut room = self.conn.stream_capacity(id)?.min(TURN_BYTES);
        let has_room = room > 0;
        while room > 0 {
            let held = out.held_bytes();
            let Some(portion) = out.take(room) else {
                break;
            };
            self.buffers.update(held, out.held_bytes());
            room -= portion.bytes.len().min(room);
            let fin = portion.edge == Some(Edge::Last);
            if is_bidirectional(id) {
                self.sent_bytes += portion.bytes.len() as u64;
                self.allowance.send_piece(portion.bytes.len());
                if fin {
                    self.allowance.send_message();
                }
            }
            let piece = match portion.edge {
                Some(edge) if is_bidirectional(id) => {
                    Piece::watched(portion.bytes, id, edge, &self.emissions)
                }
                _ => Piece::plain(portion.bytes),
            };
            self.conn.stream_send_zc(id, piece, fin)?;
        }
        if out.is_idle() {
            out.is_queued = false;
            return Ok(FeedOutcome::Done);
        }
        Ok(if has_room {
            FeedOutcome::Progress
        } else {
            FeedOutcome::Blocked
        })
    }

    /// Finds streams that the peer has reset or stopped. quiche counts them but does not list them. Reading these counts
    /// makes quiche compute all of its statistics, some by a walk over all streams, so this is done once per batch.
    fn find_abandoned<S: Side>(&mut self, side: &mut S) {
        let stats = self.conn.stats();
        self.find_stopped(stats.stopped_stream_count_remote, side);
        self.find_reset(stats.reset_stream_count_remote, side);
        // quiche forgets a stopped stream only when it is queried after its end.
        self.stopped
            .retain(|id| stop_code(&mut self.conn, *id).is_some());
    }

    /// Finds streams that the peer has stopped.
    fn find_stopped<S: Side>(&mut self, count: u64, side: &mut S) {
        if count == self.stopped_count {
            return;
        }
        // A stopped stream counts as writable, even if all its data has left, and occupies one of the peer's stream
        // slots until it is queried. While the congestion window is full, no stream counts as writable.
        let writable = self.conn.writable();
        if writable.len() > 0 {
            self.stopped_count = count;
        }
        let mut ids = side.unanswered();
        ids.extend(self.outbound.keys());
        ids.extend(writable);
        for id in ids {
            if let Some(code) = stop_code(&mut self.conn, id) {
                self.stopped(id, code, side);
            }
        }
    }

    fn stopped<S: Side>(&mut self, id: u64, code: u64, side: &mut S) {
        self.forget(id);
        if is_bidirectional(id) {
            self.allowance.charge(1);
        }
        if Some(id) == self.control {
            // RFC 9114, section 6.2.1.
            self.close(
                code::CLOSED_CRITICAL_STREAM,
                "a critical stream was stopped",
            );
        }
        if self.role == Role::Server && is_bidirectional(id) && self.stopped.insert(id) {
            // Since the client no longer wants the response, the rest of the request is useless (RFC 9114, section
            // 4.1.1). Left unread, it would occupy the connection window.
            self.stop_reading(id, code::REQUEST_CANCELLED);
        }
        side.on_event(id, MessageEvent::Stopped(code));
    }

    /// Finds messages that were reset after their end had been sent. quiche silently drops the missing part and does
    /// not report the code.
    fn find_reset<S: Side>(&mut self, count: u64, side: &mut S) {
        if count == self.reset_count {
            return;
        }
        self.reset_count = count;
        let conn = &self.conn;
        let is_reset = |id: &&u64| conn.stream_finished(**id) && !conn.stream_readable(**id);
        let ids: Vec<u64> = self.messages.keys().filter(is_reset).copied().collect();
        for id in ids {
            self.allowance.charge(1);
            self.reset(id, code::REQUEST_CANCELLED);
            side.on_event(id, MessageEvent::Reset(code::REQUEST_CANCELLED));
        }
    }
}

/// The result of a stream's turn.
enum FeedOutcome {
    /// Some bytes were passed on, and more are waiting.
    Progress,
    /// Nothing was passed on: quiche has no room.
    Blocked,
    /// Everything was passed on.
    Done,
}

fn is_bidirectional(id: u64) -> bool {
    id & 0x2 == 0
}

fn is_of_client(id: u64) -> bool {
    id & 0x1 == 0
}

/// The code with which the peer has stopped a stream, if it has.
fn stop_code(conn: &mut quiche::Connection<Pieces>, id: u64) -> Option<u64> {
    match conn.stream_capacity(id) {
        Err(quiche::Error::StreamStopped(code)) => Some(code),
        _ => None,
    }
}
