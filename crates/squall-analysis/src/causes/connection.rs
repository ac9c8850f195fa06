//! Connections as both sides and the link know them, under one number.
//!
//! The client numbers its connections as it opens them. With TCP this is the order of their first packets on the link.
//! With QUIC it need not be, because opening a connection sends nothing by itself. There the records of the first frames
//! have the numbers, and the order of these frames is that of the first datagrams. The server numbers its connections as
//! it accepts them, which is the order in which the end of TCP's handshake, or QUIC's first datagram, reached its host.
//! Neither order is recorded anywhere else.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use squall_base::record::{Direction, PacketRef, Side};

use super::frames::SideRecords;
use super::intake::{Flows, Inputs};
use super::near::{KnownConnection, KnownStart, NearConnections};
use super::quic::QuicConnection;
use super::search::up_to_near;
use super::sending::SenderTimeline;
use super::stream::{Stream, Transmission};
use super::tcp::{self, TcpConnection};
use super::walk::{NEVER, Span};

/// What a connection did before it carried requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshake {
    pub(super) opened: u64,
    /// When the server's SYN-ACK reached the client, or [`NEVER`].
    pub(super) answered: u64,
    pub(super) lost_syns: Vec<Transmission>,
    /// Lost packets that TLS or QUIC may have waited for, with the spans that they account for.
    pub(super) lost_tls: Vec<(PacketRef, Span)>,
}

/// The transport of a connection.
#[derive(Debug)]
pub(super) enum Carrier {
    Tcp(TcpConnection),
    Quic(QuicConnection),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) flow: u32,
    /// The server's number for the connection, if it reached the server.
    pub(super) server: Option<u32>,
    pub(super) handshake: Handshake,
    pub(super) carrier: Carrier,
    /// What each side recorded of the connection.
    pub(super) sides: [Option<SideRecords>; 2],
    /// Whether its packets were captured somewhere between its ends, so that the times at the ends are estimates.
    has_estimated_times: bool,
    /// What held the senders back, by direction; computed on first use.
    timelines: [OnceCell<SenderTimeline>; 2],
    /// Where the last search for an acknowledgement ended, by direction.
    last_acknowledgement: [Cell<usize>; 2],
}

impl Connection {
    pub(super) fn is_quic(&self) -> bool {
        matches!(self.carrier, Carrier::Quic(_))
    }

    /// The bytes sent in `direction`: of the connection, or of QUIC's stream `id`.
    pub(super) fn stream(&self, direction: Direction, id: u64) -> Option<&Stream> {
        let place = direction as usize;
        match &self.carrier {
            Carrier::Tcp(tcp) => Some(&tcp.streams[place]),
            Carrier::Quic(quic) if quic.is_joined[place] => Some(&quic.streams.get(&id)?[place]),
            Carrier::Quic(_) => None,
        }
    }

    /// When the sender in `direction` got the first acknowledgement after `time`.
    pub(super) fn acknowledged_after(&self, direction: Direction, time: u64) -> Option<u64> {
        let place = direction as usize;
        // Requests come in the order of their times, so the next one is near the last.
        let guess = &self.last_acknowledgement[place];
        let (received, next) = match &self.carrier {
            Carrier::Tcp(tcp) => {
                let acks = &tcp.acks[place];
                let received = up_to_near(acks, guess.get(), time, |ack| ack.arrived);
                (received, acks.get(received).map(|ack| ack.arrived))
            }
            Carrier::Quic(quic) => {
                let acks = &quic.acks[place];
                let received = up_to_near(acks, guess.get(), time, |ack| ack.time);
                (received, acks.get(received).map(|ack| ack.time))
            }
        };
        guess.set(received);
        next
    }

    /// What held back the sender in `direction`.
    pub(super) fn timeline(&self, direction: Direction) -> &SenderTimeline {
        self.timelines[direction as usize].get_or_init(|| {
            let evidence = match &self.carrier {
                Carrier::Tcp(tcp) => {
                    let side = self.sides[direction.sender() as usize].as_ref();
                    let accounts = side.map(|side| side.accounts.clone());
                    tcp.evidence(direction, accounts.unwrap_or_default())
                }
                Carrier::Quic(quic) => quic.evidence(direction),
            };
            SenderTimeline::of(if self.has_estimated_times {
                evidence.with_estimated_times()
            } else {
                evidence
            })
        })
    }
}

enum ConnectionStart {
    Tcp(tcp::Opening),
    Quic(Box<QuicConnection>),
}

/// A connection's flow, when it was opened, when it was accepted, and its beginning.
type StartedConnection = (u32, u64, u64, ConnectionStart);

/// No capture has this many connections: a higher flow number comes from a damaged record.
const MAX_CAPTURED: u32 = 1 << 22;

