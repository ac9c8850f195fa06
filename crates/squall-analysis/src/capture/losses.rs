//! Which bytes of a stream were lost on the way to the capture's point, and which beyond it.
//!
//! Bytes that were seen twice were lost beyond the point, unless the acknowledgement that covers them came too soon to be
//! for the second copy: then the retransmission was needless. Bytes that were seen after later bytes were lost before the
//! point, unless they came sooner than their sender can have heard of a loss: then they were overtaken. Bytes that were
//! lost before the point and followed by nothing leave no trace. Which side sent the bytes, and what a loss cost, is not
//! known here.

use std::collections::BTreeMap;

/// The limit for reordering if no round trip is known, in nanoseconds: if bytes arrive later than this after the bytes that
/// follow them in the stream, they were lost.
const OVERTAKEN_WITHIN: u64 = 3_000_000;

/// A range of bytes that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) start: u64,
    pub(super) end: u64,
    /// When, in nanoseconds.
    pub(super) time: u64,
}

/// An acknowledgement of all bytes before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) time: u64,
    pub(super) to: u64,
}

/// A part of a sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SightingPart {
    /// The index of the sighting.
    pub(super) place: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether it never reached its receiver.
    pub(super) is_lost: bool,
    /// The sighting that overtook this part, although this part left its sender earlier.
    pub(super) overtaken_by: Option<usize>,
}

/// Bytes that never reached the point; they left their sender before the sighting `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingBytes {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) before: usize,
}

/// What happened to the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// The parts of all sightings, in order.
    pub(super) parts: Vec<SightingPart>,
    pub(super) missing: Vec<MissingBytes>,
}

/// A repetition to be judged: the sighting that was repeated, the end of the repeated bytes, and when they were seen again.
pub(super) type Repetition = (usize, u64, u64);

/// How much of a round trip must have passed before a reply can have arrived: clocks of captures are not exact.
pub(super) fn earliest_reply(trip: u64) -> u64 {
    trip - trip / 8
}

/// Judges sightings in the order of time. `whole` is the round trip from end to end; `is_lost` decides whether a repetition
/// was needed.
pub(super) fn judge(
    sightings: &[Sighting],
    whole: u64,
    is_lost: impl Fn(Repetition) -> bool,
) -> Judgement {
    let mut tracker = LossTracker::default();
    for (place, own) in sightings.iter().enumerate() {
        tracker.add(place, own, whole);
    }
    let mut judgement = Judgement {
        parts: Vec::with_capacity(sightings.len()),
        missing: tracker.missing,
    };
    for (place, own) in sightings.iter().enumerate() {
        let overtaken_by = tracker.overtaken.get(&place).copied();
        let part = |start: u64, end: u64, is_lost: bool| SightingPart {
            place,
            start,
            end,
            is_lost,
            overtaken_by,
        };
        let mut at = own.start;
        for (start, end, again) in tracker.repeated.remove(&place).unwrap_or_default() {
            if is_lost((place, end, again)) {
                judgement
                    .parts
                    .extend((at < start).then(|| part(at, start, false)));
                judgement.parts.push(part(start, end, true));
                at = end;
            }
        }
        judgement
            .parts
            .extend((at < own.end).then(|| part(at, own.end, false)));
    }
    judgement
}

/// What has been seen so far.
#[derive(Default)]
struct LossTracker {
    end: u64,
    /// Ranges below the end that were not seen: by start, with the end, and the sighting after it with its time.
    holes: BTreeMap<u64, (u64, usize, u64)>,
    /// The latest sighting of all other bytes: by start, with the end and the sighting.
    latest: BTreeMap<u64, (u64, usize)>,
    /// The parts of each sighting that were seen again, in the order of bytes: start, end, time.
    repeated: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    overtaken: BTreeMap<usize, usize>,
    missing: Vec<MissingBytes>,
}

impl LossTracker {
    fn add(&mut self, place: usize, own: &Sighting, whole: u64) {
        if own.start >= own.end {
            return;
        }
        if own.start > self.end {
            self.holes.insert(self.end, (own.start, place, own.time));
        }
        self.fill(place, own, whole);
        self.repeat(place, own);
        self.end = self.end.max(own.end);
    }

