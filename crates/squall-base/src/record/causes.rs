//! The causes of a request's response time: the time divided by what it was spent on.
//!
//! Only the row and its vocabulary. squall-analysis attributes the time (`causes`); docs/RECORD.md explains each cause.
//! The drops that causes refer to have their own rows: `drops`.

use std::ops::{Index, IndexMut};

use serde::Serialize;

use crate::record::Direction;
use crate::time::Duration;

crate::words! {
    /// What a part of a request's response time was spent on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Cause {
        /// No connection or stream was free.
        Queue = "queue",
        /// The TCP handshake of the request's own connection.
        Connect = "connect",
        /// The TLS or QUIC handshake of the request's own connection.
        Tls = "tls",
        /// Data waited while its stream's flow-control window was exhausted.
        WindowStream = "window_stream",
        /// Data waited while its connection's flow-control window was exhausted.
        WindowConnection = "window_connection",
        /// Data waited while the peer's TCP receive window was exhausted.
        WindowReceive = "window_receive",
        /// Data waited for the congestion window: as much as it allowed was in flight.
        Cwnd = "cwnd",
        /// Data waited for its sender's pacing, with room in every window.
        Pacing = "pacing",
        /// Data waited for room in the socket's send buffer, with room in every window.
        SendBuffer = "send_buffer",
        /// In the link's queue, or being sent at its rate.
        Link = "link",
        /// The configured delay.
        Distance = "distance",
        /// The request's own bytes were lost: from when they would have arrived until they did. Also the time in which further
        /// bytes of the request could not be sent because the sender was repairing that loss.
        Loss = "loss",
        /// Bytes of other requests were lost and held its own bytes up (head-of-line blocking): bytes that had arrived
        /// after the gap, or bytes that could not be sent while the sender repaired the loss.
        Hol = "hol",
        /// The request's own bytes had arrived in order, but the rest of their TLS record had not.
        Record = "record",
        /// The server had the request, and had not begun or not finished its response.
        Server = "server",
        /// Delay added by hosts: scheduling, system calls, copying, squall's own lateness.
        Host = "host",
        /// The cause cannot be determined.
        Unknown = "unknown",
    }
}

/// A duration for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseSpans([Duration; Cause::ALL.len()]);

impl CauseSpans {
    /// All zero.
    pub const NONE: CauseSpans = CauseSpans([Duration::ZERO; Cause::ALL.len()]);

    /// The sum of all durations.
    pub fn total(&self) -> Duration {
        self.0.iter().fold(Duration::ZERO, |sum, span| sum + *span)
    }

    /// The sum of both, by cause.
    pub fn plus(&self, other: &CauseSpans) -> CauseSpans {
        CauseSpans(std::array::from_fn(|cause| self.0[cause] + other.0[cause]))
    }

    /// The cause with the longest duration, the first among equals; `None` if all are zero.
    pub fn dominant(&self) -> Option<Cause> {
        let longest = self.0.iter().max().filter(|span| !span.is_zero())?;
        Cause::ALL
            .into_iter()
            .find(|cause| self[*cause] == *longest)
    }
}

impl Index<Cause> for CauseSpans {
    type Output = Duration;
    fn index(&self, cause: Cause) -> &Duration {
        &self.0[cause as usize]
    }
}

impl IndexMut<Cause> for CauseSpans {
    fn index_mut(&mut self, cause: Cause) -> &mut Duration {
        &mut self.0[cause as usize]
    }
}

/// Identifies a packet of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PacketRef {
    /// The hop whose link it reached, as in the record of the packet.
    pub hop: u8,
    /// Which way it went.
    pub direction: Direction,
    /// Its number among all packets of that link and direction.
    pub index: u64,
}

/// What the response time of one request was spent on, in total or on one hop of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CausesRecord {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// The hop of the path, from 1 at the client; [`CausesRecord::IN_TOTAL`] for the whole path.
    pub hop: u8,
    /// Its time, divided by cause. In the row for the whole path, the durations add up to `end - intended` exactly. In
    /// the row of a hop, they add up to the time from when the hop's client side could begin the exchange until the
    /// exchange was over; the next hop's row divides the `server` part of that time further.
    pub spans: CauseSpans,
    /// The part of `spans` that is [`Cause::Queue`], divided by what the requests that held the connections or streams
    /// waited for meanwhile. The durations add up to that part exactly; `queue` among them means that the root is unknown.
    pub queue_roots: CauseSpans,
    /// The dropped packet that cost the request most; `None` if no drop cost it anything, or if it is unknown which.
    pub responsible: Option<PacketRef>,
}

impl CausesRecord {
    /// The `hop` of a row for the whole path.
    pub const IN_TOTAL: u8 = 0;

    /// The request's time, with each wait in a queue attributed to the causes of that wait.
    pub fn root_spans(&self) -> CauseSpans {
        let mut own = self.spans;
        own[Cause::Queue] = Duration::ZERO;
        own.plus(&self.queue_roots)
    }

    /// Whether the row is for the whole path.
    pub fn is_in_total(&self) -> bool {
        self.hop == CausesRecord::IN_TOTAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_equally_long_causes_dominates() {
        let mut spans = CauseSpans::default();
        assert_eq!(spans.dominant(), None);
        spans[Cause::Server] = Duration::from_millis(2);
        spans[Cause::Loss] = Duration::from_millis(2);
        spans[Cause::Host] = Duration::from_millis(1);
        assert_eq!(spans.dominant(), Some(Cause::Loss));
        assert_eq!(spans.total(), Duration::from_millis(5));
    }
}
