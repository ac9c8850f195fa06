//! What the tables of frames and sockets add to a chosen request and its connections: frames, HTTP/2's windows, samples of
//! the sender.
//!
//! Rows come one by one, in the order of their tables. Only those of the chosen connections are kept, and only those of the
//! chosen times; `life` condenses the others. Nothing is derived from them here.

use std::collections::BTreeMap;

use squall_base::record::{
    Direction, FrameFacts, FrameLayer, FrameRecord, Side, SocketRecord, SocketSample, Way,
};
use squall_base::{Duration, Time};

use super::life::LifeRows;
use super::sender::{SenderRows, SenderSample, WindowLevel};
use crate::causes::{ConnectionTrace, Course, TraceWindow};
use crate::explain::Explanation;
use crate::thinned::Thinned;
use crate::wire::has_own_windows;
use crate::wire::http2::DATA;

/// How many frames of a request, window levels and samples are kept at most.
const FRAMES_KEPT: usize = 400;
const LEVELS_KEPT: usize = 1_500;
const SAMPLES_KEPT: usize = 600;

/// A frame of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTick {
    /// When the socket had taken it, or when its header was read.
    pub at: Time,
    /// The hop, from 1 at the client.
    pub hop: u8,
    /// The side that recorded it.
    pub side: Side,
    /// Whether that side sent or received it.
    pub way: Way,
    /// Its layer.
    pub layer: FrameLayer,
    /// Its type.
    pub kind: u64,
    /// Bytes of its payload.
    pub length: u64,
}

/// What the sides' records add to a connection: for each of its windows, and for its whole life, by direction.
pub(super) type ConnectionSenders = (Vec<[SenderRows; 2]>, [SenderRows; 2]);

/// A side of a connection: hop, side, and that side's number for the connection.
type SideKey = (u8, Side, u32);

/// The rows of one side within the windows of its connection, and over its life if that is shown.
#[derive(Debug)]
struct SideRows {
    /// The connection, by its position.
    connection: usize,
    levels: Vec<WindowLevel>,
    samples: Vec<SenderSample>,
    life: Option<LifeRows>,
}

/// The chosen request on a stream: its position, and its time.
type OwnStream = (usize, Time, Time);

#[derive(Debug)]
pub(super) struct RowCollector {
    sides: BTreeMap<SideKey, SideRows>,
    /// Requests by side and stream.
    streams: BTreeMap<(SideKey, u64), OwnStream>,
    frames: Vec<Vec<FrameTick>>,
}

impl RowCollector {
    pub(super) fn new(requests: &[Explanation], connections: &[ConnectionTrace]) -> RowCollector {
        let mut sides = BTreeMap::new();
        for (place, it) in connections.iter().enumerate() {
            let both = [
                (Side::Client, Some(it.connection)),
                (Side::Server, it.server),
            ];
            for (side, number) in both {
                let rows = SideRows {
                    connection: place,
                    levels: Vec::new(),
                    samples: Vec::new(),
                    life: it.life.as_ref().map(LifeRows::of),
                };
                sides.extend(number.map(|number| ((it.hop, side, number), rows)));
            }
        }
        let mut streams = BTreeMap::new();
        for (place, it) in requests.iter().enumerate() {
            for (key, stream) in streams_of(it) {
                streams.insert((key, stream), (place, it.intended, it.end));
            }
        }
        RowCollector {
            sides,
            streams,
            frames: vec![Vec::new(); requests.len()],
        }
    }

    pub(super) fn add_frame(&mut self, row: &FrameRecord, connections: &[ConnectionTrace]) {
        let key = (row.hop, row.side, row.connection);
        let frame = &row.frame;
        if let Some(stream) = frame.stream
            && let Some((place, from, to)) = self.streams.get(&(key, stream))
            && (*from..=*to).contains(&row.time)
        {
            self.frames[*place].push(FrameTick {
                at: row.time,
                hop: row.hop,
                side: row.side,
                way: frame.way,
                layer: frame.layer,
                kind: frame.kind,
                length: frame.length,
            });
        }
        if !has_own_windows(frame) {
            return;
        }
        let Some(side) = self.sides.get_mut(&key) else {
            return;
        };
        side.add_to_life(row.time, frame);
        let Some(window) = window_at(&connections[side.connection], row.time) else {
            return;
        };
        let mut own = window.requests.iter();
        let is_own = own.any(|it| it.stream.is_some() && it.stream == frame.stream);
        let of_stream = frame.stream_window.filter(|_| is_own);
        for (stream, left) in [(None, frame.connection_window), (frame.stream, of_stream)] {
            let at = row.time;
            side.levels
                .extend(left.map(|bytes| WindowLevel { at, stream, bytes }));
        }
    }

