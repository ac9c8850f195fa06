//! A small world of hand-made records, in microseconds: what the binary would have written about a trial in which
//! everything happened exactly as specified. It runs no trial; what attribution should find is up to the tests.

use squall_analysis::causes::{Attribution, Inputs, attribute};
use squall_base::plan::Protocol;
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, Direction, DropRecord, ExchangeRecord, Extent, Fate,
    FrameFacts, FrameLayer, FrameRecord, Outcome, PacketClass, PacketRecord, PacketRef,
    RequestRecord, Side, SocketRecord, SocketSample, Way,
};
use squall_base::{Duration, Time};

/// The one-way delay.
pub(crate) const DELAY: u64 = 25_000;
/// The time from a packet's arrival at a host until the application has read it.
pub(crate) const READ: u64 = 30;
pub(crate) const MSS: u64 = 1_448;

/// One is close to the end of the sequence numbers, so that they wrap around.
const ISN: [u32; 2] = [u32::MAX - 700, 5_000];

/// The sequence number of the first byte in this direction.
pub(crate) fn first_seq(direction: Direction) -> u32 {
    ISN[direction as usize].wrapping_add(1)
}

pub(crate) use Direction::{Down, Up};
pub(crate) use Fate::{Delivered, LossDrop};
pub(crate) use squall_made::in_cleartext as clear;

pub(crate) fn time(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

pub(crate) fn micros(span: Duration) -> u64 {
    assert_eq!(span.as_nanos() % 1_000, 0, "{span}");
    span.as_nanos() / 1_000
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) requests: Vec<RequestRecord>,
    pub(crate) exchanges: Vec<ExchangeRecord>,
    pub(crate) frames: Vec<FrameRecord>,
    pub(crate) packets: Vec<PacketRecord>,
    pub(crate) quic_windows: Option<(u64, u64)>,
    pub(crate) sockets: Vec<SocketRecord>,
}

/// When an exchange's messages were written and read: by the client, the server, the server, the client.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) written: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
    /// When the response's last byte was written.
    pub(crate) answered_last: u64,
    pub(crate) end: u64,
}

/// A connection, and a stream on it.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionStream(pub(crate) u32, pub(crate) u64);

impl World {
    /// A packet that reaches the link at `at`.
    pub(crate) fn packet(
        &mut self,
        direction: Direction,
        flow: u32,
        at: u64,
        fate: Fate,
    ) -> &mut PacketRecord {
        let index = self
            .packets
            .iter()
            .filter(|p| p.direction == direction)
            .count() as u64;
        let is_there = fate == Delivered;
        self.packets.push(PacketRecord {
            index,
            flow,
            planned: is_there.then(|| time(at + DELAY)),
            released: is_there.then(|| time(at + DELAY)),
            fate,
            ..squall_made::packet(time(at), direction)
        });
        self.packets.last_mut().expect("it was pushed")
    }

    /// Makes the last packet wait in the link's queue.
    pub(crate) fn queued(&mut self, wait: u64) {
        let packet = self.packets.last_mut().expect("there is one");
        let wait = Duration::from_micros(wait);
        packet.queueing = wait;
        packet.served = Some(packet.arrived + wait);
        packet.planned = packet.planned.map(|time| time + wait);
        packet.released = packet.planned;
    }

    /// Bytes `[start, end)` of a direction of a TCP connection.
    pub(crate) fn bytes(
        &mut self,
        direction: Direction,
        flow: u32,
        at: u64,
        (start, end): (u64, u64),
        fate: Fate,
    ) -> PacketRef {
        let isn = ISN[direction as usize];
        let packet = self.packet(direction, flow, at, fate);
        packet.seq = isn.wrapping_add(1).wrapping_add(start as u32);
        packet.payload_len = (end - start) as u16;
        squall_made::packet_ref(direction, packet.index)
    }

