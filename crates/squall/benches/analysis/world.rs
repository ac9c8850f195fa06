//! A trial that never ran: requests over h2c across a link that loses packets, played through on paper.
//!
//! One queue of events on virtual time, every draw from a seed, so that the same arguments give the same tables byte for
//! byte. The model is as simple as rows of a real trial's shape allow: streams of bytes in order, acknowledgements for
//! every second segment and at once for what comes out of order, a fast retransmission a round trip after a loss, a timeout
//! after the loss of that. No congestion control, no limits of streams. What a row looks like is `rows`'.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;

use anyhow::Result;
use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord, Side};
use squall_base::splitmix::splitmix64;

use crate::rows::{Exchange, Segment, Tables};

/// One way, in nanoseconds.
const DELAY: u64 = 25_000_000;
/// What the link sends at, both ways: 1 Gbit/s.
const BITS_PER_S: u64 = 1_000_000_000;
/// Requests a second of all connections together.
const RATE: u64 = 20_000;
const CONNECTIONS: u32 = 400;
const LOSS: f64 = 0.01;
/// When the first request is wanted: by then all connections are open.
const BEGIN: u64 = 5_000_000_000;
/// TCP payload of a full segment with timestamps, at an MTU of 1,500.
const SEGMENT: u64 = 1_448;
/// After a loss, besides the round trip: until three later segments are acknowledged.
const DETECTION: u64 = 8_000_000;
const TIMEOUT: u64 = 260_000_000;
const SYN_TIMEOUT: u64 = 1_000_000_000;
const SAMPLE_EVERY: u64 = 100_000_000;
/// Bytes of DATA after which the client gives the connection's window back.
const UPDATE_EVERY: u64 = 32 * 1024;

const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// What happens at a time.
enum Event {
    Open(u32),
    Wanted(u64),
    /// A packet reaches the other host.
    Delivered(Box<PacketRecord>),
    /// A sender takes bytes for lost.
    Again(u32, Direction, Segment),
    /// A server has its answer.
    Answer(u32, Box<Exchange>),
    Sample,
}

/// Bytes in order, up to whose end somebody reads.
enum Message {
    /// What connections begin with, and flow control.
    Control,
    Exchange(Box<Exchange>),
}

/// One direction of a connection.
#[derive(Default)]
struct Lane {
    isn: u32,
    sent: u64,
    /// The receiver has all bytes before this one.
    next: u64,
    beyond: BTreeMap<u64, u64>,
    messages: VecDeque<(u64, Message)>,
    unacknowledged: u32,
    class_indices: [u32; PacketClass::ALL.len()],
}

struct Connection {
    lanes: [Lane; 2],
    connected: Option<u64>,
    /// The server's number for it.
    accepted: Option<u32>,
    requests: u64,
    to_update: u64,
}

/// One direction of the link.
#[derive(Default)]
struct Wire {
    packets: u64,
    last: u64,
    free: u64,
    released: u64,
}

/// Everything.
struct World {
    seed: u64,
    draws: u64,
    order: u64,
    now: u64,
    requests: u64,
    left: u64,
    /// Connections that the server has accepted.
    accepted: u32,
    events: BinaryHeap<Reverse<(u64, u64, Place)>>,
    pending: Vec<Option<Event>>,
    free: Vec<usize>,
    connections: Vec<Connection>,
    wires: [Wire; 2],
    tables: Tables,
}

/// Where an event is kept.
type Place = usize;

/// Rows of what was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) packets: u64,
    pub(crate) exchanges: u64,
    pub(crate) frames: u64,
    pub(crate) sockets: u64,
}

/// Writes the tables of a trial with so many requests into `folder`.
pub(crate) fn write(folder: &Path, requests: u64, seed: u64) -> Result<Counts> {
    let mut world = World {
        seed,
        draws: 0,
        order: 0,
        now: 0,
        requests,
        left: requests,
        accepted: 0,
        events: BinaryHeap::new(),
        pending: Vec::new(),
        free: Vec::new(),
        connections: Vec::new(),
        wires: Default::default(),
        tables: Tables::create(folder)?,
    };
    for number in 0..CONNECTIONS {
        let mut connection = Connection {
            lanes: Default::default(),
            connected: None,
            accepted: None,
            requests: 0,
            to_update: 0,
        };
        for lane in &mut connection.lanes {
            lane.isn = world.draw() as u32;
        }
        world.connections.push(connection);
        world.at(u64::from(number) * 1_000_000, Event::Open(number));
    }
    world.at(BEGIN, Event::Wanted(0));
    world.at(SAMPLE_EVERY, Event::Sample);
    while world.left > 0 {
        world.step()?;
    }
    world.tables.finish()
}

