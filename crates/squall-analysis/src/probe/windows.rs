//! The windows that a server really gives to an HTTP/2 upload: how large they are, when and by how much they are
//! reopened, and how long the upload waited for them.
//!
//! It reads frames as the client sent and received them (RFC 9113, section 6.9). QUIC's limits are in `limits`; what
//! follows from updates for other uploads is in `flow`.

use std::collections::BTreeSet;

use serde::Serialize;
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Outcome, RequestRecord, Way};
use squall_base::{Duration, Time};

use super::flow::{Ledger, Replay, Rule, Update, by_rules, mean_flight};
use super::observed::Step;
use crate::figure;
use crate::wire::http2::{DATA, END_STREAM, WINDOW_UPDATE};

/// The largest DATA frame that every peer accepts.
const FRAME: i64 = 16_384;
/// Nearly one update for each DATA frame: the last one gets none.
const UPDATES_PER_DATA: f64 = 0.8;
/// If a window grows by this factor, the server gave back more than was used.
const GROWTH: f64 = 1.5;
/// A shorter wait may be the server's own.
const LONG_WAIT: Duration = Duration::from_millis(1);
/// An upload that waited for this share of its time did little else.
const NEARLY_ALL: f64 = 0.8;
/// An increment of this many windows is a grant. A window that doubles whenever half of it is used up gets at most two.
const GRANT: f64 = 4.0;

/// When and by how much a server reopens an upload's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum UpdatePolicy {
    /// No update came, and none was needed.
    Unseen,
    /// No update came, although the window was used up.
    Never,
    /// After nearly every DATA frame.
    EachData {
        /// The mean increment.
        bytes: u64,
    },
    /// When about half of the window is used up.
    Half,
    /// Whenever about this much was received.
    Every {
        /// The mean increment.
        bytes: u64,
    },
    /// In grants much larger than the window before.
    Grants {
        /// The largest.
        bytes: u64,
    },
    /// The window grows as the upload goes on.
    Growing {
        /// The largest window seen.
        bytes: u64,
    },
}

impl UpdatePolicy {
    /// In words, after "the server".
    pub fn words(self) -> String {
        let size = figure::count;
        match self {
            UpdatePolicy::Unseen => "needed no update".to_owned(),
            UpdatePolicy::Never => "never updates the window".to_owned(),
            UpdatePolicy::EachData { bytes } => {
                format!("gives back {} bytes after each DATA frame", size(bytes))
            }
            UpdatePolicy::Half => "gives back half of the window at a time".to_owned(),
            UpdatePolicy::Every { bytes } => format!("gives back {} bytes at a time", size(bytes)),
            UpdatePolicy::Grants { bytes } => format!("grants up to {} bytes", size(bytes)),
            UpdatePolicy::Growing { bytes } => {
                format!("lets the window grow, to {} bytes here", size(bytes))
            }
        }
    }
}

/// What an upload's frames show of the server's windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UploadWindows {
    /// What the stream might send at its first DATA frame.
    pub stream_bytes: u64,
    /// What the connection might send at its first DATA frame.
    pub connection_bytes: u64,
    /// The largest window that the stream had.
    pub largest_stream_bytes: u64,
    /// The largest window that the connection had.
    pub largest_connection_bytes: u64,
    /// How many bytes the windows allow in a round trip if the server opens them as it did here. This is less than the largest
    /// window if the server has not given back all that it received when a flight ends, or if the window was smaller at first.
    pub round_trip_bytes: u64,
    /// How the server reopens the stream's window.
    pub policy: UpdatePolicy,
    /// DATA frames of the upload.
    pub data_frames: u64,
    /// WINDOW_UPDATE frames of its stream.
    pub updates: u64,
    /// From the first DATA frame to the last one.
    #[serde(rename = "sending_ns")]
    pub sending: Duration,
    /// The part of it in which the stream's window was used up.
    #[serde(rename = "blocked_by_stream_ns")]
    pub blocked_by_stream: Duration,
    /// The part of it in which only the connection's window was used up.
    #[serde(rename = "blocked_by_connection_ns")]
    pub blocked_by_connection: Duration,
}

