//! HTTP/2 as two byte streams: frames, and the exchanges they form.
//!
//! squall-http splits the frames and tracks windows; nghttp2 decodes header sections, of which only the status and the
//! trace context matter here. Nothing is validated: a frame that the peer would refuse was still on the wire. Server
//! pushes are skipped. `plain` decides that a connection is HTTP/2.

use std::collections::BTreeMap;

use squall_base::plan::Protocol;
use squall_base::record::{FrameFacts, PerWay, Way};
use squall_base::traceparent::{TRACEPARENT, traced_request};
use squall_http::frames::{CLIENT_PREFACE, Frame, FrameKind, FrameTap, Inflater};

use crate::connection_record::OpaqueReason;
use crate::exchange::{Exchange, Sink, Trails};
use crate::trail::{Carrier, Passage};

/// The longest frame whose payload is read: more than any endpoint announces for header sections.
const MAX_READ_BYTES: u32 = 1 << 18;

/// More concurrent streams than any real endpoint allows. Only a hostile peer exceeds this; the connection then becomes
/// opaque.
const MAX_OPEN: usize = 1 << 17;

/// REFUSED_STREAM: the stream was not processed (RFC 9113, section 7). Recorded for streams beyond the last one of a
/// GOAWAY.
const REFUSED_STREAM: u64 = 0x7;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The HTTP/2 of one connection.
pub(crate) struct Http2 {
    client: Way,
    protocol: Protocol,
    tap: FrameTap,
    halves: PerWay<Http2Half>,
    /// The client's newest stream ID.
    newest: u32,
    open: BTreeMap<u32, Exchange>,
    facts: Vec<FrameFacts>,
}

/// One direction.
struct Http2Half {
    inflater: Inflater,
    /// Offset where the current, incomplete frame begins.
    boundary: u64,
    /// The frame whose payload is arriving, and how many bytes of it have arrived.
    current: Option<(Frame, u32)>,
    /// The part of its payload that is read.
    payload: Vec<u8>,
    /// For DATA: bytes of padding.
    padding: u32,
    /// The header section that is arriving.
    section: Option<Section>,
}

/// A header section of which at least one frame has arrived.
#[derive(Clone, Copy, Debug)]
struct Section {
    stream: u32,
    ends_stream: bool,
    /// A pushed request; only the header decoder needs it.
    is_push: bool,
    status: Option<u16>,
    trace: TraceContext,
}

/// The `traceparent` fields of a section. If there are several, none counts.
#[derive(Clone, Copy, Debug, Default)]
enum TraceContext {
    #[default]
    Nothing,
    Request(u64),
    Unclear,
}

impl Http2Half {
    fn new(boundary: u64) -> Result<Http2Half, OpaqueReason> {
        let inflater = Inflater::new().map_err(|error| OpaqueReason::unclear(error.to_string()))?;
        Ok(Http2Half {
            inflater,
            boundary,
            current: None,
            payload: Vec::new(),
            padding: 0,
            section: None,
        })
    }
}

impl Http2 {
    /// Starts at the connection's first byte; the client's first byte is that of the preface.
    pub(crate) fn new(client: Way, protocol: Protocol) -> Result<Http2, OpaqueReason> {
        Http2::with_tap(client, protocol, FrameTap::new(client), 0, 0)
    }

    /// Continues a connection that was HTTP/1.1 up to these offsets, with the response to `exchange` (RFC 7540, section
    /// 3.2).
    pub(crate) fn upgraded(
        client: Way,
        requests: u64,
        responses: u64,
        mut exchange: Exchange,
    ) -> Result<Http2, OpaqueReason> {
        let (sent, received) = match client {
            Way::Sent => (requests, responses),
            Way::Received => (responses, requests),
        };
        let tap = FrameTap::upgraded(client, sent, received);
        let mut http2 = Http2::with_tap(client, Protocol::H2c, tap, requests, responses)?;
        // As for a station, the response is what arrives on stream 1: the 101 before it belongs to the connection.
        exchange.response = Passage::default();
        http2.open.insert(1, exchange);
        http2.newest = 1;
        Ok(http2)
    }

    fn with_tap(
        client: Way,
        protocol: Protocol,
        tap: FrameTap,
        requests: u64,
        responses: u64,
    ) -> Result<Http2, OpaqueReason> {
        let of_client = Http2Half::new(requests + CLIENT_PREFACE.len() as u64)?;
        let of_server = Http2Half::new(responses)?;
        Ok(Http2 {
            client,
            protocol,
            tap,
            halves: match client {
                Way::Sent => PerWay::new(of_client, of_server),
                Way::Received => PerWay::new(of_server, of_client),
            },
            newest: 0,
            open: BTreeMap::new(),
            facts: Vec::new(),
        })
    }

