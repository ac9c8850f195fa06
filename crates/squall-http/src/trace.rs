//! Formats one HTTP/2 frame as text, in the layout of `nghttp -v`, which is familiar to anyone who debugs HTTP/2.
//!
//! Plain text only; colour is up to the terminal. [`FrameFacts`] lack some details that nghttp prints. A caller can
//! supply them as [`Details`]; otherwise the lines concerned are omitted or shorter.

use std::fmt::{self, Display, Formatter};

use squall_base::Duration;
use squall_base::record::{FrameFacts, Way, frame_name};
use squall_base::text::is_terminal_control;

use crate::event::Field;
use crate::frames::FrameKind;

/// How far nghttp indents the lines after the first line of a frame.
pub const INDENT: &str = "          ";

/// Flag bits and their names.
const END_STREAM: (u8, &str) = (0x1, "END_STREAM");
const ACK: (u8, &str) = (0x1, "ACK");
const END_HEADERS: (u8, &str) = (0x4, "END_HEADERS");
const PADDED: (u8, &str) = (0x8, "PADDED");
const PRIORITY: (u8, &str) = (0x20, "PRIORITY");

/// Details of a frame beyond its facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    /// SETTINGS: its entries.
    pub settings: &'a [(u16, u32)],
    /// HEADERS: its fields, pseudo-header fields included.
    pub fields: &'a [Field],
    /// HEADERS: what it begins, if anything.
    pub begins: Option<Beginning>,
    /// GOAWAY: the last stream that was or will be processed.
    pub last_stream: Option<u32>,
}

/// What a HEADERS frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A stream, with a request.
    Stream,
    /// The response on a stream.
    Response,
}

/// A timestamped frame as `nghttp -v` prints it: several lines, with no newline after the last.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// When the frame was sent or received, since the start.
    pub at: Duration,
    /// The frame.
    pub frame: &'a FrameFacts,
    /// Details that the facts do not hold.
    pub details: Details<'a>,
}

impl Display for Trace<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (frame, details) = (self.frame, &self.details);
        let stream = frame.stream.unwrap_or(0);
        if frame.way == Way::Received {
            for field in details.fields {
                let text = line(field);
                writeln!(f, "{} recv (stream_id={stream}) {text}", clock(self.at))?;
            }
        }
        let way = match frame.way {
            Way::Sent => "send",
            Way::Received => "recv",
        };
        let name = frame_name(frame.layer, frame.kind).unwrap_or("UNKNOWN");
        let (length, flags) = (frame.length, frame.flags);
        write!(
            f,
            "{} {way} {name} frame <length={length}, flags=0x{flags:02x}, stream_id={stream}>",
            clock(self.at)
        )?;
        if flags != 0 {
            write!(f, "\n{INDENT}; {}", flag_names(frame).join(" | "))?;
        }
        match kind(frame) {
            Some(FrameKind::HEADERS) => headers(f, frame, details),
            Some(FrameKind::SETTINGS) => settings(f, frame, details),
            Some(FrameKind::RST_STREAM) => {
                let code = frame.value.map_or_else(String::new, error);
                write!(f, "\n{INDENT}(error_code={code})")
            }
            Some(FrameKind::GOAWAY) => goaway(f, frame, details),
            Some(FrameKind::WINDOW_UPDATE) => {
                let increment = frame.value.unwrap_or(0);
                write!(f, "\n{INDENT}(window_size_increment={increment})")
            }
            _ => Ok(()),
        }
    }
}

fn kind(frame: &FrameFacts) -> Option<FrameKind> {
    u8::try_from(frame.kind).ok().map(FrameKind)
}

/// Seconds and milliseconds in brackets, truncated as nghttp does.
pub fn clock(at: Duration) -> String {
    let millis = at.as_nanos() / 1_000_000;
    format!("[{:3}.{:03}]", millis / 1000, millis % 1000)
}

/// A field as one line.
pub fn line(field: &Field) -> String {
    let (name, value) = (
        String::from_utf8_lossy(&field.name),
        String::from_utf8_lossy(&field.value),
    );
    let text = format!("{name}: {value}");
    // A peer may send control characters that a terminal would interpret.
    let shown = (text.chars()).map(|c| if is_terminal_control(c) { '.' } else { c });
    shown.collect()
}

