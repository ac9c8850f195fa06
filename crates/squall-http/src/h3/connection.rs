//! What both sides of an HTTP/3 connection share: QUIC by quiche, the streams of HTTP/3, and the marks.
//!
//! The sides differ in what a message is and what follows from it; they implement [`Side`]. Streams take turns in
//! sending, 16 KiB each, as nghttp2 lets them over HTTP/2. What is received is read in `reading`.

mod reading;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quiche::{RecvInfo, Shutdown};
use squall_base::plan::{Http3Settings, QuicCongestionControl};
use squall_base::record::FrameFacts;

use super::Closing;
use super::announced::Announced;
use super::batch::Batch;
use super::code;
use super::control::{Critical, Uni};
use super::inbound::{Message, Role};
use super::keys::KeyLog;
use super::outbound::{Frames, Outbound};
use super::pacer::{Allowance, Pacer};
use super::pieces::{Edge, Emissions, Piece, Pieces};
use super::qlog::FrameLog;
use super::wire::{self, GOAWAY, MAX_KEPT_BYTES, SETTINGS};

/// What a stream may give to quiche before it is another's turn.
const TURN_BYTES: usize = 16 * 1024;

/// What is read from a stream at once.
const READ_BYTES: usize = 4 * 1024;

/// Release times that differ by less are the same: quiche's own threshold (`ReleaseDecision::EQUAL_THRESHOLD`).
const SAME_RELEASE: Duration = Duration::from_micros(50);

/// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114, section 7.2.4.1).
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;

/// What a message that arrives brings.
pub(super) enum Heard<'a> {
    /// Its first byte.
    FirstByte,
    /// Bytes of its body.
    Body(&'a [u8]),
    /// Its end, after so many bytes of the stream.
    End(u64),
    /// The peer gave the stream up.
    Reset(u64),
    /// We gave the stream up because of what the peer sent.
    Refused(u64),
    /// The peer wants no more of what we send.
    Stopped(u64),
}

/// What a head says about what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Another head.
    Interim,
    /// A body, of this length if it is known.
    Final(Option<u64>),
}

/// The stream is to be given up with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) u64);

/// A mark of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The first byte of a stream.
    First(u64),
    /// The last byte of a stream, and how many it has.
    Last(u64, u64),
}

/// The client or the server, with the inbox of the moment.
pub(super) trait Side {
    /// A head came.
    fn head(&mut self, stream: u64, block: &[u8]) -> Result<Head, Refused>;
    /// Trailers came.
    fn trailers(&mut self, stream: u64, block: &[u8]) -> Result<(), Refused>;
    /// Something else came.
    fn heard(&mut self, stream: u64, heard: Heard<'_>);
    /// Something was sent.
    fn mark(&mut self, mark: Mark);
    /// GOAWAY came.
    fn go_away(&mut self, id: u64);
    /// Streams of the peer on which nothing was sent yet.
    fn unanswered(&self) -> Vec<u64>;
    /// Whether the peer may open this stream for a message.
    fn accepts(&mut self, stream: u64) -> Result<(), Refused>;
    /// Where frames are put, if they are wanted.
    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>>;
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
    /// Streams with bytes that quiche has not taken.
    queue: VecDeque<u64>,
    messages: BTreeMap<u64, Message>,
    unidirectional: BTreeMap<u64, Uni>,
    /// Our control stream, once it is open.
    control: Option<u64>,
    /// The peer's streams of which there is one each, once they are known.
    peer_critical: BTreeMap<Critical, u64>,
    is_manual: bool,
    announced: Announced,
    /// Bytes of messages that quiche has taken to send.
    sent_bytes: u64,
    /// Streams whose owner has consumed something since they were read.
    consumed: Vec<u64>,
    /// How many streams the peer has stopped and reset, as far as was looked.
    stopped_count: u64,
    reset_count: u64,
    /// Streams of a client that it has stopped and not ended.
    stopped: BTreeSet<u64>,
    /// A packet that did not fit the last batch: longer than those before it.
    carried: Option<Carried>,
    /// Until when a paced batch is held by the owner.
    held_until: Option<Instant>,
    /// Where packets are to be paced and quiche does not do it.
    pacer: Option<Pacer>,
}

/// A datagram that begins the next batch.
struct Carried {
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
    ) -> Connection {
        let keys = KeyLog::default();
        conn.set_keylog(keys.writer());
        Connection {
            conn,
            role,
            datagrams: match settings.gso {
                true => Datagrams::Many,
                false => Datagrams::One,
            },
            emissions: Emissions::default(),
            frame_log: None,
            keys,
            outbound: BTreeMap::new(),
            queue: VecDeque::new(),
            messages: BTreeMap::new(),
            unidirectional: BTreeMap::new(),
            control: None,
            peer_critical: BTreeMap::new(),
            is_manual: false,
            announced: Announced::default(),
            sent_bytes: 0,
            consumed: Vec::new(),
            stopped_count: 0,
            reset_count: 0,
            stopped: BTreeSet::new(),
            carried: None,
            held_until: None,
            pacer: (settings.pacing && settings.congestion_control != QuicCongestionControl::Bbr2)
                .then(|| Pacer::new(settings.max_udp_payload.get())),
        }
    }

