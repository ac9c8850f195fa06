//! The frames of one side of a connection, packed: those that show which bytes belong to which message, when flow control
//! held them back, and what QUIC's packets contained.
//!
//! `windows` and `quic` interpret them, when the connection is processed.

use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Way};

use super::message::Bytes;
use super::packed::{Coder, PackedRows, mask_of};
use super::quic::SideFrames;
use super::repair::Timeouts;
use super::search::sort_nearly_sorted;
use super::sending::Account;
use super::walk::Span;
use super::windows::Windows;
use crate::wire::http2::{CONTINUATION, DATA, HEADERS, RST_STREAM, WINDOW_UPDATE};
use crate::wire::quic::{ACKS, MAX_DATA, MAX_STREAM_DATA};

/// Frames of HTTP/2 that are part of a message.
const MESSAGE_FRAMES: [u64; 3] = [DATA, HEADERS, CONTINUATION];
/// QUIC frames that matter here when a side receives them.
const RECEIVED_QUIC_FRAMES: [u64; 4] = [ACKS[0], ACKS[1], MAX_DATA, MAX_STREAM_DATA];
/// Header of a frame (RFC 9113, section 4.1).
const FRAME_HEADER_BYTES: u64 = 9;

/// Whether a frame of this direction, layer and type is needed.
pub(super) fn is_wanted(way: Way, layer: FrameLayer, kind: u64) -> bool {
    match (layer, way) {
        (FrameLayer::Http2, Way::Sent) => MESSAGE_FRAMES.contains(&kind) || kind == RST_STREAM,
        (FrameLayer::Http2, Way::Received) => [RST_STREAM, WINDOW_UPDATE].contains(&kind),
        (FrameLayer::Quic, Way::Sent) => true,
        (FrameLayer::Quic, Way::Received) => RECEIVED_QUIC_FRAMES.contains(&kind),
        (FrameLayer::Http3, _) => false,
    }
}

/// What one side of a connection recorded, as it is taken in. HTTP/2 frames are needed only for the windows and the bytes of
/// messages, both of which are computed as the frames come. QUIC frames are kept, because they are joined with packets.
#[derive(Debug)]
pub(super) struct PackedSideRecords {
    /// The records without what `message_bytes` and `rows` will add.
    pub(super) side: SideRecords,
    /// QUIC: when the first frame was sent.
    pub(super) first_sent: Option<u64>,
    message_bytes: PackedMessageBytes,
    rows: PackedRows,
    before: (u64, FrameFacts),
}

/// The bytes of messages with their streams, in the order of sending; adjacent ranges are joined.
#[derive(Debug, Default)]
struct PackedMessageBytes {
    rows: PackedRows,
    before: (u64, u64),
    /// The latest range, which the next one may be joined with.
    last: Option<(u64, Bytes)>,
}

/// Codes bytes of a stream relative to the stream and the end of the bytes before them; returns where they end.
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

impl PackedMessageBytes {
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

/// What one side of a connection recorded of its frames.
#[derive(Debug, Default)]
pub(super) struct SideRecords {
    pub(super) windows: Windows,
    pub(super) quic: SideFrames,
    /// HTTP/2: the bytes of each stream's frames that this side sent; adjacent ranges are joined.
    pub(super) frames: StreamFrames,
    /// The smallest retransmission timeout that the kernel reported.
    pub(super) least_rto: Option<u64>,
    /// The retransmission timeouts that the kernel counted.
    pub(super) timeouts: Timeouts,
    /// What the socket reported about itself.
    pub(super) accounts: Vec<Account>,
}

/// The bytes of frames by stream.
#[derive(Debug, Default)]
pub(super) struct StreamFrames {
    /// Sorted by stream, each with the position after its last span.
    streams: Vec<(u64, usize)>,
    spans: Vec<Bytes>,
}

const NO_FRAME: FrameFacts = FrameFacts::new(Way::Sent, FrameLayer::Http2, 0, 0);

/// Codes a frame with its time relative to the one before.
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

impl Default for PackedSideRecords {
    fn default() -> PackedSideRecords {
        PackedSideRecords {
            side: SideRecords::default(),
            first_sent: None,
            message_bytes: PackedMessageBytes::default(),
            rows: PackedRows::default(),
            before: (0, NO_FRAME),
        }
    }
}

/// What the next row is coded relative to. A frame on the connection itself, which may come between frames of streams,
/// keeps the previous stream and offset.
fn base(before: &(u64, FrameFacts), (time, mut frame): (u64, FrameFacts)) -> (u64, FrameFacts) {
    let stream = frame.stream.filter(|stream| *stream != 0);
    frame.stream = stream.or(before.1.stream);
    frame.offset = frame.offset.or(before.1.offset);
    (time, frame)
}

impl PackedSideRecords {
    pub(super) fn add(&mut self, row: &FrameRecord) {
        if row.frame.layer == FrameLayer::Http2 {
            self.side.windows.add(row.time.as_nanos(), &row.frame);
            if let Some((stream, bytes)) = bytes_of_message(&row.frame) {
                self.message_bytes.add(stream, bytes);
            }
            return;
        }
        let mut timed = (row.time.as_nanos(), row.frame);
        if row.frame.way == Way::Sent && row.frame.layer == FrameLayer::Quic {
            self.add_first_sent(timed.0);
        }
        code(&mut self.rows.write(), &self.before, &mut timed);
        self.before = base(&self.before, timed);
    }

