//! A simulated trial: requests over h2c across a link that loses packets.
//!
//! One queue of events in virtual time, with every draw from a seed, so that the same arguments produce the same tables
//! byte for byte. The model is as simple as possible while its rows look like those of a real trial: ordered byte
//! streams, an acknowledgement for every second segment and immediately for out-of-order ones, a fast retransmission
//! one round trip after a loss, and a timeout if that is lost as well. No congestion control, no stream limits. `rows`
//! defines what a row looks like.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;

use anyhow::Result;
use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord, Side};
use squall_base::splitmix::splitmix64;

use super::rows::{Counts, Segment, SimulatedExchange, Tables};

/// One-way delay, in nanoseconds.
const DELAY: u64 = 25_000_000;
/// The link's rate, both ways: 1 Gbit/s.
const BITS_PER_S: u64 = 1_000_000_000;
/// Requests per second over all connections.
const RATE: u64 = 20_000;
const PERIOD: u64 = 1_000_000_000 / RATE;
const CONNECTIONS: u32 = 400;
const LOSS: f64 = 0.01;
/// When the first request is due: by then all connections are open.
const BEGIN: u64 = 5_000_000_000;
/// TCP payload of a full segment with timestamps, at an MTU of 1,500.
const SEGMENT: u64 = 1_448;
/// Time to detect a loss, in addition to the round trip: until three later segments are acknowledged.
const DETECTION: u64 = 8_000_000;
const TIMEOUT: u64 = 260_000_000;
const SYN_TIMEOUT: u64 = 1_000_000_000;
const SAMPLE_EVERY: u64 = 100_000_000;
/// Bytes of DATA after which the client sends a WINDOW_UPDATE for the connection.
const UPDATE_EVERY: u64 = 32 * 1024;

const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// An event at some time.
enum Event {
    Open(u32),
    RequestDue(u64),
    /// A packet reaches the other host.
    Delivered(Box<PacketRecord>),
    /// A sender retransmits bytes that it considers lost.
    Resend(u32, Direction, Segment),
    /// A server's response is ready.
    Answer(u32, Box<SimulatedExchange>),
    Sample,
}

/// A message that a reader can take once all bytes up to its end have arrived.
enum Message {
    /// The opening of a connection, and flow control.
    Control,
    Exchange(Box<SimulatedExchange>),
}

/// One direction of a connection.
#[derive(Default)]
struct HalfConnection {
    isn: u32,
    sent: u64,
    /// The receiver has all bytes before this one.
    next: u64,
    out_of_order: BTreeMap<u64, u64>,
    messages: VecDeque<(u64, Message)>,
    unacknowledged: u32,
    class_indices: [u32; PacketClass::ALL.len()],
}

struct Connection {
    halves: [HalfConnection; 2],
    connected: Option<u64>,
    /// The server's number for the connection.
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

/// The whole simulation.
struct World {
    seed: u64,
    draws: u64,
    order: u64,
    now: u64,
    requests: u64,
    unanswered: u64,
    /// Number of connections that the server has accepted.
    accepted: u32,
    events: BinaryHeap<Reverse<(u64, u64, EventIndex)>>,
    pending: Vec<Option<Event>>,
    free: Vec<usize>,
    connections: Vec<Connection>,
    wires: [Wire; 2],
    tables: Tables,
}

/// The index of an event in `pending`.
type EventIndex = usize;

/// How many requests a trial has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    /// The first requests, which are simulated with everything that hosts and link record.
    pub(crate) simulated: u64,
    /// The later requests, which get only rows in `requests`, at a fraction of the cost.
    pub(crate) plain: u64,
}