    pub(super) fn quic(&self) -> &quiche::Connection<Pieces> {
        &self.conn
    }

    /// For what this engine never does.
    #[cfg(test)]
    pub(super) fn quic_mut(&mut self) -> &mut quiche::Connection<Pieces> {
        &mut self.conn
    }

    /// What was announced and given up so far. quiche counts the frames that give up streams.
    pub(super) fn announced(&self) -> Announced {
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

    /// Why it is over, once it is.
    pub(super) fn closing(&self) -> Option<Closing> {
        Closing::of(&self.conn)
    }

    /// Whether HTTP/3 can be spoken.
    pub(super) fn is_usable(&self) -> bool {
        self.conn.is_established() && self.closing().is_none()
    }

    pub(super) fn close(&mut self, code: u64, words: &str) {
        // `Done`: it was closed before.
        let _ = self.conn.close(true, code, words.as_bytes());
    }

    /// When [`Connection::on_timeout`] or [`Connection::output`] has something to do.
    pub(super) fn wake_at(&self) -> Option<Instant> {
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
        // Writing nothing makes the stream, without which its capacity cannot be asked for.
        if self.conn.stream_send(id, b"", false).is_err() {
            return false;
        }
        if self.role == Role::Client && is_bidirectional(id) {
            self.messages.insert(id, Message::new());
        }
        self.answer(id);
        true
    }

    /// Changes what a stream has to send, and lets it have its turn.
    pub(super) fn send<T>(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Outbound) -> T,
    ) -> Option<T> {
        let out = self.outbound.get_mut(&id)?;
        let result = change(out);
        if !out.is_idle() && !out.is_queued {
            out.is_queued = true;
            self.queue.push_back(id);
        }
        Some(result)
    }

    /// Begins to send on a stream that is open, such as the peer's, if that has not begun.
    pub(super) fn answer(&mut self, id: u64) {
        let frames = match self.frame_log {
            Some(_) => Frames::Logged,
            None => Frames::Ignored,
        };
        self.outbound
            .entry(id)
            .or_insert_with(|| Outbound::new(frames));
    }

    pub(super) fn body_room(&self, id: u64) -> usize {
        self.outbound.get(&id).map_or(0, Outbound::room)
    }

