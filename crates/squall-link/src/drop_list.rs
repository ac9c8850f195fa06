//! Drop lists: packets that are lost because a rule names them, so that a test can request exactly one loss.
//!
//! A rule counts the packets that reach this component in its direction while the rule holds. It does not count packets
//! that a blackout dropped earlier, but does count retransmissions and, in a second stretch, copies made by the first. Each
//! rule counts on its own, including packets that another rule drops. Nothing here is random.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use squall_base::Time;
use squall_base::record::{Fate, PacketClass, PacketRecord};

use crate::component::{Component, Exit, Packet};
use crate::settings::{DropRule, LaneSettings};

/// The rules of one direction and their counts.
#[derive(Debug)]
pub(crate) struct DropList {
    rules: Vec<CountingRule>,
    /// By flow.
    streams: BTreeMap<u32, Stream>,
}

impl DropList {
    pub(crate) fn new(rules: &[DropRule]) -> DropList {
        DropList {
            rules: rules.iter().map(CountingRule::new).collect(),
            streams: BTreeMap::new(),
        }
    }

    /// The numbers of the stream's bytes that the packet carries; `None` if it carries none.
    fn bytes_of(&mut self, record: &PacketRecord) -> Option<RangeInclusive<i64>> {
        let is_syn = record.class == PacketClass::Syn;
        let payload_len = i64::from(record.payload_len);
        if !is_syn && payload_len == 0 {
            return None;
        }
        // The SYN takes the number before the first byte, even if it carries data (RFC 9293, section 3.4).
        let first_byte_seq = record.seq.wrapping_add(u32::from(is_syn));
        if is_syn {
            let stream = Stream::beginning_at(first_byte_seq);
            self.streams.insert(record.flow, stream);
        }
        let stream = self
            .streams
            .entry(record.flow)
            .or_insert_with(|| Stream::beginning_at(first_byte_seq));
        let first = stream.number_of(first_byte_seq);
        (payload_len > 0).then(|| first..=first + payload_len - 1)
    }
}

impl Component for DropList {
    fn enter(&mut self, _now: Time, packet: Packet, exit: &mut Exit) {
        let bytes = self.bytes_of(&packet.record);
        let mut is_named = false;
        for rule in &mut self.rules {
            // Every rule must count the packet, whatever other rules decide.
            is_named |= rule.names(&packet.record, bytes.as_ref());
        }
        if is_named {
            exit.drop(packet, Fate::ListDrop);
        } else {
            exit.pass(packet);
        }
    }

    /// Earlier rules keep their counts: new ones are only ever appended.
    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        let both = self.rules.iter().zip(&settings.drops);
        let kept = both.take_while(|(old, new)| old.rule == **new).count();
        self.rules.truncate(kept);
        self.rules
            .extend(settings.drops[kept..].iter().map(CountingRule::new));
    }

    fn is_transparent(&self) -> bool {
        self.rules.is_empty()
    }
}

/// A flow's progress in this direction, so that sequence numbers can be told from those one wrap later.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Sequence number of the furthest segment.
    seq: u32,
    /// The number of that segment's first byte; the first byte of the stream is 1.
    number: i64,
}

impl Stream {
    fn beginning_at(seq: u32) -> Stream {
        Stream { seq, number: 1 }
    }

    /// The number of the byte with this sequence number: the one nearest to the furthest segment, because a window
    /// is less than 2^30 bytes (RFC 7323, section 2.3). Before the first byte it is 0 or less.
    fn number_of(&mut self, seq: u32) -> i64 {
        let ahead = seq.wrapping_sub(self.seq).cast_signed();
        let number = self.number + i64::from(ahead);
        if ahead > 0 {
            *self = Stream { seq, number };
        }
        number
    }
}

/// A rule, and how many packets it has counted.
#[derive(Debug)]
struct CountingRule {
    rule: DropRule,
    /// By flow; all under 0 if the rule does not distinguish flows.
    counts: BTreeMap<u32, u64>,
}

impl CountingRule {
    fn new(rule: &DropRule) -> CountingRule {
        CountingRule {
            rule: rule.clone(),
            counts: BTreeMap::new(),
        }
    }

