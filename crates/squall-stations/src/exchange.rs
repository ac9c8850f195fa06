//! Turns events into the record of an exchange: which bytes carried its messages, and when.
//!
//! Both sides use it: what the client writes, the server reads.

use squall_base::Time;
use squall_base::record::Extent;
use squall_http::WireExtent;

/// One message of an exchange, as it passes over the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageMarks {
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    extent: Option<Extent>,
    is_whole: bool,
}

impl MessageMarks {
    /// Notes that the message's first byte passed, at `offset`, carried by `wire`.
    pub(crate) fn begin(&mut self, now: Time, offset: u64, wire: Option<WireExtent>) {
        self.first = Some(now);
        self.extent = Some(Extent {
            start: offset,
            end: offset,
            wire_start: wire.map(|wire| wire.wire_start),
            wire_end: None,
            record_first: wire.and_then(|wire| wire.record),
            record_last: None,
        });
    }

    /// Notes that the message's last byte passed, before `end`, carried by `wire`.
    pub(crate) fn end(&mut self, now: Time, end: u64, wire: Option<WireExtent>) {
        self.last = Some(now);
        self.is_whole = true;
        if let Some(extent) = &mut self.extent {
            extent.end = end;
            extent.wire_end = wire.map(|wire| wire.wire_end);
            extent.record_last = wire.and_then(|wire| wire.record);
        }
    }

    /// The message's extent, once all of it has passed.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.extent.filter(|_| self.is_whole)
    }
}
