//! The frames of one side of a connection, packed: those that say whose bytes are whose, when flow control held them, and
//! what QUIC's packets had.
//!
//! What they mean is `windows`' and `quic`'s, when the connection's turn comes.

use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Way};

use super::message::Bytes;
use super::packed::{Coder, Packed, mask_of};
use super::quic::SideFrames;
use super::repair::Timeouts;
use super::search::settle;
use super::sending::Account;
use super::walk::Span;
use super::windows::Windows;

/// Frames of HTTP/2 that are part of a message: DATA, HEADERS, CONTINUATION (RFC 9113, section 6).
const OF_MESSAGES: [u64; 3] = [0x0, 0x1, 0x9];
const RST_STREAM: u64 = 0x3;
const WINDOW_UPDATE: u64 = 0x8;
/// Frames of QUIC that are of use to their receiver here: ACK, MAX_DATA, MAX_STREAM_DATA (RFC 9000, section 19).
const HEARD: [u64; 4] = [0x02, 0x03, 0x10, 0x11];
/// Header of a frame (RFC 9113, section 4.1).
const FRAME_HEADER_BYTES: u64 = 9;

/// Whether anything is to be learnt from a frame that goes this way, of this layer and type.
pub(super) fn is_wanted(way: Way, layer: FrameLayer, kind: u64) -> bool {
    match (layer, way) {
        (FrameLayer::Http2, Way::Sent) => OF_MESSAGES.contains(&kind) || kind == RST_STREAM,
        (FrameLayer::Http2, Way::Received) => [RST_STREAM, WINDOW_UPDATE].contains(&kind),
        (FrameLayer::Quic, Way::Sent) => true,
        (FrameLayer::Quic, Way::Received) => HEARD.contains(&kind),
        (FrameLayer::Http3, _) => false,
    }
}

/// What one side of a connection has recorded, as it was taken in. Of HTTP/2's frames only two things are asked, and both
/// are found as they come; those of QUIC are kept, for they are joined with packets.
#[derive(Debug)]
pub(super) struct Log {
    windows: Windows,
    of_messages: MessageLog,
    rows: Packed,
    before: (u64, FrameFacts),
    /// QUIC: when the first frame was sent.
    first_sent: Option<u64>,
    /// Samples of QUIC's congestion window: when, and how many bytes.
    cwnds: Vec<(u64, u64)>,
    least_rto: Option<u64>,
    timeouts: Timeouts,
    accounts: Vec<Account>,
}

/// The bytes of messages with their streams in the order of sending, neighbours joined.
#[derive(Debug, Default)]
struct MessageLog {
    rows: Packed,
    before: (u64, u64),
    /// What comes next may be joined with it.
    last: Option<(u64, Bytes)>,
}

/// Codes bytes of a stream after those before, of which the stream and the end are known; returns where they end.
fn code_bytes(
    coder: &mut impl Coder,
    (before_stream, before_end): (u64, u64),
    (stream, from, length): (&mut u64, &mut u64, &mut u64),
) -> u64 {
    coder.near(before_stream, stream);
    coder.near(before_end, from);
    coder.plain(length);
    from.wrapping_add(*length)
}

impl MessageLog {
    fn add(&mut self, stream: u64, bytes: Bytes) {
        match &mut self.last {
            Some((last, own)) if *last == stream && own.to == bytes.from => own.to = bytes.to,
            _ => {
                self.put();
                self.last = Some((stream, bytes));
            }
        }
    }

    fn put(&mut self) {
        if let Some((mut stream, bytes)) = self.last.take() {
            let (mut from, mut length) = (bytes.from, bytes.to - bytes.from);
            let row = (&mut stream, &mut from, &mut length);
            let end = code_bytes(&mut self.rows.write(), self.before, row);
            self.before = (stream, end);
        }
    }