fn flag_names(frame: &FrameFacts) -> Vec<&'static str> {
    let known: &[(u8, &'static str)] = match kind(frame) {
        Some(FrameKind::DATA) => &[END_STREAM, PADDED],
        Some(FrameKind::HEADERS) => &[END_STREAM, END_HEADERS, PADDED, PRIORITY],
        Some(FrameKind::SETTINGS | FrameKind::PING) => &[ACK],
        Some(FrameKind::PUSH_PROMISE) => &[END_HEADERS, PADDED],
        Some(FrameKind::CONTINUATION) => &[END_HEADERS],
        _ => &[],
    };
    let set = known.iter().filter(|(bit, _)| frame.flags & bit != 0);
    set.map(|(_, name)| *name).collect()
}

fn headers(f: &mut Formatter<'_>, frame: &FrameFacts, details: &Details<'_>) -> fmt::Result {
    // With PADDED set, the padding length is inside the payload, which is not available here.
    if frame.flags & PADDED.0 == 0 {
        write!(f, "\n{INDENT}(padlen=0)")?;
    }
    match details.begins {
        Some(Beginning::Stream) => write!(f, "\n{INDENT}; Open new stream")?,
        Some(Beginning::Response) => write!(f, "\n{INDENT}; First response header")?,
        None => {}
    }
    if frame.way == Way::Sent {
        for field in details.fields {
            write!(f, "\n{INDENT}{}", line(field))?;
        }
    }
    Ok(())
}

fn settings(f: &mut Formatter<'_>, frame: &FrameFacts, details: &Details<'_>) -> fmt::Result {
    write!(f, "\n{INDENT}(niv={})", frame.value.unwrap_or(0))?;
    for (id, value) in details.settings {
        write!(
            f,
            "\n{INDENT}[{}(0x{id:02x}):{value}]",
            setting_name(*id).unwrap_or("UNKNOWN")
        )?;
    }
    Ok(())
}

fn goaway(f: &mut Formatter<'_>, frame: &FrameFacts, details: &Details<'_>) -> fmt::Result {
    write!(f, "\n{INDENT}(")?;
    if let Some(last) = details.last_stream {
        write!(f, "last_stream_id={last}, ")?;
    }
    // The last stream and the error code take eight bytes of the payload.
    let opaque = frame.length.saturating_sub(8);
    let code = frame.value.map_or_else(String::new, error);
    let text = if opaque == 0 { "=[]" } else { "" };
    write!(f, "error_code={code}, opaque_data({opaque}){text})")
}

/// The name of a setting (RFC 9113, section 6.5.2, and its IANA registry).
pub const fn setting_name(id: u16) -> Option<&'static str> {
    Some(match id {
        0x1 => "SETTINGS_HEADER_TABLE_SIZE",
        0x2 => "SETTINGS_ENABLE_PUSH",
        0x3 => "SETTINGS_MAX_CONCURRENT_STREAMS",
        0x4 => "SETTINGS_INITIAL_WINDOW_SIZE",
        0x5 => "SETTINGS_MAX_FRAME_SIZE",
        0x6 => "SETTINGS_MAX_HEADER_LIST_SIZE",
        0x8 => "SETTINGS_ENABLE_CONNECT_PROTOCOL",
        0x9 => "SETTINGS_NO_RFC7540_PRIORITIES",
        _ => return None,
    })
}

/// An error code with its name (RFC 9113, section 7).
fn error(code: u64) -> String {
    let name = match code {
        0x0 => "NO_ERROR",
        0x1 => "PROTOCOL_ERROR",
        0x2 => "INTERNAL_ERROR",
        0x3 => "FLOW_CONTROL_ERROR",
        0x4 => "SETTINGS_TIMEOUT",
        0x5 => "STREAM_CLOSED",
        0x6 => "FRAME_SIZE_ERROR",
        0x7 => "REFUSED_STREAM",
        0x8 => "CANCEL",
        0x9 => "COMPRESSION_ERROR",
        0xa => "CONNECT_ERROR",
        0xb => "ENHANCE_YOUR_CALM",
        0xc => "INADEQUATE_SECURITY",
        0xd => "HTTP_1_1_REQUIRED",
        _ => "UNKNOWN",
    };
    format!("{name}(0x{code:02x})")
}

