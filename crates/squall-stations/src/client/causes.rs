//! What held up what a client sent, as far as its kernel and its frames know it: TCP's own account at the end of each
//! connection, quiche's, and how long bodies waited for HTTP/2's windows.
//!
//! Nothing is inferred: where the kernel has no such number, or a window is not known, nothing is counted. What a
//! server's answers waited for only the server knows.

use squall_base::record::{FrameFacts, FrameLayer, QuicPath, TcpInfo, Way};
use squall_base::{Duration, Time};
use squall_http::Streams;

/// Types of frames (RFC 9113, section 6).
const DATA: u64 = 0x0;
const RST_STREAM: u64 = 0x3;
const SETTINGS: u64 = 0x4;
const WINDOW_UPDATE: u64 = 0x8;
/// Of SETTINGS.
const FLAG_ACK: u8 = 0x1;

/// Sums over all connections of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// TCP's.
    pub tcp: TcpCauses,
    /// QUIC's.
    pub quic: QuicCauses,
    /// HTTP/2's flow control.
    pub windows: WindowCauses,
}

/// Of TCP connections whose kernel told it (`tcpi_busy_time` and the fields with it, Linux 4.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCauses {
    /// How many.
    pub connections: u64,
    /// How long they were open.
    pub open: Duration,
    /// In which they had something to send that was not acknowledged (`tcpi_busy_time`).
    pub busy: Duration,
    /// Of that, limited by the receiver's window (`tcpi_rwnd_limited`).
    pub receive_window: Duration,
    /// Of that, limited by the own send buffer (`tcpi_sndbuf_limited`).
    pub send_buffer: Duration,
    /// Segments with data (`tcpi_data_segs_out`), those that were sent again among them.
    pub segments: u64,
    /// Segments sent again (`tcpi_total_retrans`).
    pub retransmitted: u64,
}

/// Of QUIC connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicCauses {
    /// How many.
    pub connections: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that quiche took for lost.
    pub lost: u64,
}

/// Of bodies of requests over HTTP/2. Each time is summed over the bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCauses {
    /// How many bodies were sent or begun.
    pub bodies: u64,
    /// From being given to the connection until their last byte was written, or they were given up.
    pub sending: Duration,
    /// Of that, while their stream's window was used up.
    pub stream: Duration,
    /// Of that, while only the connection's was.
    pub connection: Duration,
}

impl Causes {
    /// Adds what a TCP connection has come to that was open so long.
    pub(super) fn add_tcp(&mut self, info: &TcpInfo, open: Duration) {
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

    /// Adds what a QUIC connection has come to.
    pub(super) fn add_quic(&mut self, path: &QuicPath) {
        self.quic.connections += 1;
        self.quic.packets += path.sent;
        self.quic.lost += path.lost;
    }

    /// Adds what the windows of a connection have held up.
    pub(super) fn add_windows(&mut self, of: &WindowCauses) {
        self.windows.bodies += of.bodies;
        self.windows.sending = self.windows.sending + of.sending;
        self.windows.stream = self.windows.stream + of.stream;
        self.windows.connection = self.windows.connection + of.connection;
    }
}

/// The windows of one connection of HTTP/2, and the bodies that are being sent over it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    bodies: Streams<u64, Sending>,
    /// How many of them have a stream whose window is used up.
    held: u64,
    /// What the connection's window lets pass, once that is known.
    connection: Option<i64>,
    /// Up to when everything is counted.
    counted: Time,
    sums: WindowCauses,
}

#[derive(Debug)]
struct Sending {
    left: u64,
    /// What its stream's window lets pass, while that is known.
    window: Option<i64>,
}

impl Watch {
    /// A body of so many bytes goes on its way.
    pub(super) fn begin(&mut self, stream: u64, bytes: u64, now: Time) {
        if bytes > 0 {
            self.count(now);
            self.end_body(stream);
            self.sums.bodies += 1;
            let body = Sending {
                left: bytes,
                window: None,
            };
            self.bodies.insert(stream, body);
        }
    }

    /// These frames were read or written by `now`.
    pub(super) fn frames(&mut self, frames: &[FrameFacts], now: Time) {
        if self.bodies.is_empty() && self.connection.is_none() {
            return;
        }
        self.count(now);
        for frame in frames
            .iter()
            .filter(|frame| frame.layer == FrameLayer::Http2)
        {
            self.frame(frame);
        }
    }

    fn frame(&mut self, frame: &FrameFacts) {
        let stream = frame.stream.unwrap_or_default();
        match (frame.way, frame.kind) {
            (Way::Sent, DATA) => {
                self.connection = frame.connection_window.or(self.connection);
                self.has_window(stream, frame.stream_window);
                if let Some(body) = self.bodies.find(stream) {
                    body.left = body.left.saturating_sub(frame.length);
                    if body.left == 0 {
                        self.end_body(stream);
                    }
                }
            }
            (Way::Received, WINDOW_UPDATE) => {
                self.connection = frame.connection_window.or(self.connection);
                self.has_window(stream, frame.stream_window);
            }
            // They may change every stream's window; the next DATA of a stream tells.
            (Way::Received, SETTINGS) if frame.flags & FLAG_ACK == 0 => {
                self.bodies.values_mut().for_each(|body| body.window = None);
                self.held = 0;
            }
            (_, RST_STREAM) => self.end_body(stream),
            _ => {}
        }
    }

