//! Connections as both sides and the link know them, under one number.
//!
//! The client numbers its connections as it opens them. With TCP this is the order of their first packets on the link. With
//! QUIC it need not be, because opening a connection sends nothing by itself: there the order in which connections sent
//! their first frames is that of the first datagrams. The server numbers its connections as it accepts them, which is the
//! order in which the end of TCP's handshake, or QUIC's first datagram, reached its host. Neither is recorded anywhere else.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use squall_base::record::{Direction, PacketRef, Side};

use super::frames::SideLog;
use super::intake::{Flows, Inputs};
use super::quic::QuicConnection;
use super::search::up_to;
use super::sending::Timeline;
use super::stream::{Stream, Tx};
use super::tcp::{self, TcpConnection};
use super::walk::{NEVER, Span};

/// What a connection did before it carried requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshake {
    pub(super) opened: u64,
    /// When the server's answer to TCP's SYN reached the client; [`NEVER`].
    pub(super) answered: u64,
    pub(super) lost_syns: Vec<Tx>,
    /// Lost packets that TLS or QUIC may have waited for, with the spans for which they answer.
    pub(super) lost_tls: Vec<(PacketRef, Span)>,
}

/// What carries it.
#[derive(Debug)]
pub(super) enum Carrier {
    Tcp(TcpConnection),
    Quic(QuicConnection),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) flow: u32,
    /// The server's number for it, if it got there.
    pub(super) server: Option<u32>,
    pub(super) handshake: Handshake,
    pub(super) carrier: Carrier,
    /// What both sides recorded of it, by side.
    pub(super) sides: [Option<SideLog>; 2],
    /// Its ends were not seen themselves: their times are estimates.
    is_from_afar: bool,
    /// What held the senders back, by direction; made when somebody asks.
    timelines: [OnceCell<Timeline>; 2],
}

impl Connection {
    pub(super) fn is_quic(&self) -> bool {
        matches!(self.carrier, Carrier::Quic(_))
    }

    /// The bytes that went `direction`: of the connection, or of QUIC's stream `id`.
    pub(super) fn stream(&self, direction: Direction, id: u64) -> Option<&Stream> {
        let place = direction as usize;
        match &self.carrier {
            Carrier::Tcp(tcp) => Some(&tcp.streams[place]),
            Carrier::Quic(quic) if quic.is_joined[place] => Some(&quic.streams.get(&id)?[place]),
            Carrier::Quic(_) => None,
        }
    }

    /// When the sender of what goes `direction` first got an acknowledgement after `time`.
    pub(super) fn acknowledged_after(&self, direction: Direction, time: u64) -> Option<u64> {
        let place = direction as usize;
        match &self.carrier {
            Carrier::Tcp(tcp) => {
                let acks = &tcp.acks[place];
                let next = acks.get(up_to(acks, time, |ack| ack.arrived));
                next.map(|ack| ack.arrived)
            }
            Carrier::Quic(quic) => {
                let acks = &quic.acks[place];
                acks.get(up_to(acks, time, |ack| ack.time))
                    .map(|ack| ack.time)
            }
        }
    }

    /// What held the sender of what goes `direction` back.
    pub(super) fn timeline(&self, direction: Direction) -> &Timeline {
        self.timelines[direction as usize].get_or_init(|| {
            let evidence = match &self.carrier {
                Carrier::Tcp(tcp) => {
                    let side = self.sides[sender(direction) as usize].as_ref();
                    let accounts = side.map(|side| side.accounts.clone());
                    tcp.evidence(direction, accounts.unwrap_or_default())
                }
                Carrier::Quic(quic) => quic.evidence(direction),
            };
            Timeline::of(if self.is_from_afar {
                evidence.seen_from_afar()
            } else {
                evidence
            })
        })
    }
}

/// The side that sends what goes `direction`.
pub(super) fn sender(direction: Direction) -> Side {
    match direction {
        Direction::Up => Side::Client,
        Direction::Down => Side::Server,
    }
}

/// What begins a connection.
enum Beginning {
    Tcp(tcp::Opening),
    Quic(Box<QuicConnection>),
}

