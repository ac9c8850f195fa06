//! The record of a request's causes: its response time, cut into what it was spent on.
//!
//! Only the row and its words; how time is attributed is squall-analysis's (`causes`), what each cause means is in
//! docs/RECORD.md. The drops that causes point at have rows of their own: `drops`.

use std::ops::{Index, IndexMut};

use crate::record::Direction;
use crate::time::Duration;

/// What a span of a request's response time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No connection or stream was free.
    Queue,
    /// TCP's handshake of its own connection.
    Connect,
    /// The handshake of TLS or QUIC of its own connection.
    Tls,
    /// Data waited while its stream's flow-control window was used up.
    WindowStream,
    /// Data waited while its connection's flow-control window was used up.
    WindowConnection,
    /// Data waited while the peer's TCP receive window was used up.
    WindowReceive,
    /// Data waited for the congestion window: as much as it allows was in flight.
    Cwnd,
    /// Data waited for its sender's pacing, with room in every window.
    Pacing,
    /// Data waited for room in the socket's send buffer, with room in every window.
    SendBuffer,
    /// In the link's queue and being sent at its rate.
    Link,
    /// The configured delay.
    Distance,
    /// Own bytes were lost: from when they would have arrived until they did. Also while own bytes could not be sent
    /// because the sender was repairing the loss of own bytes.
    Loss,
    /// Bytes of others were lost and held own ones up (head-of-line blocking): those that had arrived and lay behind the
    /// gap, or those that could not be sent while the sender repaired the loss.
    Hol,
    /// Own bytes were there in order, the rest of their TLS record was not.
    Record,
    /// The server had the request and had not begun or not ended its answer.
    Server,
    /// What hosts add: scheduling, system calls, copying, squall's own lateness.
    Host,
    /// It cannot be known.
    Unknown,
}

impl Cause {
    /// Every cause, in the order of this enum.
    pub const ALL: [Cause; 17] = [
        Cause::Queue,
        Cause::Connect,
        Cause::Tls,
        Cause::WindowStream,
        Cause::WindowConnection,
        Cause::WindowReceive,
        Cause::Cwnd,
        Cause::Pacing,
        Cause::SendBuffer,
        Cause::Link,
        Cause::Distance,
        Cause::Loss,
        Cause::Hol,
        Cause::Record,
        Cause::Server,
        Cause::Host,
        Cause::Unknown,
    ];

    /// The word of the record.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Queue => "queue",
            Cause::Connect => "connect",
            Cause::Tls => "tls",
            Cause::WindowStream => "window_stream",
            Cause::WindowConnection => "window_connection",
            Cause::WindowReceive => "window_receive",
            Cause::Cwnd => "cwnd",
            Cause::Pacing => "pacing",
            Cause::SendBuffer => "send_buffer",
            Cause::Link => "link",
            Cause::Distance => "distance",
            Cause::Loss => "loss",
            Cause::Hol => "hol",
            Cause::Record => "record",
            Cause::Server => "server",
            Cause::Host => "host",
            Cause::Unknown => "unknown",
        }
    }
}

/// A span of time for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseSpans([Duration; Cause::ALL.len()]);

impl CauseSpans {
    /// No time.
    pub const NONE: CauseSpans = CauseSpans([Duration::ZERO; Cause::ALL.len()]);

    /// All of them together.
    pub fn total(&self) -> Duration {
        self.0.iter().fold(Duration::ZERO, |sum, span| sum + *span)
    }

    /// The spans of both.
    pub fn plus(&self, other: &CauseSpans) -> CauseSpans {
        CauseSpans(std::array::from_fn(|cause| self.0[cause] + other.0[cause]))
    }

    /// The cause with the longest span, the first of several; `None` if all are empty.
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

/// Names a packet of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketRef {
    /// Which way it went.
    pub direction: Direction,
    /// Its number among all packets of its direction.
    pub index: u64,
}

/// What one request's response time was spent on, in total or on one hop of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CausesRecord {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// The hop of the path, from 1 at the client; [`CausesRecord::IN_TOTAL`] for the whole path.
    pub hop: u8,
    /// Its time, cut by cause. In total the spans add up to `end - intended` exactly; of a hop, to the time from when its
    /// client side had the exchange to begin until it was over, and what is `server` there is split by the next hop's row.
    pub spans: CauseSpans,
    /// Of the time in `spans` that is [`Cause::Queue`]: what the requests that had the connections or streams waited for
    /// meanwhile. The spans add up to it exactly; what is `queue` here has no known root.
    pub queue_roots: CauseSpans,
    /// The dropped packet that cost it most; `None` if none cost it anything, or it is not known which.
    pub responsible: Option<PacketRef>,
}

impl CausesRecord {
    /// The `hop` of a row that is of the whole path.
    pub const IN_TOTAL: u8 = 0;

    /// Its time with each wait in a queue given to the causes of that wait.
    pub fn root_spans(&self) -> CauseSpans {
        let mut own = self.spans;
        own[Cause::Queue] = Duration::ZERO;
        own.plus(&self.queue_roots)
    }

    /// Whether it is of the whole path.
    pub fn is_in_total(&self) -> bool {
        self.hop == CausesRecord::IN_TOTAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_in_the_order_of_their_columns() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
        }
    }

    #[test]
    fn the_first_of_the_longest_dominates() {
        let mut spans = CauseSpans::default();
        assert_eq!(spans.dominant(), None);
        spans[Cause::Server] = Duration::from_millis(2);
        spans[Cause::Loss] = Duration::from_millis(2);
        spans[Cause::Host] = Duration::from_millis(1);
        assert_eq!(spans.dominant(), Some(Cause::Loss));
        assert_eq!(spans.total(), Duration::from_millis(5));
    }
}
