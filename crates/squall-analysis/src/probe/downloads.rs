//! Where the time of a download went, as far as a client can see: by how much came in each round trip, when nothing came,
//! and which of the client's own windows were used up.
//!
//! A server does not say why it waits. A sender that doubles what it sends in each round trip is in slow start. A sender
//! that pauses for up to a round trip waits for acknowledgements: its congestion window is full. A longer pause is the
//! program's, or a loss is being repaired. Bytes without a pause come at the rate of the link or of the server, which look
//! alike from outside. Only the client's own windows are known exactly. `transfer` has the rates.

use std::collections::VecDeque;

use serde::Serialize;
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, RequestRecord, Way};
use squall_base::{Duration, Time};

use super::observed::Step;
use crate::wire::http2::{DATA, WINDOW_UPDATE};
use crate::wire::quic::{DATA_BLOCKED, STREAM, STREAM_DATA_BLOCKED};

/// Shorter downloads say nothing about a rate.
const BODY_AT_LEAST: u64 = 64 * 1024;
/// Below this round trip, a pause of a round trip cannot be told from the time that programs take.
const ROUND_TRIP_AT_LEAST: Duration = Duration::from_millis(5);
/// A shorter silence does not count as a pause.
const PAUSE_AT_LEAST: Duration = Duration::from_millis(1);

/// Where the time of a download went. The parts do not overlap; their sum differs from the whole only by rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DownloadTime {
    /// From the end of the request to the last byte that was read.
    #[serde(rename = "took_ns")]
    pub took: Duration,
    /// The round trip of the request.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Duration,
    /// The rest of the time to the first byte: the server's.
    #[serde(rename = "answer_ns")]
    pub answer: Duration,
    /// The server's congestion window grew: slow start.
    #[serde(rename = "slow_start_ns")]
    pub slow_start: Duration,
    /// After that, pauses of up to a round trip: the server's congestion window was used up.
    #[serde(rename = "congestion_window_ns")]
    pub congestion_window: Duration,
    /// Longer pauses: of the server, or until a loss was repaired.
    #[serde(rename = "pauses_ns")]
    pub pauses: Duration,
    /// Pauses for a window of HTTP/2 or QUIC that the client itself gave: the server had sent all that it was allowed by the
    /// updates that had reached it.
    #[serde(rename = "client_window_ns")]
    pub client_window: Duration,
    /// Round trips in which this machine's TCP receive window was nearly used up.
    #[serde(rename = "receive_window_ns")]
    pub receive_window: Duration,
    /// Bytes came without a pause, at the rate of the link or of the server.
    #[serde(rename = "unpaused_ns")]
    pub unpaused: Duration,
}

impl DownloadTime {
    /// The parts with their names, in the order of the transfer.
    pub fn parts(&self) -> [(&'static str, Duration); 8] {
        [
            ("the request's round trip", self.round_trip),
            ("the server's first byte", self.answer),
            ("the server's slow start", self.slow_start),
            ("the server's congestion window", self.congestion_window),
            (
                "longer pauses (the server, or a loss being repaired)",
                self.pauses,
            ),
            ("this client's HTTP windows", self.client_window),
            ("this machine's TCP receive window", self.receive_window),
            (
                "bytes without a pause (at the rate of the link or the server)",
                self.unpaused,
            ),
        ]
    }

    /// The download of a step over one connection, at this round trip; `None` if too little came.
    pub(super) fn of(step: &Step, round_trip: Option<Duration>) -> Option<DownloadTime> {
        let row = step.of(0)?;
        let (asked, answered) = (row.written_last?, row.answered_first?);
        if step.body_bytes() < BODY_AT_LEAST {
            return None;
        }
        let round_trip = round_trip.unwrap_or_default();
        let first = answered.since(asked);
        let mut time = DownloadTime {
            took: first,
            round_trip: first.min(round_trip),
            answer: first - round_trip,
            ..DownloadTime::default()
        };
        let course = DownloadCourse::of(step, row, answered, round_trip);
        let mut before = answered;
        for piece in &step.pieces {
            let span = piece.time.since(before);
            time.took = time.took + span;
            let part = course.part(&mut time, before, piece.time);
            *part = *part + span;
            before = before.max(piece.time);
        }
        Some(time)
    }

    /// The time for which this client itself held the download up.
    pub(super) fn own(&self) -> Duration {
        self.client_window + self.receive_window
    }
}

/// How a download went, round trip by round trip.
struct DownloadCourse {
    /// The first byte.
    begun: Time,
    round_trip: Duration,
    /// The number of round trips of slow start.
    slow: usize,
    /// For each round trip, whether TCP's receive window was nearly used up.
    is_full: Vec<bool>,
    /// When a window of ours was used up, and when bytes came again.
    blocked: Vec<(Time, Time)>,
}

impl DownloadCourse {
    fn of(step: &Step, row: &RequestRecord, begun: Time, round_trip: Duration) -> DownloadCourse {
        let blocked = blocked(&step.frames, row, round_trip);
        let mut course = DownloadCourse {
            begun,
            round_trip,
            slow: 0,
            is_full: Vec::new(),
            blocked,
        };
        if round_trip >= ROUND_TRIP_AT_LEAST {
            let flights = course.flights(step);
            course.slow = slow_start(&flights);
            let window = receive_window(step, row);
            let is_full = |bytes: &u64| window.is_some_and(|window| 10 * bytes >= 9 * window);
            course.is_full = flights.iter().map(is_full).collect();
        }
        course
    }