/// Writes the tables of a trial with these requests into `folder`.
pub(crate) fn write(folder: &Path, requests: Requests, seed: u64) -> Result<Counts> {
    let Requests { simulated, plain } = requests;
    let mut world = World {
        seed,
        draws: 0,
        order: 0,
        now: 0,
        requests: simulated,
        unanswered: simulated,
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
            halves: Default::default(),
            connected: None,
            accepted: None,
            requests: 0,
            to_update: 0,
        };
        for half in &mut connection.halves {
            half.isn = world.draw() as u32;
        }
        world.connections.push(connection);
        world.at(u64::from(number) * 1_000_000, Event::Open(number));
    }
    world.at(BEGIN, Event::RequestDue(0));
    world.at(SAMPLE_EVERY, Event::Sample);
    while world.unanswered > 0 {
        world.step()?;
    }
    let plain = simulated..simulated + plain;
    world.tables.plain_requests(plain, |number| {
        let due = BEGIN + number * PERIOD;
        (due, plain_latency(splitmix64(seed, number)))
    })?;
    world.tables.finish()
}

/// How long a plain request takes, derived from a random number: a round trip and some work; one in a hundred takes up to
/// another round trip.
fn plain_latency(draw: u64) -> u64 {
    let usual = 2 * DELAY + 200_000 + draw % 1_500_000;
    match (draw >> 32) % 100 {
        0 => usual + (draw >> 8) % (2 * DELAY),
        _ => usual,
    }
}

/// The class of a packet, by its TCP flags and the length of its payload.
fn class_of(flags: u8, payload: u64) -> PacketClass {
    match (flags & SYN != 0, payload) {
        (true, _) => PacketClass::Syn,
        (false, 0) => PacketClass::Ack,
        (false, _) => PacketClass::Data,
    }
}

impl World {
    fn draw(&mut self) -> u64 {
        self.draws += 1;
        splitmix64(self.seed, self.draws)
    }

