//! What `-v` prints: everything that a connection sends and receives, as it happens, in the layout of `nghttp -v`.
//!
//! Times count from the start of the command. Frames of HTTP/2 look as nghttp shows them; those of HTTP/3 and QUIC are
//! given in the same way, and of HTTP/1.1 the heads and the sizes of bodies. What a request says is not read from the wire:
//! it is known by the stream that it goes on, of HTTP/1.1 by its place on the connection.

use std::io::Write;

use squall_base::record::{FrameFacts, FrameLayer, SideCounts, Way, frame_name};
use squall_base::{Duration, Time};
use squall_http::trace::{self, Beginning, Details, INDENT, Trace};
use squall_http::{ClientEvent, Field, Http2Announced, Inbox, Request, StreamId, h3};
use squall_stations::client::{Observer, Seen};
use std::sync::Arc;

/// The flag of HTTP/2's HEADERS (RFC 9113, section 6.2).
const END_STREAM: u8 = 0x1;

/// Prints to `out`.
pub(crate) struct Verbose {
    out: Box<dyn Write + Send>,
    start: Time,
    /// What may be asked for, in the order of the load's requests.
    requests: Vec<Arc<Request>>,
}

impl Verbose {
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        start: Time,
        requests: Vec<Arc<Request>>,
    ) -> Verbose {
        Verbose {
            out,
            start,
            requests,
        }
    }

    /// The request of that number.
    fn request(&self, what: Option<u32>) -> Option<&Request> {
        self.requests.get(what? as usize).map(Arc::as_ref)
    }

    /// A terminal that is gone ends no measurement.
    fn line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.out, "{text}");
    }

    fn frame(
        &mut self,
        at: Duration,
        frame: &FrameFacts,
        inbox: &Inbox<ClientEvent>,
        announced: Http2Announced<'_>,
        what: Option<u32>,
    ) {
        let request = self.request(what).filter(|request| begins(frame, request));
        let sent = request.map_or_else(Vec::new, Request::sent_fields);
        let received = fields_of(inbox, frame.stream);
        let details = match (frame.way, frame_name(frame.layer, frame.kind)) {
            (Way::Sent, Some("SETTINGS")) => Details {
                settings: announced.sent,
                ..Details::default()
            },
            (Way::Received, Some("SETTINGS")) => Details {
                settings: announced.received,
                ..Details::default()
            },
            (Way::Sent, Some("HEADERS")) => Details {
                fields: &sent,
                begins: (!sent.is_empty()).then_some(Beginning::Stream),
                ..Details::default()
            },
            (Way::Received, Some("HEADERS")) => Details {
                fields: &received,
                begins: (!received.is_empty()).then_some(Beginning::Response),
                ..Details::default()
            },
            (Way::Received, Some("GOAWAY")) => Details {
                last_stream: last_stream(inbox),
                ..Details::default()
            },
            _ => Details::default(),
        };
        // SETTINGS that acknowledge have no entries.
        let is_ack = frame.flags & 1 != 0 && frame.length == 0;
        let details = if is_ack { Details::default() } else { details };
        let trace = Trace { at, frame, details };
        let text = trace.to_string();
        self.line(text);
    }

    /// A frame of QUIC, or of HTTP/3 with what it says.
    fn other_frame(
        &mut self,
        at: Duration,
        frame: &FrameFacts,
        inbox: &Inbox<ClientEvent>,
        announced: &h3::Announced,
        what: Option<u32>,
    ) {
        let name = frame_name(frame.layer, frame.kind).filter(|_| frame.layer == FrameLayer::Http3);
        let begins = name == Some("HEADERS") && frame.offset == Some(0);
        let fields = match frame.way {
            Way::Sent => self.request(what).map(Request::sent_fields),
            Way::Received => Some(fields_of(inbox, frame.stream)),
        };
        let fields = fields.filter(|_| begins).unwrap_or_default();
        if frame.way == Way::Received {
            let stream = frame.stream.unwrap_or_default();
            for field in &fields {
                let (clock, field) = (trace::clock(at), trace::line(field));
                self.line(format_args!("{clock} recv (stream_id={stream}) {field}"));
            }
        }
        self.line(other_frame(at, frame));
        match (name, frame.way) {
            (Some("HEADERS"), Way::Sent) if !fields.is_empty() => {
                self.line(format_args!("{INDENT}; Open new stream"));
                self.fields(fields.iter());
            }
            (Some("HEADERS"), Way::Received) if !fields.is_empty() => {
                self.line(format_args!("{INDENT}; First response header"));
            }
            (Some("SETTINGS"), Way::Sent) => self.settings(&announced.sent),
            (Some("SETTINGS"), Way::Received) => self.settings(&announced.received),
            _ => {}
        }
    }

    /// Of HTTP/3.
    fn settings(&mut self, settings: &[(u64, u64)]) {
        self.line(format_args!("{INDENT}(niv={})", settings.len()));
        for (id, value) in settings {
            let name = h3::setting_name(*id).unwrap_or("UNKNOWN");
            self.line(format_args!("{INDENT}[{name}(0x{id:02x}):{value}]"));
        }
    }

    /// HTTP/1.1 has no frames: its heads and bodies stand for them.
    fn message(
        &mut self,
        at: Duration,
        event: &ClientEvent,
        asked: &mut dyn FnMut(StreamId) -> Option<u32>,
    ) {
        let at = at.as_secs_f64();
        match event {
            ClientEvent::RequestFirstByteWritten { stream, .. } => {
                let request = self.request(asked(*stream));
                let fields = request.map_or_else(Vec::new, Request::sent_fields);
                let text = |name: &[u8]| {
                    let found = fields.iter().find(|field| *field.name == *name);
                    found.map_or_else(String::new, |f| String::from_utf8_lossy(&f.value).into())
                };
                self.line(format_args!(
                    "[{at:7.3}] send {} {} HTTP/1.1",
                    text(b":method"),
                    text(b":path")
                ));
                self.line(format_args!("          host: {}", text(b":authority")));
                self.fields(fields.iter().filter(|field| !field.name.starts_with(b":")));
            }
            ClientEvent::RequestWritten { end, .. } => {
                self.line(format_args!(
                    "[{at:7.3}] send end of request <offset={end}>"
                ));
            }
            ClientEvent::ResponseHeaders { status, fields, .. } => {
                self.line(format_args!("[{at:7.3}] recv HTTP/1.1 {status}"));
                self.fields(fields.iter());
            }
            ClientEvent::ResponseBody { len, .. } => {
                self.line(format_args!("[{at:7.3}] recv body <length={len}>"));
            }
            ClientEvent::ResponseEnd { end, .. } => {
                self.line(format_args!(
                    "[{at:7.3}] recv end of response <offset={end}>"
                ));
            }
            _ => {}
        }
    }

    fn fields<'f>(&mut self, fields: impl Iterator<Item = &'f Field>) {
        for field in fields {
            let field = trace::line(field);
            self.line(format_args!("{INDENT}{field}"));
        }
    }
}