    fn unpack(mut self) -> Vec<(u64, Bytes)> {
        self.put();
        let mut all = Vec::with_capacity(self.rows.rows());
        let mut reader = self.rows.read();
        let mut before = (0, 0);
        while reader.has_more() {
            let (mut stream, mut from, mut length) = (0, 0, 0);
            let row = (&mut stream, &mut from, &mut length);
            let to = code_bytes(&mut reader, before, row);
            all.push((stream, Span { from, to }));
            before = (stream, to);
        }
        all
    }
}

/// What one side of a connection has recorded of its frames.
#[derive(Debug, Default)]
pub(super) struct SideLog {
    pub(super) windows: Windows,
    pub(super) quic: SideFrames,
    /// HTTP/2: the bytes of each stream's frames that this side sent, neighbours joined.
    pub(super) frames: StreamFrames,
    /// The least retransmission timeout that the kernel told of.
    pub(super) least_rto: Option<u64>,
    /// The retransmission timeouts that it counted.
    pub(super) timeouts: Timeouts,
    /// What the socket said of itself.
    pub(super) accounts: Vec<Account>,
}

/// The bytes of frames by stream.
#[derive(Debug, Default)]
pub(super) struct StreamFrames {
    /// In order, each with the place after its last one.
    streams: Vec<(u64, usize)>,
    spans: Vec<Bytes>,
}

const NOTHING: FrameFacts = FrameFacts {
    way: Way::Sent,
    layer: FrameLayer::Http2,
    kind: 0,
    flags: 0,
    stream: None,
    offset: None,
    length: 0,
    packet: None,
    value: None,
    stream_window: None,
    connection_window: None,
};

/// Codes a frame with its time after the one before.
fn code(
    coder: &mut impl Coder,
    (before_time, before): &(u64, FrameFacts),
    (time, frame): &mut (u64, FrameFacts),
) {
    let unsigned = |window: Option<i64>| window.map(i64::cast_unsigned);
    let mut windows = [frame.stream_window, frame.connection_window].map(unsigned);
    let mut mask = mask_of([
        &frame.stream,
        &frame.offset,
        &frame.packet,
        &frame.value,
        &windows[0],
        &windows[1],
    ]);
    mask |= (frame.way as u64) << 6 | (frame.layer as u64) << 7;
    coder.plain(&mut mask);
    coder.near(*before_time, time);
    coder.plain(&mut frame.kind);
    let mut flags = u64::from(frame.flags);
    coder.plain(&mut flags);
    frame.flags = flags as u8;
    coder.plain(&mut frame.length);
    coder.near_if(mask, before.stream.unwrap_or(0), &mut frame.stream);
    let end = before.offset.unwrap_or(0).wrapping_add(before.length);
    let header = match before.layer {
        FrameLayer::Http2 => FRAME_HEADER_BYTES,
        FrameLayer::Http3 | FrameLayer::Quic => 0,
    };
    coder.near_if(mask >> 1, end.wrapping_add(header), &mut frame.offset);
    coder.near_if(mask >> 2, before.packet.unwrap_or(0), &mut frame.packet);
    coder.near_if(mask >> 3, before.value.unwrap_or(0), &mut frame.value);
    coder.near_if(mask >> 4, 0, &mut windows[0]);
    coder.near_if(mask >> 5, 0, &mut windows[1]);
    [frame.stream_window, frame.connection_window] =
        windows.map(|window| window.map(u64::cast_signed));
    frame.way = Way::ALL[(mask >> 6 & 1) as usize];
    let layer = FrameLayer::ALL.get((mask >> 7) as usize);
    frame.layer = layer.copied().unwrap_or(frame.layer);
}

impl Default for Log {
    fn default() -> Log {
        Log {
            windows: Windows::default(),
            of_messages: MessageLog::default(),
            rows: Packed::default(),
            before: (0, NOTHING),
            first_sent: None,
            cwnds: Vec::new(),
            least_rto: None,
            timeouts: Timeouts::default(),
            accounts: Vec::new(),
        }
    }
}

