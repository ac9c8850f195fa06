//! One TCP connection at one end of the link: from segments to bytes, and from bytes to a parser.
//!
//! `reassembly` puts each direction in order. This module handles the beginning, the end and gaps, and chooses between
//! TLS, cleartext HTTP and unreadable content; it does not parse any of them itself (`tls` and `plain` do).

use squall_base::record::{self, PerWay, Side, Way};
use squall_base::{Duration, Time};

use crate::connection_record::{
    ConnectionRecord, Ending, OpaqueReason, Traffic, Transport, side_of,
};
use crate::context::Context;
use crate::exchange::{Observations, Sink};
use crate::packet::Segment;
use crate::plain::{Plaintext, StreamStart};
use crate::reassembly::{MAX_WAITING_BYTES, Reassembly};
use crate::tls::{Keys, Tls, begins_client_hello, looks_like_tls};
use crate::trail::{Carrier, Piece};

/// How much later than its acknowledgement a capture may deliver a segment. CPUs hand packets to a capture out of
/// order, by microseconds. Bytes that are later than this are missing.
const GAP_PATIENCE: Duration = Duration::from_secs(1);

/// Limit for server bytes that wait for the client's first byte.
const MAX_EARLY_BYTES: usize = 256 * 1024;

/// A TCP connection.
pub(crate) struct Connection {
    record: ConnectionRecord,
    /// The direction of the client's bytes, if it is known.
    client: Option<Way>,
    halves: PerWay<TcpHalf>,
    content: Content,
}

/// One direction.
#[derive(Default)]
struct TcpHalf {
    stream: Reassembly,
    traffic: Traffic,
    /// The largest window that this side announced as a receiver, and its window scale (RFC 7323, section 2).
    window: u64,
    scale: Option<u8>,
    has_ended: bool,
    /// Set while acknowledged bytes have not arrived: since when, and up to which offset.
    gap: Option<(Time, u64)>,
}

enum Content {
    /// The client's first byte has not arrived; bytes that the server sent before it wait here.
    Unknown(Vec<(Time, Vec<u8>)>),
    Plain(Box<Plaintext>),
    Tls(Box<Tls>),
    Opaque(OpaqueReason),
}

