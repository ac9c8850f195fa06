//! One QUIC connection at one end of the link: from datagrams to packets, and from packets to the parsers of their
//! frames.
//!
//! `handshake` determines the secrets, `protection` opens packets, `streams` puts bytes in order, `http3` reads them.
//! This module handles connection IDs, Retry, packets that wait for secrets, and the end of the connection. The parent
//! module decides which datagrams belong to it.

use std::collections::VecDeque;

use octets::Octets;
use squall_base::Time;
use squall_base::record::{self, FrameFacts, PerWay, Side, Way};

use super::frames::{self, Content, Frame};
use super::handshake::{Handshake, Level};
use super::header::{LongPacket, LongType, Packet, Version, next_packet};
use super::http3::Http3;
use super::keys::PacketKeys;
use super::protection::{DecryptedPacket, Opener, PacketNumbers};
use super::streams::{Chunk, Streams};
use crate::connection_record::{ConnectionRecord, Ending, OpaqueReason, Traffic, Transport};
use crate::context::Context;
use crate::exchange::{Observations, Sink};
use crate::packet::Datagram;
use crate::tls::{Keys, Suite};

/// Limit for packets of both directions that wait for secrets; the same as for TLS over TCP.
const MAX_HELD_BYTES: usize = 4 << 20;

/// Approximate memory for a waiting packet beyond its bytes.
const HELD_PACKET_BYTES: usize = 64;

/// A longer packet with a short header must be several datagrams, captured before the sender's device split them
/// (UDP_SEGMENT).
const MAX_PACKET_BYTES: usize = 1_500;

/// The shortest packet with a short header: one header byte and the 20 bytes that header protection needs to take its
/// sample (RFC 9001, section 5.4.2).
const MIN_PACKET_BYTES: usize = 21;

/// How many failed searches for the segment length of such a datagram are allowed; each takes some milliseconds.
const MAX_SEARCHES: u32 = 8;

/// How many connection IDs of an endpoint are remembered: more than any endpoint allows its peer.
const MAX_IDS: usize = 16;

/// The kinds of packets protected by logged secrets, in the order in which the secrets come into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ZeroRtt,
    Handshake,
    OneRtt,
}

/// A QUIC connection.
pub(crate) struct Connection {
    record: ConnectionRecord,
    client: Way,
    version: Version,
    halves: PerWay<QuicHalf>,
    handshake: Handshake,
    streams: Streams,
    http3: Http3,
    /// Packets that wait for secrets, in order of arrival.
    held: VecDeque<SealedPacket>,
    held_bytes: usize,
    /// Why its packets cannot be read.
    opaque: Option<OpaqueReason>,
    /// Why its HTTP cannot be read, although its packets can.
    unread: Option<OpaqueReason>,
    counts: Counts,
    /// It was closed: later packets are only counted.
    is_over: bool,
    /// Connection IDs learned since the last [`Connection::take_ids`].
    fresh_ids: Vec<Vec<u8>>,
    facts: Vec<FrameFacts>,
}

/// One direction.
#[derive(Default)]
struct QuicHalf {
    initial: Option<Opener>,
    early: Option<Opener>,
    handshake: Option<Opener>,
    one_rtt: Option<Opener>,
    /// One per packet number space: Initial, Handshake, application data.
    numbers: [PacketNumbers; 3],
    /// The destination connection IDs of packets in this direction.
    ids: VecDeque<Vec<u8>>,
    /// The length of each datagram the last time several were captured as one.
    segment_bytes: usize,
    failed_searches: u32,
    traffic: Traffic,
}

/// Packet counts by outcome.
#[derive(Default)]
struct Counts {
    initial_opened: u64,
    application_opened: u64,
    failed: u64,
    /// Some packets were acknowledged but never seen.
    has_gaps: bool,
}