impl UploadWindows {
    /// The windows of the long upload of a step; `None` if it sent no DATA over HTTP/2, or the server rejected it.
    pub fn of(step: &Step) -> Option<UploadWindows> {
        let row = step.of(1).filter(|row| was_wanted(row))?;
        let (connection, stream) = (row.connection?, row.stream?);
        let frames = step.frames.iter();
        let mut reader = Reader::default();
        for record in frames.filter(|record| is_of(record, connection)) {
            reader.read(record.time, &record.frame, stream);
        }
        reader.finish(row.end)
    }

    /// The most that the upload could have in flight: one such amount per round trip is the highest rate.
    pub fn limit_bytes(&self) -> u64 {
        self.largest_stream_bytes.min(self.largest_connection_bytes)
    }

    /// Whether a lower rate than that is expected: the server gives back only part of each window at a time, or the window
    /// was smaller at first.
    pub fn allows_less(&self) -> bool {
        const WHOLE: f64 = 0.95;
        (self.round_trip_bytes as f64) < WHOLE * self.limit_bytes() as f64
    }

    /// Whether the connection's window, not the stream's, is that limit.
    pub fn is_limited_by_connection(&self) -> bool {
        self.largest_connection_bytes < self.largest_stream_bytes
    }
}

/// Whether a server took an upload, or was still taking it when it was given up. One that responds without reading the
/// body, with an error or not, says nothing about its windows.
pub(super) fn was_wanted(row: &RequestRecord) -> bool {
    match row.outcome {
        Outcome::Answered => {
            row.written_last.is_some() && row.status.is_some_and(|status| status < 400)
        }
        // If the server echoes a long body, the response is cut off; by then the upload was complete.
        Outcome::Censored | Outcome::TimedOut => {
            row.headers.is_none()
                || (row.written_last.is_some() && row.status.is_some_and(|status| status < 400))
        }
        _ => false,
    }
}

fn is_of(record: &FrameRecord, connection: u32) -> bool {
    record.connection == connection && record.frame.layer == FrameLayer::Http2
}

/// Walks over the frames of one connection.
#[derive(Debug, Default)]
struct Reader {
    connection: Window,
    stream: Window,
    first_data: Option<Time>,
    last_data: Option<Time>,
    has_ended: bool,
    data_frames: u64,
    /// Payload of the upload's DATA frames.
    bytes: u64,
    /// The position in the body at which each DATA frame ended.
    ends: Vec<u64>,
    largest_frame: u64,
    blocked: Blocked,
    was_used_up: bool,
}

/// What is known of one window.
#[derive(Debug, Default)]
struct Window {
    at_first_data: Option<i64>,
    largest: i64,
    /// Whether an update gave much more than the window had been.
    has_grant: bool,
    /// What happened to it since the first DATA frame of the upload.
    ledger: Option<Ledger>,
}

impl Window {
    /// Notes a DATA frame of `length` bytes, after which `left` may still be sent.
    fn note_data(&mut self, left: Option<i64>, length: i64, is_upload: bool) {
        let Some(left) = left else {
            return;
        };
        let before = left.saturating_add(length);
        self.at_first_data.get_or_insert(before);
        self.largest = self.largest.max(before);
        if is_upload && self.ledger.is_none() {
            self.ledger = Some(Ledger {
                first: bytes(before),
                owed: bytes(self.largest.saturating_sub(before)),
                updates: Vec::new(),
            });
        }
    }

    /// Notes an update by `increment`. By then the upload had sent `sent` bytes.
    fn note_update(&mut self, now: Option<i64>, increment: Option<u64>, sent: u64) {
        let increment = increment.unwrap_or(0);
        if let Some(ledger) = &mut self.ledger {
            self.has_grant |= increment as f64 >= GRANT * self.largest as f64;
            ledger.updates.push(Update {
                bytes: increment,
                sent,
            });
        }
        self.largest = self.largest.max(now.unwrap_or(0));
    }
}

