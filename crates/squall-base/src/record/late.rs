//! When squall's own link ran late in a trial, and how much of that may be part of a response time.
//!
//! A link that runs late delays packets beyond what its conditions say. Only the requests in flight at that moment can have
//! waited for it, so each request is compared with these times separately. Delays below [`LateSpans::SHORTEST`] are not listed,
//! and what a late generator does is in the requests' own times. `lag` judges a trial by both; docs/METHOD.md, "Our own error",
//! explains the rule.

use serde::{Deserialize, Serialize};

use crate::time::{Duration, Time};

/// A time during which a link's thread was late: from when a heartbeat or a packet was due until the thread got to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LateSpan {
    /// When the heartbeat or packet was due.
    pub from: Time,
    /// When the thread got to it.
    pub until: Time,
}

/// The times at which a trial's links ran late, in order and without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LateSpans(Vec<LateSpan>);

impl LateSpans {
    /// Shorter delays are not listed.
    pub const SHORTEST: Duration = Duration::from_micros(100);

    /// Puts spans in order and joins those that overlap; counts their times from `epoch`.
    pub fn of(mut spans: Vec<LateSpan>, epoch: Time) -> LateSpans {
        spans.sort_unstable();
        let mut joined = LateSpans::default();
        for span in spans {
            joined.add(LateSpan {
                from: span.from.relative_to(epoch),
                until: span.until.relative_to(epoch),
            });
        }
        joined
    }

    /// Adds a span, if it is long enough to be listed; joins it with the last one if they overlap. Spans added
    /// out of order, such as those of packets that jitter reordered, must be sorted by [`LateSpans::of`] afterwards.
    pub fn add(&mut self, span: LateSpan) {
        if span.until.since(span.from) < LateSpans::SHORTEST {
            return;
        }
        match self.0.last_mut() {
            Some(last) if span.from <= last.until && last.from <= span.until => {
                last.from = last.from.min(span.from);
                last.until = last.until.max(span.until);
            }
            _ => self.0.push(span),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = LateSpan> {
        self.0.iter().copied()
    }

    /// For how much of the time from `from` until `until` the links ran late.
    pub fn within(&self, from: Time, until: Time) -> Duration {
        let first = self.0.partition_point(|span| span.until <= from);
        let during = self.0[first..].iter().take_while(|span| span.from < until);
        during.fold(Duration::ZERO, |sum, span| {
            sum + span.until.min(until).since(span.from.max(from))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    const fn span(from: u64, until: u64) -> LateSpan {
        LateSpan {
            from: at(from),
            until: at(until),
        }
    }

    #[test]
    fn overlapping_spans_are_joined_and_counted_from_the_epoch() {
        let spans = LateSpans::of(vec![span(30, 31), span(12, 14), span(11, 13)], at(10));
        let found: Vec<LateSpan> = spans.iter().collect();
        assert_eq!(found, [span(1, 4), span(20, 21)]);
    }

    #[test]
    fn short_delays_are_not_listed() {
        let mut spans = LateSpans::default();
        spans.add(LateSpan {
            from: at(1),
            until: at(1) + Duration::from_micros(99),
        });
        assert_eq!(spans, LateSpans::default());
    }

    #[test]
    fn gap_between_spans_added_out_of_order_is_not_late() {
        let mut spans = LateSpans::default();
        spans.add(span(100, 101));
        spans.add(span(90, 91));
        let found: Vec<LateSpan> = spans.iter().collect();
        let late = LateSpans::of(found, Time::ZERO).within(at(0), at(200));
        assert_eq!(late, Duration::from_millis(2));
    }

    #[test]
    fn only_lateness_within_the_given_time_counts() {
        let spans = LateSpans::of(vec![span(10, 12), span(20, 25), span(40, 41)], Time::ZERO);
        assert_eq!(spans.within(at(0), at(10)), Duration::ZERO);
        assert_eq!(spans.within(at(11), at(22)), Duration::from_millis(3));
        assert_eq!(spans.within(at(0), at(100)), Duration::from_millis(8));
        assert_eq!(spans.within(at(21), at(22)), Duration::from_millis(1));
        assert_eq!(spans.within(at(25), at(40)), Duration::ZERO);
    }
}
