//! Trials made by hand for the tests of findings: healthy ones, to which a test adds the fault.

use squall_base::plan::Protocol;
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, Direction, DropRecord, ExchangeRecord, FrameFacts, FrameLayer,
    FrameRecord, HopRecord, PacketClass, PacketRecord, Repair, RequestRecord, Side, SideCounts,
    SocketRecord, SocketSample, TrialRecord, Victim, Way,
};
use squall_base::{Duration, Time};

use super::{Finding, Records, find};
use crate::causes::Attribution;
pub(super) use crate::load::requests::ms;
use crate::wire::http2::{DATA, WINDOW_UPDATE};

pub(super) fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A TCP packet on flow 0 that takes no time, with its sequence number, its payload and its acknowledgement number.
pub(crate) fn packet(
    arrived: Time,
    direction: Direction,
    (seq, payload_len): (u32, u16),
    ack: u32,
) -> PacketRecord {
    let class = match payload_len {
        0 => PacketClass::Ack,
        _ => PacketClass::Data,
    };
    PacketRecord {
        class,
        length: payload_len + 52,
        seq,
        ack,
        payload_len,
        ..squall_made::packet(arrived, direction)
    }
}

/// A frame of HTTP/2 of this type, stream and length.
pub(super) fn frame(way: Way, kind: u64, stream: u64, length: u64) -> FrameFacts {
    FrameFacts {
        stream: Some(stream),
        offset: Some(0),
        ..FrameFacts::new(way, FrameLayer::Http2, kind, length)
    }
}

/// One hop between our own stations, a round trip of 50 ms, over one connection.
pub(crate) fn trial(protocol: Protocol) -> TrialRecord {
    let variant = squall_made::variant("made", protocol);
    let planned = squall_made::trial(variant, squall_made::condition(25, 0.0));
    TrialRecord {
        hops: vec![HopRecord {
            hop: 1,
            protocol,
            client: Some(SideCounts::default()),
            server: Some(SideCounts::default()),
            wire: None,
        }],
        ..squall_made::record(planned)
    }
}

/// A trial's records, before they are judged.
pub(super) struct TestTrial {
    pub(super) trial: TrialRecord,
    pub(super) requests: Vec<RequestRecord>,
    pub(super) causes: Vec<CausesRecord>,
    /// Causes on each hop, if there are several.
    pub(super) hop_causes: Vec<CausesRecord>,
    pub(super) drops: Vec<DropRecord>,
    pub(super) frames: Vec<FrameRecord>,
    pub(super) packets: Vec<PacketRecord>,
    pub(super) sockets: Vec<SocketRecord>,
    pub(super) exchanges: Vec<ExchangeRecord>,
    pub(super) is_attributed: bool,
}

impl TestTrial {
    /// 100 healthy requests, one every 10 ms, each of one round trip, over an open connection.
    pub(super) fn healthy(protocol: Protocol) -> TestTrial {
        let mut made = TestTrial {
            trial: trial(protocol),
            requests: Vec::new(),
            causes: Vec::new(),
            hop_causes: Vec::new(),
            drops: Vec::new(),
            frames: Vec::new(),
            packets: Vec::new(),
            sockets: Vec::new(),
            exchanges: Vec::new(),
            is_attributed: true,
        };
        for n in 0..100 {
            let start = at(1_000 + 10 * n);
            made.requests.push(RequestRecord {
                connected: Some(at(50)),
                stream: Some(2 * n + 1),
                ..squall_made::answered(n, start, ms(50))
            });
            let mut spans = CauseSpans::default();
            spans[Cause::Distance] = ms(50);
            made.causes.push(squall_made::causes(n, spans));
        }
        made
    }

    /// Puts a hop across another link in front: everything so far happened on the second hop.
    pub(super) fn put_behind_another_link(&mut self) {
        let variant = &mut self.trial.trial.variant;
        variant.hops.insert(0, variant.hops[0].clone());
        variant.stations.insert(1, variant.stations[1].clone());
        let on_hop = |hop: u8| {
            let rows = self.causes.iter();
            rows.map(move |row| CausesRecord { hop, ..*row })
        };
        let mut hop_causes: Vec<CausesRecord> = on_hop(1).chain(on_hop(2)).collect();
        for row in hop_causes.iter_mut().filter(|row| row.hop == 1) {
            let total = row.spans.total();
            row.spans = CauseSpans::default();
            row.spans[Cause::Server] = total;
        }
        self.hop_causes = hop_causes;
        self.drops.iter_mut().for_each(|row| row.packet.hop = 2);
        self.packets.iter_mut().for_each(|row| row.hop = 2);
        self.sockets.iter_mut().for_each(|row| row.hop = 2);
    }

