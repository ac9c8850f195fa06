//! Counts of what the entries of a capture do not show: frames that were shortened, and those whose content is not read.

use std::collections::BTreeMap;

use super::decapsulation::{UnreadProtocol, Unwrapped};

/// What the entries of a capture do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureNotes {
    /// How many frames have a protocol that is not read, by protocol. A frame counts even if the IP packet around that protocol
    /// is an entry.
    pub unread: BTreeMap<UnreadProtocol, u64>,
    /// Frames that end within the headers before IP, or that have no time.
    pub unreadable: u64,
    /// Frames of which only the first bytes were captured (snaplen).
    pub shortened: u64,
    /// The largest number of bytes that were captured of any shortened frame.
    pub shortened_to: usize,
}

impl CaptureNotes {
    pub(super) fn note_length(&mut self, captured: usize, original_bytes: u32) {
        if captured < original_bytes as usize {
            self.shortened += 1;
            self.shortened_to = self.shortened_to.max(captured);
        }
    }

    pub(super) fn note_contents(&mut self, unwrapped: &Unwrapped) {
        match unwrapped.unread {
            Some(protocol) => *self.unread.entry(protocol).or_default() += 1,
            None => self.unreadable += u64::from(unwrapped.ip_start.is_none()),
        }
    }
}
