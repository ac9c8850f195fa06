//! Tracks the flow-control windows of a connection and its open streams (RFC 9113, section 5.2) from its frames.
//!
//! A window is named after the direction of the DATA it allows. Nothing is validated: a window that a peer overdraws
//! goes negative, and a frame for a stream that is not open changes only the connection window.

use std::collections::VecDeque;

use squall_base::record::{PerWay, Way};

use crate::streams::Streams;

/// Initial size of every window (RFC 9113, section 6.9.2).
const INITIAL_WINDOW_BYTES: i64 = 65_535;

/// Cap on tracked streams, more than squall ever has open. If a hostile peer exceeds it, the oldest stream is forgotten.
const MAX_STREAMS: usize = 1 << 16;

/// Cap on unacknowledged SETTINGS frames, more than any real peer has.
const MAX_UNACKNOWLEDGED: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
struct Stream {
    windows: PerWay<i64>,
    has_ended: PerWay<bool>,
}

/// All windows of a connection.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    connection: PerWay<i64>,
    initial: PerWay<i64>,
    streams: Streams<u32, Stream>,
    /// The client's newest stream; only higher ids are new.
    newest: u32,
    /// The direction of the client's frames.
    client: Way,
    /// SETTINGS_INITIAL_WINDOW_SIZE of each SETTINGS frame we sent that the peer has not acknowledged.
    unacknowledged: VecDeque<Option<u32>>,
}

impl Windows {
    /// Windows of a new connection whose client's frames go `client`.
    pub(super) fn new(client: Way) -> Windows {
        let initial = PerWay::new(INITIAL_WINDOW_BYTES, INITIAL_WINDOW_BYTES);
        Windows {
            connection: initial,
            initial,
            streams: Streams::default(),
            newest: 0,
            client,
            unacknowledged: VecDeque::new(),
        }
    }

    /// The windows for DATA going `way`: the stream's, if it is open, and the connection's.
    pub(super) fn of(&mut self, way: Way, id: u32) -> (Option<i64>, i64) {
        let stream = self.streams.find(id).map(|stream| *stream.windows.of(way));
        (stream, *self.connection.of(way))
    }

    /// Handles DATA going `way`: it consumes both windows, padding included.
    pub(super) fn data(&mut self, way: Way, id: u32, len: u32) -> (Option<i64>, i64) {
        let stream = self.streams.find(id).map(|stream| {
            let window = stream.windows.of_mut(way);
            *window -= i64::from(len);
            *window
        });
        let connection = self.connection.of_mut(way);
        *connection -= i64::from(len);
        (stream, *connection)
    }

    /// Handles WINDOW_UPDATE going `way`: it enlarges a window for DATA in the opposite direction.
    pub(super) fn update(&mut self, way: Way, id: u32, increment: u32) -> (Option<i64>, i64) {
        let data_way = way.opposite();
        if id == 0 {
            *self.connection.of_mut(data_way) += i64::from(increment);
        } else if let Some(stream) = self.streams.find(id) {
            *stream.windows.of_mut(data_way) += i64::from(increment);
        }
        self.of(data_way, id)
    }

    /// Handles HEADERS: they open a stream if the client sent them and the id is new.
    pub(super) fn headers(&mut self, way: Way, id: u32) {
        if way == self.client && id % 2 == 1 && id > self.newest {
            self.open(id);
        }
    }

    /// Opens a stream of the client.
    pub(super) fn open(&mut self, id: u32) {
        self.newest = id;
        if self.streams.len() == MAX_STREAMS {
            self.streams.pop_oldest();
        }
        let state = Stream {
            windows: self.initial,
            has_ended: PerWay::new(false, false),
        };
        self.streams.insert(id, state);
    }

    /// Handles END_STREAM going `way`.
    pub(super) fn end(&mut self, way: Way, id: u32) {
        if let Some(stream) = self.streams.find(id) {
            *stream.has_ended.of_mut(way) = true;
            if stream.has_ended.sent && stream.has_ended.received {
                self.close(id);
            }
        }
    }

