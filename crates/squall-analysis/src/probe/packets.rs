//! What the TCP packets of the probe's own flows show of a server, where this machine lets the probe see them: packets that it
//! retransmitted needlessly, reordering told from loss, how late it acknowledges, and how long its receive window was closed.
//!
//! Packets are captured at this end of the path, as this machine's kernel handles them: joined, up to 64 KiB. QUIC reports its
//! own losses (`quic`). Packets that the capture missed leave a gap that nothing fills, and are not counted. Nothing is judged.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;
use squall_base::{Duration, Time};

use super::spans::median_span;
use crate::wire::{ACK, FIN, RST, SYN};

/// A packet of TCP between this machine and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it passed this machine.
    pub at: Time,
    /// This machine's end.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Whether the server sent it.
    pub is_from_server: bool,
    /// Its sequence number.
    pub seq: u32,
    /// Its acknowledgement number.
    pub ack: u32,
    /// Its flags: byte 13 of the header (RFC 9293, section 3.1).
    pub flags: u8,
    /// The window field, unscaled.
    pub window: u16,
    /// Bytes of its payload.
    pub bytes: u32,
}

/// What packets show of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketFacts {
    /// Packets with data from the server.
    pub received: u64,
    /// Those with only bytes that had already arrived: needless retransmissions.
    pub repeated: u64,
    /// Those that came after later ones, within half a round trip: the path reordered them.
    pub reordered: u64,
    /// Those that came more than half a round trip after later ones: they were lost and retransmitted.
    pub repaired: u64,
    /// The middle time until such a loss was repaired.
    #[serde(rename = "repair_ns")]
    pub repair: Option<Duration>,
    /// Single segments from this machine that the server acknowledged before another one was sent.
    pub lone_segments: u64,
    /// How much longer than a round trip the acknowledgement of a lone segment took, the middle one.
    #[serde(rename = "ack_delay_ns")]
    pub ack_delay: Option<Duration>,
    /// The longest such delay.
    #[serde(rename = "longest_ack_delay_ns")]
    pub longest_ack_delay: Option<Duration>,
    /// The time in which the server announced a receive window of zero.
    #[serde(rename = "zero_window_ns")]
    pub zero_window: Duration,
}

/// A larger packet was not sent as one segment.
const ONE_SEGMENT: u32 = 1_460;
/// What passes for reordering if no handshake shows the round trip.
const REORDERED_WITHIN: Duration = Duration::from_millis(3);
/// The most gaps that are kept of a flow.
const GAPS_AT_MOST: usize = 1_000;

impl PacketFacts {
    /// The facts of these packets, in their order; `None` if the server sent no data in them.
    pub(super) fn of(segments: &[Segment]) -> Option<PacketFacts> {
        let mut flows: BTreeMap<(SocketAddr, SocketAddr), Flow> = BTreeMap::new();
        let mut sums = Sums::default();
        for segment in segments {
            let flow = flows.entry((segment.client, segment.server)).or_default();
            let begins = !segment.is_from_server && segment.flags & (SYN | ACK) == SYN;
            if begins && flow.syn != Some(segment.seq) {
                // A new connection reuses the port.
                sums.add(std::mem::take(flow));
            }
            if segment.is_from_server {
                flow.received(segment);
            } else {
                flow.sent(segment);
            }
        }
        for flow in flows.into_values() {
            sums.add(flow);
        }
        sums.facts()
    }
}

/// What all flows showed.
#[derive(Default)]
struct Sums {
    facts: PacketFacts,
    repairs: Vec<Duration>,
    delays: Vec<Duration>,
}

impl Sums {
    fn add(&mut self, flow: Flow) {
        let facts = &mut self.facts;
        facts.received += flow.received;
        facts.repeated += flow.repeated;
        facts.zero_window = facts.zero_window + flow.zero_window;
        let within = flow.round_trip.map_or(REORDERED_WITHIN, |round_trip| {
            Duration::from_nanos(round_trip.as_nanos() / 2)
        });
        for waited in flow.late {
            if waited < within {
                facts.reordered += 1;
            } else {
                facts.repaired += 1;
                self.repairs.push(waited);
            }
        }
        if let Some(round_trip) = flow.round_trip {
            let shortest = flow.acknowledged.iter().copied().fold(round_trip, Ord::min);
            let delays = flow.acknowledged.iter().map(|after| *after - shortest);
            self.delays.extend(delays);
        }
    }

