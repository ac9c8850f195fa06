//! Which streams a client has passed over: to open one of them later is an error (RFC 9113, section 5.1.1).
//!
//! nghttp2 forgets streams that have closed, and takes these for some of them. Decent clients pass over none, so
//! nothing is kept for them.

use std::ops::Range;

/// How many gaps are remembered; what is forgotten is ignored, as nghttp2 ignores frames of closed streams.
const MAX_GAPS: usize = 32;

/// The ids of a client's streams.
#[derive(Debug)]
pub(super) struct Opened {
    /// The lowest one that was never opened and can be.
    next: u32,
    /// Those below it that were passed over.
    gaps: Vec<Range<u32>>,
}

impl Default for Opened {
    fn default() -> Opened {
        Opened {
            next: 1,
            gaps: Vec::new(),
        }
    }
}

impl Opened {
    /// HEADERS came for this stream: whether it is one that was passed over. Ids that no client has are nghttp2's
    /// business.
    pub(super) fn passed_over(&mut self, stream: u32) -> bool {
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
    fn only_what_was_passed_over_is_out_of_order() {
        let mut opened = Opened::default();
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
            assert_eq!(opened.passed_over(stream), expected, "{stream}");
        }
    }

    #[test]
    fn a_client_that_passes_over_many_costs_little() {
        let mut opened = Opened::default();
        for stream in (1..100_000).step_by(4) {
            assert!(!opened.passed_over(stream));
        }
        assert_eq!(opened.gaps.len(), MAX_GAPS);
    }
}