    /// The number of the round trip that contains a time.
    fn place(&self, time: Time) -> usize {
        let place = time.since(self.begun).as_nanos() / self.round_trip.as_nanos().max(1);
        usize::try_from(place).unwrap_or(usize::MAX)
    }

    /// Bytes that came in each round trip.
    fn flights(&self, step: &Step) -> Vec<u64> {
        // Limits the memory: no step lasts this many round trips.
        const AT_MOST: usize = 100_000;
        let mut flights = Vec::new();
        for piece in &step.pieces {
            let place = self.place(piece.time).min(AT_MOST);
            if flights.len() <= place {
                flights.resize(place + 1, 0);
            }
            flights[place] += piece.bytes;
        }
        flights
    }

    /// The part to which the time between two reads belongs.
    fn part<'a>(&self, time: &'a mut DownloadTime, from: Time, to: Time) -> &'a mut Duration {
        let span = to.since(from);
        let is_blocked = |(since, until): &(Time, Time)| *since < to && *until > from;
        if span >= PAUSE_AT_LEAST && self.blocked.iter().any(is_blocked) {
            return &mut time.client_window;
        }
        // What came in a round trip was sent before it: a pause belongs to the flight that ends it.
        let place = self.place(to);
        if place < self.slow {
            return &mut time.slow_start;
        }
        if self.is_full.get(place).copied().unwrap_or(false) {
            return &mut time.receive_window;
        }
        let quarter = Duration::from_nanos(self.round_trip.as_nanos() / 4);
        let is_pause = self.round_trip >= ROUND_TRIP_AT_LEAST && span > quarter;
        if !is_pause {
            &mut time.unpaused
        } else if span <= self.round_trip + quarter {
            &mut time.congestion_window
        } else {
            &mut time.pauses
        }
    }
}

/// The number of round trips of slow start: those before a flight of three quarters of the largest, if each brought more
/// than the one before it.
fn slow_start(flights: &[u64]) -> usize {
    let largest = flights.iter().copied().max().unwrap_or(0);
    let reached = flights.iter().position(|bytes| 4 * bytes >= 3 * largest);
    let reached = reached.unwrap_or(0);
    let is_growing = flights[..reached]
        .windows(2)
        .all(|pair| pair[0] > 0 && pair[0] < pair[1]);
    // Without a doubling, the flights only differ because the rate varies.
    let has_doubled = flights.first().is_some_and(|first| 2 * first <= largest);
    if is_growing && has_doubled {
        reached
    } else {
        0
    }
}

/// The largest TCP receive window that this machine gave the download's connection (`tcpi_rcv_wnd`); `None` if the kernel
/// does not say.
fn receive_window(step: &Step, row: &RequestRecord) -> Option<u64> {
    let samples = step
        .tcp()
        .filter(|(sample, _)| Some(sample.connection) == row.connection);
    let windows = samples.filter_map(|(_, info)| info.get("tcpi_rcv_wnd"));
    windows.filter(|bytes| *bytes > 0).max()
}

/// WINDOW_UPDATE frames that this client sent less than a round trip ago: no data that they allow can have arrived yet.
#[derive(Debug)]
struct RecentUpdates {
    round_trip: Duration,
    /// When each was sent, its stream (0: the connection) and its increment.
    updates: VecDeque<(Time, u64, i64)>,
}

