//! Datagrams that are sent together, in one system call where the kernel can segment them (UDP_SEGMENT).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use squall_base::Duration;

/// The most bytes that one system call can send: a UDP payload over IPv4.
const MAX_BATCH_BYTES: usize = 65_507;

/// The most datagrams per call (UDP_MAX_SEGMENTS of Linux before 6.9).
const MAX_SEGMENTS: usize = 64;

/// A batch of datagrams, filled by an engine and sent by its owner.
#[derive(Debug)]
pub struct Batch {
    /// Buffer, only ever enlarged; `len` bytes are in use.
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
    delay: Duration,
    from: SocketAddr,
    to: SocketAddr,
}

impl Batch {
    /// An empty batch, meant to be reused.
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

    /// All datagrams, concatenated.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The length of every datagram except the last, which may be shorter.
    pub fn segment_bytes(&self) -> usize {
        self.segment
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks(self.segment.max(1))
    }

    /// How long after the `now` at which it was filled the batch should be sent.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The source address.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// The destination address.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.segment = 0;
        self.delay = Duration::ZERO;
    }

    /// Sets the time at which the batch should be sent.
    pub(super) fn release_at(&mut self, at: Instant, now: Instant) {
        let delay = at.saturating_duration_since(now).as_nanos();
        self.delay = Duration::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX));
    }

    /// Space for the next datagram, of up to `largest` bytes, or `None` if this batch is complete. A datagram longer
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

    /// Adds the datagram of `len` bytes that was written to the space from [`Batch::room`].
    pub(super) fn add(&mut self, len: usize, from: SocketAddr, to: SocketAddr) {
        if self.len == 0 {
            self.segment = len;
            (self.from, self.to) = (from, to);
        }
        self.len += len;
    }

    /// Replaces the contents with one datagram that no connection produced.
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
    fn all_datagrams_but_the_last_have_the_same_length() {
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
    fn a_batch_is_limited_in_bytes_and_segments() {
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
