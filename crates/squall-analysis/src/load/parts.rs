//! Where the time of one request went, as far as the client alone can know it.
//!
//! The response time is cut at the marks of the request's record (docs/METHOD.md), so the parts add up to it exactly. What
//! happened between client and server is one part here; a link of squall's own would show more.

use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};

squall_base::words! {
    /// A part of the response time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Part {
        /// Intended to taken up: the generator itself was late.
        Lag = "lag",
        /// Taken up to slot: no connection or stream was free.
        Queue = "queue",
        /// Slot to connected, if the request opened its connection: the TCP handshake.
        Connect = "connect",
        /// Connected to secured, if the request opened its connection: the TLS or QUIC handshake.
        Tls = "tls",
        /// From then until the socket had taken the request's last byte: flow control and socket buffer.
        Send = "send",
        /// Last byte written to first byte of the response: the network's round trip and the server.
        Wait = "wait",
        /// First to last byte of the response.
        Receive = "receive",
    }
}

impl Part {
    /// What the time was spent on, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Part::Lag => "the generator was late",
            Part::Queue => "no connection or stream was free",
            Part::Connect => "TCP's handshake",
            Part::Tls => "TLS's or QUIC's handshake",
            Part::Send => "until the socket had the request",
            Part::Wait => "network and server",
            Part::Receive => "the response, first to last byte",
        }
    }
}

/// The length of each part, in the order of [`Part::ALL`].
pub type Parts = [Duration; Part::ALL.len()];

/// Cuts a request's response time into its parts.
///
/// A part whose end has no mark is zero, and the next part is longer by that much. A mark that is earlier than the one
/// before it counts as the same moment. Thus if a server responds before it has the whole request, the wait is zero.
pub fn parts(request: &RequestRecord) -> Parts {
    let opened = |mark: Option<Time>| mark.filter(|_| request.opened_connection);
    let ends = [
        Some(request.taken_up),
        request.slot,
        opened(request.connected),
        opened(request.secured),
        request.written_last,
        request.answered_first,
        Some(request.end),
    ];
    let mut from = request.intended.min(request.end);
    ends.map(|end| {
        let to = end.map_or(from, |end| end.clamp(from, request.end));
        let part = to.since(from);
        from = to;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::{answered, at};
    use proptest::prelude::*;

    fn micros(request: &RequestRecord) -> [u64; 7] {
        parts(request).map(|part| part.as_nanos() / 1_000)
    }

    #[test]
    fn a_request_is_cut_at_its_marks() {
        let mut request = answered(1_000, 900);
        request.taken_up = at(1_010);
        request.slot = Some(at(1_030));
        request.connected = Some(at(1_130));
        request.secured = Some(at(1_330));
        request.written_first = Some(at(1_332));
        request.written_last = Some(at(1_335));
        request.answered_first = Some(at(1_800));
        // The handshakes of a connection that existed before are not part of the request.
        assert_eq!(micros(&request), [10, 20, 0, 0, 305, 465, 100]);
        request.opened_connection = true;
        assert_eq!(micros(&request), [10, 20, 100, 200, 5, 465, 100]);
        request.secured = None;
        assert_eq!(micros(&request), [10, 20, 100, 0, 205, 465, 100]);
    }

    #[test]
    fn a_response_before_the_end_of_the_request_has_no_wait() {
        let mut request = answered(0, 900);
        request.answered_first = Some(at(300));
        request.written_last = Some(at(500));
        assert_eq!(micros(&request), [0, 0, 0, 0, 500, 0, 400]);
    }

    fn mark() -> impl Strategy<Value = Option<Time>> {
        prop::option::of((0..3_000_u64).prop_map(Time::from_nanos))
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_response_time(
            (intended, taken_up, end) in (0..3_000_u64, 0..3_000_u64, 0..3_000_u64),
            (slot, connected, secured) in (mark(), mark(), mark()),
            (written_last, answered_first) in (mark(), mark()),
            opened_connection: bool,
        ) {
            let request = RequestRecord {
                intended: Time::from_nanos(intended),
                taken_up: Time::from_nanos(taken_up),
                end: Time::from_nanos(end),
                slot,
                connected,
                secured,
                written_last,
                answered_first,
                opened_connection,
                ..answered(0, 0)
            };
            let sum = parts(&request).into_iter().fold(Duration::ZERO, |sum, part| sum + part);
            prop_assert_eq!(sum, request.response_time());
        }
    }
}