impl Log {
    /// Takes the next frame.
    pub(super) fn add(&mut self, row: &FrameRecord) {
        if row.frame.layer == FrameLayer::Http2 {
            self.windows.add(row.time.as_nanos(), &row.frame);
            if let Some((stream, bytes)) = bytes_of_message(&row.frame) {
                self.of_messages.add(stream, bytes);
            }
            return;
        }
        let mut timed = (row.time.as_nanos(), row.frame);
        if row.frame.way == Way::Sent && row.frame.layer == FrameLayer::Quic {
            self.first_sent.get_or_insert(timed.0);
        }
        code(&mut self.rows.write(), &self.before, &mut timed);
        // Frames of a connection lie between those of streams.
        let stream = timed.1.stream.filter(|stream| *stream != 0);
        timed.1.stream = stream.or(self.before.1.stream);
        timed.1.offset = timed.1.offset.or(self.before.1.offset);
        self.before = timed;
    }

    /// QUIC: when the first frame was sent.
    pub(super) fn first_sent(&self) -> Option<u64> {
        self.first_sent
    }

    /// QUIC's congestion window had so many bytes.
    pub(super) fn add_cwnd(&mut self, time: u64, bytes: u64) {
        self.cwnds.push((time, bytes));
    }

    /// The kernel told of a retransmission timeout.
    pub(super) fn add_rto(&mut self, rto: u64) {
        self.least_rto = Some(self.least_rto.map_or(rto, |least| least.min(rto)));
    }

    /// The kernel told how many retransmission timeouts there had been.
    pub(super) fn add_timeouts(&mut self, time: u64, total: u64) {
        self.timeouts.add(time, total);
    }

    /// The socket said this of itself.
    pub(super) fn add_account(&mut self, account: Account) {
        self.accounts.push(account);
    }

    /// What it says; QUIC's sender began with these limits, of each stream and of the connection.
    pub(super) fn unpack(self, quic_windows: Option<(u64, u64)>) -> SideLog {
        let mut side = SideLog {
            windows: self.windows,
            frames: StreamFrames::new(self.of_messages.unpack()),
            least_rto: self.least_rto,
            timeouts: self.timeouts,
            accounts: self.accounts,
            ..SideLog::default()
        };
        let mut reader = self.rows.read();
        let mut before = (0, NOTHING);
        while reader.has_more() {
            let mut timed = (0, NOTHING);
            code(&mut reader, &before, &mut timed);
            let (time, frame) = timed;
            if frame.layer == FrameLayer::Quic
                && let Some((stream, connection)) = quic_windows
            {
                side.windows.begin_quic(stream, connection);
            }
            side.windows.add(time, &frame);
            side.quic.add(time, &frame);
            let stream = frame.stream.filter(|stream| *stream != 0);
            timed.1.stream = stream.or(before.1.stream);
            timed.1.offset = timed.1.offset.or(before.1.offset);
            before = timed;
        }
        for (time, bytes) in self.cwnds {
            side.quic.add_window(time, bytes);
        }
        side
    }
}

/// The stream and the bytes of a frame that this side sent as a part of a message.
fn bytes_of_message(frame: &FrameFacts) -> Option<(u64, Bytes)> {
    let is_of_message = frame.layer == FrameLayer::Http2
        && frame.way == Way::Sent
        && OF_MESSAGES.contains(&frame.kind);
    let (stream, from) = (frame.stream?, frame.offset?);
    let to = from
        .saturating_add(FRAME_HEADER_BYTES)
        .saturating_add(frame.length);
    is_of_message.then_some((stream, Span { from, to }))
}

