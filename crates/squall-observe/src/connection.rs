//! One TCP connection at one end of the link: from segments to bytes, and from bytes to what reads them.
//!
//! `reassembly` puts each direction in order; here are the beginning, the end, gaps, and the choice between TLS, HTTP in
//! the clear and what cannot be read.

use squall_base::record::{self, Side, Way};
use squall_base::{Duration, Time};

use crate::connection_record::{ConnectionRecord, Ending, Opaque, Traffic, Transport, side_of};
use crate::exchange::{Observations, Sink, Ways, against};
use crate::packet::Segment;
use crate::plain::{Beginning, Plain};
use crate::reassembly::{MAX_WAITING_BYTES, Reassembly};
use crate::tls::{Keys, Tls, looks_like_tls};
use crate::trail::{Carrier, Piece};

/// How long a capture may be late with bytes whose acknowledgement it has: processors hand packets over in another
/// order than they were sent, by microseconds. Beyond this they are missing.
const GAP_PATIENCE: Duration = Duration::from_secs(1);

/// What of a connection waits for the first byte from its client.
const MAX_EARLY_BYTES: usize = 256 * 1024;

/// A connection.
pub(crate) struct Connection {
    record: ConnectionRecord,
    /// How the client's bytes go, if that is known.
    client: Option<Way>,
    lanes: Ways<Lane>,
    content: Content,
}

/// One direction.
#[derive(Default)]
struct Lane {
    stream: Reassembly,
    traffic: Traffic,
    /// How far this side's receiver has room, as it announced, and its scale (RFC 7323, section 2).
    window: u64,
    scale: Option<u8>,
    has_ended: bool,
    /// Bytes are acknowledged that have not come: since when, and up to which offset.
    lacks: Option<(Time, u64)>,
}

enum Content {
    /// The client's first byte has not come; what the server sent before it waits.
    Unknown(Vec<(Time, Vec<u8>)>),
    Plain(Box<Plain>),
    Tls(Box<Tls>),
    Opaque(Opaque),
}

/// What a segment is taken with.
pub(crate) struct With<'a> {
    pub(crate) now: Time,
    pub(crate) way: Way,
    pub(crate) keys: Keys<'a>,
    pub(crate) rows: &'a mut Observations,
}

