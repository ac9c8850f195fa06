//! Simulated uploads over HTTP/2, for tests of what flow control allows: a sender and a server at the two ends of a path, each
//! of which follows RFC 9113, section 6.9, as soon as it can.
//!
//! Nothing is lost, and no congestion window limits the sender; only the windows and the path's rate do. `made` has the
//! other observations.

use std::collections::VecDeque;

use squall_base::Duration;
use squall_base::plan::Version;
use squall_base::record::{FrameFacts, Way};

use super::made::{at_us, facts, frame, request, step, update};
use super::observed::{Step, StepKind};
use crate::wire::http2::DATA;

/// When a server reopens a window.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opens {
    /// After each DATA frame.
    EachData,
    /// Once it owes this many bytes.
    Owed(u64),
    /// Once it owes half of the window, which doubles each time, up to this size.
    Half { grows_to: u64 },
    /// With the first byte, to the largest window that HTTP/2 allows.
    Fully,
}

/// A server, with the size of each window and when the server reopens it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) stream: (u64, Opens),
    pub(super) connection: (u64, Opens),
    /// How many bytes of a DATA frame it reads at a time.
    pub(super) read: u64,
}

/// The path to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) round_trip: Duration,
    pub(super) bytes_per_s: u64,
}

/// The largest window.
const LARGEST: u64 = 0x7fff_ffff;
/// The short upload before the long one.
const SHORT: u64 = 1_000;
const STREAM: u64 = 3;
const BEGUN_NS: u64 = 10_000_000;

/// One window, at both ends.
struct Window {
    opens: Opens,
    /// Its size, as the server counts it.
    size: u64,
    /// Bytes that the server has received and not given back.
    owed: u64,
    /// Bytes that the sender may still send.
    credit: u64,
}

impl Window {
    fn of((size, opens): (u64, Opens)) -> Window {
        Window {
            opens,
            size,
            owed: 0,
            credit: size,
        }
    }

    /// The increment that the server gives after it read a piece, if it gives one.
    fn received(&mut self, piece: u64, ends_frame: bool) -> Option<u64> {
        self.owed += piece;
        let (is_due, more) = match self.opens {
            Opens::EachData => (ends_frame, 0),
            Opens::Owed(bytes) => (self.owed >= bytes, 0),
            Opens::Half { grows_to } => (
                self.owed >= self.size / 2,
                self.size.min(grows_to.saturating_sub(self.size)),
            ),
            Opens::Fully => (true, LARGEST - self.size),
        };
        if !is_due {
            return None;
        }
        if matches!(self.opens, Opens::Fully) {
            self.opens = Opens::Owed(LARGEST / 2);
        }
        self.size += more;
        let given = self.owed + more;
        self.owed = 0;
        Some(given)
    }
}

/// An upload in progress.
struct Upload {
    made: Step,
    stream: Window,
    connection: Window,
    /// DATA frames on the way: when each arrives, and its length.
    arriving: VecDeque<(u64, u64)>,
    /// Updates on the way back: when each arrives, whether it is the stream's, and its increment.
    updates: VecDeque<(u64, bool, u64)>,
    /// When the path can take the next frame.
    free: u64,
    left: u64,
}

/// An upload of `size` bytes, after one of 1 kB on the same connection.
pub(super) fn upload_to(server: Server, path: Path, size: u64) -> Step {
    let mut connection = Window::of(server.connection);
    connection.credit -= SHORT;
    connection.owed += SHORT;
    let mut upload = Upload {
        made: step(StepKind::Upload, Version::Http2),
        stream: Window::of(server.stream),
        connection,
        arriving: VecDeque::new(),
        updates: VecDeque::new(),
        free: 0,
        left: size,
    };
    upload.data(1_000_000, 1, SHORT, server.stream.0 - SHORT);
    let half = path.round_trip.as_nanos() / 2;
    let mut now = BEGUN_NS;
    loop {
        upload.send(now, path);
        let (data, back) = (upload.arriving.front(), upload.updates.front());
        now = match (data, back) {
            (Some((data, _)), Some((back, ..))) if back < data => *back,
            (Some((data, _)), _) => *data,
            // Everything has arrived, or the window is never opened again.
            (None, _) if upload.left == 0 => break,
            (None, Some((back, ..))) => *back,
            (None, None) => break,
        };
        upload.arrive(now, half, server.read);
        upload.open(now);
    }
    upload.finish(now + half, size)
}

impl Upload {
    /// Sends what the windows allow.
    fn send(&mut self, now: u64, path: Path) {
        loop {
            let window = self.stream.credit.min(self.connection.credit);
            let length = window.min(16_384).min(self.left);
            if length == 0 {
                return;
            }
            self.stream.credit -= length;
            self.connection.credit -= length;
            self.left -= length;
            self.free = self.free.max(now) + length * 1_000_000_000 / path.bytes_per_s;
            let arrives = self.free + path.round_trip.as_nanos() / 2;
            self.arriving.push_back((arrives, length));
            self.data(now, STREAM, length, self.stream.credit);
        }
    }

    /// Records a DATA frame.
    fn data(&mut self, now: u64, stream: u64, length: u64, stream_left: u64) {
        let sent = FrameFacts {
            flags: u8::from(self.left == 0),
            length,
            stream_window: i64::try_from(stream_left).ok(),
            connection_window: i64::try_from(self.connection.credit).ok(),
            ..facts(Way::Sent, DATA, stream)
        };
        self.made.frames.push(frame(now / 1_000, sent));
    }

    /// Lets the server read the DATA frames that have arrived.
    fn arrive(&mut self, now: u64, half: u64, read: u64) {
        while let Some((_, length)) = self.arriving.front().copied().filter(|(at, _)| *at <= now) {
            self.arriving.pop_front();
            let mut left = length;
            while left > 0 {
                let piece = left.min(read);
                left -= piece;
                let of_connection = self.connection.received(piece, left == 0);
                let of_stream = self.stream.received(piece, left == 0);
                let given = [(false, of_connection), (true, of_stream)];
                for (is_stream, bytes) in given {
                    self.updates
                        .extend(bytes.map(|bytes| (now + half, is_stream, bytes)));
                }
            }
        }
    }

    /// Opens the windows whose updates have arrived.
    fn open(&mut self, now: u64) {
        while let Some((_, is_stream, bytes)) =
            self.updates.front().copied().filter(|(at, ..)| *at <= now)
        {
            self.updates.pop_front();
            let (window, stream) = if is_stream {
                (&mut self.stream, STREAM)
            } else {
                (&mut self.connection, 0)
            };
            window.credit += bytes;
            let [credit, bytes] = [window.credit, bytes].map(|bytes| i64::try_from(bytes).unwrap());
            self.made
                .frames
                .push(update(now / 1_000, stream, credit, bytes));
        }
    }

    /// The observed step; its response arrives at `end`.
    fn finish(mut self, end: u64, size: u64) -> Step {
        let begun = BEGUN_NS / 1_000;
        self.made.requests.push(request(0, 1_000, 1_000));
        let mut row = request(1, begun, end / 1_000 - begun);
        row.stream = Some(STREAM);
        row.request_body_bytes = size;
        row.written_last = Some(at_us(end / 1_000));
        self.made.requests.push(row);
        self.made
    }
}