    /// An acknowledgement of all bytes before `to` in the other direction.
    pub(crate) fn ack(&mut self, direction: Direction, flow: u32, at: u64, to: u64) {
        let isn = ISN[direction.opposite() as usize];
        let packet = self.packet(direction, flow, at, Delivered);
        packet.ack = isn.wrapping_add(1).wrapping_add(to as u32);
        packet.seq = ISN[direction as usize].wrapping_add(1);
    }

    /// A TCP handshake that begins at `at`; the client completes it two delays later.
    pub(crate) fn handshake(&mut self, flow: u32, at: u64) {
        self.syn(flow, at, Delivered);
        self.syn_ack(flow, at + DELAY, Delivered);
        self.ack(Up, flow, at + 2 * DELAY, 0);
    }

    pub(crate) fn syn(&mut self, flow: u32, at: u64, fate: Fate) -> PacketRef {
        let packet = self.packet(Up, flow, at, fate);
        (packet.tcp_flags, packet.seq) = (0x02, ISN[0]);
        squall_made::packet_ref(Up, packet.index)
    }

    pub(crate) fn syn_ack(&mut self, flow: u32, at: u64, fate: Fate) -> PacketRef {
        let packet = self.packet(Down, flow, at, fate);
        (packet.tcp_flags, packet.seq, packet.ack) = (0x12, ISN[1], ISN[0].wrapping_add(1));
        squall_made::packet_ref(Down, packet.index)
    }

    /// A request that was due at `intended`, taken up immediately, on a connection that already existed.
    pub(crate) fn request(
        &mut self,
        intended: u64,
        ConnectionStream(connection, stream): ConnectionStream,
    ) -> &mut RequestRecord {
        self.requests.push(RequestRecord {
            slot: Some(time(intended)),
            connected: Some(time(0)),
            written_first: Some(time(intended)),
            written_last: Some(time(intended)),
            connection: Some(connection),
            stream: Some(stream),
            outcome: Outcome::Answered,
            ..RequestRecord::due(self.requests.len() as u64, time(intended))
        });
        self.requests.last_mut().expect("it was pushed")
    }

    /// The last request's exchange as both sides saw it.
    pub(crate) fn exchange(
        &mut self,
        protocol: Protocol,
        times: Times,
        request: Extent,
        response: Extent,
    ) {
        let row = self.requests.last_mut().expect("there is one");
        row.written_first = Some(time(times.written));
        row.written_last = row.written_first;
        row.end = time(times.end);
        let connection = row.connection.expect("it has one");
        let stream = row.stream.expect("it has one");
        let client = ExchangeRecord {
            request: Some(row.request),
            request_first: row.written_first,
            request_last: row.written_last,
            response_first: Some(row.end),
            response_last: Some(row.end),
            request_extent: Some(request),
            response_extent: Some(response),
            status: Some(200),
            ..ExchangeRecord::unseen(Side::Client, connection, stream, protocol)
        };
        self.exchanges.push(ExchangeRecord {
            side: Side::Server,
            request: None,
            request_first: Some(time(times.received)),
            request_last: Some(time(times.received)),
            response_first: Some(time(times.answered)),
            response_last: Some(time(times.answered_last)),
            ..client.clone()
        });
        self.exchanges.push(client);
    }

    /// Makes the last exchange unfinished: the client has no row of it.
    pub(crate) fn unfinished(&mut self, end: u64, outcome: Outcome) {
        self.exchanges.pop();
        let request = self.requests.last_mut().expect("there is one");
        (request.end, request.outcome) = (time(end), outcome);
    }

    /// A frame of HTTP/2.
    pub(crate) fn http2(&mut self, side: Side, connection: u32, at: u64, facts: FrameFacts) {
        self.frames.push(FrameRecord {
            connection,
            ..squall_made::frame(time(at), side, facts)
        });
    }