    fn facts(self) -> Option<PacketFacts> {
        (self.facts.received > 0).then(|| PacketFacts {
            repair: median_span(self.repairs.iter().copied()),
            lone_segments: self.delays.len() as u64,
            ack_delay: median_span(self.delays.iter().copied()),
            longest_ack_delay: self.delays.iter().copied().max(),
            ..self.facts
        })
    }
}

/// Bytes that did not come in their order.
struct Gap {
    start: u32,
    end: u32,
    since: Time,
}

/// One connection.
#[derive(Default)]
struct Flow {
    /// The sequence number of this machine's SYN.
    syn: Option<u32>,
    /// When it was sent, until an answer shows the round trip. `None` if the SYN was retransmitted: an answer may be to either
    /// copy (Karn's algorithm; RFC 6298, section 3).
    syn_sent: Option<Time>,
    round_trip: Option<Duration>,
    /// The sequence number after everything that the server has sent.
    next: Option<u32>,
    gaps: Vec<Gap>,
    received: u64,
    repeated: u64,
    /// How long each late packet was missing.
    late: Vec<Duration>,
    /// The sequence number after everything that this machine has sent, and after what the server has acknowledged.
    sent: Option<u32>,
    confirmed: Option<u32>,
    /// The end and the time of a segment that nothing follows yet.
    lone: Option<(u32, Time)>,
    /// How long it took until each such segment was acknowledged.
    acknowledged: Vec<Duration>,
    closed_since: Option<Time>,
    zero_window: Duration,
}

impl Flow {
    /// A packet from this machine.
    fn sent(&mut self, segment: &Segment) {
        if segment.flags & SYN != 0 {
            let is_repeated = self.syn.replace(segment.seq).is_some();
            self.syn_sent = (!is_repeated).then_some(segment.at);
            self.sent = Some(segment.seq.wrapping_add(1));
            return;
        }
        if segment.bytes == 0 {
            return;
        }
        let end = segment.seq.wrapping_add(segment.bytes);
        let is_new = self.sent == Some(segment.seq);
        let is_alone = is_new && self.confirmed == self.sent && segment.bytes <= ONE_SEGMENT;
        self.lone = is_alone.then_some((end, segment.at));
        if self.sent.is_none_or(|sent| is_before(sent, end)) {
            self.sent = Some(end);
        }
    }

    /// A packet from the server.
    fn received(&mut self, segment: &Segment) {
        if segment.flags & RST != 0 {
            return;
        }
        if segment.flags & ACK != 0 {
            self.acknowledge(segment);
        }
        if segment.flags & SYN != 0 {
            self.next = Some(segment.seq.wrapping_add(1));
        } else if segment.bytes > 0 {
            self.received += 1;
            self.take(segment);
        }
    }

    fn acknowledge(&mut self, segment: &Segment) {
        if segment.flags & SYN != 0 {
            // Only the first answer to the SYN shows the round trip.
            let sent = self.syn_sent.take();
            let took = sent.map(|sent| segment.at.since(sent));
            self.round_trip = took.or(self.round_trip);
        }
        self.confirmed = Some(segment.ack);
        if let Some((end, sent)) = self.lone
            && !is_before(segment.ack, end)
        {
            self.acknowledged.push(segment.at.since(sent));
            self.lone = None;
        }
        // A server that has sent its last byte need not read any longer.
        let is_closed = segment.window == 0 && segment.flags & (SYN | FIN) == 0;
        if is_closed {
            self.closed_since.get_or_insert(segment.at);
        } else if let Some(closed) = self.closed_since.take() {
            self.zero_window = self.zero_window + segment.at.since(closed);
        }
    }