    /// The offset from which the trail of a direction is still needed.
    pub(crate) fn keeps_from(&self, way: Way) -> u64 {
        self.halves.of(way).boundary
    }

    /// The direction of the client's bytes.
    pub(crate) fn client(&self) -> Way {
        self.client
    }

    /// Reads the next bytes of a direction.
    pub(crate) fn feed(
        &mut self,
        way: Way,
        mut bytes: &[u8],
        carrier: &Carrier,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        while !bytes.is_empty() {
            let step = self.tap.step(way, bytes, Some(&mut self.facts));
            let (taken, rest) = bytes.split_at(step.len.clamp(1, bytes.len()));
            bytes = rest;
            let value = self.facts.last().and_then(|facts| facts.value);
            sink.frames(carrier.last, &mut self.facts);
            if let Some(frame) = step.begun {
                self.begin(way, frame, trails)?;
            }
            let payload = match (step.begun, step.ended) {
                (Some(frame), Some(_)) => &taken[taken.len() - frame.length_bytes as usize..],
                (Some(_), None) => &[],
                (None, _) => taken,
            };
            self.payload(way, payload);
            if let Some(frame) = step.ended {
                self.end(way, frame, value, trails, sink)?;
            }
        }
        Ok(())
    }

    /// Handles a complete frame header.
    fn begin(&mut self, way: Way, frame: Frame, trails: &Trails) -> Result<(), OpaqueReason> {
        let half = self.halves.of_mut(way);
        half.boundary = frame.end();
        half.current = Some((frame, 0));
        half.payload.clear();
        half.padding = 0;
        if is_read(frame.kind)
            && frame.kind != FrameKind::GOAWAY
            && frame.length_bytes > MAX_READ_BYTES
        {
            return Err(OpaqueReason::unclear(format!(
                "a frame of header fields has {} bytes",
                frame.length_bytes
            )));
        }
        if frame.kind != FrameKind::HEADERS {
            return Ok(());
        }
        let is_new = way == self.client && frame.stream % 2 == 1 && frame.stream > self.newest;
        if is_new {
            if self.open.len() >= MAX_OPEN {
                return Err(OpaqueReason::unclear(
                    "more streams are open than any real endpoint allows",
                ));
            }
            self.newest = frame.stream;
            let mut exchange = Exchange::default();
            exchange.request.begin(frame.offset, trails.of(way));
            self.open.insert(frame.stream, exchange);
        } else if way != self.client
            && let Some(exchange) = self.open.get_mut(&frame.stream)
            && exchange.response.first.is_none()
        {
            exchange.response.begin(frame.offset, trails.of(way));
        }
        Ok(())
    }

