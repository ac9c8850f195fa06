//! A single walk along one request's time, from when it was due to its end, that assigns each span to one cause.
//!
//! The spans always add up to the whole, because it only moves forward and never past the end. `timeline` and `transfer`
//! decide which cause a span has.

use squall_base::record::{Cause, CauseSpans, PacketRef};
use squall_base::{Duration, Time};

/// The time of something that had not happened by the end of the record.
pub(super) const NEVER: u64 = u64::MAX;

/// A span of a request that a dropped packet is responsible for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blame {
    pub(super) packet: PacketRef,
    pub(super) cause: Cause,
    pub(super) delay: u64,
}

/// A span of time; `to` may be [`NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    pub(super) fn new(from: u64, to: u64) -> Span {
        Span { from, to }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalkStage {
    pub(super) span: Span,
    pub(super) cause: Cause,
}

/// The walk. Times are nanoseconds from the trial's epoch.
#[derive(Debug)]
pub(super) struct Walk {
    begin: u64,
    cursor: u64,
    end: u64,
    spans: CauseSpans,
    pub(super) blames: Vec<Blame>,
    /// Its stages so far, in order and without gaps; `None` if they are not wanted.
    stages: Option<Vec<WalkStage>>,
}

#[derive(Debug)]
pub(super) struct WalkResult {
    pub(super) spans: CauseSpans,
    pub(super) blames: Vec<Blame>,
    /// Empty if they were not wanted.
    pub(super) stages: Vec<WalkStage>,
}

impl Walk {
    pub(super) fn new(intended: Time, end: Time) -> Walk {
        let begin = intended.as_nanos();
        Walk {
            begin,
            cursor: begin,
            end: end.as_nanos().max(begin),
            spans: CauseSpans::default(),
            blames: Vec::new(),
            stages: None,
        }
    }

    pub(super) fn with_stages(self) -> Walk {
        Walk {
            stages: Some(Vec::new()),
            ..self
        }
    }

    /// How far the walk has got: time before that has a cause.
    pub(super) fn at(&self) -> u64 {
        self.cursor
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn is_over(&self) -> bool {
        self.cursor == self.end
    }

    /// Moves on to `time` and assigns the time in between to `cause`. A time that has already passed changes nothing.
    pub(super) fn to(&mut self, time: u64, cause: Cause) {
        let next = time.min(self.end);
        if next > self.cursor {
            let span = &mut self.spans[cause];
            *span = *span + Duration::from_nanos(next - self.cursor);
            if let Some(stages) = &mut self.stages {
                let span = Span::new(self.cursor, next);
                push(stages, WalkStage { span, cause });
            }
            self.cursor = next;
        }
    }

    /// Makes `packet` responsible for the part of `span` that is after `from` and before the end.
    pub(super) fn blame(&mut self, packet: PacketRef, cause: Cause, span: Span, from: u64) {
        let (from, to) = (span.from.max(from), span.to.min(self.end));
        if from < to {
            let delay = to - from;
            self.blames.push(Blame {
                packet,
                cause,
                delay,
            });
        }
    }

    /// A walk from here that does not go past `end`, for `merge`.
    pub(super) fn until(&self, end: u64) -> Walk {
        Walk {
            begin: self.cursor,
            cursor: self.cursor,
            end: self.end.min(end.max(self.cursor)),
            spans: CauseSpans::default(),
            blames: Vec::new(),
            stages: self.stages.as_ref().map(|_| Vec::new()),
        }
    }

    /// Continues from where `part`, a walk that began here, ended.
    pub(super) fn merge(&mut self, part: Walk) {
        self.spans = self.spans.plus(&part.spans);
        self.cursor = self.cursor.max(part.cursor);
        self.blames.extend(part.blames);
        if let Some(stages) = &mut self.stages {
            let part_stages = part.stages.into_iter().flatten();
            part_stages.for_each(|stage| push(stages, stage));
        }
    }

    /// Ends the walk. Time that has no cause yet is `rest`.
    pub(super) fn finish(mut self, rest: Cause) -> WalkResult {
        self.to(self.end, rest);
        debug_assert_eq!(self.spans.total().as_nanos(), self.end - self.begin);
        WalkResult {
            spans: self.spans,
            blames: self.blames,
            stages: self.stages.unwrap_or_default(),
        }
    }
}

/// Appends a stage, or extends the last one.
fn push(stages: &mut Vec<WalkStage>, stage: WalkStage) {
    match stages.last_mut() {
        Some(last) if last.cause == stage.cause => last.span.to = stage.span.to,
        _ => stages.push(stage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_only_moves_forward_and_not_past_the_end() {
        let mut walk = Walk::new(Time::from_nanos(10), Time::from_nanos(100));
        walk.to(30, Cause::Queue);
        walk.to(20, Cause::Connect);
        walk.to(NEVER, Cause::Loss);
        walk.to(NEVER, Cause::Server);
        let spans = walk.finish(Cause::Host).spans;
        assert_eq!(spans[Cause::Queue].as_nanos(), 20);
        assert_eq!(spans[Cause::Loss].as_nanos(), 70);
        assert_eq!(spans.total().as_nanos(), 90);
    }

    #[test]
    fn an_end_before_the_beginning_leaves_no_time() {
        let walk = Walk::new(Time::from_nanos(10), Time::from_nanos(3));
        assert!(walk.is_over());
        assert!(walk.finish(Cause::Host).spans.total().is_zero());
    }
}