impl Connection {
    /// A connection whose first packet is this one.
    pub(crate) fn new(number: u32, now: Time, way: Way, segment: &Segment<'_>) -> Connection {
        let client = match (segment.syn, segment.ack) {
            (true, None) => Some(way),
            (true, Some(_)) => Some(against(way)),
            (false, _) => None,
        };
        // Servers mostly have the lower port.
        let is_from_client = match client {
            Some(client) => client == way,
            None => segment.source.port() >= segment.destination.port(),
        };
        let (client_address, server_address) = if is_from_client {
            (segment.source, segment.destination)
        } else {
            (segment.destination, segment.source)
        };
        let supposed = client.unwrap_or(if is_from_client { way } else { against(way) });
        let content = match client {
            Some(_) => Content::Unknown(Vec::new()),
            None => Content::Plain(Box::new(Plain::new(false, Beginning::Missed(None)))),
        };
        Connection {
            record: ConnectionRecord {
                began_before: client.is_none(),
                ..ConnectionRecord::first_seen(
                    number,
                    Transport::Tcp,
                    now,
                    supposed,
                    [client_address, server_address],
                )
            },
            client,
            lanes: Ways::default(),
            content,
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.record.connection
    }

    /// The number of its client's SYN, if that was seen.
    pub(crate) fn initial(&self) -> Option<u32> {
        let first = self.lanes.of(self.client?).stream.first()?;
        (!self.record.began_before).then(|| first.wrapping_sub(1))
    }

    /// Whether a segment is the first of another connection between the same ends (RFC 9293, section 3.10.7.4: a SYN
    /// that is no repetition).
    pub(crate) fn is_followed_by(&self, way: Way, segment: &Segment<'_>) -> bool {
        let stream = &self.lanes.of(way).stream;
        let is_repeated = stream.ahead(segment.seq.wrapping_add(1)) == -(stream.offset() as i64);
        segment.syn && segment.ack.is_none() && stream.has_begun() && !is_repeated
    }

    /// Whether a segment is a late one of an earlier connection between the same ends: it has, or acknowledges, a number
    /// before the first of this one, or it is there before the client's SYN can have been answered. Whoever gets such a one
    /// takes neither its bytes nor its reset (RFC 9293, sections 3.10.7.3 and 3.10.7.4), and may answer it with a reset
    /// that is of the earlier connection too.
    pub(crate) fn is_stray(&self, way: Way, segment: &Segment<'_>) -> bool {
        if self.record.began_before {
            return false;
        }
        let (own, other) = (
            &self.lanes.of(way).stream,
            &self.lanes.of(against(way)).stream,
        );
        // SYN has the number before the first byte's, and so have probes of what is idle.
        let is_early = own.has_begun() && own.is_before_first(segment.seq.wrapping_add(1));
        let acknowledges_early = |ack| other.has_begun() && other.is_before_first(ack);
        if is_early || segment.ack.is_some_and(acknowledges_early) {
            return true;
        }
        // Until it is answered a client has sent nothing but its SYN.
        let is_unanswered = other.has_begun() && !own.has_begun();
        is_unanswered && segment.ack.is_none_or(|ack| other.ahead(ack) > 0)
    }

    /// Takes a segment; true when the connection has ended with it.
    pub(crate) fn take(&mut self, segment: &Segment<'_>, with: &mut With<'_>) -> bool {
        let (now, way) = (with.now, with.way);
        self.record.last = now;
        self.note_handshake(segment, with);
        self.note_window(segment, way);
        let room = self.room(against(way));
        let lane = self.lanes.of_mut(way);
        let first = segment.seq.wrapping_add(u32::from(segment.syn));
        lane.stream.begin(first);
        let fin = segment.fin && segment.missing_bytes == 0;
        let taken = lane.stream.take(now, first, segment.payload, fin, room);
        lane.traffic.packets += 1;
        lane.traffic.repeated_bytes += taken.repeated_bytes;
        lane.traffic.refused_bytes += taken.refused_bytes;
        lane.traffic.early_segments += u64::from(taken.waiting_bytes > 0);
        if let Some(from) = taken.fresh_from {
            let earliest = self.lanes.of(way).stream.earliest();
            let at = match earliest.filter(|_| way == Way::Sent) {
                Some(earliest) => earliest.min(now),
                None => now,
            };
            self.read(at, &segment.payload[from..], with);
            self.read_waiting(with);
        }
        self.watch_gaps(segment, with);
        self.end_ways(with);
        if segment.rst {
            self.record.ending = Ending::Reset;
            return true;
        }
        let has_ended = Way::ALL.iter().all(|way| self.lanes.of(*way).has_ended);
        if has_ended {
            self.record.ending = Ending::Closed;
        }
        has_ended
    }

    fn note_handshake(&mut self, segment: &Segment<'_>, with: &With<'_>) {
        let Some(client) = self.client else {
            return;
        };
        let is_from_client = client == with.way;
        if segment.syn && segment.ack.is_some() && !is_from_client {
            self.record.accepted.get_or_insert(with.now);
        }
        if !segment.syn && is_from_client && segment.ack.is_some() && self.record.accepted.is_some()
        {
            self.record.established.get_or_insert(with.now);
        }
        // The SYN-ACK may have been missed.
        if let Some(ack) = segment.ack.filter(|_| !segment.syn && is_from_client) {
            self.lanes.of_mut(against(with.way)).stream.begin(ack);
        }
    }

    /// How much the receiver on this side takes beyond what is in order; all that we do while scales are not known.
    fn room(&self, way: Way) -> u64 {
        let lane = self.lanes.of(way);
        match (lane.scale, self.lanes.of(against(way)).scale) {
            (Some(_), Some(_)) => lane.window,
            _ => MAX_WAITING_BYTES,
        }
    }

    fn note_window(&mut self, segment: &Segment<'_>, way: Way) {
        let other_scales = self.lanes.of(against(way)).scale;
        let lane = self.lanes.of_mut(way);
        if segment.syn {
            // Who announces none has none; scales hold only if both announce one.
            lane.scale = Some(segment.window_scale.unwrap_or(0));
        }
        let shift = match (lane.scale, other_scales) {
            (Some(own), Some(_)) if !segment.syn => own,
            _ => 0,
        };
        lane.window = lane.window.max(u64::from(segment.window) << shift);
    }

    /// Bytes that are acknowledged and have not come, for longer than a capture may be late, are missing.
    fn watch_gaps(&mut self, segment: &Segment<'_>, with: &mut With<'_>) {
        let lane = self.lanes.of_mut(against(with.way));
        let acknowledged = segment.ack.filter(|_| !segment.rst);
        if let Some(to) = acknowledged.and_then(|ack| lane.stream.beyond(ack)) {
            let (since, before) = lane.lacks.unwrap_or((with.now, 0));
            lane.lacks = Some((since, before.max(to)));
        }
        for way in Way::ALL {
            let since = self.lanes.of_mut(way).lacks();
            if since.is_some_and(|since| with.now.since(since) > GAP_PATIENCE) {
                self.skip(way, with);
            }
        }
    }

    /// Gives up the bytes of a way that are missing, and goes on behind them.
    fn skip(&mut self, way: Way, with: &mut With<'_>) {
        let lane = self.lanes.of_mut(way);
        let to = lane.lacks.map_or(0, |(_, to)| to);
        let missing = lane
            .stream
            .skip_gap(to.saturating_sub(lane.stream.offset()));
        lane.traffic.missing_bytes += missing;
        if missing == 0 {
            lane.lacks = None;
            return;
        }
        let (mut sink, content) = self.sink(with.rows);
        match content {
            Content::Plain(plain) => {
                if let Err(opaque) = plain.gap(&mut sink) {
                    self.close_up(opaque);
                }
            }
            Content::Tls(tls) => tls.gap(&mut sink),
            Content::Unknown(_) => {
                let missed = Plain::new(false, Beginning::Missed(self.client));
                self.content = Content::Plain(Box::new(missed));
            }
            Content::Opaque(_) => {}
        }
        let before = std::mem::replace(&mut with.way, way);
        self.read_waiting(with);
        with.way = before;
    }

    fn read_waiting(&mut self, with: &mut With<'_>) {
        while let Some((came, bytes)) = self.lanes.of_mut(with.way).stream.pop() {
            // Who sent them had sent them then; who receives has them in order only now.
            let at = if with.way == Way::Sent {
                came
            } else {
                with.now
            };
            self.read(at, &bytes, with);
        }
    }

    /// Reads bytes that are in order.
    fn read(&mut self, at: Time, bytes: &[u8], with: &mut With<'_>) {
        let way = with.way;
        let lane = self.lanes.of_mut(way);
        let start = lane.stream.offset();
        lane.stream.advance(bytes.len());
        lane.traffic.bytes += bytes.len() as u64;
        if let Content::Unknown(early) = &mut self.content {
            if self.client != Some(way) {
                early.push((at, bytes.to_vec()));
                if early.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MAX_EARLY_BYTES {
                    self.content = Content::Opaque(Opaque::Overfull);
                }
                return;
            }
            self.begin(way, bytes, with);
        }
        self.feed(way, at, start, bytes, with);
    }

    /// The client's first bytes say what the connection is.
    fn begin(&mut self, client: Way, first: &[u8], with: &mut With<'_>) {
        let fresh = if looks_like_tls(first) {
            Content::Tls(Box::new(Tls::new(client)))
        } else {
            Content::Plain(Box::new(Plain::new(false, Beginning::Seen(client))))
        };
        let Content::Unknown(early) = std::mem::replace(&mut self.content, fresh) else {
            return;
        };
        let mut start = 0;
        for (at, bytes) in early {
            self.feed(against(client), at, start, &bytes, with);
            start += bytes.len() as u64;
        }
    }

    fn feed(&mut self, way: Way, at: Time, start: u64, bytes: &[u8], with: &mut With<'_>) {
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
        let (mut sink, content) = self.sink(with.rows);
        match content {
            Content::Plain(plain) => {
                let result = plain.feed(&piece, &mut sink);
                let protocol = plain.protocol();
                self.settle_client();
                self.record.protocol = self.record.protocol.or(protocol);
                if let Err(opaque) = result {
                    self.close_up(opaque);
                }
            }
            Content::Tls(tls) => {
                tls.feed(&piece, with.keys, &mut sink);
                self.record.protocol = self.record.protocol.or(tls_protocol(&self.content));
            }
            Content::Unknown(_) | Content::Opaque(_) => {}
        }
    }

    /// A request has told who the client is, where the beginning was missed.
    fn settle_client(&mut self) {
        let Content::Plain(plain) = &self.content else {
            return;
        };
        if self.client.is_none()
            && let Some(client) = plain.client()
        {
            self.client = Some(client);
            let side = side_of(client);
            if side != self.record.side {
                self.record.side = side;
                std::mem::swap(&mut self.record.client, &mut self.record.server);
            }
        }
    }

    /// Nothing more can be read.
    fn close_up(&mut self, opaque: Opaque) {
        self.content = Content::Opaque(opaque);
    }

    /// Tells those who read of ways that have ended.
    fn end_ways(&mut self, with: &mut With<'_>) {
        for way in Way::ALL {
            let lane = self.lanes.of_mut(way);
            if lane.has_ended || !lane.stream.has_ended() {
                continue;
            }
            lane.has_ended = true;
            let (mut sink, content) = self.sink(with.rows);
            if let Content::Plain(plain) = content {
                plain.end(way, with.now, &mut sink);
            }
        }
    }

    /// Secrets came.
    pub(crate) fn retry(&mut self, keys: Keys<'_>, rows: &mut Observations) {
        let (mut sink, content) = self.sink(rows);
        if let Content::Tls(tls) = content {
            tls.work(keys, &mut sink);
            self.record.protocol = self.record.protocol.or(tls_protocol(&self.content));
        }
    }

    /// It has ended, or the observer has: its last rows.
    pub(crate) fn finish(mut self, with: &mut With<'_>) {
        // Nothing more will fill a gap. What nobody acknowledged nobody has read: it stays where it is.
        for way in Way::ALL {
            while self.lanes.of_mut(way).lacks().is_some() {
                self.skip(way, with);
            }
        }
        self.end_ways(with);
        let (mut sink, content) = self.sink(with.rows);
        let opaque = match content {
            Content::Plain(plain) => {
                let is_lost = plain.is_lost();
                plain.abandon(&mut sink);
                is_lost.then_some(Opaque::BeganBefore)
            }
            Content::Tls(tls) => {
                tls.end();
                tls.plain.abandon(&mut sink);
                let opaque = tls.opaque().cloned();
                self.record.tls = Some(tls.facts.clone());
                opaque
            }
            Content::Opaque(opaque) => Some(opaque.clone()),
            Content::Unknown(_) => None,
        };
        let lacks_bytes = Way::ALL
            .iter()
            .any(|way| self.lanes.of(*way).traffic.missing_bytes > 0);
        self.record.opaque = match opaque {
            Some(Opaque::BeganBefore) if lacks_bytes && !self.record.began_before => {
                Some(Opaque::Gap)
            }
            opaque => opaque,
        };
        let client = match self.record.side {
            Side::Client => Way::Sent,
            Side::Server => Way::Received,
        };
        self.record.from_client = self.lanes.of(client).traffic;
        self.record.from_server = self.lanes.of(against(client)).traffic;
        with.rows.connections.push(self.record);
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
        let sink = Sink {
            side: self.record.side,
            connection: self.record.connection,
            beginning,
            exchanges: &mut self.record.exchanges,
            frames: &mut self.record.frames,
            rows,
        };
        (sink, &mut self.content)
    }
}

impl Lane {
    /// Since when bytes are acknowledged that have not come, if there are any.
    fn lacks(&mut self) -> Option<Time> {
        let offset = self.stream.offset();
        self.lacks = self.lacks.filter(|(_, to)| *to > offset);
        self.lacks.map(|(since, _)| since)
    }
}

fn tls_protocol(content: &Content) -> Option<squall_base::plan::Protocol> {
    match content {
        Content::Tls(tls) => tls.plain.protocol(),
        _ => None,
    }
}
