//! The output of `-v`: everything that a connection sends and receives, as it happens, in the layout of `nghttp -v`.
//!
//! Times count from the start of the command. HTTP/2 frames look as in nghttp, except that the data of PING and GOAWAY
//! and the amount of padding are missing, because squall does not keep them. Frames of HTTP/3 and QUIC are printed in
//! the same style; for HTTP/1.1, message heads and body sizes are printed. The fields of an HTTP/2 or HTTP/3 request
//! are not decoded from the wire: the request is known by its stream. If there may be several connections, every line
//! that starts an entry begins with the connection's number in the records, as in nghttpd. `heads` finds the fields of
//! received HEADERS.

mod heads;

use std::fmt::{Display, Write as _};
use std::io::Write;
use std::sync::Arc;

use squall_base::record::{FrameFacts, FrameLayer, SideCounts, Way, frame_name};
use squall_base::text::escape_controls;
use squall_base::{Duration, Time};
use squall_http::trace::{self, Beginning, Details, INDENT, Trace};
use squall_http::{ClientEvent, Field, Http2Announcements, Inbox, Request, StreamId, h3};
use squall_stations::client::{Observation, Observer};

use heads::{HeadersState, HeadersTracker, is_received_headers};

/// HTTP/2's END_STREAM flag of HEADERS (RFC 9113, section 6.2).
const END_STREAM: u8 = 0x1;

/// The ACK flag of SETTINGS (section 6.5).
const ACK: u8 = 0x1;

/// The prefix of lines that start an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePrefix {
    /// Nothing, because there is only one connection.
    None,
    Connection,
}

/// Prints the events of connections to `out`.
pub(crate) struct VerbosePrinter {
    out: Box<dyn Write + Send>,
    start: Time,
    line_prefix: LinePrefix,
    /// All requests of the load, in order.
    requests: Vec<Arc<Request>>,
    headers: HeadersTracker,
    buffer: OutputBuffer,
}

/// The output of one call, written at once because other threads print too.
#[derive(Default)]
struct OutputBuffer {
    text: String,
    /// Prefix of every line that starts an entry.
    prefix: String,
    at: Duration,
}

impl OutputBuffer {
    /// Adds one or more lines; continuation lines are indented and get no prefix.
    fn line(&mut self, text: impl Display) {
        for line in text.to_string().lines() {
            if !line.starts_with(INDENT) {
                self.text += &self.prefix;
            }
            self.text += line;
            self.text.push('\n');
        }
    }

    /// Adds a line that begins with the time.
    fn event(&mut self, text: impl Display) {
        let clock = trace::clock(self.at);
        self.line(format_args!("{clock} {text}"));
    }

    fn fields<'f>(&mut self, fields: impl IntoIterator<Item = &'f Field>) {
        for field in fields {
            let field = trace::line(field);
            self.line(format_args!("{INDENT}{field}"));
        }
    }
}

