//! From events to the record of an exchange: which bytes carried its messages, and when.
//!
//! Both sides use it: what the client writes the server reads.

use squall_base::Time;
use squall_base::record::Extent;
use squall_http::Place;

/// A message of an exchange on its way over the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    extent: Option<Extent>,
    is_whole: bool,
}

impl Passage {
    /// Its first byte passed, at `offset`, carried by `place`.
    pub(crate) fn begin(&mut self, now: Time, offset: u64, place: Option<Place>) {
        self.first = Some(now);
        self.extent = Some(Extent {
            start: offset,
            end: offset,
            wire_start: place.map(|place| place.wire_start),
            wire_end: None,
            record_first: place.and_then(|place| place.record),
            record_last: None,
        });
    }

    /// Its last byte passed, before `end`, carried by `place`.
    pub(crate) fn end(&mut self, now: Time, end: u64, place: Option<Place>) {
        self.last = Some(now);
        self.is_whole = true;
        if let Some(extent) = &mut self.extent {
            extent.end = end;
            extent.wire_end = place.map(|place| place.wire_end);
            extent.record_last = place.and_then(|place| place.record);
        }
    }

    /// Where it lies, once all of it has passed.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.extent.filter(|_| self.is_whole)
    }
}
