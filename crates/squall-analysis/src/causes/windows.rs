//! When flow control held data back, from the frames of the side that has the data.
//!
//! A stream is held back from the DATA frame that exhausted its window until the WINDOW_UPDATE that reopened it was read
//! (RFC 9113, section 5.2); likewise the connection. In QUIC they are held back from the STREAM frame that reached the
//! limit until MAX_STREAM_DATA or MAX_DATA raised it (RFC 9000, section 4.1). The first limits are transport parameters,
//! which no recorded frame shows.

use std::collections::BTreeMap;

use squall_base::record::{Cause, FrameFacts, FrameLayer, Way};

use super::walk::{NEVER, Span};
use crate::wire::{http2, quic};

/// One side of one connection, as a sender.
#[derive(Debug, Default)]
pub(super) struct Windows {
    connection: BlockedSpans,
    streams: BTreeMap<u64, BlockedSpans>,
    last_sent: LastSent,
    quic: QuicLimits,
}

/// When each stream with more to send last sent something. Most streams end with the next thing that they send, before
/// another stream sends, so the latest one is kept out of the map.
#[derive(Debug, Default)]
struct LastSent {
    latest: Option<(u64, u64)>,
    others: BTreeMap<u64, u64>,
}

impl LastSent {
    fn insert(&mut self, id: u64, time: u64) {
        if let Some((other, before)) = self.latest.replace((id, time))
            && other != id
        {
            self.others.insert(other, before);
        }
    }

    fn remove(&mut self, id: u64) {
        self.latest = self.latest.filter(|(latest, _)| *latest != id);
        self.others.remove(&id);
    }

    fn of(&self, id: u64) -> Option<u64> {
        let latest = self.latest.filter(|(latest, _)| *latest == id);
        let of_others = || self.others.get(&id).copied();
        latest.map(|(_, time)| time).or_else(of_others)
    }
}

/// What the QUIC peer lets this side send.
#[derive(Debug, Default)]
struct QuicLimits {
    /// The limit of a stream that no frame has mentioned.
    initial_stream: Option<u64>,
    connection: Option<u64>,
    /// Bytes sent on all streams.
    sent: u64,
    /// For each stream: one past the last byte that was sent, and the limit that a frame set.
    streams: BTreeMap<u64, (u64, Option<u64>)>,
}

/// The spans in which a stream or connection was held back, in order.
#[derive(Debug, Default)]
pub(super) struct BlockedSpans {
    ended: Vec<Span>,
    blocked_since: Option<u64>,
}

impl BlockedSpans {
    fn begin(&mut self, time: u64) {
        self.blocked_since.get_or_insert(time);
    }

    fn end(&mut self, time: u64) {
        if let Some(from) = self.blocked_since.take()
            && from < time
        {
            self.ended.push(Span { from, to: time });
        }
    }

    /// The spans that overlap `[from, to)`; one that never ended extends to the end of time.
    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = Span> + '_ {
        let first = self.ended.partition_point(|span| span.to <= from);
        let open = self.blocked_since.map(|from| Span { from, to: NEVER });
        let ended = self.ended[first..].iter().copied();
        ended.chain(open).take_while(move |span| span.from < to)
    }
}

impl Windows {
    pub(super) fn add(&mut self, time: u64, frame: &FrameFacts) {
        match frame.layer {
            FrameLayer::Http2 => self.add_http2(time, frame),
            FrameLayer::Quic => self.add_quic(time, frame),
            FrameLayer::Http3 => {}
        }
    }

    fn add_http2(&mut self, time: u64, frame: &FrameFacts) {
        let id = frame.stream.unwrap_or(0);
        match (frame.way, frame.kind) {
            (Way::Sent, http2::HEADERS | http2::DATA) => {
                let is_over = frame.flags & http2::END_STREAM != 0;
                if is_over {
                    self.last_sent.remove(id);
                } else {
                    self.last_sent.insert(id, time);
                }
                if frame.kind == http2::DATA {
                    self.on_data(time, id, frame, is_over);
                }
            }
            (Way::Received, http2::WINDOW_UPDATE) => self.on_update(time, id, frame),
            (_, http2::RST_STREAM) => self.end_stream(time, id),
            _ => {}
        }
    }

    fn on_data(&mut self, time: u64, id: u64, frame: &FrameFacts, is_over: bool) {
        if frame.connection_window.is_some_and(|left| left <= 0) {
            self.connection.begin(time);
        }
        // Data that leaves shows that nothing holds the stream back any longer, even without a WINDOW_UPDATE: SETTINGS
        // may have opened the window.
        self.reopen(time, id);
        if !is_over && frame.stream_window.is_some_and(|left| left <= 0) {
            self.streams.entry(id).or_default().begin(time);
        }
    }

