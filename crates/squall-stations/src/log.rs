//! What a station records in addition to requests: exchanges, frames, samples of sockets, and TLS secrets.
//!
//! Rows are collected in chunks and sent to another thread. A dropped receiver means that the trial has failed, which
//! is reported elsewhere. A table that is not wanted costs one comparison.

use std::os::fd::AsFd;
use std::sync::mpsc::Sender;

use squall_base::record::{
    ExchangeRecord, FrameFacts, FrameLayer, FrameRecord, QuicPath, Side, SideCounts, SocketRecord,
    SocketSample, TcpInfo, Way,
};
use squall_base::{Duration, Time};
use squall_http::tls::HandshakeOutcome;
use squall_http::{Http2Announcements, h3, trace};
use squall_linux::clock;
use squall_linux::tcp_info::{TCP_INFO_BYTES, tcp_info};
use squall_linux::udp::UdpSocket;

use crate::rows::{ROWS_A_CHUNK, RowSender};

/// A client's rows are sent at least this often while there are any, so that those of a slow load are written soon.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Frame types below this are counted in an array and get their names at the end. Covers all of HTTP/2.
const USUAL_KINDS: usize = 0x11;

/// Where a station's rows go; `None` for a table that is not wanted.
#[derive(Clone, Debug)]
pub struct LogSinks {
    /// The hop of the path that the rows belong to, counted from 1 at the client.
    pub hop: u8,
    /// Exchanges.
    pub exchanges: Option<RowSender<ExchangeRecord>>,
    /// Frames.
    pub frames: Option<RowSender<FrameRecord>>,
    /// Samples of sockets.
    pub sockets: Option<RowSender<SocketRecord>>,
    /// Lines of the TLS key log.
    pub key_log: Option<Sender<Vec<String>>>,
}

/// For the first hop, without any table.
impl Default for LogSinks {
    fn default() -> LogSinks {
        LogSinks {
            hop: 1,
            exchanges: None,
            frames: None,
            sockets: None,
            key_log: None,
        }
    }
}

/// Rows that are collected for sending.
#[derive(Debug)]
struct Rows<T> {
    chunk: Vec<T>,
    sink: Option<RowSender<T>>,
}

impl<T> Rows<T> {
    fn new(sink: Option<RowSender<T>>) -> Rows<T> {
        Rows {
            chunk: Vec::new(),
            sink,
        }
    }

    fn push(&mut self, row: T) {
        if self.sink.is_some() {
            self.chunk.push(row);
            if self.chunk.len() >= ROWS_A_CHUNK {
                self.flush();
            }
        }
    }

    /// How many more rows the chunk takes: at least one.
    fn room(&self) -> usize {
        ROWS_A_CHUNK.saturating_sub(self.chunk.len()).max(1)
    }

    /// Appends rows; the caller keeps to [`Rows::room`].
    fn extend(&mut self, rows: impl Iterator<Item = T>) {
        self.chunk.extend(rows);
        if self.chunk.len() >= ROWS_A_CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(sink) = &self.sink {
            sink.send(&mut self.chunk);
        }
    }
}

/// The log of one side.
#[derive(Debug)]
pub(crate) struct StationLog {
    hop: u8,
    side: Side,
    exchanges: Rows<ExchangeRecord>,
    frames: Rows<FrameRecord>,
    sockets: Rows<SocketRecord>,
    key_log: Option<Sender<Vec<String>>>,
    /// When rows were last sent because it was time.
    last_flush: Time,
    /// Frames of usual types, by way, layer and type, that are not yet in `counts`.
    usual_frames: [[[u64; USUAL_KINDS]; FrameLayer::ALL.len()]; Way::ALL.len()],
    pub(crate) counts: SideCounts,
}

impl StationLog {
    pub(crate) fn new(side: Side, sinks: LogSinks) -> StationLog {
        StationLog {
            hop: sinks.hop,
            side,
            exchanges: Rows::new(sinks.exchanges),
            frames: Rows::new(sinks.frames),
            sockets: Rows::new(sinks.sockets),
            key_log: sinks.key_log,
            last_flush: Time::ZERO,
            usual_frames: Default::default(),
            counts: SideCounts::default(),
        }
    }

    /// The hop that the log belongs to.
    pub(crate) fn hop(&self) -> u8 {
        self.hop
    }

    pub(crate) fn wants_frames(&self) -> bool {
        self.frames.sink.is_some()
    }

    pub(crate) fn wants_exchanges(&self) -> bool {
        self.exchanges.sink.is_some()
    }

    pub(crate) fn wants_sockets(&self) -> bool {
        self.sockets.sink.is_some()
    }

    pub(crate) fn record_exchange(&mut self, row: ExchangeRecord) {
        self.exchanges.push(row);
    }

    pub(crate) fn record_keys(&mut self, lines: Vec<String>) {
        if let Some(sink) = &self.key_log
            && !lines.is_empty()
        {
            let _ = sink.send(lines);
        }
    }

