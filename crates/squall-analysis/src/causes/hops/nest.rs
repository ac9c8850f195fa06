//! Lays the time of the hop behind, that is, the next one, over that of the hop in front. `server` time in front becomes
//! what the hop behind was doing then. So does `host` time in front while something held the hop behind back, because a
//! full proxy stops reading.
//!
//! Only spans of time and their causes are known here; the caller knows which hops they belong to. The result is always
//! as long as the front: nothing is negative and nothing counts twice, however a proxy overlaps request and response.

use squall_base::Time;
use squall_base::record::Cause;

use super::super::course::Stage;

/// All of `[from, to)` as one cause; empty if the span is.
pub(super) fn whole(from: Time, to: Time, cause: Cause) -> Vec<Stage> {
    let mut stages = Vec::new();
    push(&mut stages, from, to, cause);
    stages
}

/// `front` with its `server` time replaced by what `behind` was doing. The part of it before `behind` begins is `before`;
/// the part after `behind` ends is `host`, the work of the station between them. What held `behind` back also replaces the
/// `host` time of `front`. Both are in order and without gaps.
pub(super) fn laid_over(front: &[Stage], behind: &[Stage], before: Cause) -> Vec<Stage> {
    let Some(begin) = behind.first().map(|first| first.from) else {
        // The hop behind never had anything to do, so all of the `server` time in front becomes `before`.
        let renamed = front.iter().map(|stage| match stage.cause {
            Cause::Server => (stage, before),
            cause => (stage, cause),
        });
        let mut stages = Vec::new();
        renamed.for_each(|(stage, cause)| push(&mut stages, stage.from, stage.to, cause));
        return stages;
    };
    let mut stages = Vec::with_capacity(front.len() + behind.len());
    let mut at = 0;
    for stage in front {
        let replaces: fn(Cause) -> bool = match stage.cause {
            Cause::Server => |_| true,
            Cause::Host => is_hold,
            cause => {
                push(&mut stages, stage.from, stage.to, cause);
                continue;
            }
        };
        let is_server = stage.cause == Cause::Server;
        let mut from = stage.from;
        if from < begin {
            let until = begin.min(stage.to);
            let before = if is_server { before } else { Cause::Host };
            push(&mut stages, from, until, before);
            from = until;
        }
        while let Some(inner) = behind.get(at)
            && from < stage.to
        {
            if inner.to <= from {
                at += 1;
                continue;
            }
            let until = inner.to.min(stage.to);
            let cause = if replaces(inner.cause) {
                inner.cause
            } else {
                Cause::Host
            };
            push(&mut stages, from, until, cause);
            from = until;
        }
        push(&mut stages, from, stage.to, Cause::Host);
    }
    stages
}

/// Whether a cause keeps a sender from sending what it has.
fn is_hold(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::WindowStream
            | Cause::WindowConnection
            | Cause::WindowReceive
            | Cause::Cwnd
            | Cause::Pacing
            | Cause::SendBuffer
            | Cause::Link
            | Cause::Loss
            | Cause::Hol
    )
}

/// The time of a hop that was not seen: from when the hop in front began to wait for it until that wait ended. Its cause is
/// unknown, except during `behind`, the time of a hop further behind that was seen: then it waited for that hop.
pub(super) fn unseen(front: &[Stage], behind: Option<(Time, Time)>) -> Vec<Stage> {
    let mut waits = front.iter().filter(|stage| stage.cause == Cause::Server);
    let Some(first) = waits.next() else {
        return Vec::new();
    };
    let last = waits.next_back().unwrap_or(first);
    let (from, to) = (first.from, last.to);
    let (begin, end) = behind.map_or((to, to), |(begin, end)| {
        let begin = begin.clamp(from, to);
        (begin, end.clamp(begin, to))
    });
    let mut stages = Vec::new();
    push(&mut stages, from, begin, Cause::Unknown);
    push(&mut stages, begin, end, Cause::Server);
    push(&mut stages, end, to, Cause::Unknown);
    stages
}

