//! One QUIC connection at one end of the link: from datagrams to packets, and from packets to what reads their frames.
//!
//! `protection` opens packets, `handshake` says by which secrets, `streams` puts bytes in order, `http3` reads them. Here
//! are connection IDs, Retry, what waits for secrets, and the end. Which datagrams are its own is `connections`'s.

use std::collections::VecDeque;

use octets::Octets;
use squall_base::Time;
use squall_base::record::{self, FrameFacts, Side, Way};

use super::frames::{self, Content, Frame};
use super::handshake::{Handshake, Level};
use super::header::{LongPacket, LongType, Packet, Version, next_packet};
use super::http3::Http3;
use super::keys::PacketKeys;
use super::protection::{Numbers, Opened, Opener};
use super::streams::{Chunk, Streams};
use crate::connection_record::{ConnectionRecord, Ending, Opaque, Traffic, Transport};
use crate::exchange::{Observations, Sink, Ways, against};
use crate::packet::Datagram;
use crate::tls::{Keys, Suite};

/// What waits for secrets, of both directions: as for TLS over TCP.
const MAX_HELD_BYTES: usize = 4 << 20;

/// What a packet that waits takes beyond its bytes, about.
const HELD_PACKET_BYTES: usize = 64;

/// A longer packet with a short header certainly is several datagrams that their sender's device had not cut yet (UDP_SEGMENT).
const MAX_PACKET_BYTES: usize = 1_500;

/// The shortest packet with a short header: one byte of header, and what header protection samples (RFC 9001, section
/// 5.4.2).
const LEAST_PACKET_BYTES: usize = 21;

/// How often the length of such a datagram is looked for in vain: each search takes some milliseconds.
const MAX_SEARCHES: u32 = 8;

/// How many connection IDs of an endpoint are known at once: more than any allows its peer.
const MAX_IDS: usize = 16;

/// The kinds of packets that secrets protect, in the order of their secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ZeroRtt,
    Handshake,
    OneRtt,
}

/// A connection.
pub(crate) struct Connection {
    record: ConnectionRecord,
    client: Way,
    version: Version,
    lanes: Ways<Lane>,
    handshake: Handshake,
    streams: Streams,
    http3: Http3,
    /// Packets that wait for secrets, in the order in which they came.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Why its packets are not read.
    opaque: Option<Opaque>,
    /// Why its HTTP is not, though its packets are.
    unread: Option<Opaque>,
    counts: Counts,
    /// It was closed, or nothing of it is to be learnt any more.
    is_over: bool,
    /// Connection IDs that were learnt since [`Connection::take_ids`].
    fresh_ids: Vec<Vec<u8>>,
    facts: Vec<FrameFacts>,
}

/// One direction.
#[derive(Default)]
struct Lane {
    initial: Option<Opener>,
    early: Option<Opener>,
    handshake: Option<Opener>,
    one_rtt: Option<Opener>,
    /// Initial, Handshake, application data.
    numbers: [Numbers; 3],
    /// The IDs by which packets that go this way name their receiver.
    ids: VecDeque<Vec<u8>>,
    /// How long its datagrams were when several were captured as one.
    segment_bytes: usize,
    failed_searches: u32,
    traffic: Traffic,
}

/// What became of packets.
#[derive(Default)]
struct Counts {
    initial_opened: u64,
    application_opened: u64,
    failed: u64,
    /// Packets were acknowledged that were never seen.
    has_gaps: bool,
}

/// A packet that waits to be opened.
struct Held {
    way: Way,
    at: Time,
    kind: Kind,
    number_at: usize,
    bytes: Vec<u8>,
}

/// What a datagram is taken with.
pub(crate) struct With<'a> {
    pub(crate) now: Time,
    pub(crate) way: Way,
    pub(crate) keys: Keys<'a>,
    pub(crate) rows: &'a mut Observations,
}