impl Connection {
    /// A connection whose first packet is `segment`.
    pub(crate) fn new(number: u32, now: Time, way: Way, segment: &Segment<'_>) -> Connection {
        let client = match (segment.syn, segment.ack) {
            (true, None) => Some(way),
            (true, Some(_)) => Some(way.opposite()),
            (false, _) => None,
        };
        // Servers usually have the lower port.
        let is_from_client = match client {
            Some(client) => client == way,
            None => segment.source.port() >= segment.destination.port(),
        };
        let (client_address, server_address) = if is_from_client {
            (segment.source, segment.destination)
        } else {
            (segment.destination, segment.source)
        };
        let assumed_client = client.unwrap_or(if is_from_client { way } else { way.opposite() });
        let content = match client {
            Some(_) => Content::Unknown(Vec::new()),
            None => Content::Plain(Box::new(Plaintext::new(false, StreamStart::Missed(None)))),
        };
        Connection {
            record: ConnectionRecord {
                began_before: client.is_none(),
                ..ConnectionRecord::first_seen(
                    number,
                    Transport::Tcp,
                    now,
                    assumed_client,
                    [client_address, server_address],
                )
            },
            client,
            halves: PerWay::default(),
            content,
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.record.connection
    }

    /// The sequence number of the client's SYN, if that was seen.
    pub(crate) fn initial(&self) -> Option<u32> {
        let first = self.halves.of(self.client?).stream.first()?;
        (!self.record.began_before).then(|| first.wrapping_sub(1))
    }

    /// Whether a segment opens another connection between the same ends: a SYN that is not a retransmission (RFC 9293,
    /// section 3.10.7.4).
    pub(crate) fn is_followed_by(&self, way: Way, segment: &Segment<'_>) -> bool {
        let stream = &self.halves.of(way).stream;
        let is_repeated = stream.ahead(segment.seq.wrapping_add(1)) == -(stream.offset() as i64);
        segment.syn && segment.ack.is_none() && stream.has_begun() && !is_repeated
    }

    /// Whether a segment is a late one of an earlier connection between the same ends. Such a segment carries or
    /// acknowledges a sequence number before the first one of this connection, or it cannot be the reply to the
    /// client's unanswered SYN. Its receiver ignores both its bytes and its RST (RFC 9293, sections 3.10.7.3 and
    /// 3.10.7.4); a RST sent in reply belongs to the earlier connection as well.
    pub(crate) fn is_stray(&self, way: Way, segment: &Segment<'_>) -> bool {
        if self.record.began_before {
            return false;
        }
        let (own, other) = (
            &self.halves.of(way).stream,
            &self.halves.of(way.opposite()).stream,
        );
        // A SYN, like a keep-alive probe, has the sequence number before the first byte's.
        let is_early = own.has_begun() && own.is_before_first(segment.seq.wrapping_add(1));
        let acknowledges_early = |ack| other.has_begun() && other.is_before_first(ack);
        if is_early || segment.ack.is_some_and(acknowledges_early) {
            return true;
        }
        // A client whose SYN is unanswered has sent nothing but that SYN.
        let is_unanswered = other.has_begun() && !own.has_begun();
        is_unanswered && segment.ack.is_none_or(|ack| other.ahead(ack) > 0)
    }

    /// Processes a segment. Returns true if it ends the connection.
    pub(crate) fn process(&mut self, segment: &Segment<'_>, context: &mut Context<'_>) -> bool {
        let (now, way) = (context.now, context.way);
        self.record.last = now;
        self.note_handshake(segment, context);
        self.note_window(segment, way);
        let room = self.room(way.opposite());
        let half = self.halves.of_mut(way);
        let first = segment.seq.wrapping_add(u32::from(segment.syn));
        half.stream.begin(first);
        let fin = segment.fin && segment.missing_bytes == 0;
        let outcome = half.stream.receive(now, first, segment.payload, fin, room);
        half.traffic.packets += 1;
        half.traffic.cut_bytes += segment.missing_bytes as u64;
        half.traffic.repeated_bytes += outcome.repeated_bytes;
        half.traffic.refused_bytes += outcome.refused_bytes;
        half.traffic.early_segments += u64::from(outcome.waiting_bytes > 0);
        if let Some(from) = outcome.fresh_from {
            let earliest = self.halves.of(way).stream.earliest();
            let at = match earliest.filter(|_| way == Way::Sent) {
                Some(earliest) => earliest.min(now),
                None => now,
            };
            self.read(at, &segment.payload[from..], context);
            self.read_waiting(context);
        }
        self.begin_other(segment, way);
        self.watch_gaps(segment, context);
        self.end_directions(context);
        if segment.rst {
            self.record.ending = Ending::Reset;
            return true;
        }
        let has_ended = Way::ALL.iter().all(|way| self.halves.of(*way).has_ended);
        if has_ended {
            self.record.ending = Ending::Closed;
        }
        has_ended
    }

    fn note_handshake(&mut self, segment: &Segment<'_>, context: &Context<'_>) {
        let Some(client) = self.client else {
            return;
        };
        let is_from_client = client == context.way;
        if segment.syn && segment.ack.is_some() && !is_from_client {
            self.record.accepted.get_or_insert(context.now);
        }
        if !segment.syn && is_from_client && segment.ack.is_some() && self.record.accepted.is_some()
        {
            self.record.established.get_or_insert(context.now);
        }
    }

    /// Begins the other direction's stream at the byte that this segment expects, in case its SYN was missed: a SYN-ACK
    /// expects the client's first byte, and the client's next segment the server's.
    fn begin_other(&mut self, segment: &Segment<'_>, way: Way) {
        let Some(client) = self.client else {
            return;
        };
        if let Some(ack) = segment.ack
            && segment.syn == (client != way)
        {
            self.halves.of_mut(way.opposite()).stream.begin(ack);
        }
    }

    /// How much the receiver on this side accepts beyond the next byte in order; our own limit while the scales are
    /// unknown.
    fn room(&self, way: Way) -> u64 {
        let half = self.halves.of(way);
        match (half.scale, self.halves.of(way.opposite()).scale) {
            (Some(_), Some(_)) => half.window,
            _ => MAX_WAITING_BYTES,
        }
    }

    fn note_window(&mut self, segment: &Segment<'_>, way: Way) {
        let other_scales = self.halves.of(way.opposite()).scale;
        let half = self.halves.of_mut(way);
        if segment.syn {
            // A SYN without the option has no scale. Scales apply only if both sides announced one.
            half.scale = Some(segment.window_scale.unwrap_or(0));
        }
        let shift = match (half.scale, other_scales) {
            (Some(own), Some(_)) if !segment.syn => own,
            _ => 0,
        };
        half.window = half.window.max(u64::from(segment.window) << shift);
    }

    /// Skips bytes that were acknowledged but have not arrived within [`GAP_PATIENCE`]: they are missing.
    fn watch_gaps(&mut self, segment: &Segment<'_>, context: &mut Context<'_>) {
        let half = self.halves.of_mut(context.way.opposite());
        let acknowledged = segment.ack.filter(|_| !segment.rst);
        if let Some(to) = acknowledged.and_then(|ack| half.stream.beyond(ack)) {
            let (since, before) = half.gap.unwrap_or((context.now, 0));
            half.gap = Some((since, before.max(to)));
        }
        for way in Way::ALL {
            let since = self.halves.of_mut(way).gap_since();
            if since.is_some_and(|since| context.now.since(since) > GAP_PATIENCE) {
                self.skip(way, context);
            }
        }
    }

    /// Skips the missing bytes of a direction and continues after them.
    fn skip(&mut self, way: Way, context: &mut Context<'_>) {
        let half = self.halves.of_mut(way);
        let to = half.gap.map_or(0, |(_, to)| to);
        let missing = half
            .stream
            .skip_gap(to.saturating_sub(half.stream.offset()));
        half.traffic.missing_bytes += missing;
        if missing == 0 {
            half.gap = None;
            return;
        }
        let (mut sink, content) = self.sink(context.rows);
        match content {
            Content::Plain(plain) => {
                if let Err(opaque) = plain.gap(&mut sink) {
                    self.mark_opaque(opaque);
                }
            }
            Content::Tls(tls) => tls.gap(&mut sink),
            Content::Unknown(_) => {
                let missed = Plaintext::new(false, StreamStart::Missed(self.client));
                self.content = Content::Plain(Box::new(missed));
            }
            Content::Opaque(_) => {}
        }
        let before = std::mem::replace(&mut context.way, way);
        self.read_waiting(context);
        context.way = before;
    }

    fn read_waiting(&mut self, context: &mut Context<'_>) {
        while let Some((arrived, bytes)) = self.halves.of_mut(context.way).stream.pop() {
            // The sender had sent them by then; the receiver has them in order only now.
            let at = if context.way == Way::Sent {
                arrived
            } else {
                context.now
            };
            self.read(at, &bytes, context);
        }
    }

    /// Passes bytes that are in order to the parser.
    fn read(&mut self, at: Time, bytes: &[u8], context: &mut Context<'_>) {
        let way = context.way;
        let half = self.halves.of_mut(way);
        let start = half.stream.offset();
        half.stream.advance(bytes.len());
        half.traffic.bytes += bytes.len() as u64;
        if let Content::Unknown(early) = &mut self.content {
            if self.client != Some(way) {
                early.push((at, bytes.to_vec()));
                if early.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MAX_EARLY_BYTES {
                    self.content = Content::Opaque(OpaqueReason::Overfull);
                }
                return;
            }
            self.begin(way, bytes, context);
        }
        self.feed(way, at, start, bytes, context);
    }

    /// Chooses the parser by the client's first bytes.
    fn begin(&mut self, client: Way, first: &[u8], context: &mut Context<'_>) {
        let fresh = if looks_like_tls(first) {
            Content::Tls(Box::new(Tls::new(client)))
        } else {
            Content::Plain(Box::new(Plaintext::new(false, StreamStart::Seen(client))))
        };
        let Content::Unknown(early) = std::mem::replace(&mut self.content, fresh) else {
            return;
        };
        let mut start = 0;
        for (at, bytes) in early {
            self.feed(client.opposite(), at, start, &bytes, context);
            start += bytes.len() as u64;
        }
    }

    fn feed(&mut self, way: Way, at: Time, start: u64, bytes: &[u8], context: &mut Context<'_>) {
        self.join(way, bytes);
        let carrier = Carrier {
            wire: start..start + bytes.len() as u64,
            record: None,
            first: at,
            last: at,
        };
        let piece = Piece {
            way,
            bytes,
            carrier,
        };
        let (mut sink, content) = self.sink(context.rows);
        match content {
            Content::Plain(plain) => {
                let result = plain.feed(&piece, &mut sink);
                let protocol = plain.protocol();
                self.record.protocol = self.record.protocol.or(protocol);
                if let Err(opaque) = result {
                    self.mark_opaque(opaque);
                }
            }
            Content::Tls(tls) => {
                tls.feed(&piece, context.keys, &mut sink);
                self.record.protocol = self.record.protocol.or(tls_protocol(&self.content));
            }
            Content::Unknown(_) | Content::Opaque(_) => {}
        }
    }

    /// Starts to read a connection whose beginning was missed, if these bytes begin something that can be read from
    /// there. Their sender is the client.
    fn join(&mut self, way: Way, bytes: &[u8]) {
        let Content::Plain(plain) = &mut self.content else {
            return;
        };
        if !plain.is_out_of_sync() || self.client.is_some_and(|client| client != way) {
            return;
        }
        if plain.is_unread() && begins_client_hello(bytes) {
            self.content = Content::Tls(Box::new(Tls::new(way)));
        } else if !plain.join(way, bytes) {
            return;
        }
        self.client = Some(way);
        let side = side_of(way);
        if side != self.record.side {
            self.record.side = side;
            std::mem::swap(&mut self.record.client, &mut self.record.server);
        }
    }

    /// Marks the rest of the connection as unreadable.
    fn mark_opaque(&mut self, opaque: OpaqueReason) {
        self.content = Content::Opaque(opaque);
    }

    /// Notifies the parser of directions that have ended.
    fn end_directions(&mut self, context: &mut Context<'_>) {
        for way in Way::ALL {
            let half = self.halves.of_mut(way);
            if half.has_ended || !half.stream.has_ended() {
                continue;
            }
            half.has_ended = true;
            let (mut sink, content) = self.sink(context.rows);
            if let Content::Plain(plain) = content {
                plain.end(way, context.now, &mut sink);
            }
        }
    }

    /// Tries again to decrypt waiting records after secrets were added.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        let (mut sink, content) = self.sink(rows);
        if let Content::Tls(tls) = content {
            tls.process_records(keys, &mut sink);
            self.record.protocol = self.record.protocol.or(tls_protocol(&self.content));
        }
    }