/// All connections by the client's number. They are built one at a time, because their bytes take the most memory.
pub(super) struct Connections {
    flows: Flows,
    /// Their numbers, unless these are 0, 1, 2 and so on.
    numbers: Option<Vec<u32>>,
    /// By place: the stream offsets at which a connection's records begin, if they do not begin with the connection.
    resumed: Vec<Option<[u64; 2]>>,
    beginnings: Vec<(u32, Option<ConnectionStart>)>,
    opened: Vec<u64>,
    servers: Vec<Option<u32>>,
    /// How many connections of each TCP flow are still to be built.
    remaining: BTreeMap<u32, usize>,
    /// The unpacked TCP flows of which more connections are still to be built.
    unpacked: BTreeMap<u32, tcp::Flow>,
}

impl Connections {
    /// Takes the packets out of `inputs`.
    pub(super) fn new(inputs: &mut Inputs) -> Connections {
        let mut flows = std::mem::take(&mut inputs.flows);
        if let Some(near) = inputs.near.take() {
            return Connections::of_near(flows, &near);
        }
        let mut all: Vec<StartedConnection> = Vec::new();
        let mut remaining = BTreeMap::new();
        for (flow, packets) in flows.tcp.iter_mut() {
            let mut openings = packets.openings();
            if inputs.is_captured {
                openings.truncate(1);
            }
            remaining.insert(flow, openings.len());
            all.extend(openings.into_iter().map(|opening| {
                let (opened, accepted) = (opening.within.from, opening.accepted);
                (flow, opened, accepted, ConnectionStart::Tcp(opening))
            }));
        }
        for (flow, packets) in flows.udp.iter_mut() {
            let quic = packets.begin();
            let (opened, accepted) = (quic.opened, quic.accepted);
            all.push((
                flow,
                opened,
                accepted,
                ConnectionStart::Quic(Box::new(quic)),
            ));
        }
        if inputs.is_captured {
            return Connections::numbered_by_flow(flows, all, remaining);
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
            servers[place] = Some(if inputs.is_observed[Side::Server as usize] {
                place as u32
            } else {
                number
            });
        }
        Connections {
            flows,
            numbers: None,
            resumed: Vec::new(),
            opened: all.iter().map(|(_, opened, ..)| *opened).collect(),
            beginnings: all
                .into_iter()
                .map(|(flow, _, _, beginning)| (flow, Some(beginning)))
                .collect(),
            servers,
            remaining,
            unpacked: BTreeMap::new(),
        }
    }

