//! The flow-control windows of a connection and of its open streams (RFC 9113, section 5.2), as its frames tell them.
//!
//! Windows are named by the way of the DATA that they allow. It judges nothing: a window that a peer overdraws is
//! negative, and a frame of a stream that is not open changes the connection's window only.

use std::collections::VecDeque;

use squall_base::record::Way;

use crate::streams::Streams;

/// What every window begins with (RFC 9113, section 6.9.2).
const INITIAL_WINDOW_BYTES: i64 = 65_535;

/// More streams than our sides ever have open; beyond them, which takes a hostile peer, the oldest is forgotten.
const MAX_STREAMS: usize = 1 << 16;

/// More SETTINGS frames than anyone has unacknowledged.
const MAX_UNACKNOWLEDGED: usize = 1 << 10;

/// A number for each way.
#[derive(Clone, Copy, Debug)]
struct Ways<T> {
    sent: T,
    received: T,
}

impl<T> Ways<T> {
    fn of(&mut self, way: Way) -> &mut T {
        match way {
            Way::Sent => &mut self.sent,
            Way::Received => &mut self.received,
        }
    }
}

/// The other way.
fn against(way: Way) -> Way {
    match way {
        Way::Sent => Way::Received,
        Way::Received => Way::Sent,
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    windows: Ways<i64>,
    has_ended: Ways<bool>,
}

/// All windows of a connection.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    connection: Ways<i64>,
    initial: Ways<i64>,
    streams: Streams<u32, Stream>,
    /// The client's newest stream: only those after it are new.
    newest: u32,
    /// The way in which the client's frames go.
    client: Way,
    /// SETTINGS_INITIAL_WINDOW_SIZE of each of our SETTINGS that the peer has not acknowledged.
    unacknowledged: VecDeque<Option<u32>>,
}

impl Windows {
    /// Those of a fresh connection whose client's frames go `client`.
    pub(super) fn new(client: Way) -> Windows {
        let initial = Ways {
            sent: INITIAL_WINDOW_BYTES,
            received: INITIAL_WINDOW_BYTES,
        };
        Windows {
            connection: initial,
            initial,
            streams: Streams::default(),
            newest: 0,
            client,
            unacknowledged: VecDeque::new(),
        }
    }

    /// The windows of DATA that goes `way`: the stream's, if it is open, and the connection's.
    pub(super) fn of(&mut self, way: Way, id: u32) -> (Option<i64>, i64) {
        let stream = self.streams.find(id).map(|stream| *stream.windows.of(way));
        (stream, *self.connection.of(way))
    }

    /// DATA went: it uses windows up, padding included.
    pub(super) fn data(&mut self, way: Way, id: u32, len: u32) -> (Option<i64>, i64) {
        let stream = self.streams.find(id).map(|stream| {
            let window = stream.windows.of(way);
            *window -= i64::from(len);
            *window
        });
        let connection = self.connection.of(way);
        *connection -= i64::from(len);
        (stream, *connection)
    }

    /// WINDOW_UPDATE went: it enlarges a window of DATA that comes against it.
    pub(super) fn update(&mut self, way: Way, id: u32, increment: u32) -> (Option<i64>, i64) {
        let data_way = against(way);
        if id == 0 {
            *self.connection.of(data_way) += i64::from(increment);
        } else if let Some(stream) = self.streams.find(id) {
            *stream.windows.of(data_way) += i64::from(increment);
        }
        self.of(data_way, id)
    }

    /// HEADERS went: they open a stream if they are the client's and its id is new.
    pub(super) fn headers(&mut self, way: Way, id: u32) {
        if way == self.client && id % 2 == 1 && id > self.newest {
            self.open(id);
        }
    }

    /// The client's stream is open from now on.
    pub(super) fn open(&mut self, id: u32) {
        self.newest = id;
        if self.streams.len() == MAX_STREAMS {
            self.streams.pop_oldest();
        }
        let state = Stream {
            windows: self.initial,
            has_ended: Ways {
                sent: false,
                received: false,
            },
        };
        self.streams.insert(id, state);
    }

    /// END_STREAM went.
    pub(super) fn end(&mut self, way: Way, id: u32) {
        if let Some(stream) = self.streams.find(id) {
            *stream.has_ended.of(way) = true;
            if stream.has_ended.sent && stream.has_ended.received {
                self.close(id);
            }
        }
    }

    /// The stream is closed.
    pub(super) fn close(&mut self, id: u32) {
        self.streams.remove(id);
    }

    /// GOAWAY went: if it is for the client, its streams after `last` are closed.
    pub(super) fn goaway(&mut self, way: Way, last: u32) {
        if way != self.client {
            self.streams.truncate_after(last);
        }
    }

    /// SETTINGS went, with the initial window that it may hold. The peer's is in force with it, ours when the peer
    /// has acknowledged it (RFC 9113, section 6.5.3).
    pub(super) fn settings(&mut self, way: Way, initial: Option<u32>) {
        match way {
            Way::Received => self.begin_with(Way::Sent, initial),
            Way::Sent if self.unacknowledged.len() < MAX_UNACKNOWLEDGED => {
                self.unacknowledged.push_back(initial);
            }
            Way::Sent => {}
        }
    }

    /// An acknowledgement of SETTINGS went.
    pub(super) fn acknowledgement(&mut self, way: Way) {
        if way == Way::Received
            && let Some(initial) = self.unacknowledged.pop_front()
        {
            self.begin_with(Way::Received, initial);
        }
    }

    /// Changes what streams begin with, and with it those that are open (RFC 9113, section 6.9.2).
    fn begin_with(&mut self, way: Way, initial: Option<u32>) {
        let Some(initial) = initial.map(i64::from) else {
            return;
        };
        let change = initial - *self.initial.of(way);
        *self.initial.of(way) = initial;
        for stream in self.streams.values_mut() {
            *stream.windows.of(way) += change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_shift_open_streams_when_they_come_into_force() {
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
    fn closed_streams_are_forgotten_and_never_open_again() {
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
        // Pushes are refused, so a server opens nothing.
        windows.headers(Way::Sent, 8);
        windows.headers(Way::Sent, 9);
        assert_eq!(windows.streams.len(), 1);
    }

    #[test]
    fn a_hostile_client_cannot_fill_the_memory() {
        let mut windows = Windows::new(Way::Received);
        for n in 0..MAX_STREAMS as u32 + 1000 {
            windows.headers(Way::Received, 2 * n + 1);
            windows.settings(Way::Sent, Some(n));
        }
        assert_eq!(windows.streams.len(), MAX_STREAMS);
        assert_eq!(windows.unacknowledged.len(), MAX_UNACKNOWLEDGED);
    }
}
