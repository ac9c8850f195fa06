//! Exchanges under way, and the rows that they become: the same rows as a station at this end would write.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, FrameFacts, FrameRecord, Side, Way};

use crate::trail::{Passage, Trail};

/// The hop of all rows: who knows a path of several numbers them anew.
const ONLY_HOP: u8 = 1;

/// Rows, in the order in which they were complete. The owner empties it whenever it likes.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Exchanges that have ended, or whose connection has.
    pub exchanges: Vec<ExchangeRecord>,
    /// Frames of HTTP/2, HTTP/3 and QUIC.
    pub frames: Vec<FrameRecord>,
    /// Connections that have ended, or were open at the observer's end.
    pub connections: Vec<crate::ConnectionRecord>,
}

impl Observations {
    /// Throws away what is in it and keeps its memory.
    pub fn clear(&mut self) {
        self.exchanges.clear();
        self.frames.clear();
        self.connections.clear();
    }
}

/// Whose rows are made, of what, and where they go.
pub(crate) struct Sink<'a> {
    pub(crate) side: Side,
    pub(crate) connection: u32,
    /// How its connection began, if this is its client's end.
    pub(crate) beginning: Beginning,
    pub(crate) exchanges: &'a mut u64,
    pub(crate) frames: &'a mut u64,
    pub(crate) rows: &'a mut Observations,
}

impl Sink<'_> {
    /// Writes an exchange down.
    pub(crate) fn exchange(
        &mut self,
        stream: u64,
        protocol: Protocol,
        exchange: &Exchange,
        reset: Option<u64>,
    ) {
        *self.exchanges += 1;
        self.rows.exchanges.push(ExchangeRecord {
            hop: ONLY_HOP,
            side: self.side,
            connection: self.connection,
            stream,
            protocol,
            request: exchange.traced,
            beginning: self.beginning,
            request_first: exchange.request.first,
            request_last: exchange.request.last,
            response_first: exchange.response.first,
            response_last: exchange.response.last,
            request_extent: exchange.request.extent(),
            response_extent: exchange.response.extent(),
            request_body_bytes: exchange.request_body_bytes,
            response_body_bytes: exchange.response_body_bytes,
            status: exchange.status,
            reset,
        });
    }

    /// Writes frames down.
    pub(crate) fn frames(&mut self, time: Time, frames: &mut Vec<FrameFacts>) {
        for frame in frames.drain(..) {
            *self.frames += 1;
            self.rows.frames.push(FrameRecord {
                hop: ONLY_HOP,
                time,
                side: self.side,
                connection: self.connection,
                frame,
            });
        }
    }
}

/// One exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) request: Passage,
    pub(crate) response: Passage,
    /// Which of the schedule's requests it says that it is.
    pub(crate) traced: Option<u64>,
    pub(crate) request_body_bytes: u64,
    pub(crate) response_body_bytes: u64,
    pub(crate) status: Option<u16>,
}

/// A value for each way.
#[derive(Debug, Default)]
pub(crate) struct Ways<T> {
    sent: T,
    received: T,
}

impl<T> Ways<T> {
    pub(crate) fn new(sent: T, received: T) -> Ways<T> {
        Ways { sent, received }
    }

    pub(crate) fn of(&self, way: Way) -> &T {
        match way {
            Way::Sent => &self.sent,
            Way::Received => &self.received,
        }
    }

    pub(crate) fn of_mut(&mut self, way: Way) -> &mut T {
        match way {
            Way::Sent => &mut self.sent,
            Way::Received => &mut self.received,
        }
    }
}

/// The trails of both directions.
pub(crate) type Trails = Ways<Trail>;

/// The other way.
pub(crate) fn against(way: Way) -> Way {
    match way {
        Way::Sent => Way::Received,
        Way::Received => Way::Sent,
    }
}