    /// Makes these requests take longer by `span`, for that cause.
    pub(super) fn spend(&mut self, requests: std::ops::Range<u64>, cause: Cause, span: Duration) {
        for n in requests {
            self.requests[n as usize].end += span;
            let causes = &mut self.causes[n as usize];
            causes.spans[cause] = causes.spans[cause] + span;
            if cause == Cause::Queue {
                // The requests ahead were healthy: all of their time was distance.
                causes.queue_roots[Cause::Distance] = causes.spans[cause];
            }
        }
    }

    /// A lost packet that was repaired in that way and delayed one request.
    pub(super) fn lose(&mut self, request: u64, cause: Cause, delay: Duration, repair: Repair) {
        self.spend(request..request + 1, cause, delay);
        let packet = squall_made::packet_ref(Direction::Down, request);
        let dropped_at = self.requests[request as usize].intended;
        self.drops.push(DropRecord {
            connection: Some(0),
            start: Some(0),
            end: Some(1_000),
            carried: vec![request],
            repair,
            victims: vec![Victim {
                request,
                cause,
                delay,
            }],
            ..squall_made::dropped(packet, dropped_at)
        });
    }

    pub(super) fn frame(&mut self, millis: u64, side: Side, frame: FrameFacts) {
        self.frames
            .push(squall_made::frame(at(millis), side, frame));
    }

    /// A DATA frame; `sizes` are its length and what it leaves of its stream's window.
    pub(super) fn data(
        &mut self,
        millis: u64,
        side: Side,
        way: Way,
        stream: u64,
        sizes: (u64, i64),
    ) {
        let data = FrameFacts {
            stream_window: Some(sizes.1),
            connection_window: Some(1 << 20),
            ..frame(way, DATA, stream, sizes.0)
        };
        self.frame(millis, side, data);
    }

    pub(super) fn update(&mut self, millis: u64, side: Side, way: Way, stream: u64, by: u64) {
        let update = FrameFacts {
            value: Some(by),
            stream_window: Some(1),
            connection_window: Some(1),
            ..frame(way, WINDOW_UPDATE, stream, 4)
        };
        self.frame(millis, side, update);
    }

    /// A packet of TCP on flow 0 that takes 25 ms; `arrived` is in microseconds.
    pub(super) fn packet(
        &mut self,
        arrived_us: u64,
        direction: Direction,
        seq: u32,
        ack: u32,
        payload_len: u16,
    ) -> &mut PacketRecord {
        let arrived = Time::from_nanos(arrived_us * 1_000);
        self.packets.push(PacketRecord {
            index: self.packets.len() as u64,
            planned: Some(arrived + ms(25)),
            released: Some(arrived + ms(25)),
            ..packet(arrived, direction, (seq, payload_len), ack)
        });
        self.packets.last_mut().unwrap()
    }

    /// The last sample of connection 0.
    pub(super) fn socket(&mut self, side: Side, fields: &[(&str, u64)]) {
        self.sample(side, 0, SocketSample::Tcp(squall_made::tcp_info(fields)));
    }

    /// The last sample of a connection.
    pub(super) fn sample(&mut self, side: Side, connection: u32, sample: SocketSample) {
        self.sockets.push(SocketRecord {
            connection,
            is_last: true,
            ..squall_made::socket(at(3_000), side, sample)
        });
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut records = Records::new();
        self.requests
            .iter()
            .for_each(|row| records.add_request(row));
        self.frames.iter().for_each(|row| records.add_frame(row));
        self.packets.iter().for_each(|row| records.add_packet(row));
        self.sockets.iter().for_each(|row| records.add_socket(row));
        self.exchanges
            .iter()
            .for_each(|row| records.add_exchange(row));
        let attribution = Attribution {
            hops: self.hop_causes.clone(),
            causes: self.causes.iter().copied().collect(),
            drops: self.drops.clone(),
            traces: Vec::new(),
        };
        find(
            records,
            self.is_attributed.then_some(&attribution),
            &self.trial,
        )
    }

    pub(super) fn finding(&self, name: &str) -> Option<Finding> {
        assert!(super::names().any(|known| known == name), "{name}");
        let mut findings = self.findings().into_iter();
        findings.find(|finding| finding.name == name)
    }
}

/// Whether the shares are equal except for rounding.
pub(super) fn is_near(share: f64, expected: f64) -> bool {
    (share - expected).abs() < 1e-9
}

#[test]
fn healthy_trials_have_no_findings() {
    for protocol in Protocol::ALL {
        assert_eq!(TestTrial::healthy(protocol).findings(), [], "{protocol}");
    }
}