impl Connection {
    /// A connection whose first packet is this Initial packet of its client.
    pub(crate) fn new(
        number: u32,
        now: Time,
        way: Way,
        datagram: &Datagram<'_>,
        first: &LongPacket<'_>,
    ) -> Connection {
        let ends = [datagram.source, datagram.destination];
        let mut connection = Connection {
            record: ConnectionRecord::first_seen(number, Transport::Quic, now, way, ends),
            client: way,
            version: first.version,
            lanes: Ways::default(),
            handshake: Handshake::new(way),
            streams: Streams::default(),
            http3: Http3::new(way),
            held: VecDeque::new(),
            held_bytes: 0,
            opaque: None,
            unread: None,
            counts: Counts::default(),
            is_over: false,
            fresh_ids: Vec::new(),
            facts: Vec::new(),
        };
        connection.learn_id(way, first.destination);
        connection.learn_id(against(way), first.source);
        connection.begin_initial(first.version, first.destination);
        connection
    }

    /// When its last datagram came.
    pub(crate) fn last(&self) -> Time {
        self.record.last
    }

    /// Bytes that it keeps for later.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.held_bytes as u64 + self.streams.waiting_bytes()
    }

    /// Connection IDs that were learnt since the last call.
    pub(crate) fn take_ids(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.fresh_ids)
    }

    /// Every connection ID that is known of it.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Vec<u8>> {
        Way::ALL.into_iter().flat_map(|way| &self.lanes.of(way).ids)
    }

    /// Whether packets that go `way` name their receiver by this ID.
    pub(crate) fn knows_id(&self, way: Way, id: &[u8]) -> bool {
        self.lanes.of(way).ids.iter().any(|known| known == id)
    }

    /// Whether a packet with a short header that goes `way` begins with a known ID; an ID without bytes always does.
    pub(crate) fn knows_short(&self, way: Way, packet: &[u8]) -> bool {
        let rest = packet.get(1..).unwrap_or(&[]);
        self.lanes.of(way).ids.iter().any(|id| rest.starts_with(id))
    }

    fn learn_id(&mut self, way: Way, id: &[u8]) {
        let ids = &mut self.lanes.of_mut(way).ids;
        if !ids.iter().any(|known| known == id) {
            ids.push_back(id.to_vec());
            if ids.len() > MAX_IDS {
                ids.pop_front();
            }
            self.fresh_ids.push(id.to_vec());
        }
    }

    /// Initial packets are protected by this ID of the server (RFC 9001, section 5.2).
    fn begin_initial(&mut self, version: Version, destination: &[u8]) {
        if let Some([client, server]) = Opener::initial(version, destination) {
            self.lanes.of_mut(self.client).initial = Some(client);
            self.lanes.of_mut(against(self.client)).initial = Some(server);
        }
    }

    /// Takes a datagram.
    pub(crate) fn take(&mut self, datagram: &Datagram<'_>, with: &mut With<'_>) {
        self.record.last = with.now;
        let traffic = &mut self.lanes.of_mut(with.way).traffic;
        traffic.packets += 1;
        traffic.bytes += datagram.payload_bytes as u64;
        let mut rest = datagram.payload;
        while !self.is_over
            && let Some((packet, behind)) = next_packet(rest)
        {
            match packet {
                Packet::Long(packet) => self.long(&packet, with),
                Packet::Short(packet) => self.short(packet, with),
            }
            rest = behind;
        }
        self.work(with.keys, with.rows);
    }

    fn long(&mut self, packet: &LongPacket<'_>, with: &mut With<'_>) {
        let way = with.way;
        match packet.kind {
            LongType::Retry => {
                // Its source is what the client names the server by from now on (RFC 9000, section 17.2.5).
                if way != self.client && self.handshake.suite.is_none() {
                    self.learn_id(self.client, packet.source);
                    self.handshake.restart();
                    self.begin_initial(packet.version, packet.source);
                }
            }
            LongType::Initial => self.initial(packet, with),
            LongType::ZeroRtt => self.hold(packet.bytes, packet.number_at, Kind::ZeroRtt, with),
            LongType::Handshake => {
                self.hold(packet.bytes, packet.number_at, Kind::Handshake, with);
            }
        }
    }

    fn initial(&mut self, packet: &LongPacket<'_>, with: &mut With<'_>) {
        let way = with.way;
        if packet.version != self.version {
            // The server chose the other version (RFC 9368, section 2.3); the ID stays the client's first.
            self.version = packet.version;
            let first = self.lanes.of(self.client).ids.front().cloned();
            self.begin_initial(packet.version, &first.unwrap_or_default());
        }
        let lane = self.lanes.of_mut(way);
        let largest = lane.numbers[0].largest();
        let opened = lane
            .initial
            .as_mut()
            .and_then(|opener| opener.open(packet.bytes, packet.number_at, largest));
        let Some(opened) = opened else {
            if self.counts.initial_opened == 0 {
                self.counts.failed += 1;
            }
            return;
        };
        self.counts.initial_opened += 1;
        self.learn_id(against(way), packet.source);
        if self.lanes.of_mut(way).numbers[0].is_new(opened.number) {
            let level = Some(Level::Initial);
            self.frames(way, with.now, level, &opened, with.rows);
        }
    }

    fn short(&mut self, packet: &[u8], with: &mut With<'_>) {
        let rest = packet.get(1..).unwrap_or(&[]);
        let ids = &self.lanes.of(with.way).ids;
        let known = ids.iter().rev().find(|id| rest.starts_with(id));
        // The ID may have been issued in a packet that was not seen; an endpoint's are mostly of one length.
        let Some(id) = known.or(ids.back()) else {
            return;
        };
        self.hold(packet, 1 + id.len(), Kind::OneRtt, with);
    }

    /// Queues a packet that is protected by secrets.
    fn hold(&mut self, bytes: &[u8], number_at: usize, kind: Kind, with: &With<'_>) {
        if self.opaque.is_some() {
            return;
        }
        self.held_bytes += bytes.len() + HELD_PACKET_BYTES;
        self.held.push_back(Held {
            way: with.way,
            at: with.now,
            kind,
            number_at,
            bytes: bytes.to_vec(),
        });
    }

    /// Opens the packets that can be, as after secrets came, in the order in which they came.
    pub(crate) fn work(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        while !self.is_over
            && self.opaque.is_none()
            && let Some(held) = self.held.pop_front()
        {
            let bytes = held.bytes.len() + HELD_PACKET_BYTES;
            self.held_bytes -= bytes;
            match self.open(&held, keys, rows) {
                Ok(true) => {}
                Ok(false) => {
                    self.held_bytes += bytes;
                    self.held.push_front(held);
                    break;
                }
                Err(opaque) => self.give_up(opaque, rows),
            }
        }
        if self.held_bytes > MAX_HELD_BYTES {
            self.give_up(Opaque::NoKeys, rows);
        }
    }

    /// Opens a packet; false if it has to wait.
    fn open(
        &mut self,
        sealed: &Held,
        keys: Keys<'_>,
        rows: &mut Observations,
    ) -> Result<bool, Opaque> {
        if self.lanes.of(sealed.way).opener(sealed.kind).is_none() {
            match self.opener(sealed.way, sealed.kind, keys)? {
                Found::Opener(opener) => {
                    *self.lanes.of_mut(sealed.way).opener_mut(sealed.kind) = Some(*opener);
                }
                Found::Later => return Ok(false),
                Found::Never => return Ok(true),
            }
        }
        let mut bytes = &sealed.bytes[..];
        let mut most = MAX_PACKET_BYTES;
        while !bytes.is_empty() && !self.is_over {
            if bytes.len() <= most && self.open_one(sealed, bytes, rows) {
                break;
            }
            let Some(length) = self.segment(sealed, bytes, rows) else {
                self.counts.failed += 1;
                break;
            };
            bytes = &bytes[length..];
            most = length;
        }
        Ok(true)
    }

    /// Opens the first of several datagrams that were captured as one, and says how long it was. All but the last are of
    /// one length, which nothing in them tells: the one with which the packet opens is it.
    fn segment(&mut self, sealed: &Held, bytes: &[u8], rows: &mut Observations) -> Option<usize> {
        if sealed.kind != Kind::OneRtt {
            return None;
        }
        let known = self.lanes.of(sealed.way).segment_bytes;
        if (1..bytes.len()).contains(&known) && self.open_one(sealed, &bytes[..known], rows) {
            return Some(known);
        }
        // What may be one packet is not looked into before the keys have opened another.
        let is_several = bytes.len() > MAX_PACKET_BYTES || self.counts.application_opened > 0;
        if !is_several || self.lanes.of(sealed.way).failed_searches >= MAX_SEARCHES {
            return None;
        }
        // Most often it is what fits a path's packets.
        let lengths = (1_200..=MAX_PACKET_BYTES).chain((LEAST_PACKET_BYTES..1_200).rev());
        let found = lengths
            .filter(|length| *length < bytes.len())
            .find(|length| self.open_one(sealed, &bytes[..*length], rows));
        let lane = self.lanes.of_mut(sealed.way);
        match found {
            Some(length) => lane.segment_bytes = length,
            None => lane.failed_searches += 1,
        }
        found
    }

    /// Opens one packet and reads its frames; false if it does not fit the keys.
    fn open_one(&mut self, sealed: &Held, bytes: &[u8], rows: &mut Observations) -> bool {
        let space = sealed.kind.space();
        let lane = self.lanes.of_mut(sealed.way);
        let largest = lane.numbers[space].largest();
        let opened = lane
            .opener_mut(sealed.kind)
            .as_mut()
            .and_then(|opener| opener.open(bytes, sealed.number_at, largest));
        let Some(opened) = opened else {
            return false;
        };
        self.handshake.facts.deciphered = true;
        if sealed.kind == Kind::OneRtt {
            self.counts.application_opened += 1;
        }
        if self.lanes.of_mut(sealed.way).numbers[space].is_new(opened.number) {
            let level = (sealed.kind == Kind::Handshake).then_some(Level::Handshake);
            self.frames(sealed.way, sealed.at, level, &opened, rows);
        }
        true
    }

    /// What opens the packets of a kind that go `way`.
    fn opener(&self, way: Way, kind: Kind, keys: Keys<'_>) -> Result<Found, Opaque> {
        let (Some(hello), Some(suite)) = (&self.handshake.client_hello, self.handshake.suite)
        else {
            return Ok(Found::Later);
        };
        let suite = Suite::of(suite).ok_or(Opaque::Cipher(suite))?;
        let absent = || {
            if keys.may_come {
                Ok(Found::Later)
            } else {
                Err(Opaque::NoKeys)
            }
        };
        let Some(secrets) = keys.log.find(&hello.random) else {
            return absent();
        };
        let is_client = way == self.client;
        let secret = match (kind, is_client) {
            (Kind::ZeroRtt, _) => &secrets.client_early,
            (Kind::Handshake, true) => &secrets.client_handshake,
            (Kind::Handshake, false) => &secrets.server_handshake,
            (Kind::OneRtt, true) => &secrets.client_traffic,
            (Kind::OneRtt, false) => &secrets.server_traffic,
        };
        let Some(secret) = secret else {
            // Secrets are logged in the order of their use: one that later ones have overtaken does not come.
            let is_overtaken = match kind {
                Kind::ZeroRtt => true,
                Kind::Handshake => secrets.client_traffic.is_some(),
                Kind::OneRtt => false,
            };
            return if is_overtaken {
                Ok(Found::Never)
            } else {
                absent()
            };
        };
        let keys = PacketKeys::new(self.version, suite, secret).ok_or(Opaque::Undeciphered)?;
        let opener = match kind {
            Kind::OneRtt => Opener::updatable(keys),
            Kind::ZeroRtt | Kind::Handshake => Opener::fixed(keys),
        };
        opener
            .map(|opener| Found::Opener(Box::new(opener)))
            .ok_or(Opaque::Undeciphered)
    }

    /// Reads the frames of a packet.
    fn frames(
        &mut self,
        way: Way,
        at: Time,
        level: Option<Level>,
        opened: &Opened,
        rows: &mut Observations,
    ) {
        let mut payload = Octets::with_slice(&opened.payload);
        while payload.cap() > 0 && !self.is_over {
            let Ok(frame) = frames::next(&mut payload) else {
                break;
            };
            self.facts.push(frame.facts(way, opened.number));
            if let Err(opaque) = self.frame(way, at, level, &frame, rows) {
                self.stop_reading(opaque, rows);
            }
        }
        let mut facts = std::mem::take(&mut self.facts);
        self.sink(rows).0.frames(at, &mut facts);
        self.facts = facts;
    }

    fn frame(
        &mut self,
        way: Way,
        at: Time,
        level: Option<Level>,
        frame: &Frame<'_>,
        rows: &mut Observations,
    ) -> Result<(), Opaque> {
        match (&frame.content, frame.stream, frame.value) {
            (Content::Crypto(data), ..) => {
                if let Some(level) = level {
                    let offset = frame.offset.unwrap_or(0);
                    self.handshake.take(way, level, offset, data, at)?;
                }
            }
            (Content::Stream { data, fin }, Some(stream), _) => {
                let chunk = Chunk {
                    way,
                    stream,
                    offset: frame.offset.unwrap_or(0),
                    data,
                    fin: *fin,
                };
                self.stream(&chunk, at, rows)?;
            }
            (Content::ResetStream, Some(stream), Some(code)) => {
                self.streams.end(way, stream);
                let (mut sink, http3) = self.sink(rows);
                http3.reset(way, stream, code, &mut sink);
            }
            (Content::StopSending, Some(stream), Some(code)) => {
                let (mut sink, http3) = self.sink(rows);
                http3.stop(way, stream, code, &mut sink);
            }
            (Content::NewConnectionId(id), ..) => self.learn_id(against(way), id),
            (Content::Ack, _, Some(largest)) if level.is_none() => {
                let seen = self.lanes.of(against(way)).numbers[2].largest();
                self.counts.has_gaps |= seen.is_none_or(|seen| largest > seen);
            }
            (Content::ConnectionClose, ..) => {
                self.record.ending = Ending::Closed;
                self.end(rows);
            }
            _ => {}
        }
        Ok(())
    }

    fn stream(
        &mut self,
        chunk: &Chunk<'_>,
        at: Time,
        rows: &mut Observations,
    ) -> Result<(), Opaque> {
        let is_read = self.unread.is_none();
        if is_read && !self.handshake.is_http3() {
            return Err(Opaque::NotHttp);
        }
        let mut streams = std::mem::take(&mut self.streams);
        let (mut sink, http3) = self.sink(rows);
        let taken = streams.take(chunk, at, |ordered| {
            if is_read {
                http3.take(ordered, &mut sink)
            } else {
                Ok(())
            }
        });
        self.streams = streams;
        if is_read {
            self.record.protocol = Some(squall_base::plan::Protocol::H3);
        }
        let taken = taken?;
        let traffic = &mut self.lanes.of_mut(chunk.way).traffic;
        traffic.repeated_bytes += taken.repeated_bytes;
        traffic.refused_bytes += taken.refused_bytes;
        traffic.early_segments += u64::from(taken.is_early);
        Ok(())
    }

    /// Its HTTP cannot be read any further; its packets can.
    fn stop_reading(&mut self, opaque: Opaque, rows: &mut Observations) {
        self.unread.get_or_insert(opaque);
        let (mut sink, http3) = self.sink(rows);
        http3.abandon(&mut sink);
    }

    /// Its packets cannot be read any further.
    pub(crate) fn give_up(&mut self, opaque: Opaque, rows: &mut Observations) {
        self.opaque.get_or_insert(opaque);
        self.drop_content(rows);
    }

    /// It was closed: what is open is written down, and late datagrams are only counted.
    fn end(&mut self, rows: &mut Observations) {
        self.is_over = true;
        self.drop_content(rows);
    }

    fn drop_content(&mut self, rows: &mut Observations) {
        let (mut sink, http3) = self.sink(rows);
        http3.abandon(&mut sink);
        self.streams = Streams::default();
        self.held = VecDeque::new();
        self.held_bytes = 0;
        for way in Way::ALL {
            self.lanes.of_mut(way).forget_keys();
        }
    }

    /// The observer has ended, or it was silent for long: its last rows.
    pub(crate) fn finish(mut self, keys: Keys<'_>, rows: &mut Observations) {
        let keys = Keys {
            may_come: false,
            ..keys
        };
        self.work(keys, rows);
        // Without the ServerHello nobody knows which keys it would take.
        let is_held = !self.held.is_empty();
        let lacks_bytes = self.counts.has_gaps && self.streams.waiting_bytes() > 0;
        self.drop_content(rows);
        self.record.opaque = if self.counts.initial_opened == 0 && self.counts.failed > 0 {
            Some(Opaque::BeganBefore)
        } else if self.opaque.is_some() {
            self.opaque.take()
        } else if self.counts.application_opened == 0 && self.counts.failed > 0 {
            Some(Opaque::Undeciphered)
        } else if is_held || lacks_bytes {
            Some(Opaque::Gap)
        } else {
            self.unread.take()
        };
        self.record.from_client = self.lanes.of(self.client).traffic;
        self.record.from_server = self.lanes.of(against(self.client)).traffic;
        self.record.tls = Some(self.handshake.facts.clone());
        rows.connections.push(self.record);
    }

    fn sink<'a>(&'a mut self, rows: &'a mut Observations) -> (Sink<'a>, &'a mut Http3) {
        let beginning = match self.record.side {
            Side::Client => record::Beginning {
                opened: Some(self.record.opened),
                connected: Some(self.record.opened),
                secured: self.handshake.facts.done,
                ..record::Beginning::default()
            },
            Side::Server => record::Beginning::default(),
        };
        let sink = Sink {
            side: self.record.side,
            connection: self.record.connection,
            beginning,
            exchanges: &mut self.record.exchanges,
            frames: &mut self.record.frames,
            rows,
        };
        (sink, &mut self.http3)
    }
}

/// What the key log has for a kind of packet.
enum Found {
    Opener(Box<Opener>),
    /// It may come.
    Later,
    /// It will not, and packets of this kind are passed over.
    Never,
}

impl Kind {
    /// Its packet number space (RFC 9000, section 12.3).
    fn space(self) -> usize {
        match self {
            Kind::Handshake => 1,
            Kind::ZeroRtt | Kind::OneRtt => 2,
        }
    }
}

impl Lane {
    fn forget_keys(&mut self) {
        self.initial = None;
        self.early = None;
        self.handshake = None;
        self.one_rtt = None;
    }

    fn opener(&self, kind: Kind) -> Option<&Opener> {
        match kind {
            Kind::ZeroRtt => self.early.as_ref(),
            Kind::Handshake => self.handshake.as_ref(),
            Kind::OneRtt => self.one_rtt.as_ref(),
        }
    }

    fn opener_mut(&mut self, kind: Kind) -> &mut Option<Opener> {
        match kind {
            Kind::ZeroRtt => &mut self.early,
            Kind::Handshake => &mut self.handshake,
            Kind::OneRtt => &mut self.one_rtt,
        }
    }
}
