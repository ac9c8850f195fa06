//! QPACK's dynamic table (RFC 9204, section 3.2): entries by absolute index, evicted oldest first.
//!
//! The decoder in the parent module checks the limits that a peer announced.

use std::collections::VecDeque;

/// Size of an entry beyond its name and value (RFC 9204, section 3.2.1).
const ENTRY_BYTES: usize = 32;

/// The largest capacity supported: sixteen times what browsers and proxies allow.
pub(super) const MAX_CAPACITY: u64 = 1 << 20;

/// A field: its name and its value.
pub(super) type Entry = (Vec<u8>, Vec<u8>);

/// The dynamic table of one direction.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The number of entries ever inserted, which is the absolute index of the next one.
    inserted: u64,
    bytes: usize,
    capacity: usize,
}

impl Table {
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// Sets the capacity. The caller has checked it.
    pub(super) fn set_capacity(&mut self, bytes: usize) {
        self.capacity = bytes;
        self.evict(0);
    }

    /// Adds an entry. Returns false if it is larger than the table.
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let bytes = size(&entry);
        if bytes > self.capacity {
            return false;
        }
        self.evict(bytes);
        self.bytes += bytes;
        self.entries.push_back(entry);
        self.inserted += 1;
        true
    }

    /// Evicts entries until `bytes` more fit.
    fn evict(&mut self, bytes: usize) {
        while self.bytes + bytes > self.capacity
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= size(&oldest);
        }
    }

    /// The entry with this absolute index, unless it was evicted or never inserted.
    pub(super) fn get(&self, absolute: u64) -> Option<&Entry> {
        let evicted = self.inserted - self.entries.len() as u64;
        let index = absolute.checked_sub(evicted)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// The entry with this relative index of the encoder stream; 0 is the newest (RFC 9204, section 3.2.5).
    pub(super) fn relative_to_newest(&self, index: u64) -> Option<&Entry> {
        self.get(self.inserted.checked_sub(index)?.checked_sub(1)?)
    }
}

fn size((name, value): &Entry) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}