    /// Puts each connection at the place of its flow's number and leaves other places empty. Connections with numbers
    /// from [`MAX_CAPTURED`] on come from damaged records and are left out.
    fn numbered_by_flow(
        flows: Flows,
        mut all: Vec<StartedConnection>,
        remaining: BTreeMap<u32, usize>,
    ) -> Connections {
        all.retain(|(flow, ..)| *flow < MAX_CAPTURED);
        let places = all.iter().map(|(flow, ..)| *flow as usize + 1).max();
        let places = places.unwrap_or(0);
        let mut connections = Connections {
            flows,
            numbers: None,
            resumed: Vec::new(),
            beginnings: (0..places as u32).map(|flow| (flow, None)).collect(),
            opened: vec![NEVER; places],
            servers: vec![None; places],
            remaining,
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

    /// The connections whose records were taken. Their beginnings come from all records of the trial.
    fn of_near(flows: Flows, near: &NearConnections) -> Connections {
        let mut remaining = BTreeMap::new();
        let known = || near.all().iter().map(|it| &it.known);
        for it in known().filter(|it| matches!(it.start, KnownStart::Tcp(_))) {
            *remaining.entry(it.flow).or_insert(0) += 1;
        }
        let beginning = |it: &KnownConnection| match it.start {
            KnownStart::Tcp(opening) => ConnectionStart::Tcp(opening),
            KnownStart::Quic { accepted } => {
                let quic = QuicConnection::begun(it.opened, accepted);
                ConnectionStart::Quic(Box::new(quic))
            }
        };
        Connections {
            flows,
            numbers: Some(near.all().iter().map(|it| it.number).collect()),
            resumed: near.all().iter().map(|it| near.resumed(it)).collect(),
            beginnings: known().map(|it| (it.flow, Some(beginning(it)))).collect(),
            opened: known().map(|it| it.opened).collect(),
            servers: known().map(|it| it.server).collect(),
            remaining,
            unpacked: BTreeMap::new(),
        }
    }

    /// What the beginnings of all connections show, in the order of their numbers.
    pub(super) fn known(self) -> Vec<KnownConnection> {
        let beginnings = self.beginnings.into_iter().zip(self.opened);
        let known = beginnings
            .zip(self.servers)
            .filter_map(|((of, opened), server)| {
                let (flow, beginning) = of;
                let start = match beginning? {
                    ConnectionStart::Tcp(opening) => KnownStart::Tcp(opening),
                    ConnectionStart::Quic(quic) => KnownStart::Quic {
                        accepted: quic.accepted,
                    },
                };
                Some(KnownConnection {
                    flow,
                    server,
                    opened,
                    start,
                })
            });
        known.collect()
    }

    /// The number of each connection, and when its first packet reached the link.
    pub(super) fn opened(&self) -> impl Iterator<Item = (u32, u64)> {
        let opened = self.opened.iter().copied();
        (0..)
            .zip(opened)
            .map(|(place, opened)| (self.number(place), opened))
    }

    /// The numbers of all connections, in order.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.opened().map(|(number, _)| number).collect()
    }

    fn number(&self, place: u32) -> u32 {
        let numbers = self.numbers.as_ref();
        let number = numbers.and_then(|numbers| numbers.get(place as usize));
        number.copied().unwrap_or(place)
    }

    fn place(&self, number: u32) -> Option<usize> {
        match &self.numbers {
            Some(numbers) => numbers.iter().position(|known| *known == number),
            None => Some(number as usize),
        }
    }

    /// Builds a connection. Each can be built only once.
    pub(super) fn take(&mut self, number: u32, inputs: &mut Inputs) -> Option<Connection> {
        let place = self.place(number)?;
        let resumed = self.resumed.get(place).copied().flatten();
        let (flow, beginning) = self.beginnings.get_mut(place)?;
        let (flow, beginning) = (*flow, beginning.take()?);
        let server = self.servers[place];
        let mut sides = [
            inputs.take_side(Side::Client, number),
            server.and_then(|number| inputs.take_side(Side::Server, number)),
        ];
        let (handshake, carrier) = match beginning {
            ConnectionStart::Tcp(opening) => {
                let packets = match self.unpacked.remove(&flow) {
                    Some(packets) => packets,
                    None => self.flows.tcp.remove(flow)?.unpack(),
                };
                let tcp = packets.connection(opening, resumed, &inputs.path);
                self.keep(flow, packets);
                (tcp_handshake(opening.within.from, &tcp), Carrier::Tcp(tcp))
            }
            ConnectionStart::Quic(mut quic) => {
                let packets = self.flows.udp.remove(flow)?;
                let frames = sides
                    .each_mut()
                    .map(|side| side.as_mut().map(|side| std::mem::take(&mut side.quic)));
                packets.join(&mut quic, frames, resumed.is_some(), &inputs.path);
                (quic_handshake(&quic), Carrier::Quic(*quic))
            }
        };
        Some(Connection {
            flow,
            server,
            handshake,
            carrier,
            sides,
            has_estimated_times: inputs.is_captured,
            timelines: Default::default(),
            last_acknowledgement: Default::default(),
        })
    }

    /// Keeps the packets of a flow until its last connection is built.
    fn keep(&mut self, flow: u32, packets: tcp::Flow) {
        if let Some(remaining) = self.remaining.get_mut(&flow) {
            *remaining -= 1;
            if *remaining > 0 {
                self.unpacked.insert(flow, packets);
            }
        }
    }
}

/// Sorts connections, which come in the order of their first packets, by the client's numbers. `first_sent` has the time
/// of each QUIC connection's first frame and the connection's number, in the order of time. If a connection is missing
/// from it, the order stays.
fn by_number(all: Vec<StartedConnection>, first_sent: &[(u64, u32)]) -> Vec<StartedConnection> {
    let numbers = first_sent.iter().map(|(_, number)| *number);
    let count = all.len();
    if first_sent.len() != count || numbers.clone().any(|number| number as usize >= count) {
        return all;
    }
    let mut numbered: Vec<(u32, StartedConnection)> = numbers.zip(all).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, started)| started).collect()
}

fn tcp_handshake(opened: u64, tcp: &TcpConnection) -> Handshake {
    let mut lost_tls = Vec::new();
    for stream in &tcp.streams {
        for piece in &stream.pieces {
            let losses = stream.losses(piece);
            lost_tls.extend(losses.map(|(tx, span)| (stream.txs[tx as usize].packet, span)));
        }
    }
    Handshake {
        opened,
        answered: tcp.answered,
        lost_syns: tcp.lost_syns.clone(),
        lost_tls: one_at_a_time(lost_tls),
    }
}

fn quic_handshake(quic: &QuicConnection) -> Handshake {
    let has_crypto = |packet: &PacketRef| {
        let packets = quic.lost_packets.get(packet);
        packets.is_some_and(|joined| joined.has_crypto)
    };
    let lost = quic.lost.iter().flatten();
    let lost_tls = lost
        .filter(|tx| has_crypto(&tx.packet))
        .map(|tx| (tx.packet, Span::new(tx.due, NEVER)));
    Handshake {
        opened: quic.opened,
        answered: NEVER,
        lost_syns: Vec::new(),
        lost_tls: one_at_a_time(lost_tls.collect()),
    }
}

/// Assigns each moment to at most one lost packet: the last one that should have arrived by then.
fn one_at_a_time(mut losses: Vec<(PacketRef, Span)>) -> Vec<(PacketRef, Span)> {
    losses.sort_by_key(|(packet, span)| (span.from, *packet));
    for place in 1..losses.len() {
        let next = losses[place].1.from;
        let span = &mut losses[place - 1].1;
        span.to = span.to.min(next);
    }
    losses
}