impl RecentUpdates {
    fn sent(&mut self, time: Time, frame: &FrameFacts) {
        let is_update = frame.layer == FrameLayer::Http2 && frame.kind == WINDOW_UPDATE;
        let (Some(stream), Some(bytes)) = (frame.stream.filter(|_| is_update), frame.value) else {
            return;
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.updates.push_back((time, stream, bytes));
    }

    /// Whether a server that has not received these updates has used up a window. `left` is the rest of the window
    /// after the updates.
    fn is_used_up(&mut self, time: Time, stream: u64, left: Option<i64>) -> bool {
        let round_trip = self.round_trip;
        while let Some((sent, ..)) = self.updates.front()
            && *sent + round_trip <= time
        {
            self.updates.pop_front();
        }
        let of_window = self.updates.iter().filter(|(_, of, _)| *of == stream);
        let unknown = of_window.fold(0_i64, |sum, (.., bytes)| sum.saturating_add(*bytes));
        left.is_some_and(|left| left <= unknown)
    }
}

/// The spans from when the server had used up this client's HTTP/2 window, or a QUIC server reported that a limit was used up,
/// until data came again.
fn blocked(frames: &[FrameRecord], row: &RequestRecord, round_trip: Duration) -> Vec<(Time, Time)> {
    let mut spans = Vec::new();
    let mut since = None;
    let mut recent = RecentUpdates {
        round_trip,
        updates: VecDeque::new(),
    };
    let own = frames
        .iter()
        .filter(|record| Some(record.connection) == row.connection);
    for record in own {
        let (time, frame) = (record.time, &record.frame);
        if frame.way == Way::Sent {
            recent.sent(time, frame);
            continue;
        }
        let is_of_stream = frame.stream == row.stream;
        let is_data = match frame.layer {
            FrameLayer::Http2 => frame.kind == DATA,
            FrameLayer::Quic => STREAM.contains(&frame.kind) && is_of_stream,
            FrameLayer::Http3 => false,
        };
        if is_data {
            spans.extend(since.take().map(|since| (since, time)));
        }
        let is_blocked = match (frame.layer, frame.stream) {
            (FrameLayer::Http2, Some(stream)) => {
                is_data
                    && (recent.is_used_up(time, 0, frame.connection_window)
                        || (is_of_stream && recent.is_used_up(time, stream, frame.stream_window)))
            }
            (FrameLayer::Quic, _) => {
                frame.kind == DATA_BLOCKED || (frame.kind == STREAM_DATA_BLOCKED && is_of_stream)
            }
            _ => false,
        };
        if is_blocked {
            since.get_or_insert(time);
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Version;

    use super::super::made::{at_us, download, facts, frame, ms, request, step, tcp_at};
    use super::super::observed::{Piece, StepKind};
    use super::*;

    const ROUND_TRIP: Duration = ms(30);
    /// The request was sent at 1 ms and the first byte comes a round trip later.
    const FIRST_US: u64 = 31_000;

    /// A download in flights, each of which arrives as a whole: how many ms after the first byte, and its bytes.
    fn flights(of: &[(u64, u64)]) -> Step {
        let mut made = step(StepKind::Download, Version::Http2);
        made.requests.push(request(0, 1_000, FIRST_US - 1_000));
        for (after_ms, bytes) in of {
            made.pieces.push(Piece {
                time: at_us(FIRST_US + 1_000 * after_ms),
                connection: 0,
                stream: 0,
                bytes: *bytes,
            });
        }
        made
    }

    fn of(made: &Step) -> DownloadTime {
        DownloadTime::of(made, Some(ROUND_TRIP)).expect("a download")
    }

    #[test]
    fn flights_that_double_are_slow_start() {
        let made = flights(&[
            (1, 14_000),
            (31, 28_000),
            (61, 56_000),
            (91, 112_000),
            (121, 224_000),
        ]);
        let time = of(&made);
        assert_eq!(time.round_trip, ROUND_TRIP);
        assert_eq!(time.answer, Duration::ZERO);
        assert_eq!(time.took, ms(151));
        // The last flight is the largest: slow start is over, and a full window caused the pause before it.
        assert_eq!(time.slow_start, ms(91));
        assert_eq!(time.congestion_window, ms(30));
    }

    #[test]
    fn equal_flights_with_pauses_are_a_congestion_window() {
        let made = flights(&[(0, 60_000), (30, 60_000), (60, 60_000), (90, 60_000)]);
        let time = of(&made);
        assert_eq!(time.congestion_window, ms(90));
        assert_eq!(time.slow_start, Duration::ZERO);
    }

    #[test]
    fn pause_of_several_round_trips_is_not_a_congestion_window() {
        let made = flights(&[(0, 60_000), (5, 60_000), (205, 60_000)]);
        let time = of(&made);
        assert_eq!(time.pauses, ms(200));
        assert_eq!(time.unpaused, ms(5));
    }

    #[test]
    fn bytes_without_a_pause_come_at_the_rate_of_the_link_or_the_server() {
        let steady: Vec<(u64, u64)> = (0..200).map(|n| (2 * n, 5_000)).collect();
        let time = of(&flights(&steady));
        assert_eq!(time.unpaused, ms(398));
        assert_eq!(time.took, ms(428));
    }

    #[test]
    fn time_to_the_first_byte_is_split_into_the_round_trip_and_the_servers_part() {
        let mut made = flights(&[(200, 100_000)]);
        made.requests[0].answered_first = Some(at_us(FIRST_US + 200_000));
        let time = of(&made);
        assert_eq!((time.answer, time.round_trip), (ms(200), ROUND_TRIP));
    }

    /// The client's own window of 64 KiB causes pauses that look like those of a congestion window.
    #[test]
    fn pauses_caused_by_the_clients_window_are_not_blamed_on_the_server() {
        let mut made = flights(&[(0, 65_536), (30, 65_536), (60, 65_536)]);
        for (after_us, left) in [(0, 0), (30_000, 0), (60_000, 65_536)] {
            let mut data = facts(Way::Received, DATA, 0);
            data.stream_window = Some(left);
            data.connection_window = Some(1 << 20);
            made.frames.push(frame(FIRST_US + after_us, data));
        }
        let time = of(&made);
        assert_eq!(time.client_window, ms(60));
        assert_eq!(time.congestion_window, Duration::ZERO);
        assert_eq!(time.own(), ms(60));
    }

    /// A client that gives back half of its window at a time never sees all of it used up, although the server does.
    #[test]
    fn client_window_used_up_before_its_update_arrives_is_recognised() {
        const HALF: i64 = 32_768;
        let mut made = flights(&[(0, 65_536), (30, 65_536), (60, 65_536)]);
        made.requests[0].stream = Some(1);
        for flight in 0..3 {
            for half in 0..2 {
                let time_us = FIRST_US + 30_000 * flight + 2 * half;
                let mut data = facts(Way::Received, DATA, 1);
                data.stream_window = Some(HALF);
                data.connection_window = Some(1 << 20);
                made.frames.push(frame(time_us, data));
                let mut update = facts(Way::Sent, WINDOW_UPDATE, 1);
                update.value = Some(HALF.unsigned_abs());
                update.stream_window = Some(2 * HALF);
                made.frames.push(frame(time_us + 1, update));
            }
        }
        let time = of(&made);
        assert_eq!(time.client_window, ms(60));
        assert_eq!(time.congestion_window, Duration::ZERO);
        // With larger windows, the server could send the next flight before the updates reach it.
        for record in &mut made.frames {
            let window = &mut record.frame.stream_window;
            *window = window.map(|left| left + 4 * HALF);
        }
        assert_eq!(of(&made).client_window, Duration::ZERO);
    }

    #[test]
    fn receive_window_of_this_machine_is_not_taken_for_the_servers_congestion_window() {
        let mut made = flights(&[(0, 60_000), (30, 60_000), (60, 60_000)]);
        made.sockets
            .push(tcp_at(40_000, &[("tcpi_rcv_wnd", 64_000)]));
        assert_eq!(of(&made).receive_window, ms(60));
        let mut made = flights(&[(0, 60_000), (30, 60_000), (60, 60_000)]);
        made.sockets
            .push(tcp_at(40_000, &[("tcpi_rcv_wnd", 6_000_000)]));
        assert_eq!(of(&made).receive_window, Duration::ZERO);
    }

    /// Between processes on one machine, pauses are those of programs.
    #[test]
    fn pauses_at_a_very_short_round_trip_are_not_interpreted() {
        let made = download(StepKind::Download, Version::Http1, 1_000_000, ms(50));
        let near = DownloadTime::of(&made, Some(Duration::from_micros(60))).expect("a download");
        assert_eq!(near.slow_start + near.congestion_window, Duration::ZERO);
        assert_eq!(near.pauses, Duration::ZERO);
    }
}