/// Appends a stage, or extends the last one.
fn push(stages: &mut Vec<Stage>, from: Time, to: Time, cause: Cause) {
    if from >= to {
        return;
    }
    match stages.last_mut() {
        Some(last) if last.cause == cause && last.to == from => last.to = to,
        _ => stages.push(Stage { from, to, cause }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Stages of these lengths and causes from `begin` on.
    fn stages(begin: u64, lengths: &[(u64, Cause)]) -> Vec<Stage> {
        let mut at = begin;
        let mut made = Vec::new();
        for (length, cause) in lengths {
            push(
                &mut made,
                Time::from_nanos(at),
                Time::from_nanos(at + length),
                *cause,
            );
            at += length;
        }
        made
    }

    fn cause_at(stages: &[Stage], nanos: u64) -> Option<Cause> {
        let at = Time::from_nanos(nanos);
        let mut it = stages.iter();
        it.find(|stage| stage.from <= at && at < stage.to)
            .map(|stage| stage.cause)
    }

    #[test]
    fn server_time_becomes_what_the_hop_behind_did() {
        use Cause::{Distance, Host, Server};
        let front = stages(0, &[(10, Distance), (50, Server), (10, Distance)]);
        let behind = stages(15, &[(5, Host), (30, Server)]);
        let found = laid_over(&front, &behind, Host);
        let expected = [
            (10, Distance),
            (10, Host),
            (30, Server),
            (10, Host),
            (10, Distance),
        ];
        assert_eq!(found, stages(0, &expected));
        // The time of an earlier attempt is of unknown cause.
        let found = laid_over(&front, &behind, Cause::Unknown);
        assert_eq!(cause_at(&found, 12), Some(Cause::Unknown));
        assert_eq!(cause_at(&found, 52), Some(Host));
    }

    #[test]
    fn an_upload_to_a_full_proxy_waits_for_what_holds_the_proxy_back() {
        use Cause::{Distance, Host, Server, WindowConnection};
        let front = stages(0, &[(60, Host), (30, Server)]);
        let behind = stages(5, &[(5, Host), (40, WindowConnection), (20, Distance)]);
        let expected = [
            (10, Host),
            (40, WindowConnection),
            (10, Host),
            (10, Distance),
            (20, Host),
        ];
        assert_eq!(laid_over(&front, &behind, Host), stages(0, &expected));
    }

    #[test]
    fn time_on_an_unseen_hop_is_unknown_except_the_part_seen_behind_it() {
        use Cause::{Distance, Server, Unknown};
        let front = stages(0, &[(10, Distance), (50, Server), (10, Distance)]);
        assert_eq!(unseen(&front, None), stages(10, &[(50, Unknown)]));
        let time = Time::from_nanos;
        let found = unseen(&front, Some((time(20), time(30))));
        assert_eq!(
            found,
            stages(10, &[(10, Unknown), (10, Server), (30, Unknown)])
        );
        let outside = unseen(&front, Some((time(90), time(95))));
        assert_eq!(outside, stages(10, &[(50, Unknown)]));
        assert_eq!(unseen(&stages(0, &[(10, Distance)]), None), []);
    }

    fn any_stages() -> impl Strategy<Value = Vec<Stage>> {
        let lengths = vec(
            (0_u64..40, proptest::sample::select(Cause::ALL.to_vec())),
            0..8,
        );
        (0_u64..100, lengths).prop_map(|(begin, lengths)| stages(begin, &lengths))
    }

    proptest! {
        /// At every moment: `server` becomes what the hop behind did then, `host` becomes what held it back, everything
        /// else stays, and nothing is left out.
        #[test]
        fn each_moment_has_one_cause(front in any_stages(), behind in any_stages()) {
            let found = laid_over(&front, &behind, Cause::Unknown);
            for at in 0..500 {
                let expected = match cause_at(&front, at) {
                    Some(Cause::Server) => {
                        let begin = behind.first().map_or(u64::MAX, |first| first.from.as_nanos());
                        let rest = if at < begin { Cause::Unknown } else { Cause::Host };
                        Some(cause_at(&behind, at).unwrap_or(rest))
                    }
                    Some(Cause::Host) => {
                        let held = cause_at(&behind, at).filter(|cause| is_hold(*cause));
                        Some(held.unwrap_or(Cause::Host))
                    }
                    other => other,
                };
                prop_assert_eq!(cause_at(&found, at), expected, "at {}", at);
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}
