//! HTTP/3 on the streams of a connection (RFC 9114): frames, and the exchanges they form.
//!
//! squall-http splits the frames; `qpack` decodes header sections, of which only the status and the trace context
//! matter here. Nothing is validated: a frame that the peer would refuse was still on the wire. Server pushes are
//! skipped, as are server-initiated bidirectional streams, which only extensions open. `streams` delivers the bytes in
//! order.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::plan::Protocol;
use squall_base::record::{FrameFacts, FrameLayer, PerWay, Way};
use squall_base::traceparent::{TRACEPARENT, traced_request};
use squall_http::h3::wire::{self, Header, Item, Reader};

use super::qpack::{Decoder, QpackError, SectionOutcome};
use super::streams::OrderedBytes;
use crate::connection_record::OpaqueReason;
use crate::exchange::{Exchange, Sink};

/// Limit for header sections that wait for QPACK instructions.
const MAX_BLOCKED_BYTES: usize = 4 << 20;

/// Limit for remembered streams whose exchange is over but whose bytes may still arrive.
const MAX_ENDED: usize = 1 << 16;

/// H3_REQUEST_REJECTED: the request was not processed (RFC 9114, section 8.1). Recorded for requests that a GOAWAY
/// rejects.
const REQUEST_REJECTED: u64 = 0x10b;

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204, section 5).
const MAX_TABLE_CAPACITY: u64 = 0x01;

/// Bits of a stream ID (RFC 9000, section 2.1).
const SERVER_INITIATED: u64 = 0x1;
const UNIDIRECTIONAL: u64 = 0x2;

/// The HTTP/3 of one connection.
pub(crate) struct Http3 {
    client: Way,
    requests: BTreeMap<u64, RequestStream>,
    /// Streams whose exchange is over although not both directions have ended.
    ended: BTreeSet<u64>,
    unidirectional: PerWay<BTreeMap<u64, Unidirectional>>,
    /// By the direction of the header sections they decode.
    decoders: PerWay<Decoder>,
    blocked: Vec<BlockedSection>,
    blocked_bytes: usize,
    facts: Vec<FrameFacts>,
}

/// A request with its response.
struct RequestStream {
    exchange: Exchange,
    readers: PerWay<FrameReader>,
    /// The server asked the client to stop sending.
    is_stopped: bool,
    /// The response has ended while header sections were blocked.
    has_ended: bool,
    blocked_sections: usize,
}

/// A unidirectional stream (RFC 9114, section 6.2).
enum Unidirectional {
    /// Its type has not arrived in full.
    Unknown(Vec<u8>),
    Control(FrameReader),
    /// QPACK's encoder stream.
    Encoder,
    /// Irrelevant here: QPACK's decoder stream, a push, an extension.
    Other,
}

/// A header section that waits for QPACK instructions.
struct BlockedSection {
    way: Way,
    stream: u64,
    block: Vec<u8>,
}

/// The frames of one direction of a stream.
struct FrameReader {
    reader: Reader,
    /// The frame whose payload is arriving, and the offset where it ends.
    current: Option<(Header, u64)>,
}

/// A part of a frame.
enum Part<'a> {
    Data(u64),
    Payload(Header, &'a [u8]),
}

impl FrameReader {
    fn new(at: u64) -> FrameReader {
        FrameReader {
            reader: Reader::new(at),
            current: None,
        }
    }

    /// Reads the next bytes. A received frame's row is written once its header is complete, a sent frame's row once its
    /// last byte was sent.
    fn read(
        &mut self,
        ordered: &OrderedBytes<'_>,
        mut bytes: &[u8],
        facts: &mut Vec<FrameFacts>,
        mut on_part: impl FnMut(Part<'_>),
    ) {
        let row = |header: Header, value| FrameFacts {
            stream: Some(ordered.stream),
            offset: Some(header.offset),
            value,
            ..FrameFacts::new(ordered.way, FrameLayer::Http3, header.kind, header.length)
        };
        loop {
            let item = self.reader.next(&mut bytes);
            // A GOAWAY waits for its payload, which has the identifier.
            let is_due = |header: Header| header.kind != wire::GOAWAY;
            if let Some((header, end)) = self.current
                && (self.reader.at() >= end || matches!(item, Some(Item::Header(_))))
            {
                self.current = None;
                if ordered.way == Way::Sent && is_due(header) {
                    facts.push(row(header, None));
                }
            }
            match item {
                Some(Item::Header(header) | Item::TooLong(header)) => {
                    self.begin(header);
                    if ordered.way == Way::Received && is_due(header) {
                        facts.push(row(header, None));
                    }
                }
                Some(Item::Data(bytes)) => on_part(Part::Data(bytes.len() as u64)),
                Some(Item::Payload(header, payload)) => {
                    if header.kind == wire::GOAWAY {
                        let last = wire::varint(&payload).map(|(id, _)| id);
                        facts.push(row(header, last));
                    }
                    on_part(Part::Payload(header, &payload));
                }
                None => return,
            }
        }
    }

    fn begin(&mut self, header: Header) {
        let end = self.reader.at().saturating_add(header.length);
        self.current = Some((header, end));
    }
}

impl Http3 {
    pub(crate) fn new(client: Way) -> Http3 {
        Http3 {
            client,
            requests: BTreeMap::new(),
            ended: BTreeSet::new(),
            unidirectional: PerWay::default(),
            decoders: PerWay::default(),
            blocked: Vec::new(),
            blocked_bytes: 0,
            facts: Vec::new(),
        }
    }

