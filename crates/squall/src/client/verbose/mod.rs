//! What `-v` prints: everything that a connection sends and receives, as it happens, in the layout of `nghttp -v`.
//!
//! Times count from the start of the command. Frames of HTTP/2 look as nghttp shows them, but for the data of PING and
//! GOAWAY and the amount of padding, which nobody keeps; those of HTTP/3 and QUIC are given in the same way, and of HTTP/1.1
//! the heads and the sizes of bodies. What a request over HTTP/2 and HTTP/3 says is not read from the wire: it is known by
//! the stream that it goes on. Where there may be several connections, each line that begins something says of which it
//! is, as nghttpd does, by the number in the records. `heads` finds what HEADERS say.

mod heads;

use std::fmt::{Display, Write as _};
use std::io::Write;
use std::sync::Arc;

use squall_base::record::{FrameFacts, FrameLayer, SideCounts, Way, frame_name};
use squall_base::{Duration, Time};
use squall_http::trace::{self, Beginning, Details, INDENT, Trace};
use squall_http::{ClientEvent, Field, Http2Announced, Inbox, Request, StreamId, h3};
use squall_stations::client::{Observer, Seen};

use heads::{Head, Heads, is_received_head};

/// The flag of HTTP/2's HEADERS (RFC 9113, section 6.2).
const END_STREAM: u8 = 0x1;

/// That of SETTINGS (section 6.5).
const ACK: u8 = 0x1;

/// Whether lines say of which connection they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// There is one.
    Alone,
    ByNumber,
}

/// Prints to `out`.
pub(crate) struct Verbose {
    out: Box<dyn Write + Send>,
    start: Time,
    naming: Naming,
    /// What may be asked for, in the order of the load's requests.
    requests: Vec<Arc<Request>>,
    heads: Heads,
    page: Page,
}

/// What one call prints, with one write, since other threads print as well.
#[derive(Default)]
struct Page {
    text: String,
    /// What begins a line that begins something.
    prefix: String,
    at: Duration,
}

impl Page {
    /// One line or several; those that go on with something are indented.
    fn line(&mut self, text: impl Display) {
        for line in text.to_string().lines() {
            if !line.starts_with(INDENT) {
                self.text += &self.prefix;
            }
            self.text += line;
            self.text.push('\n');
        }
    }

    /// A line that begins with the time.
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

impl Verbose {
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        start: Time,
        naming: Naming,
        requests: Vec<Arc<Request>>,
    ) -> Verbose {
        Verbose {
            out,
            start,
            naming,
            requests,
            heads: Heads::default(),
            page: Page::default(),
        }
    }

    /// Begins to print what a connection did.
    fn begin(&mut self, now: Time, connection: u32) {
        self.page.at = now.since(self.start);
        self.page.prefix.clear();
        if self.naming == Naming::ByNumber {
            let _ = write!(self.page.prefix, "[id={connection}] ");
        }
    }

    /// Prints it. A terminal that is gone ends no measurement.
    fn end(&mut self) {
        let _ = self.out.write_all(self.page.text.as_bytes());
        let _ = self.out.flush();
        self.page.text.clear();
    }

    /// The request of that number.
    fn request(&self, what: Option<u32>) -> Option<&Request> {
        self.requests.get(what? as usize).map(Arc::as_ref)
    }

    /// HEADERS that were received, and what they say if that is known.
    fn received_head(&mut self, frame: &FrameFacts, head: Head) {
        let section = match head {
            Head::Awaited => return,
            Head::Void => None,
            Head::Complete(section) => Some(section),
        };
        let fields = section.as_ref().map_or(&[][..], |section| &section.fields);
        let is_first = section.as_ref().is_some_and(|section| section.is_first);
        let at = self.page.at;
        if frame.layer == FrameLayer::Http2 {
            let details = Details {
                fields,
                begins: is_first.then_some(Beginning::Response),
                ..Details::default()
            };
            return self.page.line(Trace { at, frame, details });
        }
        let stream = frame.stream.unwrap_or_default();
        for field in fields {
            let field = trace::line(field);
            (self.page).event(format_args!("recv (stream_id={stream}) {field}"));
        }
        self.page.event(other_frame(frame));
        if is_first {
            (self.page).line(format_args!("{INDENT}; First response header"));
        }
    }

    /// A frame of HTTP/2, but for HEADERS that were received. `settings` is what it says if it is SETTINGS.
    fn frame(&mut self, frame: &FrameFacts, settings: &[(u16, u32)], what: Option<u32>) {
        let request = self.request(what).filter(|request| begins(frame, request));
        let sent = request.map_or_else(Vec::new, Request::sent_fields);
        let none = Details::default();
        let details = match (frame.way, frame_name(frame.layer, frame.kind)) {
            (_, Some("SETTINGS")) => Details { settings, ..none },
            (Way::Sent, Some("HEADERS")) => Details {
                fields: &sent,
                begins: (!sent.is_empty()).then_some(Beginning::Stream),
                ..none
            },
            // A client takes no streams of the server's.
            (Way::Sent, Some("GOAWAY")) => Details {
                last_stream: Some(0),
                ..none
            },
            _ => none,
        };
        let at = self.page.at;
        self.page.line(Trace { at, frame, details });
    }

