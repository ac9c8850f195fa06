//! Finds the fields of a received HEADERS frame: those of the next header section to be completed on its stream.
//!
//! A HEADERS frame is seen once its frame header is read. Its header section is known only once all of it is decoded,
//! possibly some reads later. This module only pairs the two; `mod` prints.

use std::collections::BTreeSet;

use squall_base::record::{FrameFacts, FrameLayer, Way, frame_name};
use squall_http::{ClientEvent, Field, Inbox, StreamId};

pub(super) struct HeaderSection {
    stream: u64,
    pub(super) fields: Vec<Field>,
    /// Whether it is the first section of its stream.
    pub(super) is_first: bool,
}

/// What is known of a received HEADERS frame.
pub(super) enum HeadersState {
    Complete(HeaderSection),
    /// The frame has no section, and none will follow.
    Missing,
    /// The section is incomplete.
    Pending,
}

/// The HEADERS frames of a client's connections.
#[derive(Default)]
pub(super) struct HeadersTracker {
    /// Frames with incomplete sections and their CONTINUATION frames, each with its connection.
    pending: Vec<(u32, FrameFacts)>,
    /// Streams that have received only interim responses.
    interim_streams: BTreeSet<(u32, u64)>,
}

impl HeadersTracker {
    /// The sections that one read of a connection completed, in the order of each stream.
    pub(super) fn sections(
        &mut self,
        connection: u32,
        inbox: &Inbox<ClientEvent>,
    ) -> Vec<HeaderSection> {
        let mut sections = Vec::new();
        for event in &inbox.events {
            let (stream, status, fields, is_first) = match event {
                ClientEvent::Interim {
                    stream,
                    status,
                    fields,
                } => {
                    let is_first = self.interim_streams.insert((connection, stream.0));
                    (stream, status, fields, is_first)
                }
                ClientEvent::ResponseHeaders {
                    stream,
                    status,
                    fields,
                } => {
                    let is_first = !self.interim_streams.remove(&(connection, stream.0));
                    (stream, status, fields, is_first)
                }
                _ => continue,
            };
            let status = Field::new(":status", status.to_string());
            sections.push(HeaderSection {
                stream: stream.0,
                fields: [&[status], &fields[..]].concat(),
                is_first,
            });
        }
        let trailers = inbox.trailers.iter().map(|(stream, fields)| HeaderSection {
            stream: stream.0,
            fields: fields.clone(),
            is_first: false,
        });
        sections.extend(trailers);
        sections
    }

    /// The frames of a connection that were still incomplete before its last read, oldest first.
    pub(super) fn take_pending(&mut self, connection: u32) -> Vec<FrameFacts> {
        let pending = self.pending.extract_if(.., |(of, _)| *of == connection);
        pending.map(|(_, frame)| frame).collect()
    }

    /// Whether `frame` continues an incomplete HEADERS frame. If so, it is queued behind that frame.
    pub(super) fn queue_continuation(&mut self, connection: u32, frame: &FrameFacts) -> bool {
        let is_queued = is_received(frame, "CONTINUATION")
            && self.pending.iter().any(|(of, _)| *of == connection);
        if is_queued {
            self.pending.push((connection, *frame));
        }
        is_queued
    }

    /// Finds the section of `frame` among those that the read completed. `later` are the frames after it in this read. The
    /// frame is queued if its section is still incomplete.
    pub(super) fn match_section(
        &mut self,
        connection: u32,
        frame: &FrameFacts,
        sections: &mut Vec<HeaderSection>,
        later: &[FrameFacts],
        events: &[ClientEvent],
    ) -> HeadersState {
        let of_stream = |section: &HeaderSection| Some(section.stream) == frame.stream;
        if let Some(index) = sections.iter().position(of_stream) {
            return HeadersState::Complete(sections.remove(index));
        }
        let is_over = events.iter().any(|event| ends_stream(event, frame.stream));
        if is_over || later.iter().any(|later| follows(later, frame)) {
            return HeadersState::Missing;
        }
        self.pending.push((connection, *frame));
        HeadersState::Pending
    }
}

pub(super) fn is_received_headers(frame: &FrameFacts) -> bool {
    is_received(frame, "HEADERS")
}

fn is_received(frame: &FrameFacts, name: &str) -> bool {
    frame.way == Way::Received && frame_name(frame.layer, frame.kind) == Some(name)
}

/// Whether `later` can arrive only after the section of `frame` is complete: over HTTP/2 any frame but its CONTINUATION
/// (RFC 9113, section 4.3), over HTTP/3 the next frame of its stream.
fn follows(later: &FrameFacts, frame: &FrameFacts) -> bool {
    let is_comparable = later.way == Way::Received && later.layer == frame.layer;
    is_comparable
        && match frame.layer {
            FrameLayer::Http2 => frame_name(later.layer, later.kind) != Some("CONTINUATION"),
            FrameLayer::Http3 | FrameLayer::Quic => later.stream == frame.stream,
        }
}

/// Whether this event means that nothing more can arrive on stream `of`.
fn ends_stream(event: &ClientEvent, of: Option<u64>) -> bool {
    let stream = match event {
        ClientEvent::StreamReset { stream, .. }
        | ClientEvent::ResponseRefused { stream, .. }
        | ClientEvent::RequestRefused { stream }
        | ClientEvent::ResponseEnd { stream, .. } => stream,
        _ => return false,
    };
    of.is_some_and(|of| *stream == StreamId(of))
}
