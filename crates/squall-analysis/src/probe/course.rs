//! How a probe's transfers and handshakes went over time, for drawings: bytes over time with the spans in which a window was
//! used up, and the parts of a first response.
//!
//! Of several rounds, the one with the middle duration is drawn. Nothing is judged here: `windows` and `limits` find a
//! server's windows, and `detect` decides whether they are too small.

use squall_base::plan::Version;
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, RequestRecord, Way};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind, version_name};
use super::small::between;
use super::spans::median_span;
use super::windows::was_wanted;
use crate::wire::http2::{DATA, END_STREAM, WINDOW_UPDATE};
use crate::wire::quic::{MAX_DATA, MAX_STREAM_DATA, STREAM};

/// The most points of a transfer: more than a drawing of usual width has columns.
const POINTS: u64 = 300;

/// Which way a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    /// From the server.
    Download,
    /// To the server.
    Upload,
}

/// A transfer over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferCourse {
    /// The version's name.
    pub version: &'static str,
    /// Which way its body goes.
    pub transfer: Transfer,
    /// Bytes of the body so far, each with the time since the beginning, in the order of time. For an upload, the bytes
    /// sent by then; over HTTP/1.1, those acknowledged.
    pub points: Vec<(Duration, u64)>,
    /// Spans, from when a window was used up until it was opened again.
    pub blocked: Vec<(Duration, Duration)>,
}

/// The parts of a fresh connection's first response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The version's name.
    pub version: &'static str,
    /// The handshake of TCP; zero for QUIC.
    pub connect: Duration,
    /// The handshake of TLS or QUIC; zero in cleartext.
    pub secure: Duration,
    /// From the end of the handshakes to the first byte of the response.
    pub answer: Duration,
}

const VERSIONS: [Version; 3] = [Version::Http1, Version::Http2, Version::Http3];

impl TransferCourse {
    /// The transfers of a probe, one for each version and way.
    pub fn all(seen: &Observations) -> Vec<TransferCourse> {
        let ways = [
            (StepKind::Download, Transfer::Download),
            (StepKind::Upload, Transfer::Upload),
        ];
        let wanted = ways
            .into_iter()
            .flat_map(|way| VERSIONS.map(|version| (way, version)));
        wanted
            .filter_map(|((kind, transfer), version)| {
                let steps = seen.steps_of(kind, version);
                let courses = steps.filter_map(|step| TransferCourse::of(step, transfer));
                middle(courses.collect())
            })
            .collect()
    }

    /// The transfer of a step; `None` if nothing was carried.
    fn of(step: &Step, transfer: Transfer) -> Option<TransferCourse> {
        let (begun, points, blocked) = match transfer {
            Transfer::Download => {
                let begun = step.requests.iter().filter_map(|row| row.written_first);
                (begun.min()?, received(step), Vec::new())
            }
            Transfer::Upload => {
                let row = step.of(1).filter(|row| was_wanted(row))?;
                let (points, blocked) = sent(step, row)?;
                (row.written_first?, points, blocked)
            }
        };
        let since = |time: Time| time.since(begun);
        let points: Vec<(Duration, u64)> = points
            .into_iter()
            .map(|(time, bytes)| (since(time), bytes))
            .collect();
        let points = thinned(points);
        (!points.is_empty()).then(|| TransferCourse {
            version: version_name(step.version),
            transfer,
            points,
            blocked: blocked
                .into_iter()
                .map(|(from, to)| (since(from), since(to)))
                .collect(),
        })
    }

    /// How long it took, and how many bytes it carried.
    pub fn end(&self) -> (Duration, u64) {
        self.points.last().copied().unwrap_or_default()
    }

    /// The time in which a window was used up.
    pub fn blocked_time(&self) -> Duration {
        let spans = self.blocked.iter().map(|(from, to)| *to - *from);
        spans.fold(Duration::ZERO, |sum, span| sum + span)
    }
}

impl Opening {
    /// The first responses of a probe, one for each version that answered: the middle of each part.
    pub fn all(seen: &Observations) -> Vec<Opening> {
        let of = |version: Version| {
            let steps = seen.steps_of(StepKind::Small, version);
            let rows: Vec<&RequestRecord> = steps
                .flat_map(Step::answered)
                .filter(|row| row.opened_connection)
                .collect();
            let part = |of: &dyn Fn(&RequestRecord) -> Option<Duration>| {
                median_span(rows.iter().copied().filter_map(of))
            };
            let answer = part(&|row| {
                let ready = row.secured.or(row.connected).or(row.slot);
                between(ready, row.answered_first)
            })?;
            Some(Opening {
                version: version_name(version),
                connect: part(&|row| between(row.slot, row.connected)).unwrap_or_default(),
                secure: part(&|row| between(row.connected, row.secured)).unwrap_or_default(),
                answer,
            })
        };
        VERSIONS.into_iter().filter_map(of).collect()
    }