    /// The window of a body's stream is this now.
    fn has_window(&mut self, stream: u64, window: Option<i64>) {
        if let Some(body) = self.bodies.find(stream) {
            let before = std::mem::replace(&mut body.window, window);
            self.held -= u64::from(is_used_up(before));
            self.held += u64::from(is_used_up(window));
        }
    }

    fn end_body(&mut self, stream: u64) {
        if let Some(body) = self.bodies.remove(stream) {
            self.held -= u64::from(is_used_up(body.window));
        }
    }

    /// Counts the time up to `now`, in which nothing has changed.
    fn count(&mut self, now: Time) {
        let span = now.since(self.counted);
        self.counted = self.counted.max(now);
        let each = |bodies: u64| Duration::from_nanos(span.as_nanos().saturating_mul(bodies));
        let (bodies, sums) = (self.bodies.len() as u64, &mut self.sums);
        sums.sending = sums.sending + each(bodies);
        sums.stream = sums.stream + each(self.held);
        if is_used_up(self.connection) {
            sums.connection = sums.connection + each(bodies - self.held);
        }
    }

    /// The connection is over.
    pub(super) fn end(mut self, now: Time) -> WindowCauses {
        self.count(now);
        self.sums
    }
}

fn is_used_up(window: Option<i64>) -> bool {
    window.is_some_and(|window| window <= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn frame(way: Way, kind: u64, stream: u64, windows: (Option<i64>, i64)) -> FrameFacts {
        FrameFacts {
            way,
            layer: FrameLayer::Http2,
            kind,
            flags: 0,
            stream: Some(stream),
            offset: None,
            length: if kind == DATA { 100 } else { 4 },
            packet: None,
            value: None,
            stream_window: windows.0,
            connection_window: Some(windows.1),
        }
    }

    fn sent(stream: u64, windows: (i64, i64)) -> FrameFacts {
        frame(Way::Sent, DATA, stream, (Some(windows.0), windows.1))
    }

    fn ms(span: Duration) -> u64 {
        span.as_nanos() / 1_000_000
    }

    #[test]
    fn time_at_a_used_up_window_is_counted_for_each_body() {
        let mut watch = Watch::default();
        watch.begin(1, 200, at(10));
        watch.begin(3, 300, at(10));
        // The first stream's window is used up from 20 to 50.
        watch.frames(&[sent(1, (0, 900))], at(20));
        watch.frames(&[sent(3, (500, 800))], at(30));
        let update = frame(Way::Received, WINDOW_UPDATE, 1, (Some(100), 800));
        watch.frames(&[update], at(50));
        // The first body is complete at 60; then the connection's window is used up until 90.
        watch.frames(&[sent(1, (0, 700))], at(60));
        watch.frames(&[sent(3, (400, 0))], at(70));
        let update = frame(Way::Received, WINDOW_UPDATE, 0, (None, 100));
        watch.frames(&[update], at(90));
        watch.frames(&[sent(3, (300, 0))], at(95));
        let sums = watch.end(at(1_000));
        assert_eq!(sums.bodies, 2);
        assert_eq!(ms(sums.stream), 30);
        assert_eq!(ms(sums.connection), 20);
        assert_eq!(ms(sums.sending), 50 + 85);
    }

    #[test]
    fn what_is_not_known_or_over_is_not_counted() {
        let mut watch = Watch::default();
        watch.begin(1, 1_000, at(0));
        watch.begin(3, 0, at(0));
        watch.frames(&[sent(1, (0, 0))], at(10));
        // Whatever the settings say of windows: unknown until the next DATA. The connection's is not theirs to change.
        let settings = FrameFacts {
            connection_window: None,
            ..frame(Way::Received, SETTINGS, 0, (None, 0))
        };
        watch.frames(&[settings], at(30));
        watch.frames(&[frame(Way::Received, RST_STREAM, 1, (None, 0))], at(40));
        let sums = watch.end(at(100));
        assert_eq!(
            (ms(sums.stream), ms(sums.connection), ms(sums.sending)),
            (20, 10, 40)
        );
        assert_eq!(sums.bodies, 1);
    }

    #[test]
    fn a_body_that_is_given_up_waits_no_more() {
        let mut watch = Watch::default();
        watch.begin(1, 200, at(0));
        watch.begin(3, 200, at(0));
        // From 10 on both windows of the first are used up, and the connection's holds up the second too.
        watch.frames(&[sent(1, (0, 0))], at(10));
        watch.frames(&[frame(Way::Sent, RST_STREAM, 1, (None, 0))], at(30));
        let sums = watch.end(at(50));
        assert_eq!(
            (ms(sums.stream), ms(sums.connection), ms(sums.sending)),
            (20, 40, 80)
        );
    }

    #[test]
    fn a_kernel_without_the_account_counts_nothing() {
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
