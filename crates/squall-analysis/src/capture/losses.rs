//! What of a byte stream was lost on the way to the capture's point, and what behind it.
//!
//! Bytes that were seen twice were lost behind the point, unless the acknowledgement that covers them came too soon to be
//! one of the second copy: then that was needless. Bytes that were seen after bytes behind them were lost before the point,
//! unless they came sooner than their sender can have heard of a loss: then they were overtaken. What was lost before the
//! point and not followed by anything leaves no trace. Who sent the bytes is not known here, nor what a loss cost.

use std::collections::BTreeMap;

/// Without a round trip, what comes later than this behind bytes that followed it was lost.
const OVERTAKEN_WITHIN: u64 = 3_000_000;

/// Bytes that were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) start: u64,
    pub(super) end: u64,
    /// When, in nanoseconds.
    pub(super) time: u64,
}

/// All bytes before `to` were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) time: u64,
    pub(super) to: u64,
}

/// A part of a sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Which sighting.
    pub(super) place: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    /// It never reached its receiver.
    pub(super) is_lost: bool,
    /// It left its sender before this sighting, which overtook it.
    pub(super) overtaken_by: Option<usize>,
}

/// Bytes that never reached the point; they left their sender before the sighting `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) before: usize,
}

/// What became of the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Of all sightings, in order.
    pub(super) parts: Vec<Part>,
    pub(super) missing: Vec<Missing>,
}

/// What is asked about a repetition: the sighting that was repeated, the end of the repeated bytes, and when they came
/// again.
pub(super) type Repeated = (usize, u64, u64);

/// As much of a round trip as must have passed before its answer can be there: clocks of captures are not exact.
pub(super) fn nearly(trip: u64) -> u64 {
    trip - trip / 8
}

/// Judges sightings in the order of time. `whole` is the round trip from end to end; `is_lost` says whether a repetition
/// was needed.
pub(super) fn judge(
    sightings: &[Sighting],
    whole: u64,
    is_lost: impl Fn(Repeated) -> bool,
) -> Judged {
    let mut seen = Seen::default();
    for (place, own) in sightings.iter().enumerate() {
        seen.add(place, own, whole);
    }
    let mut judged = Judged {
        parts: Vec::with_capacity(sightings.len()),
        missing: seen.missing,
    };
    for (place, own) in sightings.iter().enumerate() {
        let overtaken_by = seen.overtaken.get(&place).copied();
        let part = |start: u64, end: u64, is_lost: bool| Part {
            place,
            start,
            end,
            is_lost,
            overtaken_by,
        };
        let mut at = own.start;
        for (start, end, again) in seen.repeated.remove(&place).unwrap_or_default() {
            if is_lost((place, end, again)) {
                judged
                    .parts
                    .extend((at < start).then(|| part(at, start, false)));
                judged.parts.push(part(start, end, true));
                at = end;
            }
        }
        judged
            .parts
            .extend((at < own.end).then(|| part(at, own.end, false)));
    }
    judged
}

/// What has been seen so far.
#[derive(Default)]
struct Seen {
    end: u64,
    /// Below the end and not seen: by start, with the end, the sighting behind it and when that was.
    holes: BTreeMap<u64, (u64, usize, u64)>,
    /// The latest sighting of all other bytes: by start, with the end.
    latest: BTreeMap<u64, (u64, usize)>,
    /// What of each sighting was seen again, in the order of bytes: start, end, when.
    repeated: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    overtaken: BTreeMap<usize, usize>,
    missing: Vec<Missing>,
}

impl Seen {
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

    /// Takes what it fills out of the holes.
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
                // It is the one that shows the hole.
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
                nearly(whole)
            } else {
                OVERTAKEN_WITHIN
            };
            if own.time.saturating_sub(since) >= patience {
                self.missing.push(Missing {
                    start: from,
                    end: to,
                    before,
                });
            } else {
                self.overtaken.insert(place, before);
            }
        }
    }

    /// Notes what of it was seen before, and that it is the latest now.
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

    fn lost(judged: &Judged) -> Vec<(usize, u64, u64)> {
        let lost = judged.parts.iter().filter(|part| part.is_lost);
        lost.map(|part| (part.place, part.start, part.end))
            .collect()
    }

    #[test]
    fn what_was_seen_once_and_in_order_arrived() {
        let all = sightings(&[(0, 10, 0), (10, 20, 1), (20, 30, 2)]);
        let judged = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert_eq!(judged.parts.len(), 3);
        assert!(lost(&judged).is_empty() && judged.missing.is_empty());
    }

    #[test]
    fn only_the_repeated_part_of_a_large_packet_was_lost() {
        let all = sightings(&[(0, 100, 0), (40, 50, 900)]);
        let judged = judge(&all, WHOLE, |asked| {
            assert_eq!(asked, (0, 50, 900));
            true
        });
        assert_eq!(lost(&judged), [(0, 40, 50)]);
        let bytes: u64 = judged.parts.iter().map(|part| part.end - part.start).sum();
        assert_eq!(bytes, 110, "no byte is forgotten");
    }

    #[test]
    fn of_several_copies_each_but_the_last_is_asked_about() {
        let all = sightings(&[(0, 10, 0), (0, 10, 900), (0, 10, 2_000)]);
        let judged = judge(&all, WHOLE, |(place, ..)| place == 0);
        assert_eq!(lost(&judged), [(0, 0, 10)]);
    }

    #[test]
    fn a_hole_that_is_filled_a_round_trip_later_was_lost_before_the_point() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (30, 40, 2), (10, 20, 801)]);
        let judged = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        let missing = Missing {
            start: 10,
            end: 20,
            before: 1,
        };
        assert_eq!(judged.missing, [missing]);
        assert!(judged.parts.iter().all(|part| part.overtaken_by.is_none()));
    }

    #[test]
    fn a_hole_that_is_filled_sooner_was_overtaken() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (10, 20, 600)]);
        let judged = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert!(judged.missing.is_empty());
        assert_eq!(judged.parts[2].overtaken_by, Some(1));
    }

    #[test]
    fn a_hole_that_is_never_filled_is_nothing_that_was_lost() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (30, 40, 5_000)]);
        let judged = judge(&all, WHOLE, |_| panic!("nothing was repeated"));
        assert!(judged.missing.is_empty() && lost(&judged).is_empty());
    }

    #[test]
    fn a_packet_that_fills_a_hole_and_repeats_is_judged_for_each_part() {
        let all = sightings(&[(0, 10, 0), (20, 30, 1), (5, 30, 900)]);
        let judged = judge(&all, WHOLE, |(place, ..)| place == 1);
        assert_eq!(lost(&judged), [(1, 20, 30)]);
        assert_eq!(judged.missing.len(), 1);
        assert_eq!((judged.missing[0].start, judged.missing[0].end), (10, 20));
    }
}