impl VerbosePrinter {
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        start: Time,
        line_prefix: LinePrefix,
        requests: Vec<Arc<Request>>,
    ) -> VerbosePrinter {
        VerbosePrinter {
            out,
            start,
            line_prefix,
            requests,
            headers: HeadersTracker::default(),
            buffer: OutputBuffer::default(),
        }
    }

    /// Begins the output for an event of a connection.
    fn begin(&mut self, now: Time, connection: u32) {
        self.buffer.at = now.since(self.start);
        self.buffer.prefix.clear();
        if self.line_prefix == LinePrefix::Connection {
            let _ = write!(self.buffer.prefix, "[id={connection}] ");
        }
    }

    /// Prints the output. Errors are ignored: a closed terminal must not end a measurement.
    fn end(&mut self) {
        // Peers choose parts of the text, so its control characters must not reach the terminal.
        let text = escape_controls(&self.buffer.text);
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
        self.buffer.text.clear();
    }

    fn request(&self, what: Option<u32>) -> Option<&Request> {
        self.requests.get(what? as usize).map(Arc::as_ref)
    }

    /// Prints received HEADERS, with their fields if known.
    fn received_headers(&mut self, frame: &FrameFacts, state: HeadersState) {
        let section = match state {
            HeadersState::Pending => return,
            HeadersState::Missing => None,
            HeadersState::Complete(section) => Some(section),
        };
        let fields = section.as_ref().map_or(&[][..], |section| &section.fields);
        let is_first = section.as_ref().is_some_and(|section| section.is_first);
        let at = self.buffer.at;
        if frame.layer == FrameLayer::Http2 {
            let details = Details {
                fields,
                begins: is_first.then_some(Beginning::Response),
                ..Details::default()
            };
            return self.buffer.line(Trace { at, frame, details });
        }
        let stream = frame.stream.unwrap_or_default();
        for field in fields {
            let field = trace::line(field);
            (self.buffer).event(format_args!("recv (stream_id={stream}) {field}"));
        }
        self.buffer.event(other_frame(frame));
        if is_first {
            (self.buffer).line(format_args!("{INDENT}; First response header"));
        }
    }

    /// Prints an HTTP/2 frame other than received HEADERS. `settings` are the entries of a SETTINGS frame.
    fn frame(&mut self, frame: &FrameFacts, settings: &[(u16, u32)], what: Option<u32>) {
        let request = self
            .request(what)
            .filter(|request| is_request_head(frame, request));
        let sent = request.map_or_else(Vec::new, Request::sent_fields);
        let none = Details::default();
        let details = match (frame.way, frame_name(frame.layer, frame.kind)) {
            (_, Some("SETTINGS")) => Details { settings, ..none },
            (Way::Sent, Some("HEADERS")) => Details {
                fields: &sent,
                begins: (!sent.is_empty()).then_some(Beginning::Stream),
                ..none
            },
            // A client accepts no streams from the server.
            (Way::Sent, Some("GOAWAY")) => Details {
                last_stream: Some(0),
                ..none
            },
            _ => none,
        };
        let at = self.buffer.at;
        self.buffer.line(Trace { at, frame, details });
    }

    /// Prints a received HTTP/2 GOAWAY.
    fn received_goaway(&mut self, frame: &FrameFacts, inbox: &Inbox<ClientEvent>) {
        let details = Details {
            last_stream: last_stream(inbox),
            ..Details::default()
        };
        let at = self.buffer.at;
        self.buffer.line(Trace { at, frame, details });
    }

    /// Prints a frame of QUIC, or of HTTP/3 other than received HEADERS.
    fn other_frame(
        &mut self,
        frame: &FrameFacts,
        announced: Option<&h3::Announcements>,
        what: Option<u32>,
    ) {
        self.buffer.event(other_frame(frame));
        let name = frame_name(frame.layer, frame.kind).filter(|_| frame.layer == FrameLayer::Http3);
        match (name, frame.way, announced) {
            (Some("HEADERS"), Way::Sent, _) if frame.offset == Some(0) => {
                let fields = (self.request(what)).map_or_else(Vec::new, Request::sent_fields);
                (self.buffer).line(format_args!("{INDENT}; Open new stream"));
                self.buffer.fields(&fields);
            }
            (Some("SETTINGS"), Way::Sent, Some(announced)) => self.settings(&announced.sent),
            (Some("SETTINGS"), Way::Received, Some(announced)) => {
                self.settings(&announced.received);
            }
            _ => {}
        }
    }

    /// Prints the entries of HTTP/3 SETTINGS.
    fn settings(&mut self, settings: &[(u64, u64)]) {
        let buffer = &mut self.buffer;
        buffer.line(format_args!("{INDENT}(niv={})", settings.len()));
        for (id, value) in settings {
            let name = h3::setting_name(*id).unwrap_or("UNKNOWN");
            buffer.line(format_args!("{INDENT}[{name}(0x{id:02x}):{value}]"));
        }
    }

    /// HTTP/1.1 has no frames: prints message heads and bodies instead.
    fn message(&mut self, event: &ClientEvent, seen: &mut Observation<'_>) {
        match event {
            ClientEvent::RequestFirstByteWritten { stream, .. } => {
                let request = self.request((seen.request_index)(*stream));
                let head = request.and_then(|request| (seen.sent_head)(request));
                let head = String::from_utf8_lossy(head.as_deref().unwrap_or_default());
                let mut lines = head.trim_ascii_end().lines();
                let first = lines.next().unwrap_or_default();
                self.buffer.event(format_args!("send {first}"));
                for line in lines {
                    self.buffer.line(format_args!("{INDENT}{line}"));
                }
            }
            ClientEvent::RequestWritten { end, .. } => {
                (self.buffer).event(format_args!("send end of request <offset={end}>"));
            }
            ClientEvent::Interim { status, fields, .. }
            | ClientEvent::ResponseHeaders { status, fields, .. } => {
                self.buffer.event(format_args!("recv HTTP/1.1 {status}"));
                self.buffer.fields(fields);
            }
            ClientEvent::ResponseBody { len, .. } => {
                (self.buffer).event(format_args!("recv body <length={len}>"));
            }
            ClientEvent::ResponseEnd { stream, end } => {
                let trailers = seen.inbox.trailers.iter().find(|(of, _)| of == stream);
                if let Some((_, trailers)) = trailers {
                    self.buffer.event("recv trailers");
                    self.buffer.fields(trailers);
                }
                (self.buffer).event(format_args!("recv end of response <offset={end}>"));
            }
            _ => {}
        }
    }

    /// Prints all frames of one read or write.
    fn frames(&mut self, seen: &mut Observation<'_>) {
        let (connection, inbox) = (seen.connection, seen.inbox);
        let mut sections = self.headers.sections(connection, inbox);
        let mut frames = self.headers.take_pending(connection);
        frames.extend(&inbox.frames);
        let announced = seen.announced.unwrap_or_default();
        for (index, frame) in frames.iter().enumerate() {
            let later = &frames[index + 1..];
            if is_received_headers(frame) {
                let state = self.headers.match_section(
                    connection,
                    frame,
                    &mut sections,
                    later,
                    &inbox.events,
                );
                self.received_headers(frame, state);
                continue;
            }
            if self.headers.queue_continuation(connection, frame) {
                continue;
            }
            let stream = frame.stream.map(StreamId);
            let what = stream.and_then(|stream| (seen.request_index)(stream));
            if frame.layer != FrameLayer::Http2 {
                self.other_frame(frame, seen.announced_http3.as_ref(), what);
            } else if is_received_goaway(frame) {
                self.received_goaway(frame, inbox);
            } else {
                self.frame(frame, entries(frame, &announced, later), what);
            }
        }
    }
}