/// A window as a number of bytes: 0 if a change of SETTINGS made it negative.
fn bytes(window: i64) -> u64 {
    u64::try_from(window).unwrap_or(0)
}

/// Time in which windows were used up.
#[derive(Debug, Default)]
struct Blocked {
    /// Since when each window is used up.
    stream_since: Option<Time>,
    connection_since: Option<Time>,
    by_stream: Duration,
    by_connection: Duration,
    /// How long each wait for a window took, in the order in which the waits ended.
    waits: Vec<Duration>,
}

impl Reader {
    fn read(&mut self, time: Time, frame: &FrameFacts, stream: u64) {
        match (frame.way, frame.kind) {
            (Way::Sent, DATA) => self.data(time, frame, frame.stream == Some(stream)),
            (Way::Received, WINDOW_UPDATE) if frame.stream == Some(0) => {
                self.connection
                    .note_update(frame.connection_window, frame.value, self.bytes);
                self.blocked.open_connection(time);
            }
            (Way::Received, WINDOW_UPDATE) if frame.stream == Some(stream) => {
                self.stream
                    .note_update(frame.stream_window, frame.value, self.bytes);
                self.blocked.open_stream(time);
            }
            _ => {}
        }
    }

    fn data(&mut self, time: Time, frame: &FrameFacts, is_upload: bool) {
        let length = i64::try_from(frame.length).unwrap_or(i64::MAX);
        self.connection
            .note_data(frame.connection_window, length, is_upload);
        if !is_upload {
            return;
        }
        self.stream.note_data(frame.stream_window, length, true);
        self.bytes += frame.length;
        self.ends.push(self.bytes);
        self.largest_frame = self.largest_frame.max(frame.length);
        self.first_data.get_or_insert(time);
        self.last_data = Some(time);
        self.data_frames += 1;
        self.has_ended = frame.flags & END_STREAM != 0;
        // The upload sends again, so the windows that it waited for are open.
        self.blocked.open_stream(time);
        self.blocked.open_connection(time);
        if self.has_ended {
            return;
        }
        let is_used_up = |window: Option<i64>| window.is_some_and(|left| left <= 0);
        // The short upload before this one used some of the connection's window: if both windows are as large, the
        // connection's is used up a little earlier.
        let has_little = frame.stream_window.is_some_and(|left| left < FRAME);
        let is_connection = is_used_up(frame.connection_window);
        if is_used_up(frame.stream_window) || (is_connection && has_little) {
            self.was_used_up = true;
            self.blocked.stream_since.get_or_insert(time);
        } else if is_connection {
            self.blocked.connection_since.get_or_insert(time);
        }
    }

    /// The result of an upload that ended, or was given up, at `end`.
    fn finish(mut self, end: Time) -> Option<UploadWindows> {
        let first = self.first_data?;
        let last = if self.has_ended { self.last_data? } else { end };
        self.blocked.open_stream(last);
        self.blocked.open_connection(last);
        let stream = self.stream.ledger.take()?;
        let connection = self.connection.ledger.take()?;
        let (largest_stream, largest_connection) =
            (bytes(self.stream.largest), bytes(self.connection.largest));
        let sending = last.since(first);
        let policy = self.policy(&stream, largest_stream);
        let limit = largest_stream.min(largest_connection);
        let has_rule = matches!(
            policy,
            UpdatePolicy::EachData { .. } | UpdatePolicy::Half | UpdatePolicy::Every { .. }
        );
        let flight = if self.waited_nearly_always(sending) {
            self.replayed(&stream, &connection)
        } else {
            None
        };
        let flight = match flight {
            None if has_rule => self.by_rule(&stream, &connection),
            flight => flight,
        };
        Some(UploadWindows {
            round_trip_bytes: flight.map_or(limit, |flight| flight.min(limit)),
            stream_bytes: bytes(self.stream.at_first_data?),
            connection_bytes: bytes(self.connection.at_first_data?),
            largest_stream_bytes: largest_stream,
            largest_connection_bytes: largest_connection,
            policy,
            data_frames: self.data_frames,
            updates: stream.updates.len() as u64,
            sending,
            blocked_by_stream: self.blocked.by_stream,
            blocked_by_connection: self.blocked.by_connection,
        })
    }