    /// All parts together.
    pub fn whole(&self) -> Duration {
        self.connect + self.secure + self.answer
    }
}

/// The course with the middle duration.
fn middle(mut courses: Vec<TransferCourse>) -> Option<TransferCourse> {
    courses.sort_by_key(|course| course.end().0);
    let place = courses.len().checked_sub(1)? / 2;
    Some(courses.swap_remove(place))
}

/// The last point of each interval that has one, so that at most about `POINTS` are left.
fn thinned(points: Vec<(Duration, u64)>) -> Vec<(Duration, u64)> {
    let Some((end, _)) = points.last() else {
        return points;
    };
    let interval = (end.as_nanos() / POINTS).max(1);
    let mut kept: Vec<(Duration, u64)> = Vec::new();
    for (at, bytes) in points {
        let slot = |at: Duration| at.as_nanos() / interval;
        match kept.last_mut() {
            Some(last) if slot(last.0) == slot(at) => *last = (at, bytes),
            _ => kept.push((at, bytes)),
        }
    }
    kept
}

/// Bytes of responses' bodies so far.
fn received(step: &Step) -> Vec<(Time, u64)> {
    let pieces = step.pieces.iter();
    let bytes = pieces.scan(0, |sum, piece| {
        *sum += piece.bytes;
        Some((piece.time, *sum))
    });
    bytes.collect()
}

/// Bytes of an upload's body so far, and the spans in which it was blocked.
type Sent = (Vec<(Time, u64)>, Vec<(Time, Time)>);

fn sent(step: &Step, row: &RequestRecord) -> Option<Sent> {
    let (connection, stream) = (row.connection?, row.stream?);
    if step.version == Version::Http1 {
        return Some((acknowledged(step, row), Vec::new()));
    }
    let mut reader = Reader::new(stream);
    let frames = step.frames.iter();
    for record in frames.filter(|record| record.connection == connection) {
        reader.read(record);
    }
    // An upload that was never sent completely waits until its end.
    Some(reader.finish(row.written_last.is_none().then_some(row.end)))
}

/// The bytes of an upload that were acknowledged, by the kernel's samples of its connection.
fn acknowledged(step: &Step, row: &RequestRecord) -> Vec<(Time, u64)> {
    let samples = step.tcp();
    let samples = samples.filter(|(sample, _)| Some(sample.connection) == row.connection);
    let bytes: Vec<(Time, u64)> = samples
        .filter_map(|(sample, info)| Some((sample.time, info.get("tcpi_bytes_acked")?)))
        .collect();
    let begun = row.written_first.unwrap_or_default();
    let before = bytes.iter().take_while(|(time, _)| *time < begun).last();
    let before = before.map_or(0, |(_, bytes)| *bytes);
    let within = bytes
        .iter()
        .filter(|(time, _)| *time >= begun && *time <= row.end);
    within
        .map(|(time, bytes)| (*time, bytes.saturating_sub(before)))
        .collect()
}

/// Walks over the frames of an upload's connection.
struct Reader {
    stream: u64,
    points: Vec<(Time, u64)>,
    blocked: Vec<(Time, Time)>,
    since: Option<Time>,
    /// HTTP/2: whether the stream's and the connection's window is used up.
    is_used_up: [bool; 2],
    bytes: u64,
    /// QUIC: the offsets up to which the stream and the connection may send, once an update said so, and how far each
    /// stream has got.
    stream_limit: Option<u64>,
    connection_limit: Option<u64>,
    offsets: std::collections::BTreeMap<u64, u64>,
}

impl Reader {
    fn new(stream: u64) -> Reader {
        Reader {
            stream,
            points: Vec::new(),
            blocked: Vec::new(),
            since: None,
            is_used_up: [false; 2],
            bytes: 0,
            stream_limit: None,
            connection_limit: None,
            offsets: std::collections::BTreeMap::new(),
        }
    }

    fn read(&mut self, record: &FrameRecord) {
        let (time, frame) = (record.time, &record.frame);
        match (frame.layer, frame.way, frame.kind) {
            (FrameLayer::Http2, Way::Sent, DATA) if frame.stream == Some(self.stream) => {
                self.data(time, frame);
            }
            (FrameLayer::Http2, Way::Received, WINDOW_UPDATE) => self.update(time, frame.stream),
            (FrameLayer::Quic, Way::Sent, kind) if STREAM.contains(&kind) => {
                self.stream_frame(time, frame);
            }
            (FrameLayer::Quic, Way::Received, MAX_STREAM_DATA)
                if frame.stream == Some(self.stream) =>
            {
                self.stream_limit = self.stream_limit.max(frame.value);
                self.open(time);
            }
            (FrameLayer::Quic, Way::Received, MAX_DATA) => {
                self.connection_limit = self.connection_limit.max(frame.value);
                self.open(time);
            }
            _ => {}
        }
    }

