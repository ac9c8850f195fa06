//! Which fields a received HEADERS frame carries: those of the next section of its stream to be complete.
//!
//! A frame is seen when its header was read, its section when the last of it was decoded, which may be some reads later.
//! Only this pairing; `mod` prints.

use std::collections::BTreeSet;

use squall_base::record::{FrameFacts, FrameLayer, Way, frame_name};
use squall_http::{ClientEvent, Field, Inbox, StreamId};

/// A header section that was received.
pub(super) struct Section {
    stream: u64,
    pub(super) fields: Vec<Field>,
    /// Whether its stream had none before.
    pub(super) is_first: bool,
}

/// What became of a received HEADERS frame.
pub(super) enum Head {
    Complete(Section),
    /// There is no section for it, and none will come.
    Void,
    /// Its section is not complete.
    Awaited,
}

/// The HEADERS frames that a client receives.
#[derive(Default)]
pub(super) struct Heads {
    /// Those whose sections are not complete, with their connections, and what there is of their CONTINUATION.
    awaited: Vec<(u32, FrameFacts)>,
    /// Streams of which only interim responses have come.
    informed: BTreeSet<(u32, u64)>,
}

impl Heads {
    /// The sections that one read of a connection has completed, in the order of each stream.
    pub(super) fn sections(&mut self, connection: u32, inbox: &Inbox<ClientEvent>) -> Vec<Section> {
        let mut sections = Vec::new();
        for event in &inbox.events {
            let (stream, status, fields, is_first) = match event {
                ClientEvent::Interim {
                    stream,
                    status,
                    fields,
                } => {
                    let is_first = self.informed.insert((connection, stream.0));
                    (stream, status, fields, is_first)
                }
                ClientEvent::ResponseHeaders {
                    stream,
                    status,
                    fields,
                } => {
                    let is_first = !self.informed.remove(&(connection, stream.0));
                    (stream, status, fields, is_first)
                }
                _ => continue,
            };
            let status = Field::new(":status", status.to_string());
            sections.push(Section {
                stream: stream.0,
                fields: [&[status], &fields[..]].concat(),
                is_first,
            });
        }
        let trailers = inbox.trailers.iter().map(|(stream, fields)| Section {
            stream: stream.0,
            fields: fields.clone(),
            is_first: false,
        });
        sections.extend(trailers);
        sections
    }

    /// The frames of a connection that were awaited before its last read, oldest first.
    pub(super) fn take_awaited(&mut self, connection: u32) -> Vec<FrameFacts> {
        let awaited = self.awaited.extract_if(.., |(of, _)| *of == connection);
        awaited.map(|(_, frame)| frame).collect()
    }

    /// Whether `frame` is CONTINUATION of one that is awaited, behind which it is kept then.
    pub(super) fn hold(&mut self, connection: u32, frame: &FrameFacts) -> bool {
        let is_held = is_received(frame, "CONTINUATION")
            && self.awaited.iter().any(|(of, _)| *of == connection);
        if is_held {
            self.awaited.push((connection, *frame));
        }
        is_held
    }

    /// What became of `frame` by that read, of which `later` are the frames behind it. It is kept if it is awaited.
    pub(super) fn find(
        &mut self,
        connection: u32,
        frame: &FrameFacts,
        sections: &mut Vec<Section>,
        (later, events): (&[FrameFacts], &[ClientEvent]),
    ) -> Head {
        let of_stream = |section: &Section| Some(section.stream) == frame.stream;
        if let Some(index) = sections.iter().position(of_stream) {
            return Head::Complete(sections.remove(index));
        }
        let is_over = events.iter().any(|event| ends(event, frame.stream));
        if is_over || later.iter().any(|later| follows(later, frame)) {
            return Head::Void;
        }
        self.awaited.push((connection, *frame));
        Head::Awaited
    }
}

/// Whether a frame is HEADERS that were received.
pub(super) fn is_received_head(frame: &FrameFacts) -> bool {
    is_received(frame, "HEADERS")
}

fn is_received(frame: &FrameFacts, name: &str) -> bool {
    frame.way == Way::Received && frame_name(frame.layer, frame.kind) == Some(name)
}

/// Whether `later` can only come when the section of `frame` is complete: over HTTP/2 anything but its CONTINUATION (RFC
/// 9113, section 4.3), over HTTP/3 the next frame of its stream.
fn follows(later: &FrameFacts, frame: &FrameFacts) -> bool {
    let is_of_both = later.way == Way::Received && later.layer == frame.layer;
    is_of_both
        && match frame.layer {
            FrameLayer::Http2 => frame_name(later.layer, later.kind) != Some("CONTINUATION"),
            FrameLayer::Http3 | FrameLayer::Quic => later.stream == frame.stream,
        }
}

/// Whether nothing more comes on that stream.
fn ends(event: &ClientEvent, of: Option<u64>) -> bool {
    let stream = match event {
        ClientEvent::StreamReset { stream, .. }
        | ClientEvent::ResponseRefused { stream, .. }
        | ClientEvent::RequestRefused { stream }
        | ClientEvent::ResponseEnd { stream, .. } => stream,
        _ => return false,
    };
    of.is_some_and(|of| *stream == StreamId(of))
}
