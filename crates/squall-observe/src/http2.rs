//! HTTP/2 as two byte streams: frames, and the exchanges that they make.
//!
//! squall-http walks over frames and keeps windows; nghttp2 decodes header sections, of which only the status matters
//! here. Nothing is judged: what a peer would refuse is still what was on the wire. Server pushes are stepped over.

use std::collections::BTreeMap;

use squall_base::plan::Protocol;
use squall_base::record::{FrameFacts, Way};
use squall_base::traceparent::{TRACEPARENT, traced_request};
use squall_http::frames::{CLIENT_PREFACE, Frame, FrameKind, FrameTap, Inflater};

use crate::connection_record::Opaque;
use crate::exchange::{Exchange, Sink, Trails, Ways};
use crate::trail::{Carrier, Passage};

/// The longest frame whose payload is read: the most that anybody announces for header sections, and more.
const MAX_READ_BYTES: u32 = 1 << 18;

/// More streams than anybody lets open at once; beyond them, which takes a hostile peer, nothing more is told.
const MAX_OPEN: usize = 1 << 17;

/// The stream was not processed (RFC 9113, section 7): what a GOAWAY says of later ones.
const REFUSED_STREAM: u64 = 0x7;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// A connection.
pub(crate) struct Http2 {
    client: Way,
    protocol: Protocol,
    tap: FrameTap,
    lanes: Ways<Lane>,
    /// The client's newest stream.
    newest: u32,
    open: BTreeMap<u32, Exchange>,
    facts: Vec<FrameFacts>,
}

/// One direction.
struct Lane {
    inflater: Inflater,
    /// Where the frame begins that is not wholly known.
    boundary: u64,
    /// The frame whose payload comes, and how much of it has.
    current: Option<(Frame, u32)>,
    /// What of its payload is read.
    payload: Vec<u8>,
    /// DATA: bytes of padding.
    padding: u32,
    /// The header section that is arriving.
    section: Option<Section>,
}

/// A header section of which a frame has come.
#[derive(Clone, Copy, Debug)]
struct Section {
    stream: u32,
    ends_stream: bool,
    /// A pushed request, which only the decoder needs.
    is_push: bool,
    status: Option<u16>,
    traced: Traced,
}

/// What the `traceparent` fields of a section say; of several none counts.
#[derive(Clone, Copy, Debug, Default)]
enum Traced {
    #[default]
    Nothing,
    Request(u64),
    Unclear,
}