    /// Whether an upload waited nearly all the time, and longer than a server takes to read. In that case nothing was on the
    /// way when the windows were opened again, and that would also be the case with any longer round trip.
    fn waited_nearly_always(&self, sending: Duration) -> bool {
        let mut waits = self.blocked.waits.clone();
        waits.sort_unstable();
        let long = waits.get(waits.len() * 9 / 10).copied().unwrap_or_default();
        let waited = self.blocked.by_stream + self.blocked.by_connection;
        self.has_ended
            && long >= LONG_WAIT
            && waited.as_secs_f64() >= NEARLY_ALL * sending.as_secs_f64()
    }

    /// The mean flight if the updates that this upload got are replayed.
    fn replayed(&self, stream: &Ledger, connection: &Ledger) -> Option<u64> {
        let (mut of_stream, mut of_connection) = (Replay::of(stream), Replay::of(connection));
        mean_flight(self.bytes, stream.first.min(connection.first), |position| {
            let limit = of_stream.received(position);
            limit.min(of_connection.received(position))
        })
    }

    /// The mean flight to a server that opens its windows by the rule that this upload's updates show.
    fn by_rule(&self, stream: &Ledger, connection: &Ledger) -> Option<u64> {
        let rule = |ledger: &Ledger, window: &Window| {
            Rule::seen(
                ledger,
                bytes(window.largest),
                &self.ends,
                self.largest_frame,
            )
        };
        by_rules(
            rule(stream, &self.stream),
            rule(connection, &self.connection),
        )
    }

    fn policy(&self, stream: &Ledger, largest: u64) -> UpdatePolicy {
        let updates = stream.updates.len() as u64;
        if updates == 0 {
            let has_stopped = self.was_used_up && !self.has_ended;
            return if has_stopped {
                UpdatePolicy::Never
            } else {
                UpdatePolicy::Unseen
            };
        }
        let initial = stream.first as f64;
        let increments = || stream.updates.iter().map(|update| update.bytes);
        if self.stream.has_grant {
            let bytes = increments().max().unwrap_or(0);
            return UpdatePolicy::Grants { bytes };
        }
        let bytes = increments().sum::<u64>() / updates;
        if updates as f64 >= UPDATES_PER_DATA * self.data_frames as f64 {
            return UpdatePolicy::EachData { bytes };
        }
        if largest as f64 >= GROWTH * initial {
            return UpdatePolicy::Growing { bytes: largest };
        }
        let part = bytes as f64 / initial;
        if (0.4..0.7).contains(&part) {
            UpdatePolicy::Half
        } else {
            UpdatePolicy::Every { bytes }
        }
    }
}

impl Blocked {
    fn open_stream(&mut self, time: Time) {
        if let Some(since) = self.stream_since.take() {
            self.by_stream = self.by_stream + time.since(since);
            self.waits.push(time.since(since));
        }
    }

    fn open_connection(&mut self, time: Time) {
        if let Some(since) = self.connection_since.take() {
            self.by_connection = self.by_connection + time.since(since);
            self.waits.push(time.since(since));
        }
    }
}

/// The middle payload of the DATA frames received, without the last one of each stream; `None` if there were few.
pub(super) fn median_data_frame(step: &Step) -> Option<u64> {
    const FRAMES_AT_LEAST: usize = 50;
    let mut ended = BTreeSet::new();
    let mut lengths: Vec<u64> = Vec::new();
    for record in step.frames.iter().rev() {
        let frame = &record.frame;
        let is_data = frame.kind == DATA && frame.layer != FrameLayer::Quic;
        if frame.way == Way::Received && is_data {
            let is_last = ended.insert((record.connection, frame.stream));
            if !is_last {
                lengths.push(frame.length);
            }
        }
    }
    lengths.sort_unstable();
    (lengths.len() >= FRAMES_AT_LEAST).then(|| lengths[lengths.len() / 2])
}
