//! Why a client's sending was delayed, as far as its kernel and its frames show: TCP's own accounting at the end of
//! each connection, quiche's, and how long request bodies waited for HTTP/2 windows.
//!
//! Nothing is inferred: where the kernel lacks a number, or a window is unknown, nothing is counted. Only the server knows
//! what delayed its responses.

use squall_base::record::{FrameFacts, FrameLayer, QuicPath, TcpInfo, Way};
use squall_base::{Duration, Time};
use squall_http::Streams;

use crate::dial::Transport;

/// Frame types (RFC 9113, section 6).
const DATA: u64 = 0x0;
const RST_STREAM: u64 = 0x3;
const SETTINGS: u64 = 0x4;
const WINDOW_UPDATE: u64 = 0x8;
/// Flag of a SETTINGS frame.
const FLAG_ACK: u8 = 0x1;

/// Sums over all connections of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// TCP.
    pub tcp: TcpCauses,
    /// QUIC.
    pub quic: QuicCauses,
    /// HTTP/2 flow control.
    pub windows: WindowCauses,
}

/// TCP connections whose kernel reports `tcpi_busy_time` and the fields added with it (Linux 4.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCauses {
    /// Number of connections.
    pub connections: u64,
    /// Total time that they were open.
    pub open: Duration,
    /// Time with data that was unsent or unacknowledged (`tcpi_busy_time`).
    pub busy: Duration,
    /// Part of `busy` limited by the receiver's window (`tcpi_rwnd_limited`).
    pub receive_window: Duration,
    /// Part of `busy` limited by the local send buffer (`tcpi_sndbuf_limited`).
    pub send_buffer: Duration,
    /// Data segments sent (`tcpi_data_segs_out`), including retransmissions.
    pub segments: u64,
    /// Segments retransmitted (`tcpi_total_retrans`).
    pub retransmitted: u64,
}

/// QUIC connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicCauses {
    /// Number of connections.
    pub connections: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that quiche declared lost.
    pub lost: u64,
}

/// Request bodies over HTTP/2. Each duration is summed over the bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCauses {
    /// Bodies whose sending began.
    pub bodies: u64,
    /// From handing a body to the connection until its last byte was written or it was cancelled.
    pub sending: Duration,
    /// Part of `sending` during which the stream's window was exhausted.
    pub stream: Duration,
    /// Part of `sending` during which only the connection's window was exhausted.
    pub connection: Duration,
}

impl Causes {
    /// Adds the totals of a connection that has ended after being open for `open`.
    pub(super) fn add_connection(&mut self, transport: &Transport, open: Duration) {
        match transport {
            Transport::Tcp(tcp) => {
                if let Some(info) = tcp.info() {
                    self.add_tcp(&info, open);
                }
            }
            Transport::Quic(quic) => self.add_quic(&quic.engine.path()),
        }
    }

    /// Adds the totals of a TCP connection that was open for `open`.
    fn add_tcp(&mut self, info: &TcpInfo, open: Duration) {
        let micros = |name| info.get(name).map(Duration::from_micros);
        let Some(busy) = micros("tcpi_busy_time") else {
            return;
        };
        let tcp = &mut self.tcp;
        tcp.connections += 1;
        tcp.open = tcp.open + open;
        tcp.busy = tcp.busy + busy;
        tcp.receive_window = tcp.receive_window + micros("tcpi_rwnd_limited").unwrap_or_default();
        tcp.send_buffer = tcp.send_buffer + micros("tcpi_sndbuf_limited").unwrap_or_default();
        tcp.segments += info.get("tcpi_data_segs_out").unwrap_or_default();
        tcp.retransmitted += info.get("tcpi_total_retrans").unwrap_or_default();
    }

    /// Adds the totals of a QUIC connection.
    fn add_quic(&mut self, path: &QuicPath) {
        self.quic.connections += 1;
        self.quic.packets += path.sent;
        self.quic.lost += path.lost;
    }

    /// Adds how long a connection's windows delayed its bodies.
    pub(super) fn add_windows(&mut self, of: &WindowCauses) {
        self.windows.bodies += of.bodies;
        self.windows.sending = self.windows.sending + of.sending;
        self.windows.stream = self.windows.stream + of.stream;
        self.windows.connection = self.windows.connection + of.connection;
    }
}