    /// A QUIC packet with one STREAM frame, and the sender's record of that frame.
    pub(crate) fn quic(
        &mut self,
        direction: Direction,
        flow: u32,
        at: u64,
        number: u64,
        chunk: (u64, u64, u64),
        fate: Fate,
    ) -> PacketRef {
        let (stream, start, end) = chunk;
        let packet = self.packet(direction, flow, at, fate);
        (packet.protocol, packet.class, packet.tcp_flags) = (17, PacketClass::Other, 0);
        packet.length = (end - start + 28 + 40) as u16;
        let packet = squall_made::packet_ref(direction, packet.index);
        let facts = FrameFacts {
            layer: FrameLayer::Quic,
            packet: Some(number),
            ..frame(0x0e, stream, start, end - start)
        };
        self.http2(direction.sender(), flow, at, facts);
        packet
    }

    /// A side reads an ACK of its packets up to `largest`.
    pub(crate) fn quic_ack(&mut self, side: Side, connection: u32, at: u64, largest: u64) {
        let facts = FrameFacts {
            packet: Some(9_999),
            value: Some(largest),
            ..FrameFacts::new(Way::Received, FrameLayer::Quic, 0x02, 0)
        };
        self.http2(side, connection, at, facts);
    }

    /// A sample of the server's first connection, with its total number of retransmission timeouts.
    pub(crate) fn timeouts(&mut self, at: u64, total: u64) {
        let sample = SocketSample::Tcp(squall_made::tcp_info(&[("tcpi_total_rto", total)]));
        self.sockets
            .push(squall_made::socket(time(at), Side::Server, sample));
    }

    /// Attributes the records, and checks what always holds.
    pub(crate) fn attribute(&self) -> AttributionResult {
        let mut inputs = Inputs::new();
        if let Some((stream, connection)) = self.quic_windows {
            inputs.begin_quic_windows(Side::Server, stream, connection);
        }
        self.requests.iter().for_each(|row| inputs.add_request(row));
        self.exchanges
            .iter()
            .for_each(|row| inputs.add_exchange(row));
        self.frames.iter().for_each(|row| inputs.add_frame(row));
        self.packets.iter().for_each(|row| inputs.add_packet(row));
        self.sockets.iter().for_each(|row| inputs.add_socket(row));
        let found = attribute(inputs);
        assert_eq!(found.causes.len(), self.requests.len());
        for (request, row) in self.requests.iter().zip(found.causes.iter()) {
            assert_eq!(row.request, request.request);
            assert_eq!(row.spans.total(), request.response_time());
        }
        AttributionResult(found)
    }
}

/// A frame of HTTP/2 that its side sent.
pub(crate) fn frame(kind: u64, stream: u64, offset: u64, length: u64) -> FrameFacts {
    FrameFacts {
        stream: Some(stream),
        offset: Some(offset),
        ..FrameFacts::new(Way::Sent, FrameLayer::Http2, kind, length)
    }
}

/// The result of attribution.
pub(crate) struct AttributionResult(pub(crate) Attribution);

impl AttributionResult {
    pub(crate) fn row(&self, request: usize) -> CausesRecord {
        self.0.causes.get(request).expect("each request has a row")
    }

    /// The request's spans that are not empty, in microseconds, in the order of causes.
    pub(crate) fn spans(&self, request: usize) -> Vec<(Cause, u64)> {
        of(&self.row(request).spans)
    }

    pub(crate) fn drop(&self, packet: PacketRef) -> &DropRecord {
        let mut drops = self.0.drops.iter();
        drops
            .find(|row| row.packet == packet)
            .expect("it was dropped")
    }

    /// The requests that a drop delayed: request, cause, microseconds.
    pub(crate) fn victims(&self, packet: PacketRef) -> Vec<(u64, Cause, u64)> {
        let victims = self.drop(packet).victims.iter();
        victims
            .map(|v| (v.request, v.cause, micros(v.delay)))
            .collect()
    }
}

fn of(spans: &CauseSpans) -> Vec<(Cause, u64)> {
    let all = Cause::ALL
        .into_iter()
        .map(|cause| (cause, micros(spans[cause])));
    all.filter(|(_, span)| *span > 0).collect()
}