#[cfg(test)]
mod tests {
    use squall_base::record::FrameLayer;

    use super::*;

    fn text(
        way: Way,
        kind: u64,
        (length, flags): (u64, u8),
        stream: u64,
        value: u64,
        details: Details<'_>,
    ) -> String {
        let frame = FrameFacts {
            flags,
            stream: Some(stream),
            value: Some(value),
            ..FrameFacts::new(way, FrameLayer::Http2, kind, length)
        };
        let at = Duration::from_micros(372_999);
        let trace = Trace {
            at,
            frame: &frame,
            details,
        };
        trace.to_string()
    }

    fn field(name: &str, value: &str) -> Field {
        Field::new(name, value)
    }

    // What nghttp 1.52 prints, except for details that facts lack.
    #[test]
    fn frames_print_as_in_nghttp() {
        let none = Details::default;
        assert_eq!(
            text(Way::Received, 8, (4, 0), 13, 16_375, none()),
            "[  0.372] recv WINDOW_UPDATE frame <length=4, flags=0x00, stream_id=13>\n          \
             (window_size_increment=16375)"
        );
        let settings = Details {
            settings: &[(3, 100), (4, 65_535)],
            ..none()
        };
        assert_eq!(
            text(Way::Sent, 4, (12, 0), 0, 2, settings),
            "[  0.372] send SETTINGS frame <length=12, flags=0x00, stream_id=0>\n          (niv=2)\n          \
             [SETTINGS_MAX_CONCURRENT_STREAMS(0x03):100]\n          [SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]"
        );
        assert_eq!(
            text(Way::Received, 4, (0, 1), 0, 0, none()),
            "[  0.372] recv SETTINGS frame <length=0, flags=0x01, stream_id=0>\n          ; ACK\n          (niv=0)"
        );
        assert_eq!(
            text(Way::Received, 0, (147, 1), 13, 0, none()),
            "[  0.372] recv DATA frame <length=147, flags=0x01, stream_id=13>\n          ; END_STREAM"
        );
        assert_eq!(
            text(Way::Received, 3, (4, 0), 13, 8, none()),
            "[  0.372] recv RST_STREAM frame <length=4, flags=0x00, stream_id=13>\n          (error_code=CANCEL(0x08))"
        );
        let last = Details {
            last_stream: Some(0),
            ..none()
        };
        assert_eq!(
            text(Way::Sent, 7, (8, 0), 0, 0, last),
            "[  0.372] send GOAWAY frame <length=8, flags=0x00, stream_id=0>\n          \
             (last_stream_id=0, error_code=NO_ERROR(0x00), opaque_data(0)=[])"
        );
    }

    #[test]
    fn fields_precede_a_received_head_and_follow_a_sent_one() {
        let fields = [field(":status", "200"), field("a", "b\u{1b}[0m")];
        let details = |begins| Details {
            fields: &fields,
            begins: Some(begins),
            ..Details::default()
        };
        assert_eq!(
            text(
                Way::Received,
                1,
                (91, 4),
                13,
                0,
                details(Beginning::Response)
            ),
            "[  0.372] recv (stream_id=13) :status: 200\n[  0.372] recv (stream_id=13) a: b.[0m\n\
             [  0.372] recv HEADERS frame <length=91, flags=0x04, stream_id=13>\n          ; END_HEADERS\n          \
             (padlen=0)\n          ; First response header"
        );
        assert_eq!(
            text(Way::Sent, 1, (48, 0x25), 13, 0, details(Beginning::Stream)),
            "[  0.372] send HEADERS frame <length=48, flags=0x25, stream_id=13>\n          \
             ; END_STREAM | END_HEADERS | PRIORITY\n          (padlen=0)\n          ; Open new stream\n          \
             :status: 200\n          a: b.[0m"
        );
    }
}