    /// The connection or the observer has ended: writes the last rows.
    pub(crate) fn finish(mut self, context: &mut Context<'_>) {
        // No packet will fill a gap from now on. Waiting bytes beyond an unacknowledged gap stay unread: the receiver
        // has not read them either.
        for way in Way::ALL {
            while self.halves.of_mut(way).gap_since().is_some() {
                self.skip(way, context);
            }
        }
        self.end_directions(context);
        let (mut sink, content) = self.sink(context.rows);
        let opaque = match content {
            Content::Plain(plain) => {
                let opaque = plain.why_undetected();
                plain.abandon(&mut sink);
                opaque
            }
            Content::Tls(tls) => {
                tls.end();
                tls.plaintext.abandon(&mut sink);
                let opaque = tls.opaque().cloned();
                self.record.tls = Some(tls.facts.clone());
                opaque
            }
            Content::Opaque(opaque) => Some(opaque.clone()),
            Content::Unknown(_) => None,
        };
        let has = |is_so: fn(&Traffic) -> bool| {
            let traffic = Way::ALL.map(|way| self.halves.of(way).traffic);
            traffic.iter().any(is_so)
        };
        let lacks_bytes = has(|traffic| traffic.missing_bytes > 0);
        let is_cut = has(|traffic| traffic.cut_bytes > 0);
        self.record.opaque = match opaque {
            Some(OpaqueReason::BeganBefore) if lacks_bytes && !self.record.began_before => {
                Some(OpaqueReason::Gap)
            }
            opaque => opaque,
        };
        if is_cut && self.record.opaque == Some(OpaqueReason::Gap) {
            self.record.opaque = Some(OpaqueReason::Snaplen);
        }
        let client = match self.record.side {
            Side::Client => Way::Sent,
            Side::Server => Way::Received,
        };
        self.record.from_client = self.halves.of(client).traffic;
        self.record.from_server = self.halves.of(client.opposite()).traffic;
        context.rows.connections.push(self.record);
    }

    fn sink<'a>(&'a mut self, rows: &'a mut Observations) -> (Sink<'a>, &'a mut Content) {
        let record = &self.record;
        let beginning = match record.side {
            Side::Client if !record.began_before => record::Beginning {
                opened: Some(record.opened),
                connected: record.accepted,
                ..record::Beginning::default()
            },
            _ => record::Beginning::default(),
        };
        let sink = Sink::of(&mut self.record, beginning, rows);
        (sink, &mut self.content)
    }
}

impl TcpHalf {
    /// Since when acknowledged bytes have been outstanding, if there are any.
    fn gap_since(&mut self) -> Option<Time> {
        let offset = self.stream.offset();
        self.gap = self.gap.filter(|(_, to)| *to > offset);
        self.gap.map(|(since, _)| since)
    }
}

fn tls_protocol(content: &Content) -> Option<squall_base::plan::Protocol> {
    match content {
        Content::Tls(tls) => tls.plaintext.protocol(),
        _ => None,
    }
}