impl StreamFrames {
    /// Of frames in the order of sending.
    fn new(mut frames: Vec<(u64, Bytes)>) -> StreamFrames {
        settle(&mut frames, |(stream, _)| *stream);
        let mut of = StreamFrames {
            streams: Vec::with_capacity(frames.len()),
            spans: Vec::with_capacity(frames.len()),
        };
        for (stream, bytes) in frames {
            let is_same = of.streams.last().is_some_and(|(last, _)| *last == stream);
            match of.spans.last_mut() {
                Some(last) if is_same && last.to == bytes.from => last.to = bytes.to,
                _ => of.spans.push(bytes),
            }
            match of.streams.last_mut() {
                Some((_, end)) if is_same => *end = of.spans.len(),
                _ => of.streams.push((stream, of.spans.len())),
            }
        }
        of
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Those of a stream, in the order of sending; mostly it is the one at `place`.
    pub(super) fn of(&self, stream: u64, place: usize) -> &[Bytes] {
        let is_there = self.streams.get(place).is_some_and(|(id, _)| *id == stream);
        let place = match is_there {
            true => Ok(place),
            false => self.streams.binary_search_by_key(&stream, |(id, _)| *id),
        };
        let Ok(place) = place else { return &[] };
        let from = place
            .checked_sub(1)
            .map_or(0, |before| self.streams[before].1);
        &self.spans[from..self.streams[place].1]
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn packed_frames_come_back() {
        let timed = |n: u64| {
            let draw = |of: u64| splitmix64(of, n);
            let number = |of: u64| match draw(of) % 4 {
                0 => draw(of + 1),
                _ => n * 1_000 + draw(of + 1) % 500,
            };
            let maybe = |of: u64| (draw(of) % 3 > 0).then(|| number(of + 1));
            let facts = FrameFacts {
                way: Way::ALL[(draw(1) % 2) as usize],
                layer: FrameLayer::ALL[(draw(2) % 3) as usize],
                kind: number(3),
                flags: draw(5) as u8,
                stream: maybe(10),
                offset: maybe(20),
                length: number(30),
                packet: maybe(40),
                value: maybe(50),
                stream_window: maybe(60).map(u64::cast_signed),
                connection_window: maybe(70).map(u64::cast_signed),
            };
            (number(80), facts)
        };
        let frames: Vec<(u64, FrameFacts)> = (0..5_000).map(timed).collect();
        let mut packed = Packed::default();
        let mut before = (0, NOTHING);
        for frame in &frames {
            let mut own = *frame;
            code(&mut packed.write(), &before, &mut own);
            assert_eq!(own, *frame, "writing changes nothing");
            before = own;
        }
        let (mut reader, mut before) = (packed.read(), (0, NOTHING));
        for expected in frames {
            assert!(reader.has_more());
            let mut own = (0, NOTHING);
            code(&mut reader, &before, &mut own);
            assert_eq!(own, expected);
            before = own;
        }
    }

    #[test]
    fn bytes_of_messages_come_back_with_neighbours_joined() {
        let span = |from, to| Span { from, to };
        let mut log = MessageLog::default();
        for (stream, bytes) in [
            (3, span(0, 10)),
            (3, span(10, 20)),
            (1, span(20, 30)),
            (3, span(30, 40)),
            (3, span(u64::MAX - 5, u64::MAX)),
            (5, span(7, 7)),
        ] {
            log.add(stream, bytes);
        }
        let joined = [
            (3, span(0, 20)),
            (1, span(20, 30)),
            (3, span(30, 40)),
            (3, span(u64::MAX - 5, u64::MAX)),
            (5, span(7, 7)),
        ];
        assert_eq!(log.unpack(), joined);
    }

    #[test]
    fn neighbours_of_a_stream_are_joined() {
        let span = |from, to| Span { from, to };
        let frames = StreamFrames::new(vec![
            (3, span(0, 10)),
            (1, span(10, 20)),
            (3, span(20, 30)),
            (1, span(30, 40)),
            (1, span(40, 50)),
        ]);
        assert_eq!(frames.of(1, 0), [span(10, 20), span(30, 50)]);
        assert_eq!(frames.of(3, 0), [span(0, 10), span(20, 30)]);
        assert!(frames.of(2, 1).is_empty() && !frames.is_empty());
    }
}
