//! What held up what a load has sent, summed over its connections: what TCP, QUIC and HTTP/2's flow control tell by
//! themselves, where there is no link of squall's own that would tell more.
//!
//! Shares only where there is something to take them of. None of it is a part of response times: a connection may wait
//! while no request does.

use serde::Serialize;
use squall_base::Duration;

/// What there is; `None` where nothing was sent that way, or the kernel has no such numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Causes {
    /// Of TCP connections.
    pub tcp: Option<TcpCauses>,
    /// Of QUIC connections.
    pub quic: Option<QuicCauses>,
    /// Of bodies of requests over HTTP/2.
    pub http2_bodies: Option<BodyCauses>,
}

/// TCP's own account (`tcpi_busy_time` and the fields with it of TCP_INFO, at each connection's end).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TcpCauses {
    /// Connections.
    pub connections: u64,
    /// Their time with something sent or to be sent that was not acknowledged, as a share of the time they were open.
    pub busy: f64,
    /// Of the busy time: the receiver's window let no more pass.
    pub receive_window: f64,
    /// Of the busy time: the own send buffer was full.
    pub send_buffer: f64,
    /// The rest of it: the congestion window let no more pass, or everything was sent and its acknowledgement awaited,
    /// between which the kernel does not tell.
    pub congestion_window_or_acknowledgement: f64,
    /// Segments with data, those that were sent again among them.
    pub segments: u64,
    /// Segments sent again.
    pub retransmitted: u64,
}

/// quiche's account, at each connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuicCauses {
    /// Connections.
    pub connections: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that were taken for lost.
    pub lost: u64,
}

/// Of bodies of requests, by the frames of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BodyCauses {
    /// Bodies that were sent or begun.
    pub bodies: u64,
    /// How long it took, summed over them: from being given to a connection to their last byte being written.
    pub sending_ns: u64,
    /// Share of that in which their stream's window was used up.
    pub stream_window: f64,
    /// Share of that in which only the connection's was.
    pub connection_window: f64,
}

impl TcpCauses {
    /// Of so many connections that were open so long together, and what their kernel said of that time.
    pub fn of(
        connections: u64,
        open: Duration,
        times: TcpTimes,
        segments: (u64, u64),
    ) -> Option<TcpCauses> {
        if connections == 0 {
            return None;
        }
        let of_busy = |part: Duration| share(part, times.busy);
        let (receive_window, send_buffer) =
            (of_busy(times.receive_window), of_busy(times.send_buffer));
        let rest = if times.busy.is_zero() { 0.0 } else { 1.0 };
        Some(TcpCauses {
            connections,
            // The kernel's clock of it ticks in ms.
            busy: share(times.busy, open).min(1.0),
            receive_window,
            send_buffer,
            congestion_window_or_acknowledgement: (rest - receive_window - send_buffer).max(0.0),
            segments: segments.0,
            retransmitted: segments.1,
        })
    }
}

/// Times that TCP has counted, summed over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTimes {
    /// `tcpi_busy_time`, which contains the others.
    pub busy: Duration,
    /// `tcpi_rwnd_limited`.
    pub receive_window: Duration,
    /// `tcpi_sndbuf_limited`.
    pub send_buffer: Duration,
}

impl BodyCauses {
    /// Of so many bodies that took so long together, and waited so long for a window of their stream or connection.
    pub fn of(
        bodies: u64,
        sending: Duration,
        stream: Duration,
        connection: Duration,
    ) -> Option<BodyCauses> {
        (bodies > 0).then(|| BodyCauses {
            bodies,
            sending_ns: sending.as_nanos(),
            stream_window: share(stream, sending),
            connection_window: share(connection, sending),
        })
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    match whole.is_zero() {
        true => 0.0,
        false => part.as_secs_f64() / whole.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_they_are_a_part_of() {
        let ms = Duration::from_millis;
        let times = TcpTimes {
            busy: ms(200),
            receive_window: ms(50),
            send_buffer: ms(20),
        };
        let tcp = TcpCauses::of(2, ms(1_000), times, (10, 1)).unwrap();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        close(tcp.busy, 0.2);
        close(tcp.receive_window, 0.25);
        close(tcp.send_buffer, 0.1);
        close(tcp.congestion_window_or_acknowledgement, 0.65);
        let idle = TcpCauses::of(1, ms(0), TcpTimes::default(), (0, 0)).unwrap();
        assert_eq!(
            (idle.busy, idle.congestion_window_or_acknowledgement),
            (0.0, 0.0)
        );
        assert_eq!(TcpCauses::of(0, ms(1), times, (0, 0)), None);
        let bodies = BodyCauses::of(3, ms(400), ms(100), ms(40)).unwrap();
        close(bodies.stream_window, 0.25);
        close(bodies.connection_window, 0.1);
        assert_eq!(BodyCauses::of(0, ms(0), ms(0), ms(0)), None);
    }
}
