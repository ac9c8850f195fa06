//! A walk along one request's time: from when it was wanted to its end, once, every span given to one cause.
//!
//! Whatever is asked of it, the spans add up to the whole: it only moves forward and never past the end. Which cause a
//! span has, `timeline` and `transfer` decide.

use squall_base::record::{Cause, CauseSpans, PacketRef};
use squall_base::{Duration, Time};

/// No moment: what has not happened by the end of the record.
pub(super) const NEVER: u64 = u64::MAX;

/// A span of a request that a dropped packet answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blame {
    pub(super) packet: PacketRef,
    pub(super) cause: Cause,
    pub(super) delay: u64,
}

/// A span of time in which something held; `to` may be [`NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A span of the walk with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
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
    /// Where it went, in order and without gaps; `None` if nobody asks.
    stages: Option<Vec<Stage>>,
}

/// What a whole walk came to.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) spans: CauseSpans,
    pub(super) blames: Vec<Blame>,
    /// Empty if nobody asked.
    pub(super) stages: Vec<Stage>,
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

    /// The same walk, which says where it went.
    pub(super) fn watched(self) -> Walk {
        Walk {
            stages: Some(Vec::new()),
            ..self
        }
    }

    /// How far it has come.
    pub(super) fn at(&self) -> u64 {
        self.cursor
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn is_over(&self) -> bool {
        self.cursor == self.end
    }

    /// Goes on to `time`, all of the way being `cause`'s. A time that is past already changes nothing.
    pub(super) fn to(&mut self, time: u64, cause: Cause) {
        let next = time.min(self.end);
        if next > self.cursor {
            let span = &mut self.spans[cause];
            *span = *span + Duration::from_nanos(next - self.cursor);
            if let Some(stages) = &mut self.stages {
                let (from, to) = (self.cursor, next);
                push(
                    stages,
                    Stage {
                        span: Span { from, to },
                        cause,
                    },
                );
            }
            self.cursor = next;
        }
    }

    /// Says that `packet` answers for the part of `span` that lies after `from` and before the end.
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

    /// The same walk, which does not go past `end`, to be taken over again.
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

    /// Goes on where `part`, which began here, has got to.
    pub(super) fn take_over(&mut self, part: Walk) {
        for cause in Cause::ALL {
            self.spans[cause] = self.spans[cause] + part.spans[cause];
        }
        self.cursor = self.cursor.max(part.cursor);
        self.blames.extend(part.blames);
        if let Some(stages) = &mut self.stages {
            let gone = part.stages.into_iter().flatten();
            gone.for_each(|stage| push(stages, stage));
        }
    }

    /// What all of it was spent on; what nobody has claimed is `rest`.
    pub(super) fn finish(mut self, rest: Cause) -> Walked {
        self.to(self.end, rest);
        debug_assert_eq!(self.spans.total().as_nanos(), self.end - self.begin);
        Walked {
            spans: self.spans,
            blames: self.blames,
            stages: self.stages.unwrap_or_default(),
        }
    }
}

/// Appends a stage, or makes the last one longer.
fn push(stages: &mut Vec<Stage>, stage: Stage) {
    match stages.last_mut() {
        Some(last) if last.cause == stage.cause => last.span.to = stage.span.to,
        _ => stages.push(stage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_forward_only_and_not_past_the_end() {
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
    fn an_end_before_the_beginning_is_no_time() {
        let walk = Walk::new(Time::from_nanos(10), Time::from_nanos(3));
        assert!(walk.is_over());
        assert!(walk.finish(Cause::Host).spans.total().is_zero());
    }
}