    /// Compares its data with what has arrived.
    fn take(&mut self, segment: &Segment) {
        let (start, end) = (segment.seq, segment.seq.wrapping_add(segment.bytes));
        let Some(next) = self.next else {
            self.next = Some(end);
            return;
        };
        if is_before(next, start) && self.gaps.len() < GAPS_AT_MOST {
            self.gaps.push(Gap {
                start: next,
                end: start,
                since: segment.at,
            });
        }
        if is_before(next, end) {
            self.next = Some(end);
        }
        if !is_before(start, next) {
            return;
        }
        match self.fill(start, end) {
            Some(noticed) => self.late.push(segment.at.since(noticed)),
            // One byte may be a keep-alive probe.
            None if !is_before(next, end) && segment.bytes > 1 => self.repeated += 1,
            None => {}
        }
    }

    /// Takes these bytes out of the gaps. Returns when the first gap that had some of them began.
    fn fill(&mut self, start: u32, end: u32) -> Option<Time> {
        let mut found = None;
        let mut left = Vec::new();
        for gap in self.gaps.drain(..) {
            let is_apart = !is_before(gap.start, end) || !is_before(start, gap.end);
            if is_apart {
                left.push(gap);
                continue;
            }
            found.get_or_insert(gap.since);
            if is_before(gap.start, start) {
                left.push(Gap { end: start, ..gap });
            }
            if is_before(end, gap.end) {
                left.push(Gap { start: end, ..gap });
            }
        }
        self.gaps = left;
        found
    }
}

/// Whether a sequence number comes before another one (RFC 9293, section 3.4).
fn is_before(one: u32, other: u32) -> bool {
    (1..1 << 31).contains(&other.wrapping_sub(one))
}

#[cfg(test)]
mod tests {
    use super::super::made::{at_us, ms};
    use super::*;

    fn at(millis: u64) -> Time {
        at_us(1_000 * millis)
    }

    fn segment(at: Time, is_from_server: bool, seq: u32, bytes: u32) -> Segment {
        Segment {
            at,
            client: "192.0.2.2:50000".parse().unwrap(),
            server: "192.0.2.1:443".parse().unwrap(),
            is_from_server,
            seq,
            ack: 0,
            flags: 0,
            window: 500,
            bytes,
        }
    }

    /// The handshake of a connection with a round trip of 40 ms, whose sequence numbers wrap around soon.
    fn handshake() -> Vec<Segment> {
        let syn = Segment {
            flags: SYN,
            ..segment(at(0), false, 99, 0)
        };
        let answer = Segment {
            flags: SYN | ACK,
            ack: 100,
            ..segment(at(40), true, START.wrapping_sub(1), 0)
        };
        vec![syn, answer]
    }

    const START: u32 = u32::MAX - 2_000;

    /// Packet number `n`, from 0, of packets with 1,000 bytes each.
    fn nth(at: Time, n: u32) -> Segment {
        segment(at, true, START.wrapping_add(1_000 * n), 1_000)
    }

    fn facts(packets: impl IntoIterator<Item = Segment>) -> PacketFacts {
        let packets: Vec<Segment> = handshake().into_iter().chain(packets).collect();
        PacketFacts::of(&packets).expect("data")
    }

    #[test]
    fn packets_in_order_show_no_fault_of_the_path() {
        let found = facts((0..10).map(|n| nth(at(50), n)));
        let expected = PacketFacts {
            received: 10,
            ..PacketFacts::default()
        };
        assert_eq!(found, expected);
        assert_eq!(PacketFacts::of(&handshake()), None, "no data");
    }

    #[test]
    fn reordering_is_told_from_loss_by_its_time() {
        let found = facts([
            nth(at(50), 0),
            nth(at(50), 2),
            nth(at(51), 1),
            nth(at(52), 4),
            nth(at(52), 5),
            nth(at(95), 3),
            // All of its bytes have arrived.
            nth(at(96), 4),
        ]);
        assert_eq!(found.received, 7);
        assert_eq!((found.reordered, found.repaired, found.repeated), (1, 1, 1));
        assert_eq!(found.repair, Some(ms(43)));
    }