    /// Draws a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    fn at(&mut self, time: u64, event: Event) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[index] = Some(event);
        self.order += 1;
        self.events.push(Reverse((time, self.order, index)));
    }

    /// The server's number for a connection that carries requests.
    fn accepted(&self, number: u32) -> u32 {
        self.connections[number as usize].accepted.unwrap_or(0)
    }

    fn step(&mut self) -> Result<()> {
        let Some(Reverse((time, _, index))) = self.events.pop() else {
            anyhow::bail!("{} requests were never answered", self.unanswered);
        };
        self.now = time;
        self.free.push(index);
        match self.pending[index].take() {
            Some(Event::Open(number)) => self.open(number),
            Some(Event::RequestDue(request)) => self.start_request(request),
            Some(Event::Delivered(packet)) => self.delivered(&packet),
            Some(Event::Resend(number, direction, segment)) => {
                self.send(number, direction, segment, PSH | ACK, TIMEOUT)
            }
            Some(Event::Answer(number, exchange)) => self.answer(number, *exchange),
            Some(Event::Sample) => self.sample(),
            None => Ok(()),
        }
    }

    /// Sends the client's SYN, repeatedly if it is lost.
    fn open(&mut self, number: u32) -> Result<()> {
        self.send(number, Direction::Up, Segment::empty(0), SYN, SYN_TIMEOUT)
    }

    fn start_request(&mut self, request: u64) -> Result<()> {
        if request + 1 < self.requests {
            self.at(
                BEGIN + (request + 1) * PERIOD,
                Event::RequestDue(request + 1),
            );
        }
        let number = (self.draw() % u64::from(CONNECTIONS)) as u32;
        let taken_up = self.now + 5_000 + self.below(20_000);
        let connection = &mut self.connections[number as usize];
        let stream = 2 * connection.requests + 1;
        let mut exchange = SimulatedExchange::new(request, number, stream, self.now);
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
        let from = self.connections[number as usize].halves[0].sent;
        exchange.request = (from, from + 9 + exchange.request_header);
        self.tables.request_frame(&exchange)?;
        let message = Message::Exchange(Box::new(exchange.clone()));
        self.send_message(number, Direction::Up, exchange.request.1, message)
    }

    /// Sends all bytes up to `end`, the end of `message`.
    fn send_message(
        &mut self,
        number: u32,
        direction: Direction,
        end: u64,
        message: Message,
    ) -> Result<()> {
        let half = &mut self.connections[number as usize].halves[direction as usize];
        half.messages.push_back((end, message));
        let mut start = half.sent;
        half.sent = end;
        while start < end {
            let segment = Segment {
                start,
                length: (end - start).min(SEGMENT),
            };
            start += segment.length;
            let timeout = 2 * DELAY + DETECTION;
            self.send(number, direction, segment, PSH | ACK, timeout)?;
        }
        Ok(())
    }

    /// Hands a packet to the link. If a packet with payload or SYN is lost, it is retransmitted after `timeout`.
    fn send(
        &mut self,
        number: u32,
        direction: Direction,
        segment: Segment,
        flags: u8,
        timeout: u64,
    ) -> Result<()> {
        let is_lost = self.draw() < (LOSS * u64::MAX as f64) as u64;
        let lateness = self.below(40_000);
        let connection = &mut self.connections[number as usize];
        let acknowledged = {
            let other = &mut connection.halves[direction.opposite() as usize];
            other.unacknowledged = 0;
            other.isn.wrapping_add(1).wrapping_add(other.next as u32)
        };
        let half = &mut connection.halves[direction as usize];
        let class = class_of(flags, segment.length);
        let class_index = half.class_indices[class as usize];
        half.class_indices[class as usize] += 1;
        // A SYN has the sequence number before the first byte's.
        let first = half.isn.wrapping_add(u32::from(flags & SYN == 0));
        let seq = first.wrapping_add(segment.start as u32);
        let wire = &mut self.wires[direction as usize];
        let arrived = (self.now + 12_000).max(wire.last + 300);
        wire.last = arrived;
        let length = 52 + segment.length;
        let mut packet = PacketRecord {
            index: wire.packets,
            flow: number,
            client_port: 20_000 + number as u16,
            class,
            class_index,
            length: length as u16,
            seq,
            ack: if flags & ACK == 0 { 0 } else { acknowledged },
            payload_len: segment.length as u16,
            tcp_flags: flags,
            queue_bytes: (wire.free.saturating_sub(arrived) * BITS_PER_S / 8_000_000_000) as u32,
            planned: None,
            released: None,
            fate: Fate::LossDrop,
            ..squall_made::packet(Time::from_nanos(arrived), direction)
        };
        wire.packets += 1;
        if is_lost {
            self.tables.packet(&packet)?;
            if flags & SYN != 0 {
                self.at(arrived + timeout, Event::Open(number));
            } else if segment.length > 0 {
                self.at(arrived + timeout, Event::Resend(number, direction, segment));
            }
            return Ok(());
        }
        let served = wire.free.max(arrived) + length * 8 * 1_000_000_000 / BITS_PER_S;
        wire.free = served;
        packet.queueing = squall_base::Duration::from_nanos(served - arrived);
        packet.served = Some(Time::from_nanos(served));
        packet.planned = Some(Time::from_nanos(served + DELAY));
        // The link is sometimes late, but keeps the order.
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
            let end = self.connections[number as usize].halves[1].sent + 27;
            self.send_message(number, Direction::Down, end, Message::Control)?;
        }
        if packet.payload_len == 0 {
            return Ok(());
        }
        let half = &mut self.connections[number as usize].halves[direction as usize];
        let seq_of_next = half.isn.wrapping_add(1).wrapping_add(half.next as u32);
        let ahead = i64::from(packet.seq.wrapping_sub(seq_of_next).cast_signed());
        let start = half.next.saturating_add_signed(ahead);
        let end = start + u64::from(packet.payload_len);
        half.unacknowledged += 1;
        if start > half.next {
            half.out_of_order.insert(start, end);
            return self.acknowledge(number, direction);
        }
        half.next = half.next.max(end);
        while let Some(first) = half.out_of_order.first_entry()
            && *first.key() <= half.next
        {
            half.next = half.next.max(first.remove());
        }
        self.read(number, direction)?;
        let half = &self.connections[number as usize].halves[direction as usize];
        // The server's acknowledgements are piggybacked on its responses.
        if direction == Direction::Down && half.unacknowledged >= 2 {
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
        let end = self.connections[number as usize].halves[0].sent + 51;
        self.send_message(number, Direction::Up, end, Message::Control)
    }

    /// Sends a packet without payload that acknowledges the bytes of `direction`.
    fn acknowledge(&mut self, number: u32, direction: Direction) -> Result<()> {
        let opposite = direction.opposite();
        let sent = self.connections[number as usize].halves[opposite as usize].sent;
        self.send(number, opposite, Segment::empty(sent), ACK, 0)
    }

    /// Reads the messages that are complete and in order.
    fn read(&mut self, number: u32, direction: Direction) -> Result<()> {
        let now = self.now + 10_000;
        loop {
            let half = &mut self.connections[number as usize].halves[direction as usize];
            let next = half.next;
            let Some((end, message)) = half.messages.front_mut() else {
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
            match half.messages.pop_front() {
                Some((_, Message::Exchange(exchange))) if direction == Direction::Up => {
                    self.on_request(number, exchange)?;
                }
                Some((_, Message::Exchange(exchange))) => self.on_response(number, &exchange)?,
                _ => {}
            }
        }
    }

    fn on_request(&mut self, number: u32, mut exchange: Box<SimulatedExchange>) -> Result<()> {
        exchange.received = self.now + 10_000;
        exchange.accepted = self.accepted(number);
        self.tables.request_frame_received(&exchange)?;
        // Service times are mostly short; one in a hundred is 20 times as long.
        let service = 150_000 + self.below(500_000);
        let service = match self.below(100) {
            0 => service * 20,
            _ => service,
        };
        self.at(self.now + service, Event::Answer(number, exchange));
        Ok(())
    }

    fn answer(&mut self, number: u32, mut exchange: SimulatedExchange) -> Result<()> {
        exchange.answered = self.now + 9_000;
        exchange.response_header = 12 + self.below(20);
        // One in twenty fits into one segment.
        exchange.body = match self.below(20) {
            0 => 600 + self.below(600),
            _ => 1_500 + self.below(1_000),
        };
        let from = self.connections[number as usize].halves[1].sent;
        let to = from + 9 + exchange.response_header + 9 + exchange.body;
        exchange.response = (from, to);
        self.tables.answer_frames(&exchange)?;
        self.tables.server_exchange(&exchange)?;
        self.send_message(
            number,
            Direction::Down,
            to,
            Message::Exchange(Box::new(exchange)),
        )
    }

    fn on_response(&mut self, number: u32, exchange: &SimulatedExchange) -> Result<()> {
        let end = self.now + 10_000;
        self.unanswered -= 1;
        self.tables.answered(exchange, end)?;
        let connection = &mut self.connections[number as usize];
        connection.to_update += exchange.body;
        if connection.to_update >= UPDATE_EVERY {
            let increment = std::mem::take(&mut connection.to_update);
            let accepted = self.accepted(number);
            self.tables
                .window_update([number, accepted], increment, self.now)?;
            let end = self.connections[number as usize].halves[0].sent + 13;
            self.send_message(number, Direction::Up, end, Message::Control)?;
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<()> {
        self.at(self.now + SAMPLE_EVERY, Event::Sample);
        for number in 0..CONNECTIONS {
            let sent = self.connections[number as usize]
                .halves
                .each_ref()
                .map(|half| half.sent);
            let rtt = 2 * DELAY / 1_000 + self.below(300);
            let accepted = self.connections[number as usize].accepted;
            self.tables
                .samples([Some(number), accepted], sent, rtt as u32, self.now)?;
        }
        Ok(())
    }
}