impl World {
    fn draw(&mut self) -> u64 {
        self.draws += 1;
        splitmix64(self.seed, self.draws)
    }

    /// Below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    fn at(&mut self, time: u64, event: Event) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[place] = Some(event);
        self.order += 1;
        self.events.push(Reverse((time, self.order, place)));
    }

    /// The server's number of a connection that carries requests.
    fn accepted(&self, number: u32) -> u32 {
        self.connections[number as usize].accepted.unwrap_or(0)
    }

    fn step(&mut self) -> Result<()> {
        let Some(Reverse((time, _, place))) = self.events.pop() else {
            anyhow::bail!("{} requests were never answered", self.left);
        };
        self.now = time;
        self.free.push(place);
        match self.pending[place].take() {
            Some(Event::Open(number)) => self.open(number),
            Some(Event::Wanted(request)) => self.wanted(request),
            Some(Event::Delivered(packet)) => self.delivered(&packet),
            Some(Event::Again(number, direction, segment)) => {
                self.send(number, direction, segment, PSH | ACK, TIMEOUT)
            }
            Some(Event::Answer(number, exchange)) => self.answer(number, *exchange),
            Some(Event::Sample) => self.sample(),
            None => Ok(()),
        }
    }

    /// The client's SYN, as often as it takes.
    fn open(&mut self, number: u32) -> Result<()> {
        self.send(number, Direction::Up, Segment::empty(0), SYN, SYN_TIMEOUT)
    }

    fn wanted(&mut self, request: u64) -> Result<()> {
        let period = 1_000_000_000 / RATE;
        if request + 1 < self.requests {
            self.at(BEGIN + (request + 1) * period, Event::Wanted(request + 1));
        }
        let number = (self.draw() % u64::from(CONNECTIONS)) as u32;
        let taken_up = self.now + 5_000 + self.below(20_000);
        let connection = &mut self.connections[number as usize];
        let stream = 2 * connection.requests + 1;
        let mut exchange = Exchange::new(request, number, stream, self.now);
        exchange.connected = connection.connected;
        exchange.is_first = connection.requests == 0;
        connection.requests += 1;
        exchange.taken_up = taken_up;
        exchange.slot = taken_up + 2_000;
        exchange.written = exchange.slot + 8_000;
        exchange.request_header = match connection.requests {
            1 => 160,
            _ => 25 + self.below(30),
        };
        let from = self.connections[number as usize].lanes[0].sent;
        exchange.request = (from, from + 9 + exchange.request_header);
        self.tables.request_frame(&exchange)?;
        let message = Message::Exchange(Box::new(exchange.clone()));
        self.offer(number, Direction::Up, exchange.request.1, message)
    }

    /// Sends all bytes up to `end`, which `message` reads.
    fn offer(
        &mut self,
        number: u32,
        direction: Direction,
        end: u64,
        message: Message,
    ) -> Result<()> {
        let lane = &mut self.connections[number as usize].lanes[direction as usize];
        lane.messages.push_back((end, message));
        let mut start = lane.sent;
        lane.sent = end;
        while start < end {
            let segment = Segment {
                start,
                length: (end - start).min(SEGMENT),
            };
            start += segment.length;
            let again = 2 * DELAY + DETECTION;
            self.send(number, direction, segment, PSH | ACK, again)?;
        }
        Ok(())
    }

    /// Gives a packet to the link; one with bytes or SYN that is lost goes again after `again`.
    fn send(
        &mut self,
        number: u32,
        direction: Direction,
        segment: Segment,
        flags: u8,
        again: u64,
    ) -> Result<()> {
        let is_lost = self.draw() < (LOSS * u64::MAX as f64) as u64;
        let lateness = self.below(40_000);
        let connection = &mut self.connections[number as usize];
        let acknowledged = {
            let other = &mut connection.lanes[direction.opposite() as usize];
            other.unacknowledged = 0;
            other.isn.wrapping_add(1).wrapping_add(other.next as u32)
        };
        let lane = &mut connection.lanes[direction as usize];
        let class = match (flags & SYN != 0, segment.length) {
            (true, _) => PacketClass::Syn,
            (false, 0) => PacketClass::Ack,
            (false, _) => PacketClass::Data,
        };
        let class_index = lane.class_indices[class as usize];
        lane.class_indices[class as usize] += 1;
        // A SYN has the number before the first byte's.
        let first = lane.isn.wrapping_add(u32::from(flags & SYN == 0));
        let seq = first.wrapping_add(segment.start as u32);
        let wire = &mut self.wires[direction as usize];
        let arrived = (self.now + 12_000).max(wire.last + 300);
        wire.last = arrived;
        let length = 52 + segment.length;
        let mut packet = PacketRecord {
            index: wire.packets,
            direction,
            flow: number,
            client_port: 20_000 + number as u16,
            class,
            class_index,
            length: length as u16,
            protocol: 6,
            seq,
            ack: if flags & ACK == 0 { 0 } else { acknowledged },
            payload_len: segment.length as u16,
            tcp_flags: flags,
            window_bytes: 1 << 20,
            arrived: Time::from_nanos(arrived),
            queue_bytes: (wire.free.saturating_sub(arrived) * BITS_PER_S / 8_000_000_000) as u32,
            queueing: squall_base::Duration::ZERO,
            served: None,
            planned: None,
            released: None,
            fate: Fate::LossDrop,
            dropped_in: 0,
            is_marked: false,
            is_corrupted: false,
            is_copy: false,
        };
        wire.packets += 1;
        if is_lost {
            self.tables.packet(&packet)?;
            if flags & SYN != 0 {
                self.at(arrived + again, Event::Open(number));
            } else if segment.length > 0 {
                self.at(arrived + again, Event::Again(number, direction, segment));
            }
            return Ok(());
        }
        let served = wire.free.max(arrived) + length * 8 * 1_000_000_000 / BITS_PER_S;
        wire.free = served;
        packet.queueing = squall_base::Duration::from_nanos(served - arrived);
        packet.served = Some(Time::from_nanos(served));
        packet.planned = Some(Time::from_nanos(served + DELAY));
        // The link is late at times, and keeps the order.
        let released = (served + DELAY + 3_000 + lateness).max(wire.released + 400);
        wire.released = released;
        packet.released = Some(Time::from_nanos(released));
        packet.fate = Fate::Delivered;
        self.at(released, Event::Delivered(Box::new(packet)));
        Ok(())
    }

    fn delivered(&mut self, packet: &PacketRecord) -> Result<()> {
        self.tables.packet(packet)?;
        let (number, direction) = (packet.flow, packet.direction);
        if packet.tcp_flags & SYN != 0 {
            return self.handshake(number, direction);
        }
        if direction == Direction::Up && self.connections[number as usize].accepted.is_none() {
            let accepted = self.accepted;
            self.accepted += 1;
            self.connections[number as usize].accepted = Some(accepted);
            self.tables.settings(Side::Server, accepted, self.now)?;
            let end = self.connections[number as usize].lanes[1].sent + 27;
            self.offer(number, Direction::Down, end, Message::Control)?;
        }
        if packet.payload_len == 0 {
            return Ok(());
        }
        let lane = &mut self.connections[number as usize].lanes[direction as usize];
        let seq_of_next = lane.isn.wrapping_add(1).wrapping_add(lane.next as u32);
        let ahead = i64::from(packet.seq.wrapping_sub(seq_of_next).cast_signed());
        let start = lane.next.saturating_add_signed(ahead);
        let end = start + u64::from(packet.payload_len);
        lane.unacknowledged += 1;
        if start > lane.next {
            lane.beyond.insert(start, end);
            return self.acknowledge(number, direction);
        }
        lane.next = lane.next.max(end);
        while let Some(first) = lane.beyond.first_entry()
            && *first.key() <= lane.next
        {
            lane.next = lane.next.max(first.remove());
        }
        self.read(number, direction)?;
        let lane = &self.connections[number as usize].lanes[direction as usize];
        // The server's acknowledgements travel with its answers.
        if direction == Direction::Down && lane.unacknowledged >= 2 {
            self.acknowledge(number, direction)?;
        }
        Ok(())
    }

    fn handshake(&mut self, number: u32, direction: Direction) -> Result<()> {
        if direction == Direction::Up {
            let flags = SYN | ACK;
            return self.send(
                number,
                Direction::Down,
                Segment::empty(0),
                flags,
                SYN_TIMEOUT,
            );
        }
        if self.connections[number as usize].connected.is_some() {
            return Ok(());
        }
        self.connections[number as usize].connected = Some(self.now + 15_000);
        self.send(number, Direction::Up, Segment::empty(0), ACK, 0)?;
        self.tables.settings(Side::Client, number, self.now)?;
        let end = self.connections[number as usize].lanes[0].sent + 51;
        self.offer(number, Direction::Up, end, Message::Control)
    }

    /// A packet without bytes that acknowledges those of `direction`.
    fn acknowledge(&mut self, number: u32, direction: Direction) -> Result<()> {
        let opposite = direction.opposite();
        let sent = self.connections[number as usize].lanes[opposite as usize].sent;
        self.send(number, opposite, Segment::empty(sent), ACK, 0)
    }

    /// Reads what is there in order.
    fn read(&mut self, number: u32, direction: Direction) -> Result<()> {
        let now = self.now + 10_000;
        loop {
            let lane = &mut self.connections[number as usize].lanes[direction as usize];
            let next = lane.next;
            let Some((end, message)) = lane.messages.front_mut() else {
                return Ok(());
            };
            if let (Message::Exchange(exchange), Direction::Down) = (&mut *message, direction)
                && exchange.response.0 < next
            {
                exchange.answered_first.get_or_insert(now);
            }
            if *end > next {
                return Ok(());
            }
            match lane.messages.pop_front() {
                Some((_, Message::Exchange(exchange))) if direction == Direction::Up => {
                    self.have_request(number, exchange)?;
                }
                Some((_, Message::Exchange(exchange))) => self.have_answer(number, &exchange)?,
                _ => {}
            }
        }
    }

    fn have_request(&mut self, number: u32, mut exchange: Box<Exchange>) -> Result<()> {
        exchange.received = self.now + 10_000;
        exchange.accepted = self.accepted(number);
        self.tables.request_frame_received(&exchange)?;
        // Mostly short, with a tail.
        let service = 150_000 + self.below(500_000);
        let service = match self.below(100) {
            0 => service * 20,
            _ => service,
        };
        self.at(self.now + service, Event::Answer(number, exchange));
        Ok(())
    }

    fn answer(&mut self, number: u32, mut exchange: Exchange) -> Result<()> {
        exchange.answered = self.now + 9_000;
        exchange.response_header = 12 + self.below(20);
        // One in twenty fits into one segment.
        exchange.body = match self.below(20) {
            0 => 600 + self.below(600),
            _ => 1_500 + self.below(1_000),
        };
        let from = self.connections[number as usize].lanes[1].sent;
        let to = from + 9 + exchange.response_header + 9 + exchange.body;
        exchange.response = (from, to);
        self.tables.answer_frames(&exchange)?;
        self.tables.server_exchange(&exchange)?;
        self.offer(
            number,
            Direction::Down,
            to,
            Message::Exchange(Box::new(exchange)),
        )
    }

    fn have_answer(&mut self, number: u32, exchange: &Exchange) -> Result<()> {
        let end = self.now + 10_000;
        self.left -= 1;
        self.tables.answered(exchange, end)?;
        let connection = &mut self.connections[number as usize];
        connection.to_update += exchange.body;
        if connection.to_update >= UPDATE_EVERY {
            let increment = std::mem::take(&mut connection.to_update);
            let accepted = self.accepted(number);
            self.tables
                .window_update([number, accepted], increment, self.now)?;
            let end = self.connections[number as usize].lanes[0].sent + 13;
            self.offer(number, Direction::Up, end, Message::Control)?;
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<()> {
        self.at(self.now + SAMPLE_EVERY, Event::Sample);
        for number in 0..CONNECTIONS {
            let sent = self.connections[number as usize]
                .lanes
                .each_ref()
                .map(|lane| lane.sent);
            let rtt = 2 * DELAY / 1_000 + self.below(300);
            let accepted = self.connections[number as usize].accepted;
            self.tables
                .samples([Some(number), accepted], sent, rtt as u32, self.now)?;
        }
        Ok(())
    }
}