    /// Counts the frames of one read or write, and records them with their time.
    pub(crate) fn record_frames(&mut self, connection: u32, time: Time, frames: &[FrameFacts]) {
        for frame in frames {
            self.count(frame);
        }
        if self.frames.sink.is_none() {
            return;
        }
        let (hop, side) = (self.hop, self.side);
        let mut rest = frames;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.frames.room()));
            self.frames.extend(now.iter().map(|&frame| FrameRecord {
                time,
                hop,
                side,
                connection,
                frame,
            }));
            rest = later;
        }
    }

    fn count(&mut self, frame: &FrameFacts) {
        let usual = &mut self.usual_frames[frame.way as usize][frame.layer as usize];
        match usual.get_mut(usize::try_from(frame.kind).unwrap_or(usize::MAX)) {
            Some(count) => *count += 1,
            None => (self.counts).count_frames(frame.way, frame.layer, frame.kind, 1),
        }
    }

    /// Sends the rows that have been collected, if that was last done a while ago.
    pub(crate) fn flush_if_due(&mut self, now: Time) {
        if now.since(self.last_flush) >= FLUSH_EVERY {
            self.flush_rows();
            self.last_flush = now;
        }
    }

    fn flush_rows(&mut self) {
        self.exchanges.flush();
        self.frames.flush();
        self.sockets.flush();
    }

    /// Sends what has been collected, at the end.
    pub(crate) fn flush(&mut self) {
        self.flush_rows();
        for way in Way::ALL {
            for layer in FrameLayer::ALL {
                let usual = std::mem::take(&mut self.usual_frames[way as usize][layer as usize]);
                for (kind, count) in (0..).zip(usual) {
                    self.counts.count_frames(way, layer, kind, count);
                }
            }
        }
    }
}

impl StationLog {
    /// Samples a TCP socket, unless the kernel no longer knows it.
    pub(crate) fn sample_tcp(&mut self, connection: u32, is_last: bool, socket: impl AsFd) {
        let time = clock::now();
        let mut buffer = [0; TCP_INFO_BYTES];
        if let Ok(bytes) = tcp_info(socket, &mut buffer) {
            self.sockets.push(SocketRecord {
                time,
                hop: self.hop,
                side: self.side,
                connection,
                is_last,
                sample: SocketSample::Tcp(TcpInfo::from_bytes(bytes)),
            });
        }
    }
}

impl StationLog {
    /// Records what quiche counts for a connection and its path, and what the kernel counts for its socket.
    pub(crate) fn sample_quic(
        &mut self,
        connection: u32,
        is_last: bool,
        mut path: QuicPath,
        socket: &UdpSocket,
    ) {
        let Ok(drops) = socket.receive_drops() else {
            return;
        };
        path.socket_drops = drops;
        self.sockets.push(SocketRecord {
            time: clock::now(),
            hop: self.hop,
            side: self.side,
            connection,
            is_last,
            sample: SocketSample::Quic(path),
        });
    }
}

/// Counts a completed TLS handshake.
pub(crate) fn count_tls(secured: &HandshakeOutcome, counts: &mut SideCounts) {
    counts.count_handshake(secured.is_resumed, secured.alpn.as_deref());
    let name = format!("{} {}", secured.version, secured.cipher);
    *counts.ciphers.entry(name).or_default() += 1;
    if let Some(group) = secured.group {
        *counts.groups.entry(group.to_owned()).or_default() += 1;
    }
}

/// Counts the settings, GOAWAYs and resets of both sides of an HTTP/2 connection.
pub(crate) fn count_settings(announced: Option<Http2Announcements<'_>>, counts: &mut SideCounts) {
    let Some(Http2Announcements {
        sent,
        received,
        endings,
        ..
    }) = announced
    else {
        return;
    };
    counts.endings.add(endings);
    let word =
        |&(id, value): &(u16, u32)| setting_text(trace::setting_name(id), id.into(), value.into());
    count_setting_texts(sent, received, word, counts);
}

/// Counts the settings, GOAWAYs and resets of both sides of an HTTP/3 connection. If no SETTINGS could be sent, the
/// connection never spoke HTTP/3.
pub(crate) fn count_http3_settings(announced: &h3::Announcements, counts: &mut SideCounts) {
    counts.endings.add(announced.endings);
    if !announced.sent.is_empty() {
        let word = |&(id, value): &(u64, u64)| setting_text(h3::setting_name(id), id, value);
        count_setting_texts(&announced.sent, &announced.received, word, counts);
    }
}

/// Counts the settings of both sides, one entry per side.
fn count_setting_texts<Setting>(
    sent: &[Setting],
    received: &[Setting],
    word: impl Fn(&Setting) -> String,
    counts: &mut SideCounts,
) {
    for (settings, of) in [
        (sent, &mut counts.settings_sent),
        (received, &mut counts.settings_received),
    ] {
        let words: Vec<String> = settings.iter().map(&word).collect();
        *of.entry(words.join(" ")).or_default() += 1;
    }
}

/// For example `SETTINGS_MAX_CONCURRENT_STREAMS=100`.
fn setting_text(name: Option<&str>, id: u64, value: u64) -> String {
    match name {
        Some(name) => format!("{name}={value}"),
        None => format!("{id:#x}={value}"),
    }
}