    /// Closes a stream.
    pub(super) fn close(&mut self, id: u32) {
        self.streams.remove(id);
    }

    /// Handles GOAWAY: if the client receives it, its streams above `last` are closed.
    pub(super) fn goaway(&mut self, way: Way, last: u32) {
        if way != self.client {
            self.streams.truncate_after(last);
        }
    }

    /// Handles SETTINGS with the initial window it may contain. The peer's take effect immediately, ours when the peer
    /// acknowledges them (RFC 9113, section 6.5.3).
    pub(super) fn settings(&mut self, way: Way, initial: Option<u32>) {
        match way {
            Way::Received => self.set_initial_window(Way::Sent, initial),
            Way::Sent if self.unacknowledged.len() < MAX_UNACKNOWLEDGED => {
                self.unacknowledged.push_back(initial);
            }
            Way::Sent => {}
        }
    }

    /// Handles an acknowledgement of SETTINGS.
    pub(super) fn acknowledgement(&mut self, way: Way) {
        if way == Way::Received
            && let Some(initial) = self.unacknowledged.pop_front()
        {
            self.set_initial_window(Way::Received, initial);
        }
    }

    /// Changes the initial window of new streams and adjusts the open ones by the difference (RFC 9113, section 6.9.2).
    fn set_initial_window(&mut self, way: Way, initial: Option<u32>) {
        let Some(initial) = initial.map(i64::from) else {
            return;
        };
        let change = initial - *self.initial.of(way);
        *self.initial.of_mut(way) = initial;
        for stream in self.streams.values_mut() {
            *stream.windows.of_mut(way) += change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_adjust_open_streams_when_they_take_effect() {
        let mut windows = Windows::new(Way::Sent);
        windows.headers(Way::Sent, 1);
        windows.settings(Way::Received, Some(10));
        assert_eq!(windows.data(Way::Sent, 1, 20), (Some(-10), 65_515));
        windows.settings(Way::Sent, Some(100));
        windows.settings(Way::Sent, None);
        assert_eq!(windows.of(Way::Received, 1), (Some(65_535), 65_535));
        windows.acknowledgement(Way::Received);
        assert_eq!(windows.of(Way::Received, 1), (Some(100), 65_535));
        windows.headers(Way::Sent, 3);
        assert_eq!(windows.of(Way::Sent, 3), (Some(10), 65_515));
    }

    #[test]
    fn closed_streams_are_forgotten_and_never_reopen() {
        let mut windows = Windows::new(Way::Received);
        for id in [1, 3, 5, 7] {
            windows.headers(Way::Received, id);
        }
        windows.end(Way::Received, 1);
        assert!(windows.of(Way::Sent, 1).0.is_some(), "half closed");
        windows.end(Way::Sent, 1);
        windows.close(3);
        windows.goaway(Way::Sent, 5);
        for id in [1, 3, 7] {
            windows.headers(Way::Received, id);
            assert_eq!(windows.of(Way::Sent, id).0, None, "{id}");
        }
        assert_eq!(windows.streams.len(), 1);
        // Pushes are refused, so a server cannot open streams.
        windows.headers(Way::Sent, 8);
        windows.headers(Way::Sent, 9);
        assert_eq!(windows.streams.len(), 1);
    }

    #[test]
    fn a_hostile_client_cannot_exhaust_memory() {
        let mut windows = Windows::new(Way::Received);
        for n in 0..MAX_STREAMS as u32 + 1000 {
            windows.headers(Way::Received, 2 * n + 1);
            windows.settings(Way::Sent, Some(n));
        }
        assert_eq!(windows.streams.len(), MAX_STREAMS);
        assert_eq!(windows.unacknowledged.len(), MAX_UNACKNOWLEDGED);
    }
}