    fn reopen(&mut self, time: u64, id: u64) {
        if let Some(held) = self.streams.get_mut(&id) {
            held.end(time);
        }
    }

    fn on_update(&mut self, time: u64, id: u64, frame: &FrameFacts) {
        let increment = i64::try_from(frame.value.unwrap_or(0)).unwrap_or(i64::MAX);
        if id == 0 {
            if frame.connection_window.is_some_and(|left| left > 0) {
                self.connection.end(time);
            }
            return;
        }
        let Some(window) = frame.stream_window else {
            return;
        };
        // If the window was exhausted from the start, only HEADERS were sent, which do not show that; this update does.
        if window.saturating_sub(increment) <= 0
            && let Some(since) = self.last_sent.of(id)
        {
            self.streams.entry(id).or_default().begin(since);
        }
        if window > 0 {
            self.reopen(time, id);
        }
    }

    fn end_stream(&mut self, time: u64, id: u64) {
        self.last_sent.remove(id);
        self.reopen(time, id);
    }

    /// Sets the limits that QUIC's peer began with, in bytes.
    pub(super) fn begin_quic(&mut self, stream: u64, connection: u64) {
        self.quic.initial_stream = Some(stream);
        self.quic.connection.get_or_insert(connection);
    }

    fn add_quic(&mut self, time: u64, frame: &FrameFacts) {
        match (frame.way, frame.kind, frame.stream, frame.value) {
            (Way::Sent, kind, Some(id), _) if quic::STREAM.contains(&kind) => {
                let end = frame.offset.unwrap_or(0).saturating_add(frame.length);
                self.on_stream(time, id, end, kind & quic::FIN != 0);
            }
            (Way::Received, quic::MAX_DATA, _, Some(limit)) => {
                let limits = &mut self.quic;
                limits.connection = limits.connection.max(Some(limit));
                if limits.connection > Some(limits.sent) {
                    self.connection.end(time);
                }
            }
            (Way::Received, quic::MAX_STREAM_DATA, Some(id), Some(limit)) => {
                let (sent, known) = self.quic.streams.entry(id).or_default();
                *known = (*known).max(Some(limit));
                if limit > *sent {
                    self.reopen(time, id);
                }
            }
            _ => {}
        }
    }

    fn on_stream(&mut self, time: u64, id: u64, end: u64, is_over: bool) {
        let limits = &mut self.quic;
        let initial = limits.initial_stream;
        let (sent, limit) = limits.streams.entry(id).or_default();
        let fresh = end.saturating_sub(*sent);
        *sent += fresh;
        let is_at_limit = limit.or(initial).is_some_and(|limit| *sent >= limit);
        limits.sent = limits.sent.saturating_add(fresh);
        if fresh > 0 && is_at_limit && !is_over {
            self.streams.entry(id).or_default().begin(time);
        }
        if fresh > 0 && limits.connection.is_some_and(|limit| limits.sent >= limit) {
            self.connection.begin(time);
        }
    }

    /// When the stream's own window held it back within `[from, to)`.
    pub(super) fn stream(&self, id: u64, from: u64, to: u64) -> impl Iterator<Item = Span> + '_ {
        let held = self.streams.get(&id);
        held.into_iter().flat_map(move |held| held.within(from, to))
    }

    /// When the window of any stream held that stream back within `[from, to)`, by stream.
    pub(super) fn any_stream(&self, from: u64, to: u64) -> impl Iterator<Item = Span> + '_ {
        let all = self.streams.values();
        all.flat_map(move |held| held.within(from, to))
    }

    /// When the connection's window held everything back within `[from, to)`.
    pub(super) fn connection(&self, from: u64, to: u64) -> impl Iterator<Item = Span> + '_ {
        self.connection.within(from, to)
    }

    /// The waits for either window within `[from, to)`. Those for the stream's own come first: where both held it back, the
    /// stream's window is the one to enlarge.
    pub(super) fn waits(
        &self,
        id: u64,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (Span, Cause)> + '_ {
        let stream = self.stream(id, from, to);
        let connection = self.connection(from, to);
        let stream = stream.map(|span| (span, Cause::WindowStream));
        stream.chain(connection.map(|span| (span, Cause::WindowConnection)))
    }
}