    /// GOAWAY of HTTP/2 that was received.
    fn received_goaway(&mut self, frame: &FrameFacts, inbox: &Inbox<ClientEvent>) {
        let details = Details {
            last_stream: last_stream(inbox),
            ..Details::default()
        };
        let at = self.page.at;
        self.page.line(Trace { at, frame, details });
    }

    /// A frame of QUIC, or of HTTP/3 but for HEADERS that were received.
    fn other_frame(
        &mut self,
        frame: &FrameFacts,
        announced: Option<&h3::Announced>,
        what: Option<u32>,
    ) {
        self.page.event(other_frame(frame));
        let name = frame_name(frame.layer, frame.kind).filter(|_| frame.layer == FrameLayer::Http3);
        match (name, frame.way, announced) {
            (Some("HEADERS"), Way::Sent, _) if frame.offset == Some(0) => {
                let fields = (self.request(what)).map_or_else(Vec::new, Request::sent_fields);
                (self.page).line(format_args!("{INDENT}; Open new stream"));
                self.page.fields(&fields);
            }
            (Some("SETTINGS"), Way::Sent, Some(announced)) => self.settings(&announced.sent),
            (Some("SETTINGS"), Way::Received, Some(announced)) => {
                self.settings(&announced.received);
            }
            _ => {}
        }
    }

    /// Of HTTP/3.
    fn settings(&mut self, settings: &[(u64, u64)]) {
        let page = &mut self.page;
        page.line(format_args!("{INDENT}(niv={})", settings.len()));
        for (id, value) in settings {
            let name = h3::setting_name(*id).unwrap_or("UNKNOWN");
            page.line(format_args!("{INDENT}[{name}(0x{id:02x}):{value}]"));
        }
    }

    /// HTTP/1.1 has no frames: its heads and bodies stand for them.
    fn message(&mut self, event: &ClientEvent, seen: &mut Seen<'_>) {
        match event {
            ClientEvent::RequestFirstByteWritten { stream, .. } => {
                let request = self.request((seen.asked)(*stream));
                let head = request.and_then(|request| (seen.sent_head)(request));
                let head = String::from_utf8_lossy(head.as_deref().unwrap_or_default());
                let mut lines = head.trim_ascii_end().lines();
                let first = lines.next().unwrap_or_default();
                self.page.event(format_args!("send {first}"));
                for line in lines {
                    self.page.line(format_args!("{INDENT}{line}"));
                }
            }
            ClientEvent::RequestWritten { end, .. } => {
                (self.page).event(format_args!("send end of request <offset={end}>"));
            }
            ClientEvent::Interim { status, fields, .. }
            | ClientEvent::ResponseHeaders { status, fields, .. } => {
                self.page.event(format_args!("recv HTTP/1.1 {status}"));
                self.page.fields(fields);
            }
            ClientEvent::ResponseBody { len, .. } => {
                (self.page).event(format_args!("recv body <length={len}>"));
            }
            ClientEvent::ResponseEnd { stream, end } => {
                let trailers = seen.inbox.trailers.iter().find(|(of, _)| of == stream);
                if let Some((_, trailers)) = trailers {
                    self.page.event("recv trailers");
                    self.page.fields(trailers);
                }
                (self.page).event(format_args!("recv end of response <offset={end}>"));
            }
            _ => {}
        }
    }

    /// All frames of one read or write.
    fn frames(&mut self, seen: &mut Seen<'_>) {
        let (connection, inbox) = (seen.connection, seen.inbox);
        let mut sections = self.heads.sections(connection, inbox);
        let mut frames = self.heads.take_awaited(connection);
        frames.extend(&inbox.frames);
        let announced = seen.announced.unwrap_or_default();
        for (index, frame) in frames.iter().enumerate() {
            let later = &frames[index + 1..];
            if is_received_head(frame) {
                let news = (later, &inbox.events[..]);
                let head = self.heads.find(connection, frame, &mut sections, news);
                self.received_head(frame, head);
                continue;
            }
            if self.heads.hold(connection, frame) {
                continue;
            }
            let stream = frame.stream.map(StreamId);
            let what = stream.and_then(|stream| (seen.asked)(stream));
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

impl Observer for Verbose {
    fn connected(&mut self, now: Time, connection: u32) {
        self.begin(now, connection);
        self.page.event("Connected");
        self.end();
    }

    fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        self.begin(now, connection);
        let alpn = alpn.unwrap_or(SideCounts::NO_ALPN);
        (self.page).event(format_args!("The negotiated protocol: {alpn}"));
        self.end();
    }

    fn observe(&mut self, mut seen: Seen<'_>) {
        self.begin(seen.now, seen.connection);
        let inbox = seen.inbox;
        let is_switch = |event: &ClientEvent| matches!(event, ClientEvent::Switched { .. });
        if inbox.events.iter().any(is_switch) {
            self.page.event("recv HTTP/1.1 101");
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

/// Whether HEADERS that were sent are the request's own: those that end the stream of one with a body are trailers.
fn begins(frame: &FrameFacts, request: &Request) -> bool {
    frame.flags & END_STREAM == 0 || request.body().is_empty()
}

/// What SETTINGS say, if they are not too many: those behind them on the same way are among the `later` frames.
fn entries<'a>(
    frame: &FrameFacts,
    announced: &Http2Announced<'a>,
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

/// A frame of HTTP/3 or QUIC in the same layout.
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