impl Lane {
    fn new(boundary: u64) -> Result<Lane, Opaque> {
        let inflater = Inflater::new().map_err(|error| Opaque::Unclear(error.to_string()))?;
        Ok(Lane {
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
    /// From the first byte; the client's is that of the preface.
    pub(crate) fn new(client: Way, protocol: Protocol) -> Result<Http2, Opaque> {
        let tap = match client {
            Way::Sent => FrameTap::of_client(),
            Way::Received => FrameTap::of_server(),
        };
        Http2::over(client, protocol, tap, 0, 0)
    }

    /// What was HTTP/1.1 up to these offsets goes on with the response to `exchange` (RFC 7540, section 3.2).
    pub(crate) fn upgraded(
        client: Way,
        requests: u64,
        responses: u64,
        mut exchange: Exchange,
    ) -> Result<Http2, Opaque> {
        let tap = match client {
            Way::Sent => FrameTap::of_upgraded_client(requests, responses),
            Way::Received => FrameTap::of_upgraded_server(responses, requests),
        };
        let mut http2 = Http2::over(client, Protocol::H2c, tap, requests, responses)?;
        // As for a station, the response begins on stream 1: the 101 before it belongs to the connection.
        exchange.response = Passage::default();
        http2.open.insert(1, exchange);
        http2.newest = 1;
        Ok(http2)
    }

    fn over(
        client: Way,
        protocol: Protocol,
        tap: FrameTap,
        requests: u64,
        responses: u64,
    ) -> Result<Http2, Opaque> {
        let of_client = Lane::new(requests + CLIENT_PREFACE.len() as u64)?;
        let of_server = Lane::new(responses)?;
        Ok(Http2 {
            client,
            protocol,
            tap,
            lanes: match client {
                Way::Sent => Ways::new(of_client, of_server),
                Way::Received => Ways::new(of_server, of_client),
            },
            newest: 0,
            open: BTreeMap::new(),
            facts: Vec::new(),
        })
    }

    /// From which offset on the trail of a direction is needed.
    pub(crate) fn keeps_from(&self, way: Way) -> u64 {
        self.lanes.of(way).boundary
    }

    /// How the client's bytes go.
    pub(crate) fn client(&self) -> Way {
        self.client
    }

    /// Takes the next bytes that went `way`.
    pub(crate) fn feed(
        &mut self,
        way: Way,
        mut bytes: &[u8],
        carrier: &Carrier,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<(), Opaque> {
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

    /// A frame's header is complete.
    fn begin(&mut self, way: Way, frame: Frame, trails: &Trails) -> Result<(), Opaque> {
        let lane = self.lanes.of_mut(way);
        lane.boundary = frame.end();
        lane.current = Some((frame, 0));
        lane.payload.clear();
        lane.padding = 0;
        if is_read(frame.kind)
            && frame.kind != FrameKind::GOAWAY
            && frame.length_bytes > MAX_READ_BYTES
        {
            return Err(Opaque::Unclear(format!(
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
                return Err(Opaque::Unclear(
                    "more streams are open than anybody allows".to_owned(),
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

    /// Bytes of the payload of the current frame came; those of the preface belong to none.
    fn payload(&mut self, way: Way, bytes: &[u8]) {
        let lane = self.lanes.of_mut(way);
        let Some((frame, seen)) = &mut lane.current else {
            return;
        };
        let frame = *frame;
        let start = *seen;
        *seen += bytes.len() as u32;
        if is_read(frame.kind) {
            let room = (MAX_READ_BYTES as usize).saturating_sub(lane.payload.len());
            lane.payload
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if frame.kind != FrameKind::DATA || bytes.is_empty() {
            return;
        }
        // Padding counts for windows, but is no part of a body (RFC 9113, section 6.1).
        let mut from = 0;
        if frame.flags & PADDED != 0 {
            from = 1;
            if start == 0 {
                lane.padding = u32::from(bytes[0]);
            }
        }
        let to = frame.length_bytes.saturating_sub(lane.padding);
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

    /// A frame is complete; `value` is what it says in one number.
    fn end(
        &mut self,
        way: Way,
        frame: Frame,
        value: Option<u64>,
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<(), Opaque> {
        self.lanes.of_mut(way).current = None;
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

    /// Decodes the fragment of a frame: the section, if it is complete with it.
    fn fragment(&mut self, way: Way, frame: Frame) -> Result<Option<Section>, Opaque> {
        let lane = self.lanes.of_mut(way);
        let fresh = Section {
            stream: frame.stream,
            ends_stream: frame.ends_stream(),
            is_push: frame.kind == FrameKind::PUSH_PROMISE,
            status: None,
            traced: Traced::Nothing,
        };
        let mut section = match (frame.kind, lane.section.take()) {
            (FrameKind::CONTINUATION, Some(section)) if section.stream == frame.stream => section,
            (FrameKind::HEADERS | FrameKind::PUSH_PROMISE, None) => fresh,
            _ => {
                return Err(Opaque::Unclear(
                    "header fields of two streams are mixed".to_owned(),
                ));
            }
        };
        let unreadable =
            |what: &str| Opaque::Unclear(format!("header fields cannot be read: {what}"));
        let bytes = field_block(frame, &lane.payload)
            .ok_or_else(|| unreadable("the frame is too short"))?;
        // END_HEADERS; HEADERS, PUSH_PROMISE and CONTINUATION have the same bit for it.
        let is_final = frame.flags & 0x4 != 0;
        lane.inflater
            .inflate(bytes, is_final, |name, value| {
                if name == b":status" {
                    section.status = std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse().ok());
                } else if name == TRACEPARENT.as_bytes() {
                    section.traced = match (section.traced, traced_request(value)) {
                        (Traced::Nothing, Some(request)) => Traced::Request(request),
                        _ => Traced::Unclear,
                    };
                }
            })
            .map_err(|error| unreadable(&error.to_string()))?;
        if is_final {
            return Ok(Some(section));
        }
        lane.section = Some(section);
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
            && let Traced::Request(request) = section.traced
            && let Some(exchange) = self.open.get_mut(&section.stream)
        {
            exchange.traced = Some(request);
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

    /// A client that reads GOAWAY gives up the streams that it does not cover (RFC 9113, section 6.8).
    fn goaway(&mut self, way: Way, sink: &mut Sink<'_>) {
        if self.client != Way::Sent || way != Way::Received {
            return;
        }
        let Some(last) = self.lanes.of(way).payload.first_chunk() else {
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

    /// The connection is gone: writes down what was open.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        for (stream, exchange) in std::mem::take(&mut self.open) {
            sink.exchange(u64::from(stream), self.protocol, &exchange, None);
        }
    }
}

/// Whether the payload is read.
fn is_read(kind: FrameKind) -> bool {
    matches!(
        kind,
        FrameKind::HEADERS | FrameKind::PUSH_PROMISE | FrameKind::CONTINUATION | FrameKind::GOAWAY
    )
}

/// The fragment of a header section in a frame's payload, without padding and what precedes it (RFC 9113, sections 6.2,
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