impl Observer for VerbosePrinter {
    fn connected(&mut self, now: Time, connection: u32) {
        self.begin(now, connection);
        self.buffer.event("Connected");
        self.end();
    }

    fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        self.begin(now, connection);
        let alpn = alpn.unwrap_or(SideCounts::NO_ALPN);
        (self.buffer).event(format_args!("The negotiated protocol: {alpn}"));
        self.end();
    }

    fn observe(&mut self, mut seen: Observation<'_>) {
        self.begin(seen.now, seen.connection);
        let inbox = seen.inbox;
        let is_switch = |event: &ClientEvent| matches!(event, ClientEvent::Switched { .. });
        if inbox.events.iter().any(is_switch) {
            self.buffer.event("recv HTTP/1.1 101");
        }
        self.frames(&mut seen);
        let has_frames = seen.announced.is_some() || seen.announced_http3.is_some();
        if !has_frames && inbox.frames.is_empty() {
            for event in &inbox.events {
                self.message(event, &mut seen);
            }
        }
        self.end();
    }
}

/// Whether sent HEADERS are the request's head: HEADERS that end the stream of a request with a body are trailers.
fn is_request_head(frame: &FrameFacts, request: &Request) -> bool {
    frame.flags & END_STREAM == 0 || request.body().is_empty()
}

/// The entries of a SETTINGS frame; empty if not all of them were kept. SETTINGS among the `later` frames in the same
/// direction hold the more recent announcements.
fn entries<'a>(
    frame: &FrameFacts,
    announced: &Http2Announcements<'a>,
    later: &[FrameFacts],
) -> &'a [(u16, u32)] {
    let recent = match frame.way {
        Way::Sent => announced.recent_sent,
        Way::Received => announced.recent_received,
    };
    let is_announcement = |of: &FrameFacts| {
        frame_name(of.layer, of.kind) == Some("SETTINGS")
            && of.flags & ACK == 0
            && of.way == frame.way
    };
    if !is_announcement(frame) {
        return &[];
    }
    let behind = later.iter().filter(|of| is_announcement(of)).count();
    let own = recent.iter().rev().nth(behind);
    let whole = own.filter(|own| frame.value == Some(own.len() as u64));
    whole.map_or(&[], Vec::as_slice)
}

fn is_received_goaway(frame: &FrameFacts) -> bool {
    frame.way == Way::Received && frame_name(frame.layer, frame.kind) == Some("GOAWAY")
}

fn last_stream(inbox: &Inbox<ClientEvent>) -> Option<u32> {
    inbox.events.iter().find_map(|event| match event {
        ClientEvent::GoAway { last_stream, .. } => Some(last_stream.0 as u32),
        _ => None,
    })
}

/// Formats a frame of HTTP/3 or QUIC in nghttp's style.
fn other_frame(frame: &FrameFacts) -> String {
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
    let length = frame.length;
    let mut text = format!("{way} {layer}{name} frame <length={length}");
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