/// A packet waiting to be opened.
struct SealedPacket {
    way: Way,
    at: Time,
    kind: Kind,
    number_at: usize,
    bytes: Vec<u8>,
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
            halves: PerWay::default(),
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
        connection.learn_id(way.opposite(), first.source);
        connection.begin_initial(first.version, first.destination);
        connection
    }

    /// When its last datagram was seen.
    pub(crate) fn last(&self) -> Time {
        self.record.last
    }

    /// The number of bytes it buffers.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.held_bytes as u64 + self.streams.waiting_bytes()
    }

    /// The connection IDs learned since the last call.
    pub(crate) fn take_ids(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.fresh_ids)
    }

    /// All its known connection IDs.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Vec<u8>> {
        Way::ALL
            .into_iter()
            .flat_map(|way| &self.halves.of(way).ids)
    }

    /// Whether this is a known destination connection ID of packets in the direction `way`.
    pub(crate) fn knows_id(&self, way: Way, id: &[u8]) -> bool {
        self.halves.of(way).ids.iter().any(|known| known == id)
    }

    /// Whether a short-header packet in the direction `way` begins with a known ID; a zero-length ID always matches.
    pub(crate) fn knows_short(&self, way: Way, packet: &[u8]) -> bool {
        let rest = packet.get(1..).unwrap_or(&[]);
        self.halves
            .of(way)
            .ids
            .iter()
            .any(|id| rest.starts_with(id))
    }

    fn learn_id(&mut self, way: Way, id: &[u8]) {
        let ids = &mut self.halves.of_mut(way).ids;
        if !ids.iter().any(|known| known == id) {
            ids.push_back(id.to_vec());
            if ids.len() > MAX_IDS {
                ids.pop_front();
            }
            self.fresh_ids.push(id.to_vec());
        }
    }

    /// Derives the keys of Initial packets from this ID of the server (RFC 9001, section 5.2).
    fn begin_initial(&mut self, version: Version, destination: &[u8]) {
        if let Some([client, server]) = Opener::initial(version, destination) {
            self.halves.of_mut(self.client).initial = Some(client);
            self.halves.of_mut(self.client.opposite()).initial = Some(server);
        }
    }

    /// Processes a datagram.
    pub(crate) fn process(&mut self, datagram: &Datagram<'_>, context: &mut Context<'_>) {
        self.record.last = context.now;
        let traffic = &mut self.halves.of_mut(context.way).traffic;
        traffic.packets += 1;
        traffic.bytes += datagram.payload_bytes as u64;
        let cut_bytes = datagram
            .payload_bytes
            .saturating_sub(datagram.payload.len());
        traffic.cut_bytes += cut_bytes as u64;
        let mut rest = datagram.payload;
        while !self.is_over
            && let Some((packet, behind)) = next_packet(rest)
        {
            match packet {
                Packet::Long(packet) => self.long(&packet, context),
                Packet::Short(packet) => self.short(packet, context),
            }
            rest = behind;
        }
        self.open_held(context.keys, context.rows);
    }

    fn long(&mut self, packet: &LongPacket<'_>, context: &mut Context<'_>) {
        let way = context.way;
        match packet.kind {
            LongType::Retry => {
                // The Retry's source connection ID is the client's new destination connection ID (RFC 9000, section
                // 17.2.5).
                if way != self.client && self.handshake.suite.is_none() {
                    self.learn_id(self.client, packet.source);
                    self.handshake.restart();
                    self.begin_initial(packet.version, packet.source);
                }
            }
            LongType::Initial => self.initial(packet, context),
            LongType::ZeroRtt => self.hold(packet.bytes, packet.number_at, Kind::ZeroRtt, context),
            LongType::Handshake => {
                self.hold(packet.bytes, packet.number_at, Kind::Handshake, context);
            }
        }
    }

    fn initial(&mut self, packet: &LongPacket<'_>, context: &mut Context<'_>) {
        let way = context.way;
        if packet.version != self.version {
            // The server chose the other version (RFC 9368, section 2.3). The keys still derive from the client's first
            // ID.
            self.version = packet.version;
            let first = self.halves.of(self.client).ids.front().cloned();
            self.begin_initial(packet.version, &first.unwrap_or_default());
        }
        let half = self.halves.of_mut(way);
        let largest = half.numbers[0].largest();
        let decrypted = half
            .initial
            .as_mut()
            .and_then(|opener| opener.open(packet.bytes, packet.number_at, largest));
        let Some(decrypted) = decrypted else {
            if self.counts.initial_opened == 0 {
                self.counts.failed += 1;
            }
            return;
        };
        self.counts.initial_opened += 1;
        self.learn_id(way.opposite(), packet.source);
        if self.halves.of_mut(way).numbers[0].insert(decrypted.number) {
            let level = Some(Level::Initial);
            self.frames(way, context.now, level, &decrypted, context.rows);
        }
    }

    fn short(&mut self, packet: &[u8], context: &mut Context<'_>) {
        let rest = packet.get(1..).unwrap_or(&[]);
        let ids = &self.halves.of(context.way).ids;
        let known = ids.iter().rev().find(|id| rest.starts_with(id));
        // The ID may have been issued in a packet that was not seen; an endpoint's IDs usually have one length.
        let Some(id) = known.or(ids.back()) else {
            return;
        };
        self.hold(packet, 1 + id.len(), Kind::OneRtt, context);
    }

    /// Queues a packet whose secrets come from the key log.
    fn hold(&mut self, bytes: &[u8], number_at: usize, kind: Kind, context: &Context<'_>) {
        if self.opaque.is_some() {
            return;
        }
        self.held_bytes += bytes.len() + HELD_PACKET_BYTES;
        self.held.push_back(SealedPacket {
            way: context.way,
            at: context.now,
            kind,
            number_at,
            bytes: bytes.to_vec(),
        });
    }

    /// Opens all packets that can be opened now, in order of arrival. Called again after secrets were added.
    pub(crate) fn open_held(&mut self, keys: Keys<'_>, rows: &mut Observations) {
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
            self.give_up(OpaqueReason::NoKeys, rows);
        }
    }

    /// Opens a packet. Returns false if it has to wait.
    fn open(
        &mut self,
        sealed: &SealedPacket,
        keys: Keys<'_>,
        rows: &mut Observations,
    ) -> Result<bool, OpaqueReason> {
        if self.halves.of(sealed.way).opener(sealed.kind).is_none() {
            match self.opener(sealed.way, sealed.kind, keys)? {
                KeyLookup::Opener(opener) => {
                    *self.halves.of_mut(sealed.way).opener_mut(sealed.kind) = Some(*opener);
                }
                KeyLookup::Later => return Ok(false),
                KeyLookup::Never => return Ok(true),
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

    /// Opens the first of several datagrams that were captured as one, and returns its length. All but the last have
    /// the same length, which none of them states: it is the length with which the first packet decrypts.
    fn segment(
        &mut self,
        sealed: &SealedPacket,
        bytes: &[u8],
        rows: &mut Observations,
    ) -> Option<usize> {
        if sealed.kind != Kind::OneRtt {
            return None;
        }
        let known = self.halves.of(sealed.way).segment_bytes;
        if (1..bytes.len()).contains(&known) && self.open_one(sealed, &bytes[..known], rows) {
            return Some(known);
        }
        // A datagram short enough to be a single packet is searched only after the keys have opened another packet.
        let is_several = bytes.len() > MAX_PACKET_BYTES || self.counts.application_opened > 0;
        if !is_several || self.halves.of(sealed.way).failed_searches >= MAX_SEARCHES {
            return None;
        }
        // The length is most likely that of full packets on the path.
        let lengths = (1_200..=MAX_PACKET_BYTES).chain((MIN_PACKET_BYTES..1_200).rev());
        let found = lengths
            .filter(|length| *length < bytes.len())
            .find(|length| self.open_one(sealed, &bytes[..*length], rows));
        let half = self.halves.of_mut(sealed.way);
        match found {
            Some(length) => half.segment_bytes = length,
            None => half.failed_searches += 1,
        }
        found
    }

    /// Opens one packet and reads its frames. Returns false if the keys do not fit.
    fn open_one(&mut self, sealed: &SealedPacket, bytes: &[u8], rows: &mut Observations) -> bool {
        let space = sealed.kind.space();
        let half = self.halves.of_mut(sealed.way);
        let largest = half.numbers[space].largest();
        let decrypted = half
            .opener_mut(sealed.kind)
            .as_mut()
            .and_then(|opener| opener.open(bytes, sealed.number_at, largest));
        let Some(decrypted) = decrypted else {
            return false;
        };
        self.handshake.facts.deciphered = true;
        if sealed.kind == Kind::OneRtt {
            self.counts.application_opened += 1;
        }
        if self.halves.of_mut(sealed.way).numbers[space].insert(decrypted.number) {
            let level = (sealed.kind == Kind::Handshake).then_some(Level::Handshake);
            self.frames(sealed.way, sealed.at, level, &decrypted, rows);
        }
        true
    }

    /// Looks up the keys for packets of a kind in the direction `way`.
    fn opener(&self, way: Way, kind: Kind, keys: Keys<'_>) -> Result<KeyLookup, OpaqueReason> {
        let (Some(hello), Some(suite)) = (&self.handshake.client_hello, self.handshake.suite)
        else {
            return Ok(KeyLookup::Later);
        };
        let suite = Suite::of(suite).ok_or(OpaqueReason::Cipher(suite))?;
        let absent = || {
            if keys.may_come {
                Ok(KeyLookup::Later)
            } else {
                Err(OpaqueReason::NoKeys)
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
            // Secrets are logged in the order of their use: a secret that is missing after a later one was logged will
            // not come.
            let is_overtaken = match kind {
                Kind::ZeroRtt => true,
                Kind::Handshake => secrets.client_traffic.is_some(),
                Kind::OneRtt => false,
            };
            return if is_overtaken {
                Ok(KeyLookup::Never)
            } else {
                absent()
            };
        };
        let keys =
            PacketKeys::new(self.version, suite, secret).ok_or(OpaqueReason::Undeciphered)?;
        let opener = match kind {
            Kind::OneRtt => Opener::updatable(keys),
            Kind::ZeroRtt | Kind::Handshake => Opener::fixed(keys),
        };
        opener
            .map(|opener| KeyLookup::Opener(Box::new(opener)))
            .ok_or(OpaqueReason::Undeciphered)
    }

    /// Reads the frames of a packet.
    fn frames(
        &mut self,
        way: Way,
        at: Time,
        level: Option<Level>,
        decrypted: &DecryptedPacket,
        rows: &mut Observations,
    ) {
        let mut payload = Octets::with_slice(&decrypted.payload);
        while payload.cap() > 0 && !self.is_over {
            let Ok(frame) = frames::next(&mut payload) else {
                break;
            };
            self.facts.push(frame.facts(way, decrypted.number));
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
    ) -> Result<(), OpaqueReason> {
        match (&frame.content, frame.stream, frame.value) {
            (Content::Crypto(data), ..) => {
                if let Some(level) = level {
                    let offset = frame.offset.unwrap_or(0);
                    self.handshake.receive(way, level, offset, data, at)?;
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
            (Content::NewConnectionId(id), ..) => self.learn_id(way.opposite(), id),
            (Content::Ack, _, Some(largest)) if level.is_none() => {
                let seen = self.halves.of(way.opposite()).numbers[2].largest();
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
    ) -> Result<(), OpaqueReason> {
        let is_read = self.unread.is_none();
        if is_read && !self.handshake.is_http3() {
            return Err(OpaqueReason::NotHttp);
        }
        let mut streams = std::mem::take(&mut self.streams);
        let (mut sink, http3) = self.sink(rows);
        let outcome = streams.receive(chunk, at, |ordered| {
            if is_read {
                http3.feed(ordered, &mut sink)
            } else {
                Ok(())
            }
        });
        self.streams = streams;
        if is_read {
            self.record.protocol = Some(squall_base::plan::Protocol::H3);
        }
        let outcome = outcome?;
        let traffic = &mut self.halves.of_mut(chunk.way).traffic;
        traffic.repeated_bytes += outcome.repeated_bytes;
        traffic.refused_bytes += outcome.refused_bytes;
        traffic.early_segments += u64::from(outcome.is_early);
        Ok(())
    }

    /// Its HTTP cannot be read any further, but its packets can.
    fn stop_reading(&mut self, opaque: OpaqueReason, rows: &mut Observations) {
        self.unread.get_or_insert(opaque);
        let (mut sink, http3) = self.sink(rows);
        http3.abandon(&mut sink);
    }

    /// Its packets cannot be read any further.
    pub(crate) fn give_up(&mut self, opaque: OpaqueReason, rows: &mut Observations) {
        self.opaque.get_or_insert(opaque);
        self.drop_content(rows);
    }

    /// The connection was closed: writes the rows of open exchanges. Late datagrams are only counted.
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
            self.halves.of_mut(way).forget_keys();
        }
    }

    /// The observer has finished, or the connection was silent for long: writes the last rows.
    pub(crate) fn finish(mut self, keys: Keys<'_>, rows: &mut Observations) {
        let keys = Keys {
            may_come: false,
            ..keys
        };
        self.open_held(keys, rows);
        // Packets still held wait for a ServerHello, without which their keys cannot be chosen.
        let is_held = !self.held.is_empty();
        let lacks_bytes = self.counts.has_gaps && self.streams.waiting_bytes() > 0;
        self.drop_content(rows);
        self.record.opaque = if self.counts.initial_opened == 0 && self.counts.failed > 0 {
            Some(OpaqueReason::BeganBefore)
        } else if self.opaque.is_some() {
            self.opaque.take()
        } else if self.counts.application_opened == 0 && self.counts.failed > 0 {
            Some(OpaqueReason::Undeciphered)
        } else if is_held || lacks_bytes {
            Some(OpaqueReason::Gap)
        } else {
            self.unread.take()
        };
        let is_cut = Way::ALL
            .iter()
            .any(|way| self.halves.of(*way).traffic.cut_bytes > 0);
        // A packet that is not whole cannot be decrypted.
        let failed = matches!(
            self.record.opaque,
            None | Some(OpaqueReason::BeganBefore | OpaqueReason::Gap | OpaqueReason::Undeciphered)
        );
        if is_cut && failed {
            self.record.opaque = Some(OpaqueReason::Snaplen);
        }
        self.record.from_client = self.halves.of(self.client).traffic;
        self.record.from_server = self.halves.of(self.client.opposite()).traffic;
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
        let sink = Sink::of(&mut self.record, beginning, rows);
        (sink, &mut self.http3)
    }
}

/// The result of looking up keys.
enum KeyLookup {
    Opener(Box<Opener>),
    /// Not known yet.
    Later,
    /// They will not come; packets of this kind are skipped.
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

impl QuicHalf {
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