    pub(super) fn consume(&mut self, id: u64, n: u64) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.consume(n);
            self.consumed.push(id);
        }
    }

    /// Gives up both directions of a stream.
    pub(super) fn reset(&mut self, id: u64, code: u64) {
        self.stop_reading(id, code);
        // An error says that the direction is over already.
        let _ = self.conn.stream_shutdown(id, Shutdown::Write, code);
        self.outbound.remove(&id);
    }

    fn stop_reading(&mut self, id: u64, code: u64) {
        // What was read to its end is not stopped, though quiche would count it as that.
        if !self.conn.stream_finished(id) {
            let _ = self.conn.stream_shutdown(id, Shutdown::Read, code);
        }
        self.messages.remove(&id);
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
        // An error has closed the connection, and stands in `closing`.
        let _ = self.conn.recv(datagram, RecvInfo { from, to });
        let frames = self.take_logged();
        self.pass_on_frames(frames, side);
        self.open_control();
        if self.conn.local_error().is_some() {
            return;
        }
        // A stream that is not read to its end, for its owner's sake, stays readable: so it is looked at again each
        // time, and a reset is noticed.
        for id in self.conn.readable() {
            self.read(id, side);
        }
        self.read_consumed(side);
    }

    /// Fills a batch; false if there is nothing to send now.
    pub(super) fn output<S: Side>(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        side: &mut S,
    ) -> bool {
        batch.clear();
        // CONNECTION_CLOSE is not paced: who said something wrong is told at once.
        let is_closing = self.conn.local_error().is_some();
        if self.held_until.is_some_and(|until| until > now) && !is_closing {
            return false;
        }
        self.held_until = None;
        self.log_frames(side);
        self.open_control();
        self.read_consumed(side);
        self.find_given_up(side);
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

    /// Puts packets into a batch until they differ in size or in their time of release, which it returns.
    fn fill<S: Side>(&mut self, now: Instant, batch: &mut Batch, side: &mut S) -> Option<Instant> {
        let mut release = None;
        if let Some(carried) = self.carried.take() {
            release = (carried.release).filter(|at| *at > now && self.conn.local_error().is_none());
            batch.hold(&carried.bytes, carried.info.from, carried.info.to);
            self.pass_on_frames(carried.frames, side);
            self.pass_on_marks(carried.marks, side);
        }
        let allowance = self.allowance();
        let is_closing = self.conn.local_error().is_some();
        loop {
            let next = match is_closing {
                true => None,
                false => self.next_release(now, allowance),
            };
            if batch.is_empty() {
                release = next;
            } else if next > release.map(|at| at + SAME_RELEASE) || self.datagrams == Datagrams::One
            {
                break;
            }
            let largest = self.conn.max_send_udp_payload_size();
            let most = match batch.segment_bytes() {
                0 => largest,
                segment => segment,
            };
            let Some(room) = batch.room(largest) else {
                break;
            };
            self.emissions.clear();
            let Ok((len, info)) = self.conn.send(room) else {
                break;
            };
            if let Some(pacer) = &mut self.pacer {
                pacer.sent(len as u64);
            }
            if len > most {
                self.carried = Some(Carried {
                    bytes: room[..len].to_vec(),
                    info,
                    release: next,
                    frames: self.take_logged(),
                    marks: self.emissions.take(),
                });
                break;
            }
            batch.add(len, info.from, info.to);
            let (frames, marks) = (self.take_logged(), self.emissions.take());
            self.pass_on_frames(frames, side);
            self.pass_on_marks(marks, side);
        }
        release
    }

    /// What our own pacer goes by; `None` before the round trip is known, and without one.
    fn allowance(&self) -> Option<Allowance> {
        self.pacer.as_ref()?;
        let path = self.conn.path_stats().find(|path| path.active)?;
        path.min_rtt.map(|_| Allowance {
            cwnd_bytes: path.cwnd as u64,
            rtt: path.rtt,
        })
    }

    /// When the next packet is to leave, by our own pacer or quiche's, if that is later than now.
    fn next_release(&mut self, now: Instant, allowance: Option<Allowance>) -> Option<Instant> {
        if let (Some(pacer), Some(allowance)) = (&mut self.pacer, allowance) {
            let packet_bytes = self.conn.max_send_udp_payload_size() as u64;
            return pacer.next(now, packet_bytes, allowance);
        }
        self.conn
            .get_next_release_time()
            .filter(|_| self.conn.pacing_enabled())
            .and_then(|release| release.time(now))
    }

    /// Lets quiche log from the first call on whose owner wants frames.
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

    /// Hands over the frames of packets, and behind each those of HTTP/3 that it completes.
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
                self.outbound.remove(&id);
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

    /// Gives quiche what it takes, by turns.
    fn feed<S: Side>(&mut self, side: &mut S) {
        let mut stalled = 0;
        while stalled < self.queue.len()
            && let Some(id) = self.queue.pop_front()
        {
            match self.feed_one(id) {
                Ok(Fed::Some) => {
                    stalled = 0;
                    self.queue.push_back(id);
                }
                Ok(Fed::Nothing) => {
                    stalled += 1;
                    self.queue.push_back(id);
                }
                Ok(Fed::All) => {}
                Err(quiche::Error::StreamStopped(code)) => self.stopped(id, code, side),
                // The stream is over.
                Err(_) => {
                    self.outbound.remove(&id);
                }
            }
        }
    }

    fn feed_one(&mut self, id: u64) -> quiche::Result<Fed> {
        let Some(out) = self.outbound.get_mut(&id) else {
            return Ok(Fed::All);
        };
        let mut room = self.conn.stream_capacity(id)?.min(TURN_BYTES);
        let has_room = room > 0;
        while room > 0 {
            let Some(portion) = out.take(room) else {
                break;
            };
            room -= portion.bytes.len().min(room);
            if is_bidirectional(id) {
                self.sent_bytes += portion.bytes.len() as u64;
            }
            let fin = portion.edge == Some(Edge::Last);
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
            return Ok(Fed::All);
        }
        Ok(match has_room {
            true => Fed::Some,
            false => Fed::Nothing,
        })
    }

    /// Finds streams that the peer has given up. quiche counts them and does not list them; as the counts come with others
    /// that cost a walk over all streams, this is done once for each batch.
    fn find_given_up<S: Side>(&mut self, side: &mut S) {
        let stats = self.conn.stats();
        self.find_stopped(stats.stopped_stream_count_remote, side);
        self.find_reset(stats.reset_stream_count_remote, side);
        // quiche forgets a stream that was stopped only when it is asked for it after its end.
        self.stopped
            .retain(|id| stop_code(&mut self.conn, *id).is_some());
    }

    /// Finds streams of which the peer wants no more.
    fn find_stopped<S: Side>(&mut self, count: u64, side: &mut S) {
        if count == self.stopped_count {
            return;
        }
        // What was stopped counts as writable, even if all of it has left, and keeps its place among the streams that the
        // peer may open, until it is asked for. While the congestion window is full nothing counts as that.
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
        self.outbound.remove(&id);
        if Some(id) == self.control {
            // RFC 9114, section 6.2.1.
            self.close(code::CLOSED_CRITICAL_STREAM, "it must not be stopped");
        }
        if self.role == Role::Server && is_bidirectional(id) && self.stopped.insert(id) {
            // Without an answer the request is for nothing (RFC 9114, section 4.1.1). Unread, it would stay in the
            // connection's window.
            self.stop_reading(id, code::REQUEST_CANCELLED);
        }
        side.heard(id, Heard::Stopped(code));
    }

    /// Finds messages that were reset behind their end: quiche has dropped what was missing, and says nothing of it, nor
    /// the code.
    fn find_reset<S: Side>(&mut self, count: u64, side: &mut S) {
        if count == self.reset_count {
            return;
        }
        self.reset_count = count;
        let conn = &self.conn;
        let is_reset = |id: &&u64| conn.stream_finished(**id) && !conn.stream_readable(**id);
        let ids: Vec<u64> = self.messages.keys().filter(is_reset).copied().collect();
        for id in ids {
            self.reset(id, code::REQUEST_CANCELLED);
            side.heard(id, Heard::Reset(code::REQUEST_CANCELLED));
        }
    }
}

/// What a turn came to.
enum Fed {
    /// Some bytes, and more are waiting.
    Some,
    /// No byte: there is no room.
    Nothing,
    /// All there is.
    All,
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