    /// Removes from the holes what this sighting fills.
    fn fill(&mut self, place: usize, own: &Sighting, whole: u64) {
        let within = self.holes.range(..own.end);
        let hit: Vec<u64> = within
            .filter(|(_, (end, ..))| *end > own.start)
            .map(|(start, _)| *start)
            .collect();
        for start in hit {
            let Some((end, before, since)) = self.holes.remove(&start) else {
                continue;
            };
            if before == place {
                // This sighting itself revealed the hole, so it does not fill it.
                self.holes.insert(start, (end, before, since));
                continue;
            }
            let (from, to) = (start.max(own.start), end.min(own.end));
            if start < from {
                self.holes.insert(start, (from, before, since));
            }
            if to < end {
                self.holes.insert(to, (end, before, since));
            }
            let patience = if whole > 0 {
                earliest_reply(whole)
            } else {
                OVERTAKEN_WITHIN
            };
            if own.time.saturating_sub(since) >= patience {
                self.missing.push(MissingBytes {
                    start: from,
                    end: to,
                    before,
                });
            } else {
                self.overtaken.insert(place, before);
            }
        }
    }

    /// Notes which bytes of this sighting were seen before, and makes it the latest sighting of all its bytes.
    fn repeat(&mut self, place: usize, own: &Sighting) {
        let within = self.latest.range(..own.end);
        let hit: Vec<u64> = within
            .filter(|(_, (end, _))| *end > own.start)
            .map(|(start, _)| *start)
            .collect();
        for start in hit {
            let Some((end, before)) = self.latest.remove(&start) else {
                continue;
            };
            let (from, to) = (start.max(own.start), end.min(own.end));
            if start < from {
                self.latest.insert(start, (from, before));
            }
            if to < end {
                self.latest.insert(to, (end, before));
            }
            let parts = self.repeated.entry(before).or_default();
            let at = parts.partition_point(|part| part.0 < from);
            parts.insert(at, (from, to, own.time));
        }
        self.latest.insert(own.start, (own.end, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = 800;

    fn sightings(all: &[(u64, u64, u64)]) -> Vec<Sighting> {
        let sighting = |&(start, end, time): &(u64, u64, u64)| Sighting { start, end, time };
        all.iter().map(sighting).collect()
    }

    fn lost(judgement: &Judgement) -> Vec<(usize, u64, u64)> {
        let lost = judgement.parts.iter().filter(|part| part.is_lost);
        lost.map(|part| (part.place, part.start, part.end))
            .collect()
    }

    #[test]
    fn bytes_seen_once_and_in_order_have_arrived() {
        let all = sightings(&[(0, 10, 0), (10, 20, 1), (20, 30, 2)]);
        let judgement = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert_eq!(judgement.parts.len(), 3);
        assert!(lost(&judgement).is_empty() && judgement.missing.is_empty());
    }

    #[test]
    fn only_the_repeated_part_of_a_large_packet_was_lost() {
        let all = sightings(&[(0, 100, 0), (40, 50, 900)]);
        let judgement = judge(&all, WHOLE, |asked| {
            assert_eq!(asked, (0, 50, 900));
            true
        });
        assert_eq!(lost(&judgement), [(0, 40, 50)]);
        let bytes: u64 = judgement
            .parts
            .iter()
            .map(|part| part.end - part.start)
            .sum();
        assert_eq!(bytes, 110, "no byte is forgotten");
    }

    #[test]
    fn every_copy_but_the_last_is_judged() {
        let all = sightings(&[(0, 10, 0), (0, 10, 900), (0, 10, 2_000)]);
        let judgement = judge(&all, WHOLE, |(place, ..)| place == 0);
        assert_eq!(lost(&judgement), [(0, 0, 10)]);
    }

    #[test]
    fn bytes_that_fill_a_hole_a_round_trip_later_were_lost_before_the_capture() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (30, 40, 2), (10, 20, 801)]);
        let judgement = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        let missing = MissingBytes {
            start: 10,
            end: 20,
            before: 1,
        };
        assert_eq!(judgement.missing, [missing]);
        assert!(
            judgement
                .parts
                .iter()
                .all(|part| part.overtaken_by.is_none())
        );
    }

    #[test]
    fn bytes_that_fill_a_hole_sooner_were_only_overtaken() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (10, 20, 600)]);
        let judgement = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert!(judgement.missing.is_empty());
        assert_eq!(judgement.parts[2].overtaken_by, Some(1));
    }

    #[test]
    fn a_hole_never_filled_is_not_a_loss() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (30, 40, 5_000)]);
        let judgement = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert!(judgement.missing.is_empty() && lost(&judgement).is_empty());
    }

    #[test]
    fn a_packet_that_fills_a_hole_and_repeats_bytes_is_judged_part_by_part() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (5, 30, 900)]);
        let judgement = judge(&all, WHOLE, |(place, ..)| place == 1);
        assert_eq!(lost(&judgement), [(1, 20, 30)]);
        assert_eq!(judgement.missing.len(), 1);
        assert_eq!(
            (judgement.missing[0].start, judgement.missing[0].end),
            (10, 20)
        );
    }
}