    /// Reads the next bytes of a stream.
    ///
    /// # Errors
    /// Nothing more of this connection's HTTP can be read.
    pub(crate) fn feed(
        &mut self,
        ordered: &OrderedBytes<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        let result = match ordered.stream & (UNIDIRECTIONAL | SERVER_INITIATED) {
            0 => self.message(ordered, sink),
            SERVER_INITIATED => Ok(()),
            _ => self.unidirectional(ordered, sink),
        };
        sink.frames(ordered.at, &mut self.facts);
        result
    }

    fn message(
        &mut self,
        ordered: &OrderedBytes<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        let &OrderedBytes {
            way, stream, at, ..
        } = ordered;
        if self.ended.contains(&stream) {
            return Ok(());
        }
        let is_request = way == self.client;
        let request = self
            .requests
            .entry(stream)
            .or_insert_with(|| RequestStream {
                exchange: Exchange::default(),
                readers: PerWay::new(FrameReader::new(0), FrameReader::new(0)),
                is_stopped: false,
                has_ended: false,
                blocked_sections: 0,
            });
        let RequestStream {
            exchange, readers, ..
        } = request;
        let (passage, body_bytes) = if is_request {
            (&mut exchange.request, &mut exchange.request_body_bytes)
        } else {
            (&mut exchange.response, &mut exchange.response_body_bytes)
        };
        if passage.first.is_none() && !ordered.bytes.is_empty() {
            passage.begin_in_stream(0, at);
        }
        let mut blocks = Vec::new();
        let reader = readers.of_mut(way);
        reader.read(ordered, ordered.bytes, &mut self.facts, |part| match part {
            Part::Data(bytes) => *body_bytes += bytes,
            Part::Payload(header, block) if header.kind == wire::HEADERS => {
                blocks.push(block.to_vec());
            }
            Part::Payload(..) => {}
        });
        if let Some(end) = ordered.end {
            passage.end_in_stream(end, at);
        }
        for block in blocks {
            self.section(way, stream, block)?;
        }
        if ordered.end.is_some() && !is_request {
            self.end_response(stream, sink);
        }
        Ok(())
    }

    /// Decodes a header section, or keeps it while it is blocked.
    fn section(&mut self, way: Way, stream: u64, block: Vec<u8>) -> Result<(), OpaqueReason> {
        let Some(request) = self.requests.get_mut(&stream) else {
            return Ok(());
        };
        let is_request = way == self.client;
        let section = decode(
            self.decoders.of(way),
            &block,
            is_request,
            &mut request.exchange,
        );
        if section.map_err(unreadable)? == SectionOutcome::Decoded {
            return Ok(());
        }
        request.blocked_sections += 1;
        self.blocked_bytes += block.len();
        if self.blocked_bytes > MAX_BLOCKED_BYTES {
            return Err(OpaqueReason::Overfull);
        }
        self.blocked.push(BlockedSection { way, stream, block });
        Ok(())
    }

    /// Decodes the header sections that new instructions have unblocked.
    fn unblock(&mut self, way: Way, sink: &mut Sink<'_>) -> Result<(), OpaqueReason> {
        for blocked in std::mem::take(&mut self.blocked) {
            if blocked.way != way {
                self.blocked.push(blocked);
                continue;
            }
            self.blocked_bytes -= blocked.block.len();
            let stream = blocked.stream;
            if let Some(request) = self.requests.get_mut(&stream) {
                request.blocked_sections -= 1;
            }
            self.section(way, stream, blocked.block)?;
            if let Some(request) = self.requests.get(&stream)
                && request.has_ended
            {
                self.end_response(stream, sink);
            }
        }
        Ok(())
    }

    /// The response has ended: writes the row of the exchange as soon as no header section is blocked.
    fn end_response(&mut self, stream: u64, sink: &mut Sink<'_>) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        request.has_ended = true;
        if request.blocked_sections == 0 {
            self.finish(stream, None, sink);
        }
    }

    fn finish(&mut self, stream: u64, reset: Option<u64>, sink: &mut Sink<'_>) {
        let Some(request) = self.requests.remove(&stream) else {
            return;
        };
        let Exchange {
            request: up,
            response: down,
            ..
        } = &request.exchange;
        if up.last.is_none() || down.last.is_none() {
            self.ended.insert(stream);
            if self.ended.len() > MAX_ENDED {
                self.ended.pop_first();
            }
        }
        sink.exchange(stream, Protocol::H3, &request.exchange, reset);
    }