    #[test]
    fn gap_filled_by_two_packets_counts_as_two_late_packets() {
        let joined = segment(at(50), true, START.wrapping_add(3_000), 2_000);
        let found = facts([nth(at(50), 0), joined, nth(at(51), 2), nth(at(100), 1)]);
        assert_eq!((found.reordered, found.repaired, found.repeated), (1, 1, 0));
        // A gap that nothing fills may be a packet that the capture missed.
        let found = facts([nth(at(50), 0), nth(at(50), 2)]);
        assert_eq!((found.reordered, found.repaired), (0, 0));
    }

    fn acknowledgement(at: Time, ack: u32, window: u16) -> Segment {
        Segment {
            flags: ACK,
            ack,
            window,
            ..segment(at, true, START, 0)
        }
    }

    #[test]
    fn late_acknowledgements_of_lone_segments_are_found() {
        let found = facts([
            segment(at(50), false, 100, 200),
            acknowledgement(at(130), 300, 500),
            segment(at(140), false, 300, 200),
            acknowledgement(at(180), 500, 500),
            // Two segments in a row, and a retransmitted one, are not lone segments.
            segment(at(200), false, 500, 200),
            segment(at(201), false, 700, 200),
            acknowledgement(at(290), 900, 500),
            segment(at(300), false, 700, 200),
            acknowledgement(at(390), 900, 500),
            nth(at(400), 0),
        ]);
        assert_eq!(found.lone_segments, 2);
        assert_eq!(found.longest_ack_delay, Some(ms(40)));
    }

    #[test]
    fn closed_receive_window_is_measured_until_it_opens() {
        let found = facts([
            acknowledgement(at(50), 100, 0),
            acknowledgement(at(60), 100, 0),
            acknowledgement(at(80), 100, 10),
            nth(at(90), 0),
        ]);
        assert_eq!(found.zero_window, ms(30));
    }

    /// The SYN is retransmitted 3 ms before the answer to the first copy arrives. The answer to the second comes later.
    #[test]
    fn retransmitted_syn_shows_no_round_trip() {
        let begun = handshake();
        let (syn, answer) = (begun[0], begun[1]);
        let again = Segment { at: at(37), ..syn };
        let second = Segment {
            at: at(75),
            ..answer
        };
        let data = [
            nth(at(80), 0),
            nth(at(80), 2),
            // 2 ms late: more than half a round trip if the 3 ms from the second SYN to the answer counted as one.
            nth(at(82), 1),
            segment(at(90), false, 100, 200),
            acknowledgement(at(130), 300, 500),
        ];
        let packets = |second_syn: &[Segment]| -> Vec<Segment> {
            let begin = [&[syn][..], second_syn, &[answer, second]].concat();
            begin.into_iter().chain(data).collect()
        };
        let expected = PacketFacts {
            received: 3,
            reordered: 1,
            ..PacketFacts::default()
        };
        assert_eq!(PacketFacts::of(&packets(&[again])), Some(expected));
        // The same holds if this machine's kernel sends the SYN a third time.
        let thrice = [again, Segment { at: at(38), ..syn }];
        assert_eq!(PacketFacts::of(&packets(&thrice)), Some(expected));
        // If the SYN was sent once, the acknowledgement took a round trip, which is no delay.
        let once = PacketFacts {
            lone_segments: 1,
            ack_delay: Some(Duration::ZERO),
            longest_ack_delay: Some(Duration::ZERO),
            ..expected
        };
        assert_eq!(PacketFacts::of(&packets(&[])), Some(once));
    }

    #[test]
    fn reused_port_is_another_connection() {
        let again = handshake().into_iter().map(|it| Segment {
            at: it.at + ms(1_000),
            // Another connection begins with another number.
            seq: if it.is_from_server { it.seq } else { 5_000 },
            ..it
        });
        let first = handshake().into_iter().chain([nth(at(50), 0)]);
        let packets: Vec<Segment> = first.chain(again).chain([nth(at(1_050), 0)]).collect();
        let found = PacketFacts::of(&packets).expect("data");
        assert_eq!((found.received, found.repeated), (2, 0));
    }
}