/// A connection's flow, when it was opened, when it was accepted, and what begins it.
type Begun = (u32, u64, u64, Beginning);

/// More connections than anybody captures.
const MAX_CAPTURED: u32 = 1 << 22;

/// All connections by the client's number, which are made one at a time: their bytes take the most memory.
pub(super) struct Connections {
    flows: Flows,
    beginnings: Vec<(u32, Option<Beginning>)>,
    opened: Vec<u64>,
    servers: Vec<Option<u32>>,
    /// How many connections of each flow of TCP are not made yet.
    left: BTreeMap<u32, usize>,
    /// The flows of TCP of which there are more connections to come.
    unpacked: BTreeMap<u32, tcp::Flow>,
}

impl Connections {
    /// Takes the packets out of `inputs`.
    pub(super) fn new(inputs: &mut Inputs) -> Connections {
        let mut flows = std::mem::take(&mut inputs.flows);
        let mut all: Vec<Begun> = Vec::new();
        let mut left = BTreeMap::new();
        for (flow, packets) in flows.tcp.iter_mut() {
            let mut openings = packets.openings();
            if inputs.is_captured {
                openings.truncate(1);
            }
            left.insert(flow, openings.len());
            all.extend(openings.into_iter().map(|opening| {
                let (opened, accepted) = (opening.within.from, opening.accepted);
                (flow, opened, accepted, Beginning::Tcp(opening))
            }));
        }
        for (flow, packets) in flows.udp.iter_mut() {
            let quic = packets.begin();
            let (opened, accepted) = (quic.opened, quic.accepted);
            all.push((flow, opened, accepted, Beginning::Quic(Box::new(quic))));
        }
        if inputs.is_captured {
            return Connections::numbered_by_flow(flows, all, left);
        }
        all.sort_by_key(|(flow, opened, ..)| (*opened, *flow));
        let all = by_number(all, &inputs.first_sent(Side::Client));
        let accepted_at = |place: usize| all[place].2;
        let mut accepted: Vec<usize> = (0..all.len())
            .filter(|&place| accepted_at(place) != NEVER)
            .collect();
        accepted.sort_by_key(|&place| accepted_at(place));
        let mut servers = vec![None; all.len()];
        for (number, place) in (0..).zip(accepted) {
            servers[place] = Some(match inputs.is_observed[Side::Server as usize] {
                true => place as u32,
                false => number,
            });
        }
        Connections {
            flows,
            opened: all.iter().map(|(_, opened, ..)| *opened).collect(),
            beginnings: all
                .into_iter()
                .map(|(flow, _, _, beginning)| (flow, Some(beginning)))
                .collect(),
            servers,
            left,
            unpacked: BTreeMap::new(),
        }
    }

    /// Each at the place of its flow's number; at other places there is none. What has a number beyond all that a capture can
    /// have is of a damaged record.
    fn numbered_by_flow(
        flows: Flows,
        mut all: Vec<Begun>,
        left: BTreeMap<u32, usize>,
    ) -> Connections {
        all.retain(|(flow, ..)| *flow < MAX_CAPTURED);
        let places = all.iter().map(|(flow, ..)| *flow as usize + 1).max();
        let places = places.unwrap_or(0);
        let mut connections = Connections {
            flows,
            beginnings: (0..places as u32).map(|flow| (flow, None)).collect(),
            opened: vec![NEVER; places],
            servers: vec![None; places],
            left,
            unpacked: BTreeMap::new(),
        };
        for (flow, opened, accepted, beginning) in all {
            let place = flow as usize;
            connections.beginnings[place].1 = Some(beginning);
            connections.opened[place] = opened;
            connections.servers[place] = (accepted != NEVER).then_some(flow);
        }
        connections
    }

    /// When the first packet of each reached the link.
    pub(super) fn opened(&self) -> &[u64] {
        &self.opened
    }