    fn data(&mut self, time: Time, frame: &FrameFacts) {
        self.carried(time, self.bytes + frame.length);
        if frame.flags & END_STREAM != 0 {
            return;
        }
        let windows = [frame.stream_window, frame.connection_window];
        self.is_used_up = windows.map(|window| window.is_some_and(|left| left <= 0));
        if self.is_used_up.contains(&true) {
            self.since = Some(time);
        }
    }

    /// A window was opened; the upload goes on if the other one is open, too.
    fn update(&mut self, time: Time, stream: Option<u64>) {
        let [of_stream, of_connection] = &mut self.is_used_up;
        match stream {
            Some(0) => *of_connection = false,
            Some(other) if other == self.stream => *of_stream = false,
            _ => return,
        }
        if !self.is_used_up.contains(&true) {
            self.open(time);
        }
    }

    fn stream_frame(&mut self, time: Time, frame: &FrameFacts) {
        let (Some(stream), Some(offset)) = (frame.stream, frame.offset) else {
            return;
        };
        let end = offset.saturating_add(frame.length);
        let far = self.offsets.entry(stream).or_default();
        *far = (*far).max(end);
        if stream != self.stream || end <= self.bytes {
            // Another stream's bytes, or a retransmission.
            return;
        }
        self.carried(time, end);
        let all: u64 = self.offsets.values().sum();
        let is_at = |limit: Option<u64>, sent: u64| limit.is_some_and(|limit| sent >= limit);
        if is_at(self.stream_limit, end) || is_at(self.connection_limit, all) {
            self.since = Some(time);
        }
    }

    fn carried(&mut self, time: Time, bytes: u64) {
        self.open(time);
        self.bytes = bytes;
        self.points.push((time, bytes));
    }

    /// Ends the span in which the upload was blocked, if it was.
    fn open(&mut self, time: Time) {
        if let Some(since) = self.since.take() {
            self.blocked.push((since, time));
        }
    }

    /// The result. `given_up` is the end of an upload that was not sent completely.
    fn finish(mut self, given_up: Option<Time>) -> Sent {
        if let Some(end) = given_up {
            self.open(end);
            self.points.push((end, self.bytes));
        }
        (self.points, self.blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Windows, healthy, ms, upload};
    use super::*;

    const NARROW: Windows = Windows {
        stream: 65_535,
        connection: 16 << 20,
        update_after: 65_535,
        increment: 65_535,
    };

    fn uploading(bytes: i64, windows: Windows) -> Vec<TransferCourse> {
        let mut seen = healthy(ms(30));
        seen.steps.push(upload(bytes, ms(30), windows));
        TransferCourse::all(&seen)
    }

    fn upload_of(courses: &[TransferCourse]) -> &TransferCourse {
        let mut uploads = courses.iter();
        uploads
            .find(|course| course.transfer == Transfer::Upload)
            .expect("an upload")
    }

    #[test]
    fn transfer_has_its_bytes_and_the_spans_in_which_the_window_was_used_up() {
        let courses = uploading(4 * 65_535, NARROW);
        let course = upload_of(&courses);
        let (took, bytes) = course.end();
        assert_eq!((course.version, bytes), ("HTTP/2", 4 * 65_535));
        assert_eq!(course.blocked.len(), 3, "{course:?}");
        let blocked = course.blocked_time();
        assert!(blocked >= ms(90) && blocked <= took, "{blocked} of {took}");
    }

    #[test]
    fn upload_whose_window_stays_closed_is_blocked_to_its_end() {
        let windows = Windows {
            increment: 0,
            ..NARROW
        };
        let courses = uploading(1_000_000, windows);
        let course = upload_of(&courses);
        let (took, bytes) = course.end();
        assert_eq!(bytes, 65_535);
        assert_eq!(course.blocked.last().map(|(_, to)| *to), Some(took));
    }

    #[test]
    fn downloads_count_their_pieces_and_are_thinned() {
        let courses = TransferCourse::all(&healthy(ms(30)));
        let first = &courses[0];
        assert_eq!(
            (first.version, first.transfer),
            ("HTTP/1.1", Transfer::Download)
        );
        assert_eq!(first.end(), (ms(600), 4_000_000));
        let many = (1..=10_000).map(|n| (Duration::from_micros(n), n));
        let kept = thinned(many.collect());
        assert!(kept.len() <= 301, "{}", kept.len());
        assert_eq!(kept.last(), Some(&(ms(10), 10_000)));
    }

    #[test]
    fn first_response_is_split_into_its_round_trips() {
        let openings = Opening::all(&healthy(ms(30)));
        assert_eq!(openings.len(), 2);
        let first = &openings[0];
        assert_eq!((first.connect, first.secure), (ms(30), ms(30)));
        assert_eq!(first.whole(), first.connect + first.secure + first.answer);
    }
}