    /// Handles payload bytes of the current frame. Bytes of the preface belong to no frame and are skipped.
    fn payload(&mut self, way: Way, bytes: &[u8]) {
        let half = self.halves.of_mut(way);
        let Some((frame, seen)) = &mut half.current else {
            return;
        };
        let frame = *frame;
        let start = *seen;
        *seen += bytes.len() as u32;
        if is_read(frame.kind) {
            let room = (MAX_READ_BYTES as usize).saturating_sub(half.payload.len());
            half.payload
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if frame.kind != FrameKind::DATA || bytes.is_empty() {
            return;
        }
        // Padding counts towards windows but is not part of the body (RFC 9113, section 6.1).
        let mut from = 0;
        if frame.flags & PADDED != 0 {
            from = 1;
            if start == 0 {
                half.padding = u32::from(bytes[0]);
            }
        }
        let to = frame.length_bytes.saturating_sub(half.padding);
        let data = (start + bytes.len() as u32)
            .min(to)
            .saturating_sub(start.max(from));
        if let Some(exchange) = self.open.get_mut(&frame.stream) {
            if way == self.client {
                exchange.request_body_bytes += u64::from(data);
            } else {
                exchange.response_body_bytes += u64::from(data);
            }
        }
    }

    /// Handles a complete frame; `value` is its content as one number, for types that have such a number.
    fn end(
        &mut self,
        way: Way,
        frame: Frame,
        value: Option<u64>,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<(), OpaqueReason> {
        self.halves.of_mut(way).current = None;
        match frame.kind {
            FrameKind::DATA if frame.ends_stream() => {
                self.end_message(way, frame.stream, frame.end(), trails, sink);
            }
            FrameKind::HEADERS | FrameKind::PUSH_PROMISE | FrameKind::CONTINUATION => {
                if let Some(section) = self.fragment(way, frame)? {
                    self.end_section(way, section, frame.end(), trails, sink);
                }
            }
            FrameKind::RST_STREAM => {
                if let Some(exchange) = self.open.remove(&frame.stream) {
                    sink.exchange(u64::from(frame.stream), self.protocol, &exchange, value);
                }
            }
            FrameKind::GOAWAY => self.goaway(way, sink),
            _ => {}
        }
        Ok(())
    }

    /// Decodes a frame's header block fragment. Returns the section if the fragment completes it.
    fn fragment(&mut self, way: Way, frame: Frame) -> Result<Option<Section>, OpaqueReason> {
        let half = self.halves.of_mut(way);
        let fresh = Section {
            stream: frame.stream,
            ends_stream: frame.ends_stream(),
            is_push: frame.kind == FrameKind::PUSH_PROMISE,
            status: None,
            trace: TraceContext::Nothing,
        };
        let mut section = match (frame.kind, half.section.take()) {
            (FrameKind::CONTINUATION, Some(section)) if section.stream == frame.stream => section,
            (FrameKind::HEADERS | FrameKind::PUSH_PROMISE, None) => fresh,
            _ => {
                return Err(OpaqueReason::unclear(
                    "header fields of two streams are mixed",
                ));
            }
        };
        let unreadable =
            |what: &str| OpaqueReason::unclear(format!("header fields cannot be read: {what}"));
        let bytes = field_block(frame, &half.payload)
            .ok_or_else(|| unreadable("the frame is too short"))?;
        // END_HEADERS is the same bit in HEADERS, PUSH_PROMISE and CONTINUATION.
        let is_final = frame.flags & 0x4 != 0;
        half.inflater
            .inflate(bytes, is_final, |name, value| {
                if name == b":status" {
                    section.status = std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse().ok());
                } else if name == TRACEPARENT.as_bytes() {
                    section.trace = match (section.trace, traced_request(value)) {
                        (TraceContext::Nothing, Some(request)) => TraceContext::Request(request),
                        _ => TraceContext::Unclear,
                    };
                }
            })
            .map_err(|error| unreadable(&error.to_string()))?;
        if is_final {
            return Ok(Some(section));
        }
        half.section = Some(section);
        Ok(None)
    }

    fn end_section(
        &mut self,
        way: Way,
        section: Section,
        end: u64,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) {
        if section.is_push {
            return;
        }
        if way == self.client
            && let TraceContext::Request(request) = section.trace
            && let Some(exchange) = self.open.get_mut(&section.stream)
        {
            exchange.traced_request = Some(request);
        }
        if way != self.client
            && let Some(exchange) = self.open.get_mut(&section.stream)
            && exchange.status.is_none()
        {
            exchange.status = section.status.filter(|status| *status >= 200);
        }
        if section.ends_stream {
            self.end_message(way, section.stream, end, trails, sink);
        }
    }

    fn end_message(
        &mut self,
        way: Way,
        stream: u32,
        end: u64,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if way == self.client {
            exchange.request.end(end, None, trails.of(way));
            return;
        }
        exchange.response.end(end, None, trails.of(way));
        if let Some(exchange) = self.open.remove(&stream) {
            sink.exchange(u64::from(stream), self.protocol, &exchange, None);
        }
    }

    /// A client that reads GOAWAY abandons the streams beyond its last stream ID (RFC 9113, section 6.8).
    fn goaway(&mut self, way: Way, sink: &mut Sink<'_>) {
        if self.client != Way::Sent || way != Way::Received {
            return;
        }
        let Some(last) = self.halves.of(way).payload.first_chunk() else {
            return;
        };
        let last = u32::from_be_bytes(*last) & 0x7fff_ffff;
        for (stream, exchange) in self.open.split_off(&last.saturating_add(1)) {
            sink.exchange(
                u64::from(stream),
                self.protocol,
                &exchange,
                Some(REFUSED_STREAM),
            );
        }
    }

    /// Writes the rows of open exchanges when the connection is gone.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        for (stream, exchange) in std::mem::take(&mut self.open) {
            sink.exchange(u64::from(stream), self.protocol, &exchange, None);
        }
    }
}

/// Whether payloads of this type are read.
fn is_read(kind: FrameKind) -> bool {
    matches!(
        kind,
        FrameKind::HEADERS | FrameKind::PUSH_PROMISE | FrameKind::CONTINUATION | FrameKind::GOAWAY
    )
}

/// The header block fragment in a frame's payload, without padding and the fields before it (RFC 9113, sections 6.2,
/// 6.6 and 6.10).
fn field_block(frame: Frame, payload: &[u8]) -> Option<&[u8]> {
    let mut block = payload;
    let mut padding = 0;
    if frame.kind == FrameKind::CONTINUATION {
        return Some(block);
    }
    if frame.flags & PADDED != 0 {
        padding = usize::from(*block.first()?);
        block = &block[1..];
    }
    let before = match frame.kind {
        FrameKind::PUSH_PROMISE => 4,
        _ if frame.flags & PRIORITY != 0 => 5,
        _ => 0,
    };
    let block = block.get(before..)?;
    block.get(..block.len().checked_sub(padding)?)
}