    /// Makes a connection, once.
    pub(super) fn take(&mut self, number: u32, inputs: &mut Inputs) -> Option<Connection> {
        let place = number as usize;
        let (flow, beginning) = self.beginnings.get_mut(place)?;
        let (flow, beginning) = (*flow, beginning.take()?);
        let server = self.servers[place];
        let mut sides = [Some(number), server]
            .into_iter()
            .zip(Side::ALL)
            .map(|(number, side)| inputs.take_side(side, number?));
        let mut sides = [sides.next().flatten(), sides.next().flatten()];
        let (handshake, carrier) = match beginning {
            Beginning::Tcp(opening) => {
                let packets = match self.unpacked.remove(&flow) {
                    Some(packets) => packets,
                    None => self.flows.tcp.remove(flow)?.unpack(),
                };
                let tcp = packets.connection(opening, &inputs.path);
                self.keep(flow, packets);
                (of_tcp(opening.within.from, &tcp), Carrier::Tcp(tcp))
            }
            Beginning::Quic(mut quic) => {
                let packets = self.flows.udp.remove(flow)?;
                let frames = sides
                    .each_mut()
                    .map(|side| side.as_mut().map(|side| std::mem::take(&mut side.quic)));
                packets.join(&mut quic, frames, &inputs.path);
                (of_quic(&quic), Carrier::Quic(*quic))
            }
        };
        Some(Connection {
            flow,
            server,
            handshake,
            carrier,
            sides,
            is_from_afar: inputs.is_captured,
            timelines: Default::default(),
        })
    }

    /// Keeps the packets of a flow until its last connection is made.
    fn keep(&mut self, flow: u32, packets: tcp::Flow) {
        if let Some(left) = self.left.get_mut(&flow) {
            *left -= 1;
            if *left > 0 {
                self.unpacked.insert(flow, packets);
            }
        }
    }
}

/// Connections in the order of their first packets, put into the order of the client's numbers. `first_sent` has when each
/// number of QUIC's sent its first frame, in the order of these times. If it does not have all connections, the order stays.
fn by_number(all: Vec<Begun>, first_sent: &[(u64, u32)]) -> Vec<Begun> {
    let is_of_all = first_sent.len() == all.len();
    if !is_of_all
        || first_sent
            .iter()
            .any(|(_, number)| *number as usize >= all.len())
    {
        return all;
    }
    let mut numbered: Vec<(u32, Begun)> = first_sent
        .iter()
        .map(|(_, number)| *number)
        .zip(all)
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, begun)| begun).collect()
}

fn of_tcp(opened: u64, tcp: &TcpConnection) -> Handshake {
    let mut lost_tls = Vec::new();
    for stream in &tcp.streams {
        for piece in &stream.pieces {
            let losses = stream.losses(piece);
            lost_tls.extend(losses.map(|(tx, span)| (stream.txs[tx as usize].packet, span)));
        }
    }
    lost_tls.sort_by_key(|(packet, span)| (span.from, *packet));
    one_at_a_time(&mut lost_tls);
    Handshake {
        opened,
        answered: tcp.answered,
        lost_syns: tcp.lost_syns.clone(),
        lost_tls,
    }
}

fn of_quic(quic: &QuicConnection) -> Handshake {
    let mut lost_tls: Vec<(PacketRef, Span)> = quic
        .lost
        .iter()
        .flatten()
        .filter(|tx| {
            let packets = quic.lost_packets.get(&tx.packet);
            packets.is_some_and(|joined| joined.has_crypto)
        })
        .map(|tx| {
            let from = tx.due;
            (tx.packet, Span { from, to: NEVER })
        })
        .collect();
    lost_tls.sort_by_key(|(packet, span)| (span.from, *packet));
    one_at_a_time(&mut lost_tls);
    Handshake {
        opened: quic.opened,
        answered: NEVER,
        lost_syns: Vec::new(),
        lost_tls,
    }
}

/// A moment is one packet's to answer for: the last one that is missing.
fn one_at_a_time(losses: &mut [(PacketRef, Span)]) {
    for place in 1..losses.len() {
        let next = losses[place].1.from;
        let span = &mut losses[place - 1].1;
        span.to = span.to.min(next);
    }
}