    /// QUIC: the side sent a frame at this time; only the first time is kept.
    pub(super) fn add_first_sent(&mut self, time: u64) {
        self.first_sent.get_or_insert(time);
    }

    /// Unpacks the records. `quic_windows` are a QUIC sender's initial limits: of each stream, and of the connection.
    pub(super) fn unpack(self, quic_windows: Option<(u64, u64)>) -> SideRecords {
        let mut side = self.side;
        side.frames = StreamFrames::new(self.message_bytes.unpack());
        let mut reader = self.rows.read();
        let mut before = (0, NO_FRAME);
        while reader.has_more() {
            let mut timed = (0, NO_FRAME);
            code(&mut reader, &before, &mut timed);
            let (time, frame) = timed;
            if frame.layer == FrameLayer::Quic
                && let Some((stream, connection)) = quic_windows
            {
                side.windows.begin_quic(stream, connection);
            }
            side.windows.add(time, &frame);
            side.quic.add(time, &frame);
            before = base(&before, timed);
        }
        side
    }
}

/// The stream and the bytes of a frame that this side sent as part of a message.
fn bytes_of_message(frame: &FrameFacts) -> Option<(u64, Bytes)> {
    let is_of_message = frame.layer == FrameLayer::Http2
        && frame.way == Way::Sent
        && MESSAGE_FRAMES.contains(&frame.kind);
    let (stream, from) = (frame.stream?, frame.offset?);
    let to = from
        .saturating_add(FRAME_HEADER_BYTES)
        .saturating_add(frame.length);
    is_of_message.then_some((stream, Span { from, to }))
}

impl StreamFrames {
    /// From frames in the order of sending.
    fn new(mut frames: Vec<(u64, Bytes)>) -> StreamFrames {
        sort_nearly_sorted(&mut frames, |(stream, _)| *stream);
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

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The frames of a stream, in the order of sending; usually the stream is the one at `place`.
    pub(super) fn of(&self, stream: u64, place: usize) -> &[Bytes] {
        let is_there = self.streams.get(place).is_some_and(|(id, _)| *id == stream);
        let place = if is_there {
            Ok(place)
        } else {
            self.streams.binary_search_by_key(&stream, |(id, _)| *id)
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
    fn packed_frames_are_unpacked_unchanged() {
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
        let mut packed = PackedRows::default();
        let mut before = (0, NO_FRAME);
        for frame in &frames {
            let mut own = *frame;
            code(&mut packed.write(), &before, &mut own);
            assert_eq!(own, *frame, "writing changes nothing");
            before = own;
        }
        let (mut reader, mut before) = (packed.read(), (0, NO_FRAME));
        for expected in frames {
            assert!(reader.has_more());
            let mut own = (0, NO_FRAME);
            code(&mut reader, &before, &mut own);
            assert_eq!(own, expected);
            before = own;
        }
    }

    #[test]
    fn bytes_of_messages_are_unpacked_with_neighbours_joined() {
        let span = |from, to| Span { from, to };
        let mut log = PackedMessageBytes::default();
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