impl Observer for Verbose {
    fn secured(&mut self, now: Time, alpn: Option<&str>) {
        let clock = trace::clock(now.since(self.start));
        let alpn = alpn.unwrap_or(SideCounts::NO_ALPN);
        self.line(format_args!("{clock} The negotiated protocol: {alpn}"));
    }

    fn observe(&mut self, seen: Seen<'_>) {
        let (inbox, at) = (seen.inbox, seen.now.since(self.start));
        let announced_http3 = seen.announced_http3.unwrap_or_default();
        let is_switch = |event: &ClientEvent| matches!(event, ClientEvent::Switched { .. });
        if inbox.events.iter().any(is_switch) {
            self.line(format_args!("{} recv HTTP/1.1 101", trace::clock(at)));
        }
        for frame in &inbox.frames {
            let what = frame
                .stream
                .and_then(|stream| (seen.asked)(StreamId(stream)));
            if frame.layer == FrameLayer::Http2 {
                self.frame(at, frame, inbox, seen.announced.unwrap_or_default(), what);
            } else {
                self.other_frame(at, frame, inbox, &announced_http3, what);
            }
        }
        if seen.announced.is_none() && inbox.frames.is_empty() {
            for event in &inbox.events {
                self.message(at, event, seen.asked);
            }
        }
        let _ = self.out.flush();
    }
}

/// Whether HEADERS that were sent are the request's own: those that end the stream of one with a body are trailers.
fn begins(frame: &FrameFacts, request: &Request) -> bool {
    frame.flags & END_STREAM == 0 || request.body().is_empty()
}

/// The head of the response on that stream, if it is among the news.
fn fields_of(inbox: &Inbox<ClientEvent>, of: Option<u64>) -> Vec<Field> {
    let found = inbox.events.iter().find_map(|event| match event {
        ClientEvent::ResponseHeaders {
            stream,
            status,
            fields,
        } if Some(stream.0) == of => Some((status, fields)),
        _ => None,
    });
    let Some((status, fields)) = found else {
        return Vec::new();
    };
    let status = Field::new(":status", status.to_string());
    std::iter::once(status)
        .chain(fields.iter().cloned())
        .collect()
}

fn last_stream(inbox: &Inbox<ClientEvent>) -> Option<u32> {
    inbox.events.iter().find_map(|event| match event {
        ClientEvent::GoAway { last_stream, .. } => Some(last_stream.0 as u32),
        _ => None,
    })
}

/// A frame of HTTP/3 or QUIC in the same layout.
fn other_frame(at: Duration, frame: &FrameFacts) -> String {
    let way = match frame.way {
        Way::Sent => "send",
        Way::Received => "recv",
    };
    let layer = match frame.layer {
        FrameLayer::Quic => "QUIC ",
        FrameLayer::Http2 | FrameLayer::Http3 => "",
    };
    let name = frame_name(frame.layer, frame.kind)
        .map_or_else(|| format!("{:#x}", frame.kind), str::to_owned);
    let (clock, length) = (trace::clock(at), frame.length);
    let mut text = format!("{clock} {way} {layer}{name} frame <length={length}");
    for (word, value) in [
        ("stream_id", frame.stream),
        ("offset", frame.offset),
        ("packet", frame.packet),
        ("value", frame.value),
    ] {
        if let Some(value) = value {
            text += &format!(", {word}={value}");
        }
    }
    text + ">"
}