/// The flow-control windows of one HTTP/2 connection, and the bodies that are being sent over it.
#[derive(Debug, Default)]
pub(super) struct WindowWatch {
    bodies: Streams<u64, WatchedBody>,
    /// How many of the bodies have an exhausted stream window.
    blocked: u64,
    /// What the connection's window still allows, once known.
    connection: Option<i64>,
    /// Time up to which `sums` is complete.
    counted_until: Time,
    sums: WindowCauses,
}

#[derive(Debug)]
struct WatchedBody {
    unsent_bytes: u64,
    /// What the stream's window still allows, while known.
    window: Option<i64>,
}

impl WindowWatch {
    /// Begins a body of this length.
    pub(super) fn begin(&mut self, stream: u64, bytes: u64, now: Time) {
        if bytes > 0 {
            self.count_until(now);
            self.end_body(stream);
            self.sums.bodies += 1;
            let body = WatchedBody {
                unsent_bytes: bytes,
                window: None,
            };
            self.bodies.insert(stream, body);
        }
    }

    /// Accounts for frames that were read or written by `now`.
    pub(super) fn record_frames(&mut self, frames: &[FrameFacts], now: Time) {
        if self.bodies.is_empty() && self.connection.is_none() {
            return;
        }
        self.count_until(now);
        for frame in frames
            .iter()
            .filter(|frame| frame.layer == FrameLayer::Http2)
        {
            self.record_frame(frame);
        }
    }

    fn record_frame(&mut self, frame: &FrameFacts) {
        let stream = frame.stream.unwrap_or_default();
        match (frame.way, frame.kind) {
            (Way::Sent, DATA) => {
                self.connection = frame.connection_window.or(self.connection);
                self.set_window(stream, frame.stream_window);
                if let Some(body) = self.bodies.find(stream) {
                    body.unsent_bytes = body.unsent_bytes.saturating_sub(frame.length);
                    if body.unsent_bytes == 0 {
                        self.end_body(stream);
                    }
                }
            }
            (Way::Received, WINDOW_UPDATE) => {
                self.connection = frame.connection_window.or(self.connection);
                self.set_window(stream, frame.stream_window);
            }
            // SETTINGS may change every stream's window; the stream's next DATA frame shows the new one.
            (Way::Received, SETTINGS) if frame.flags & FLAG_ACK == 0 => {
                self.bodies.values_mut().for_each(|body| body.window = None);
                self.blocked = 0;
            }
            (_, RST_STREAM) => self.end_body(stream),
            _ => {}
        }
    }

    /// Sets the window of a body's stream.
    fn set_window(&mut self, stream: u64, window: Option<i64>) {
        if let Some(body) = self.bodies.find(stream) {
            let before = std::mem::replace(&mut body.window, window);
            self.blocked -= u64::from(is_exhausted(before));
            self.blocked += u64::from(is_exhausted(window));
        }
    }

    fn end_body(&mut self, stream: u64) {
        if let Some(body) = self.bodies.remove(stream) {
            self.blocked -= u64::from(is_exhausted(body.window));
        }
    }

    /// Counts the time up to `now`, during which nothing changed.
    fn count_until(&mut self, now: Time) {
        let span = now.since(self.counted_until);
        self.counted_until = self.counted_until.max(now);
        let each = |bodies: u64| Duration::from_nanos(span.as_nanos().saturating_mul(bodies));
        let (bodies, sums) = (self.bodies.len() as u64, &mut self.sums);
        sums.sending = sums.sending + each(bodies);
        sums.stream = sums.stream + each(self.blocked);
        if is_exhausted(self.connection) {
            sums.connection = sums.connection + each(bodies - self.blocked);
        }
    }

    /// Ends the measurement, with the connection, and returns the sums.
    pub(super) fn end(mut self, now: Time) -> WindowCauses {
        self.count_until(now);
        self.sums
    }
}