    /// Handles a RESET_STREAM: the sender of a direction has abandoned the stream.
    pub(crate) fn reset(&mut self, way: Way, stream: u64, code: u64, sink: &mut Sink<'_>) {
        let Some(request) = self.requests.get(&stream) else {
            return;
        };
        // A client that was asked to stop resets its request while the response continues (RFC 9114, section 4.1).
        if way != self.client || !request.is_stopped {
            self.finish(stream, Some(code), sink);
        }
    }

    /// Handles a STOP_SENDING that was sent in this direction.
    pub(crate) fn stop(&mut self, way: Way, stream: u64, code: u64, sink: &mut Sink<'_>) {
        if way == self.client {
            self.finish(stream, Some(code), sink);
        } else if let Some(request) = self.requests.get_mut(&stream) {
            request.is_stopped = true;
        }
    }

    fn unidirectional(
        &mut self,
        ordered: &OrderedBytes<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        let way = ordered.way;
        let of_way = self.unidirectional.of_mut(way);
        if ordered.end.is_some() {
            of_way.remove(&ordered.stream);
            return Ok(());
        }
        let stream = of_way
            .entry(ordered.stream)
            .or_insert_with(|| Unidirectional::Unknown(Vec::new()));
        let mut bytes = ordered.bytes;
        if let Unidirectional::Unknown(first) = stream {
            let before = first.len();
            first.extend_from_slice(&bytes[..bytes.len().min(8 - before.min(8))]);
            let Some((kind, length)) = wire::varint(first) else {
                return Ok(());
            };
            bytes = bytes.get(length - before..).unwrap_or(&[]);
            *stream = match kind {
                0x00 => Unidirectional::Control(FrameReader::new(length as u64)),
                0x02 => Unidirectional::Encoder,
                _ => Unidirectional::Other,
            };
        }
        match stream {
            Unidirectional::Control(frames) => {
                let (mut settings, mut goaway) = (None, None);
                frames.read(ordered, bytes, &mut self.facts, |part| match part {
                    Part::Payload(header, payload) if header.kind == wire::SETTINGS => {
                        settings = table_capacity(payload);
                    }
                    Part::Payload(header, payload) if header.kind == wire::GOAWAY => {
                        goaway = wire::varint(payload).map(|(id, _)| id);
                    }
                    Part::Data(_) | Part::Payload(..) => {}
                });
                if let Some(capacity) = settings {
                    self.decoders.of_mut(way.opposite()).set_limit(capacity);
                }
                if let Some(id) = goaway {
                    self.go_away(way, id, sink);
                }
            }
            Unidirectional::Encoder => {
                let decoder = self.decoders.of_mut(way);
                decoder.instructions(bytes).map_err(unreadable)?;
                self.unblock(way, sink)?;
            }
            Unidirectional::Unknown(_) | Unidirectional::Other => {}
        }
        Ok(())
    }

    /// A client that reads a GOAWAY abandons the requests from the GOAWAY's stream ID on (RFC 9114, section 5.2).
    fn go_away(&mut self, way: Way, id: u64, sink: &mut Sink<'_>) {
        if self.client != Way::Sent || way != Way::Received {
            return;
        }
        let refused: Vec<u64> = self.requests.range(id..).map(|(id, _)| *id).collect();
        for stream in refused {
            self.finish(stream, Some(REQUEST_REJECTED), sink);
        }
    }

    /// The connection is gone, or nothing more of it can be read: writes the rows of open exchanges.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        for (stream, request) in std::mem::take(&mut self.requests) {
            sink.exchange(stream, Protocol::H3, &request.exchange, None);
        }
        self.blocked.clear();
        self.blocked_bytes = 0;
    }
}

fn unreadable(QpackError(what): QpackError) -> OpaqueReason {
    OpaqueReason::unclear(format!("header fields cannot be read: {what}"))
}

/// The value of SETTINGS_QPACK_MAX_TABLE_CAPACITY; 0 if it is absent, because there is no dynamic table then.
fn table_capacity(mut payload: &[u8]) -> Option<u64> {
    while !payload.is_empty() {
        let (id, first) = wire::varint(payload)?;
        let (value, second) = wire::varint(&payload[first..])?;
        if id == MAX_TABLE_CAPACITY {
            return Some(value);
        }
        payload = &payload[first + second..];
    }
    Some(0)
}

/// Decodes a header section and notes its status or trace in the exchange. If there are several traces, none counts.
fn decode(
    decoder: &Decoder,
    block: &[u8],
    is_request: bool,
    exchange: &mut Exchange,
) -> Result<SectionOutcome, QpackError> {
    let (mut status, mut traces) = (None, Vec::new());
    let section = decoder.section(block, |name, value| {
        if name == b":status" {
            let text = std::str::from_utf8(value).ok();
            status = text.and_then(|text| text.parse().ok());
        } else if name == TRACEPARENT.as_bytes() {
            traces.push(traced_request(value));
        }
    })?;
    if is_request {
        if let [traced] = traces[..] {
            exchange.traced_request = exchange.traced_request.or(traced);
        }
    } else {
        let is_final = |status: &u16| *status >= 200;
        exchange.status = exchange.status.or(status.filter(is_final));
    }
    Ok(section)
}
