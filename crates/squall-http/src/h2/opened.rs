//! Tracks the streams that a client skipped. Opening one of them later is an error (RFC 9113, section 5.1.1).
//!
//! nghttp2 forgets closed streams and mistakes skipped ones for them. Well-behaved clients skip no streams, so they cost no
//! memory here.

use std::ops::Range;

/// How many gaps are remembered. Late streams in further gaps are ignored, as nghttp2 ignores frames of closed streams.
const MAX_GAPS: usize = 32;

/// The ids of a client's streams.
#[derive(Debug)]
pub(super) struct ClientStreamIds {
    /// The lowest id that can still be opened.
    next: u32,
    /// The skipped ids below `next`.
    gaps: Vec<Range<u32>>,
}

impl Default for ClientStreamIds {
    fn default() -> ClientStreamIds {
        ClientStreamIds {
            next: 1,
            gaps: Vec::new(),
        }
    }
}

impl ClientStreamIds {
    /// Records HEADERS for this stream and returns whether it is one that was skipped. nghttp2 handles ids that no
    /// client may use.
    pub(super) fn record(&mut self, stream: u32) -> bool {
        if stream.is_multiple_of(2) {
            return false;
        }
        if stream < self.next {
            return self.gaps.iter().any(|gap| gap.contains(&stream));
        }
        if stream > self.next && self.gaps.len() < MAX_GAPS {
            self.gaps.push(self.next..stream);
        }
        self.next = stream + 2;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_skipped_streams_are_out_of_order() {
        let mut ids = ClientStreamIds::default();
        for (stream, expected) in [
            (1, false),
            (7, false),
            (1, false),
            (5, true),
            (3, true),
            (7, false),
            (9, false),
            (9, false),
            (8, false),
            (0, false),
            (0x7fff_ffff, false),
            (11, true),
        ] {
            assert_eq!(ids.record(stream), expected, "{stream}");
        }
    }

    #[test]
    fn remembered_gaps_are_capped() {
        let mut ids = ClientStreamIds::default();
        for stream in (1..100_000).step_by(4) {
            assert!(!ids.record(stream));
        }
        assert_eq!(ids.gaps.len(), MAX_GAPS);
    }
}
