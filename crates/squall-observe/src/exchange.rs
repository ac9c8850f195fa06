//! Exchanges in progress and the rows they become: the rows that a station at this end of the link would write.
//!
//! Reads no packets: the parsers (`http1`, `http2`, `quic::http3`) fill an [`Exchange`], and [`Sink`] turns it into a
//! row.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, FrameFacts, FrameRecord, PerWay, Side};

use crate::connection_record::ConnectionRecord;
use crate::trail::{Passage, Trail};

/// The hop of all rows. On a path of several hops the caller renumbers them.
const ONLY_HOP: u8 = 1;

/// Rows in the order in which they were completed. The caller may empty them at any time.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Exchanges that have ended, or whose connection has ended.
    pub exchanges: Vec<ExchangeRecord>,
    /// HTTP/2, HTTP/3 and QUIC frames.
    pub frames: Vec<FrameRecord>,
    /// Connections that have ended, or that were still open when the observer finished.
    pub connections: Vec<ConnectionRecord>,
}

impl Observations {
    /// Removes all rows but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.exchanges.clear();
        self.frames.clear();
        self.connections.clear();
    }
}

/// Where a parser writes its rows, with the columns that all rows of a connection share.
pub(crate) struct Sink<'a> {
    pub(crate) side: Side,
    pub(crate) connection: u32,
    /// How the connection began; filled in only at the client's end.
    pub(crate) beginning: Beginning,
    pub(crate) exchanges: &'a mut u64,
    pub(crate) frames: &'a mut u64,
    pub(crate) rows: &'a mut Observations,
}

impl Sink<'_> {
    /// Where the parsers of a connection write; `beginning` goes into the rows of its exchanges.
    pub(crate) fn of<'a>(
        record: &'a mut ConnectionRecord,
        beginning: Beginning,
        rows: &'a mut Observations,
    ) -> Sink<'a> {
        Sink {
            side: record.side,
            connection: record.connection,
            beginning,
            exchanges: &mut record.exchanges,
            frames: &mut record.frames,
            rows,
        }
    }

    /// Adds the row of an exchange.
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
            request: exchange.traced_request,
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

    /// Adds the rows of frames, and empties `frames`.
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

/// One exchange: a request and its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) request: Passage,
    pub(crate) response: Passage,
    /// The number of the scheduled request that its `traceparent` header names.
    pub(crate) traced_request: Option<u64>,
    pub(crate) request_body_bytes: u64,
    pub(crate) response_body_bytes: u64,
    pub(crate) status: Option<u16>,
}

/// The trails of both directions.
pub(crate) type Trails = PerWay<Trail>;