    pub(super) fn add_socket(&mut self, row: &SocketRecord, connections: &[ConnectionTrace]) {
        let Some(side) = self.sides.get_mut(&(row.hop, row.side, row.connection)) else {
            return;
        };
        let sample = sample(row);
        if let Some(life) = &mut side.life {
            life.add_sample(sample);
        }
        if window_at(&connections[side.connection], row.time).is_some() {
            side.samples.push(sample);
        }
    }

    /// The frames of each request, and for each connection the rows of its windows and of its life, by direction.
    pub(super) fn finish(
        self,
        connections: &[ConnectionTrace],
    ) -> (Vec<Thinned<FrameTick>>, Vec<ConnectionSenders>) {
        let frames = self.frames.into_iter().map(|mut frames| {
            frames.sort_by_key(|frame| frame.at);
            Thinned::of(frames, FRAMES_KEPT, |frame| {
                frame.layer == FrameLayer::Http2 && frame.kind != DATA
            })
        });
        let senders = connections.iter().map(|it| {
            let sides = Direction::ALL.map(|direction| {
                let side = direction.sender();
                let number = match side {
                    Side::Client => Some(it.connection),
                    Side::Server => it.server,
                };
                number.and_then(|number| self.sides.get(&(it.hop, side, number)))
            });
            let rows = |window: &TraceWindow| {
                sides.map(|side| side.map_or_else(SenderRows::default, |rows| rows.within(window)))
            };
            let of_life = |side: &SideRows| side.life.as_ref().map(LifeRows::rows);
            let life = sides.map(|side| side.and_then(of_life).unwrap_or_default());
            (it.windows.iter().map(rows).collect(), life)
        });
        (frames.collect(), senders.collect())
    }
}

impl SideRows {
    /// Takes the windows of a frame, of the connection and of any stream, for its connection's life.
    fn add_to_life(&mut self, at: Time, frame: &FrameFacts) {
        let Some(life) = &mut self.life else {
            return;
        };
        if let Some(bytes) = frame.connection_window {
            let stream = None;
            life.add_level(WindowLevel { at, stream, bytes });
        }
        if let (Some(_), Some(bytes)) = (frame.stream, frame.stream_window) {
            let stream = frame.stream;
            life.add_level(WindowLevel { at, stream, bytes });
        }
    }

    fn within(&self, window: &TraceWindow) -> SenderRows {
        let is_within = |at: Time| (window.from..=window.to).contains(&at);
        let levels = self.levels.iter().copied();
        let mut levels: Vec<WindowLevel> = levels.filter(|level| is_within(level.at)).collect();
        levels.sort_by_key(|level| level.at);
        let samples = self.samples.iter().copied();
        let mut samples: Vec<SenderSample> =
            samples.filter(|sample| is_within(sample.at)).collect();
        samples.sort_by_key(|sample| sample.at);
        SenderRows {
            levels: Thinned::of(levels, LEVELS_KEPT, |level| level.bytes <= 0),
            samples: Thinned::of(samples, SAMPLES_KEPT, |_| false),
        }
    }
}

/// The window of a connection that contains this moment.
fn window_at(connection: &ConnectionTrace, at: Time) -> Option<&TraceWindow> {
    let mut windows = connection.windows.iter();
    windows.find(|window| (window.from..=window.to).contains(&at))
}

/// Where the frames of a request are: on which side of which connection, and on which stream.
fn streams_of(it: &Explanation) -> Vec<(SideKey, u64)> {
    let course: &Course = &it.course;
    let mut found = Vec::new();
    let mut add = |hop: u8, client: Option<u32>, server: Option<u32>, stream: Option<u64>| {
        let both = [(Side::Client, client), (Side::Server, server)];
        for (side, number) in both {
            let own = number.zip(stream);
            found.extend(own.map(|(number, stream)| ((hop, side, number), stream)));
        }
    };
    if course.hops.is_empty() {
        add(1, it.connection, it.server_connection, it.stream);
    }
    for hop in &course.hops {
        let server = hop.server.and_then(|server| server.connection);
        add(hop.hop, hop.connection, server, hop.stream);
    }
    found
}

fn sample(row: &SocketRecord) -> SenderSample {
    match &row.sample {
        SocketSample::Tcp(info) => {
            let segments = info.get("tcpi_snd_cwnd").zip(info.get("tcpi_snd_mss"));
            SenderSample {
                at: row.time,
                cwnd_bytes: segments.map(|(count, size)| count.saturating_mul(size)),
                rtt: info.get("tcpi_rtt").map(Duration::from_micros),
            }
        }
        SocketSample::Quic(path) => SenderSample {
            at: row.time,
            cwnd_bytes: Some(path.cwnd_bytes),
            rtt: Some(path.rtt),
        },
    }
}