fn is_exhausted(window: Option<i64>) -> bool {
    window.is_some_and(|window| window <= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn frame(way: Way, kind: u64, stream: u64, windows: (Option<i64>, i64)) -> FrameFacts {
        let length = if kind == DATA { 100 } else { 4 };
        FrameFacts {
            stream: Some(stream),
            stream_window: windows.0,
            connection_window: Some(windows.1),
            ..FrameFacts::new(way, FrameLayer::Http2, kind, length)
        }
    }

    fn sent(stream: u64, windows: (i64, i64)) -> FrameFacts {
        frame(Way::Sent, DATA, stream, (Some(windows.0), windows.1))
    }

    fn ms(span: Duration) -> u64 {
        span.as_nanos() / 1_000_000
    }

    #[test]
    fn time_at_an_exhausted_window_is_counted_for_each_body() {
        let mut watch = WindowWatch::default();
        watch.begin(1, 200, at(10));
        watch.begin(3, 300, at(10));
        // The first stream's window is exhausted from 20 to 50.
        watch.record_frames(&[sent(1, (0, 900))], at(20));
        watch.record_frames(&[sent(3, (500, 800))], at(30));
        let update = frame(Way::Received, WINDOW_UPDATE, 1, (Some(100), 800));
        watch.record_frames(&[update], at(50));
        // The first body is complete at 60; then the connection's window is exhausted until 90.
        watch.record_frames(&[sent(1, (0, 700))], at(60));
        watch.record_frames(&[sent(3, (400, 0))], at(70));
        let update = frame(Way::Received, WINDOW_UPDATE, 0, (None, 100));
        watch.record_frames(&[update], at(90));
        watch.record_frames(&[sent(3, (300, 0))], at(95));
        let sums = watch.end(at(1_000));
        assert_eq!(sums.bodies, 2);
        assert_eq!(ms(sums.stream), 30);
        assert_eq!(ms(sums.connection), 20);
        assert_eq!(ms(sums.sending), 50 + 85);
    }

    #[test]
    fn unknown_windows_and_ended_bodies_are_not_counted() {
        let mut watch = WindowWatch::default();
        watch.begin(1, 1_000, at(0));
        watch.begin(3, 0, at(0));
        watch.record_frames(&[sent(1, (0, 0))], at(10));
        // After SETTINGS, a stream's window is unknown until its next DATA frame. The connection's window never changes
        // with SETTINGS.
        let settings = FrameFacts {
            connection_window: None,
            ..frame(Way::Received, SETTINGS, 0, (None, 0))
        };
        watch.record_frames(&[settings], at(30));
        watch.record_frames(&[frame(Way::Received, RST_STREAM, 1, (None, 0))], at(40));
        let sums = watch.end(at(100));
        assert_eq!(
            (ms(sums.stream), ms(sums.connection), ms(sums.sending)),
            (20, 10, 40)
        );
        assert_eq!(sums.bodies, 1);
    }

    #[test]
    fn cancelled_body_stops_waiting() {
        let mut watch = WindowWatch::default();
        watch.begin(1, 200, at(0));
        watch.begin(3, 200, at(0));
        // From 10 on, both windows of the first body are exhausted, and the connection's window holds up the second
        // body too.
        watch.record_frames(&[sent(1, (0, 0))], at(10));
        watch.record_frames(&[frame(Way::Sent, RST_STREAM, 1, (None, 0))], at(30));
        let sums = watch.end(at(50));
        assert_eq!(
            (ms(sums.stream), ms(sums.connection), ms(sums.sending)),
            (20, 40, 80)
        );
    }

    #[test]
    fn connections_are_not_counted_if_the_kernel_reports_no_busy_time() {
        let mut causes = Causes::default();
        causes.add_tcp(&TcpInfo::from_bytes(&[0; 104]), Duration::from_secs(1));
        assert_eq!(causes, Causes::default());
        let mut info = [0; 232];
        info[168..176].copy_from_slice(&5_000_u64.to_ne_bytes());
        info[176..184].copy_from_slice(&2_000_u64.to_ne_bytes());
        info[100..104].copy_from_slice(&3_u32.to_ne_bytes());
        causes.add_tcp(&TcpInfo::from_bytes(&info), Duration::from_secs(1));
        let tcp = causes.tcp;
        assert_eq!((tcp.connections, tcp.retransmitted), (1, 3));
        assert_eq!(tcp.busy, Duration::from_millis(5));
        assert_eq!(tcp.receive_window, Duration::from_millis(2));
    }
}
