//! What held up the data that a load sent, summed over its connections. TCP, QUIC and HTTP/2's flow control report it
//! themselves; it serves loads without a link of squall's own, which would show more.
//!
//! Shares are given only where there was something to send. They are not parts of response times: a connection may wait while
//! no request does.

use serde::Serialize;
use squall_base::Duration;

/// What limited sending, by the way the data was sent; a field is `None` if nothing was sent that way, or the kernel does not
/// count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SendLimits {
    /// TCP connections.
    pub tcp: Option<TcpSendLimits>,
    /// QUIC connections.
    pub quic: Option<QuicLosses>,
    /// Request bodies over HTTP/2.
    pub http2_bodies: Option<BodySendLimits>,
}

/// TCP's own accounting (`tcpi_busy_time` and the related fields of TCP_INFO, read at each connection's end).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TcpSendLimits {
    /// How many connections.
    pub connections: u64,
    /// Time in which data was sent or waiting to be sent and not acknowledged, as a share of the time they were open.
    #[serde(rename = "busy_share")]
    pub busy: f64,
    /// Share of the busy time in which the receiver's window was full.
    #[serde(rename = "receive_window_share")]
    pub receive_window: f64,
    /// Share of the busy time in which the local send buffer was full.
    #[serde(rename = "send_buffer_share")]
    pub send_buffer: f64,
    /// The rest of the busy time: the congestion window was full, or everything was sent and waited for its
    /// acknowledgement. The kernel does not distinguish the two.
    #[serde(rename = "congestion_window_or_acknowledgement_share")]
    pub congestion_window_or_acknowledgement: f64,
    /// Segments with data, including retransmissions.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
}

/// quiche's accounting, read at each connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuicLosses {
    /// How many connections.
    pub connections: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that were considered lost.
    pub lost: u64,
}

/// Request bodies, from the frames of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BodySendLimits {
    /// Bodies that were sent, at least in part.
    pub bodies: u64,
    /// Time to send them, summed over bodies: from handing one to a connection until its last byte was written.
    pub sending_ns: u64,
    /// Share of the sending time in which the stream's window was exhausted.
    #[serde(rename = "stream_window_share")]
    pub stream_window: f64,
    /// Share of the sending time in which only the connection's window was exhausted.
    #[serde(rename = "connection_window_share")]
    pub connection_window: f64,
}

impl TcpSendLimits {
    /// From the number of connections, the time they were open in total, the times that the kernel counted, and the
    /// segments sent and retransmitted.
    pub fn of(
        connections: u64,
        open: Duration,
        times: TcpTimes,
        segments: (u64, u64),
    ) -> Option<TcpSendLimits> {
        if connections == 0 {
            return None;
        }
        let of_busy = |part: Duration| share(part, times.busy);
        let (receive_window, send_buffer) =
            (of_busy(times.receive_window), of_busy(times.send_buffer));
        let rest = if times.busy.is_zero() { 0.0 } else { 1.0 };
        Some(TcpSendLimits {
            connections,
            // The kernel counts the busy time in ms.
            busy: share(times.busy, open).min(1.0),
            receive_window,
            send_buffer,
            congestion_window_or_acknowledgement: (rest - receive_window - send_buffer).max(0.0),
            segments: segments.0,
            retransmitted: segments.1,
        })
    }
}

/// Times that TCP counted, summed over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTimes {
    /// `tcpi_busy_time`, which contains the others.
    pub busy: Duration,
    /// `tcpi_rwnd_limited`.
    pub receive_window: Duration,
    /// `tcpi_sndbuf_limited`.
    pub send_buffer: Duration,
}

impl BodySendLimits {
    /// From the number of bodies, the total time to send them, and how long they waited for a window of their stream or
    /// connection.
    pub fn of(
        bodies: u64,
        sending: Duration,
        stream: Duration,
        connection: Duration,
    ) -> Option<BodySendLimits> {
        (bodies > 0).then(|| BodySendLimits {
            bodies,
            sending_ns: sending.as_nanos(),
            stream_window: share(stream, sending),
            connection_window: share(connection, sending),
        })
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        0.0
    } else {
        part.as_secs_f64() / whole.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_relative_to_their_whole() {
        let ms = Duration::from_millis;
        let times = TcpTimes {
            busy: ms(200),
            receive_window: ms(50),
            send_buffer: ms(20),
        };
        let tcp = TcpSendLimits::of(2, ms(1_000), times, (10, 1)).unwrap();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        close(tcp.busy, 0.2);
        close(tcp.receive_window, 0.25);
        close(tcp.send_buffer, 0.1);
        close(tcp.congestion_window_or_acknowledgement, 0.65);
        let idle = TcpSendLimits::of(1, ms(0), TcpTimes::default(), (0, 0)).unwrap();
        assert_eq!(
            (idle.busy, idle.congestion_window_or_acknowledgement),
            (0.0, 0.0)
        );
        assert_eq!(TcpSendLimits::of(0, ms(1), times, (0, 0)), None);
        let bodies = BodySendLimits::of(3, ms(400), ms(100), ms(40)).unwrap();
        close(bodies.stream_window, 0.25);
        close(bodies.connection_window, 0.1);
        assert_eq!(BodySendLimits::of(0, ms(0), ms(0), ms(0)), None);
    }
}
