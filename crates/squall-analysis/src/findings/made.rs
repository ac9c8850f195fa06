//! Trials made by hand for the tests of findings: healthy ones, to which a test adds the fault.

use squall_base::plan::{
    Condition, Connections, Hop, Implementation, Load, PoolOrder, PoolSettings, Protocol,
    ResponseTemplate, SAMPLE_EVERY, SideSettings, Station, Trial, Variant,
};
use squall_base::record::{
    Cause, CausesRecord, Direction, DropRecord, EffectiveSettings, ExchangeRecord, Fate,
    FrameFacts, FrameLayer, FrameRecord, Health, HopRecord, Lateness, MachineHealth, Outcome,
    PacketClass, PacketRecord, PacketRef, Repair, RequestRecord, Side, SideCounts, SocketRecord,
    SocketSample, TcpInfo, TrialRecord, Validity, Victim, Way,
};
use squall_base::{Bytes, Duration, Probability, Rate, Time};

use super::{Finding, Records, find};
use crate::causes::Attribution;
pub(super) use crate::load::requests::ms;
use crate::wire::http2::{DATA, WINDOW_UPDATE};
use crate::wire::{ACK, TCP};

pub(super) fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A packet of TCP on flow 0 that takes no time, with its sequence number, its payload and the byte it awaits.
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
        hop: 1,
        index: 0,
        direction,
        flow: 0,
        client_port: 40_000,
        class,
        class_index: 0,
        length: payload_len + 52,
        protocol: TCP,
        seq,
        ack,
        payload_len,
        tcp_flags: ACK,
        window_bytes: 1 << 20,
        arrived,
        queue_bytes: 0,
        queueing: ms(0),
        served: None,
        planned: Some(arrived),
        released: Some(arrived),
        fate: Fate::Delivered,
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
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

/// The plan: one hop between our own stations, over one connection.
fn planned(protocol: Protocol) -> Trial {
    let station = |name: &str| Station {
        name: name.to_owned(),
        runs: Implementation::Embedded,
        asked: squall_base::plan::StationOptions::default(),
    };
    let hop = Hop {
        protocol,
        across_link: true,
        connections: Connections::Fixed(1),
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 1,
        },
        client: SideSettings::default(),
        server: SideSettings::default(),
    };
    Trial {
        index: 0,
        repetition: 0,
        seed: 1,
        variant: Variant {
            name: "made".to_owned(),
            path: format!("client ~{protocol}~> server"),
            stations: vec![station("client"), station("server")],
            hops: vec![hop],
        },
        condition: Condition {
            delay: ms(25).into(),
            loss: Probability::ZERO.into(),
            link: String::new().into(),
            schedule: String::new(),
            next_links: Vec::new(),
        },
        load: Load::constant(
            Rate::new(100, Duration::from_secs(1)).unwrap(),
            ms(0),
            ms(1_000),
            ms(1_000),
        )
        .unwrap(),
        response: ResponseTemplate {
            status: 200,
            body: Bytes::new(1_024),
        },
        sample_every: SAMPLE_EVERY,
        fast: Vec::new(),
    }
}

/// One hop between our own stations, a round trip of 50 ms, over one connection.
pub(crate) fn trial(protocol: Protocol) -> TrialRecord {
    TrialRecord {
        schema: 0,
        trial: planned(protocol),
        attempt: 1,
        epoch_monotonic_ns: 0,
        epoch_unix_ns: 0,
        load_start: ms(0),
        requests: 0,
        connections_opened: 1,
        pages: None,
        gaps: None,
        hops: vec![HopRecord {
            hop: 1,
            protocol,
            client: Some(SideCounts::default()),
            server: Some(SideCounts::default()),
            wire: None,
        }],
        stations: Vec::new(),
        station_exits: Vec::new(),
        files: Vec::new(),
        health: Health {
            schedule_lag: Lateness::default(),
            link_wakeup: Lateness::default(),
            link_late: None,
            rate_asked_per_s: 100.0,
            rate_achieved_per_s: 100.0,
            link: Vec::new(),
            links: Vec::new(),
            machine: MachineHealth::default(),
            validity: Validity::Valid,
        },
        used: EffectiveSettings {
            kernel: String::new(),
            client_congestion_control: Vec::new(),
            server_congestion_control: Vec::new(),
            next_links: Vec::new(),
            sysctls: std::collections::BTreeMap::new(),
            link_scheduling: "fifo".to_owned(),
            station_scheduling: "fifo".to_owned(),
            link_spin: ms(0),
            client_spin: ms(0),
            user_namespace: false,
        },
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
                slot: Some(start),
                connected: Some(at(50)),
                written_first: Some(start),
                written_last: Some(start),
                answered_first: Some(start + ms(50)),
                headers: Some(start + ms(50)),
                end: start + ms(50),
                status: Some(200),
                connection: Some(0),
                stream: Some(2 * n + 1),
                response_body_bytes: 1_024,
                outcome: Outcome::Answered,
                ..RequestRecord::due(n, start)
            });
            let mut causes = CausesRecord {
                request: n,
                hop: CausesRecord::IN_TOTAL,
                spans: squall_base::record::CauseSpans::default(),
                queue_roots: squall_base::record::CauseSpans::default(),
                responsible: None,
            };
            causes.spans[Cause::Distance] = ms(50);
            made.causes.push(causes);
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
            row.spans = squall_base::record::CauseSpans::default();
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
                // Behind healthy exchanges.
                causes.queue_roots[Cause::Distance] = causes.spans[cause];
            }
        }
    }

    /// A lost packet that was repaired in that way and delayed one request.
    pub(super) fn lose(&mut self, request: u64, cause: Cause, delay: Duration, repair: Repair) {
        self.spend(request..request + 1, cause, delay);
        self.drops.push(DropRecord {
            packet: PacketRef {
                hop: 1,
                direction: Direction::Down,
                index: request,
            },
            dropped_at: self.requests[request as usize].intended,
            fate: Fate::LossDrop,
            connection: Some(0),
            stream: None,
            start: Some(0),
            end: Some(1_000),
            carried: vec![request],
            repair,
            repaired_at: None,
            repaired_by: None,
            victims: vec![Victim {
                request,
                cause,
                delay,
            }],
        });
    }

    pub(super) fn frame(&mut self, millis: u64, side: Side, frame: FrameFacts) {
        self.frames.push(FrameRecord {
            time: at(millis),
            hop: 1,
            side,
            connection: 0,
            frame,
        });
    }

    /// DATA of a size that leaves this much of its stream's window.
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
        let values = TcpInfo::FIELDS.map(|field| {
            let found = fields.iter().find(|(name, _)| *name == field.name);
            found.map(|(_, value)| *value)
        });
        self.sample(side, 0, SocketSample::Tcp(TcpInfo::from_values(values)));
    }

    /// The last sample of a connection.
    pub(super) fn sample(&mut self, side: Side, connection: u32, sample: SocketSample) {
        self.sockets.push(SocketRecord {
            time: at(3_000),
            hop: 1,
            side,
            connection,
            is_last: true,
            sample,
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

/// Whether the shares are equal but for rounding.
pub(super) fn is_near(share: f64, expected: f64) -> bool {
    (share - expected).abs() < 1e-9
}

#[test]
fn healthy_trials_have_no_findings() {
    for protocol in Protocol::ALL {
        assert_eq!(TestTrial::healthy(protocol).findings(), [], "{protocol}");
    }
}