    /// Counts the packet, which carries `bytes` of its stream, and returns whether the rule drops it.
    fn names(&mut self, record: &PacketRecord, bytes: Option<&RangeInclusive<i64>>) -> bool {
        let mut count = |flow: u32| {
            let count = self.counts.entry(flow).or_default();
            *count += 1;
            *count
        };
        match self.rule {
            DropRule::Nth {
                number,
                class,
                flow,
            } => {
                let is_counted = is_or_any(class, record.class) && is_or_any(flow, record.flow);
                is_counted && count(record.flow) == number
            }
            DropRule::Every { n, class } => {
                is_or_any(class, record.class) && count(0).is_multiple_of(n)
            }
            DropRule::Sequence {
                from,
                to,
                times,
                flow,
            } => {
                let touches = bytes.is_some_and(|bytes| {
                    *bytes.start() <= i64::from(to) && *bytes.end() >= i64::from(from)
                });
                touches && is_or_any(flow, record.flow) && count(record.flow) <= u64::from(times)
            }
        }
    }
}

fn is_or_any<T: Copy + PartialEq>(wanted: Option<T>, found: T) -> bool {
    wanted.is_none_or(|wanted| wanted == found)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::flow::Flows;
    use crate::packet::PacketInfo;
    use crate::packet::tests::tcp_packet;
    use squall_base::record::Direction;

    const SYN: u8 = 0x02;
    const FIN_ACK: u8 = 0x11;
    const ACK: u8 = 0x10;

    /// Makes packets as they arrive at a link.
    #[derive(Default)]
    pub(crate) struct Sender {
        flows: Flows,
        sent: u64,
    }

    impl Sender {
        /// The IP packet `bytes`, on its way up.
        pub(crate) fn packet(&mut self, bytes: Vec<u8>) -> Packet {
            let info = PacketInfo::of(&bytes);
            let place = self.flows.count(Direction::Up, &info);
            self.sent += 1;
            Packet::new(Time::ZERO, bytes, &info, place, self.sent - 1)
        }

        /// A TCP segment of the connection from `port`.
        fn segment(&mut self, port: u16, flags: u8, seq: u32, payload_len: u16) -> Packet {
            let mut bytes = tcp_packet(port, 80, flags, payload_len);
            bytes[24..28].copy_from_slice(&seq.to_be_bytes());
            self.packet(bytes)
        }
    }

    /// A list and a sender before it; its segments are given as (port, flags, sequence number, payload length).
    struct Case {
        list: DropList,
        sender: Sender,
    }

    impl Case {
        fn new(rules: &[DropRule]) -> Case {
            Case {
                list: DropList::new(rules),
                sender: Sender::default(),
            }
        }

        /// Whether each of these segments is dropped, as a string of `x` and `.`.
        fn fates(&mut self, segments: &[(u16, u8, u32, u16)]) -> String {
            let fate = |&(port, flags, seq, payload_len): &(u16, u8, u32, u16)| {
                let packet = self.sender.segment(port, flags, seq, payload_len);
                let mut exit = Exit::default();
                self.list.enter(Time::ZERO, packet, &mut exit);
                assert_eq!(exit.passed.len() + exit.dropped.len(), 1);
                assert!(exit.dropped.iter().all(|p| p.record.fate == Fate::ListDrop));
                if exit.passed.is_empty() { 'x' } else { '.' }
            };
            segments.iter().map(fate).collect()
        }

        fn adopt(&mut self, rules: &[DropRule]) {
            let settings = LaneSettings {
                drops: rules.to_vec(),
                ..LaneSettings::default()
            };
            self.list.adopt(Time::ZERO, &settings, &mut Exit::default());
        }
    }

    fn nth(number: u64, class: Option<PacketClass>, flow: Option<u32>) -> DropRule {
        DropRule::Nth {
            number,
            class,
            flow,
        }
    }

    fn sequence(from: u32, to: u32, times: u32) -> DropRule {
        DropRule::Sequence {
            from,
            to,
            times,
            flow: None,
        }
    }

    /// A connection: SYN, acknowledgement, three segments of 100 bytes, FIN.
    fn connection(port: u16, syn_seq: u32) -> [(u16, u8, u32, u16); 6] {
        let at = |number: u32| syn_seq.wrapping_add(number);
        [
            (port, SYN, at(0), 0),
            (port, ACK, at(1), 0),
            (port, ACK, at(1), 100),
            (port, ACK, at(101), 100),
            (port, ACK, at(201), 100),
            (port, FIN_ACK, at(301), 0),
        ]
    }

    #[test]
    fn nth_counts_packets_separately_for_each_flow() {
        let mut case = Case::new(&[nth(2, None, None)]);
        assert_eq!(case.fates(&connection(1, 7)), ".x....");
        assert_eq!(case.fates(&connection(2, 7)), ".x....");
        let mut interleaved = Case::new(&[nth(2, None, None)]);
        let segments = [1, 2, 1, 1, 2, 2].map(|port| (port, ACK, 1, 9));
        assert_eq!(interleaved.fates(&segments), "..x.x.");
    }

    #[test]
    fn nth_of_a_class_counts_only_that_class() {
        for (class, fates) in [
            (PacketClass::Syn, "x....."),
            (PacketClass::Ack, ".x...."),
            (PacketClass::Data, "..x..."),
            (PacketClass::Close, ".....x"),
            (PacketClass::Other, "......"),
        ] {
            let mut case = Case::new(&[nth(1, Some(class), None)]);
            assert_eq!(case.fates(&connection(1, 7)), fates, "{class:?}");
        }
        let mut case = Case::new(&[nth(3, Some(PacketClass::Data), None)]);
        assert_eq!(case.fates(&connection(1, 7)), "....x.");
    }

    #[test]
    fn nth_of_one_flow_drops_nothing_in_other_flows() {
        let mut case = Case::new(&[nth(3, None, Some(1))]);
        assert_eq!(case.fates(&connection(1, 7)), "......");
        assert_eq!(case.fates(&connection(2, 7)), "..x...");
        assert_eq!(case.fates(&connection(3, 7)), "......");
    }

    #[test]
    fn a_retransmission_counts_as_a_packet() {
        let mut case = Case::new(&[nth(3, Some(PacketClass::Data), None)]);
        assert_eq!(case.fates(&[(1, ACK, 1, 100); 5]), "..x..");
    }

    #[test]
    fn every_counts_packets_over_all_flows_together() {
        let every = |n, class| DropRule::Every { n, class };
        let mut case = Case::new(&[every(4, None)]);
        assert_eq!(case.fates(&connection(1, 7)), "...x..");
        assert_eq!(case.fates(&connection(2, 7)), ".x...x");
        let mut case = Case::new(&[every(2, Some(PacketClass::Data))]);
        assert_eq!(case.fates(&connection(1, 7)), "...x..");
        assert_eq!(case.fates(&connection(2, 7)), "..x.x.");
        assert_eq!(
            Case::new(&[every(1, None)]).fates(&connection(1, 7)),
            "xxxxxx"
        );
    }

    /// The first byte has number 1; a segment is named if it carries any byte of the range, and a segment without
    /// payload carries none.
    #[test]
    fn sequence_names_the_segments_that_carry_a_byte_of_the_range() {
        for (from, to, fates) in [
            (1, 1, "..x..."),
            (100, 100, "..x..."),
            (101, 101, "...x.."),
            (100, 101, "..xx.."),
            (150, 160, "...x.."),
            (1, u32::MAX, "..xxx."),
            (300, 300, "....x."),
            (301, u32::MAX, "......"),
            (0, 0, "......"),
        ] {
            for syn_seq in [7, u32::MAX, u32::MAX - 1, u32::MAX - 150, 0x7fff_ff80] {
                let mut case = Case::new(&[sequence(from, to, 9)]);
                let found = case.fates(&connection(1, syn_seq));
                assert_eq!(found, fates, "{from} to {to}, SYN {syn_seq}");
            }
        }
    }

    #[test]
    fn sequence_drops_the_given_number_of_transmissions_in_each_flow() {
        let mut case = Case::new(&[sequence(101, 200, 2)]);
        let repeated = |port| [1, 101, 101, 101, 101].map(|seq| (port, ACK, seq, 100));
        assert_eq!(case.fates(&[(1, SYN, 0, 0), (2, SYN, 0, 0)]), "..");
        assert_eq!(case.fates(&repeated(1)), ".xx..");
        assert_eq!(case.fates(&repeated(2)), ".xx..");
        // A range that covers several segments: the first of them to arrive are dropped.
        let mut case = Case::new(&[sequence(1, 300, 2)]);
        assert_eq!(case.fates(&connection(1, 7)), "..xx..");
        let of_flow_1 = DropRule::Sequence {
            from: 1,
            to: 300,
            times: 1,
            flow: Some(1),
        };
        let mut case = Case::new(&[of_flow_1]);
        assert_eq!(case.fates(&connection(1, 7)), "......");
        assert_eq!(case.fates(&connection(2, 9)), "..x...");
    }

    /// A SYN with payload (TCP Fast Open, RFC 7413) carries the first bytes.
    #[test]
    fn a_syn_may_carry_the_first_bytes() {
        let mut case = Case::new(&[sequence(10, 10, 1)]);
        assert_eq!(
            case.fates(&[(1, SYN, 5, 9), (1, ACK, 15, 9), (1, SYN, 5, 10)]),
            ".x."
        );
        let mut case = Case::new(&[sequence(10, 10, 1)]);
        assert_eq!(case.fates(&[(1, SYN, 5, 10)]), "x");
    }

    /// Without a SYN, the first data segment to arrive begins with byte 1; what was before it has no number.
    #[test]
    fn without_a_syn_the_first_data_segment_begins_the_stream() {
        let mut case = Case::new(&[sequence(1, u32::MAX, 9)]);
        let segments = [
            (1, ACK, 40, 0),
            (1, ACK, 50, 10),
            (1, ACK, 40, 10),
            (1, ACK, 60, 10),
        ];
        assert_eq!(case.fates(&segments), ".x.x");
        let mut case = Case::new(&[sequence(11, 20, 9)]);
        assert_eq!(case.fates(&segments), "...x");
    }

    /// Byte 2^32 + 1 has the sequence number of byte 1, and is another byte.
    #[test]
    fn bytes_after_a_sequence_wrap_are_not_taken_for_the_first_bytes() {
        let mut case = Case::new(&[sequence(1, 100, 9)]);
        let steps = 0..16_u32;
        let segments: Vec<_> = steps
            .chain(0..2)
            .map(|step| (1, ACK, step << 28, 100))
            .collect();
        assert_eq!(case.fates(&segments), "x.................");
        // Near the wrap, an old segment is still recognised as old.
        let mut case = Case::new(&[sequence(1, 100, 9)]);
        assert_eq!(
            case.fates(&[
                (1, SYN, u32::MAX - 50, 0),
                (1, ACK, 50, 100),
                (1, ACK, u32::MAX - 49, 100)
            ]),
            "..x"
        );
    }

    #[test]
    fn each_rule_counts_on_its_own() {
        let mut case = Case::new(&[
            nth(1, None, None),
            nth(2, None, None),
            DropRule::Every { n: 3, class: None },
            sequence(101, 200, 1),
        ]);
        assert_eq!(case.fates(&connection(1, 7)), "xxxx.x");
        // The segment that `Nth` drops was also the one transmission that the range drops.
        let mut case = Case::new(&[nth(3, None, None), sequence(1, 100, 1)]);
        assert_eq!(
            case.fates(&[
                (1, SYN, 0, 0),
                (1, ACK, 1, 0),
                (1, ACK, 1, 100),
                (1, ACK, 1, 100)
            ]),
            "..x."
        );
    }

    #[test]
    fn rules_keep_their_counts_when_others_are_added() {
        let mut case = Case::new(&[nth(3, None, None)]);
        let segment = (1, ACK, 1, 100);
        assert_eq!(case.fates(&[segment; 2]), "..");
        case.adopt(&[nth(3, None, None), nth(3, None, None)]);
        // First the first rule's third packet, then the second rule's.
        assert_eq!(case.fates(&[segment; 4]), "x.x.");
        case.adopt(&[nth(3, None, None), nth(3, None, None)]);
        assert_eq!(case.fates(&[segment; 4]), "....");
        assert!(!case.list.is_transparent());
        assert!(DropList::new(&[]).is_transparent());
    }
}
