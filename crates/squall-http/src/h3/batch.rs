//! Datagrams that leave together: in one system call where the kernel cuts them apart (UDP_SEGMENT).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use squall_base::Duration;

/// The most that one system call takes: a UDP payload over IPv4.
const MAX_BATCH_BYTES: usize = 65_507;

/// The most datagrams in it (UDP_MAX_SEGMENTS of Linux before 6.9).
const MAX_SEGMENTS: usize = 64;

/// Filled by an engine, sent by its owner.
#[derive(Debug)]
pub struct Batch {
    /// As many as were ever needed.
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    delay: Duration,
    from: SocketAddr,
    to: SocketAddr,
}

impl Batch {
    /// An empty one; use it again and again.
    pub fn new() -> Batch {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Batch {
            bytes: Vec::new(),
            len: 0,
            segment: 0,
            delay: Duration::ZERO,
            from: nowhere,
            to: nowhere,
        }
    }

    /// All datagrams, one after another.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The length of every datagram but the last, which may be shorter.
    pub fn segment_bytes(&self) -> usize {
        self.segment
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks(self.segment.max(1))
    }

    /// How long after the `now` of its making it shall be sent.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// From where.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// To where.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.segment = 0;
        self.delay = Duration::ZERO;
    }

    /// It shall be sent at `at`.
    pub(super) fn release_at(&mut self, at: Instant, now: Instant) {
        let delay = at.saturating_duration_since(now).as_nanos();
        self.delay = Duration::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX));
    }

    /// Where the next datagram goes, be it of up to `largest` bytes. `None`: no more in this batch. One that is longer
    /// than the first must not be added.
    pub(super) fn room(&mut self, largest: usize) -> Option<&mut [u8]> {
        let size = largest.max(self.segment).min(MAX_BATCH_BYTES);
        let is_whole = self.segment == 0 || self.len.is_multiple_of(self.segment);
        let fits =
            self.len + size <= MAX_BATCH_BYTES && self.len < MAX_SEGMENTS * self.segment.max(1);
        if !(is_whole && (fits || self.len == 0)) {
            return None;
        }
        let end = self.len + size;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        Some(&mut self.bytes[self.len..end])
    }

    /// So many bytes were written to the room.
    pub(super) fn add(&mut self, len: usize, from: SocketAddr, to: SocketAddr) {
        if self.len == 0 {
            self.segment = len;
            (self.from, self.to) = (from, to);
        }
        self.len += len;
    }

    /// Holds one datagram that no connection made.
    pub(super) fn hold(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr) {
        self.clear();
        if let Some(room) = self.room(datagram.len()) {
            let len = room.len();
            room.copy_from_slice(&datagram[..len]);
            self.add(len, from, to);
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_equal_but_for_the_last() {
        let mut batch = Batch::new();
        let (from, to) = (batch.from(), batch.to());
        for len in [1_350, 1_350, 700] {
            assert_eq!(batch.room(1_350).map(|room| room.len()), Some(1_350));
            batch.add(len, from, to);
        }
        assert!(batch.room(1_350).is_none());
        let lens: Vec<usize> = batch.datagrams().map(<[u8]>::len).collect();
        assert_eq!(lens, [1_350, 1_350, 700]);
    }

    #[test]
    fn a_batch_has_limits() {
        for (size, most) in [(1_350, 48), (1_000, 64), (65_507, 1)] {
            let mut batch = Batch::new();
            let (from, to) = (batch.from(), batch.to());
            let mut count = 0;
            while batch.room(size).is_some() {
                batch.add(size, from, to);
                count += 1;
            }
            assert_eq!(count, most);
        }
    }
}
