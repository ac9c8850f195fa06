//! Whether the server honours the priorities of requests (RFC 9218), from concurrent downloads of the same response of which
//! a third are urgent.
//!
//! Meanwhile the client's connection window is small, so that the server must choose which response the next bytes belong to,
//! whatever the rate of the path and the buffers on it. Bytes that it may have sent before it knew all requests do not count.
//! Nothing is sent here: the binary's `probe/behaviour.rs` does that.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::plan::Version;

use super::observed::{Observations, Step, StepKind, version_name};

/// How many downloads run concurrently.
pub const PRIORITY_DOWNLOADS: u32 = 12;
/// The client's connection window during these downloads: the smallest that HTTP/2 allows.
pub const PRIORITY_WINDOW: u64 = 65_535;

/// How many windows must be seen after those that are not counted.
const WINDOWS_AT_LEAST: u64 = 2;
/// From this share of the bytes on, the urgent responses came first. A server that sends the last request's response first
/// sends half, one that lets all take turns a third.
const HONOURED: f64 = 0.75;
/// Up to this share of the bytes, they did not.
const NOT_HONOURED: f64 = 0.55;

squall_base::words! {
    /// Whether the server honours the priorities of requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Priorities {
        /// Urgent responses came first.
        Honoured = "honoured",
        /// They came no earlier than others.
        NotHonoured = "not_honoured",
        /// The responses were too short, or the requests came too late, to tell.
        Unknown = "unknown",
    }
}

/// Whether download `what` is an urgent one (`u=0`). Every third is, so that a server that responds in the order of the
/// requests, or in the reverse order, does not seem to honour priorities.
pub const fn is_urgent(what: u32) -> bool {
    what % 3 == 2
}

/// Whether the server honours priorities, for each version that has streams and answered.
pub(super) fn priorities(seen: &Observations) -> BTreeMap<&'static str, Priorities> {
    let versions = [Version::Http2, Version::Http3].into_iter();
    let answered = versions.filter(|version| {
        let mut heads = seen.heads.iter();
        heads.any(|head| head.version == *version)
    });
    let judge = |version| {
        let mut steps = seen.steps_of(StepKind::Priorities, version);
        let judged = steps.next().and_then(judged);
        (version_name(version), judged.unwrap_or(Priorities::Unknown))
    };
    answered.map(judge).collect()
}

/// The verdict by the order of the bytes; `None` if it cannot be told.
fn judged(step: &Step) -> Option<Priorities> {
    if step.requests.len() as u64 != u64::from(PRIORITY_DOWNLOADS) {
        return None;
    }
    let connection = step.requests.first()?.connection?;
    let mut urgent = BTreeMap::new();
    let mut known = None;
    for row in &step.requests {
        if row.connection != Some(connection) {
            return None;
        }
        urgent.insert(row.stream?, is_urgent(row.what));
        known = known.max(Some(row.written_last?));
    }
    let known = known?;
    let pieces = step.pieces.iter();
    let early = pieces.take_while(|piece| piece.time <= known);
    // Meanwhile the server may have sent one window more than had arrived.
    let from = early.map(|piece| piece.bytes).sum::<u64>() + PRIORITY_WINDOW;
    let to = step.body_bytes() / 3;
    if to < from + WINDOWS_AT_LEAST * PRIORITY_WINDOW {
        return None;
    }
    let (mut at, mut urgent_bytes) = (0, 0);
    for piece in &step.pieces {
        let end = at + piece.bytes;
        if urgent.get(&piece.stream) == Some(&true) {
            urgent_bytes += end.min(to).saturating_sub(at.max(from));
        }
        at = end;
    }
    let share = urgent_bytes as f64 / (to - from) as f64;
    Some(if share >= HONOURED {
        Priorities::Honoured
    } else if share <= NOT_HONOURED {
        Priorities::NotHonoured
    } else {
        Priorities::Unknown
    })
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::super::made::{at_us, healthy, ms, request, step};
    use super::super::observed::Piece;
    use super::*;

    const PIECE: u64 = 16_384;

    /// Downloads of this many pieces each, which come in this order of requests.
    fn downloads(pieces: u64, order: impl IntoIterator<Item = u32>) -> Step {
        let mut made = step(StepKind::Priorities, Version::Http2);
        for what in 0..PRIORITY_DOWNLOADS {
            let mut row = request(what, 1_000, 1_000_000);
            row.stream = Some(u64::from(2 * what + 1));
            row.response_body_bytes = pieces * PIECE;
            made.requests.push(row);
        }
        for (n, what) in (0..).zip(order) {
            made.pieces.push(Piece {
                time: at_us(40_000 + 10 * n),
                connection: 0,
                stream: u64::from(2 * what + 1),
                bytes: PIECE,
            });
        }
        made
    }

    fn verdict(made: Step) -> Priorities {
        let mut seen = healthy(ms(30));
        seen.steps.push(made);
        Diagnosis::of(&seen).endpoint.priorities["HTTP/2"]
    }

    /// One response after the other, in this order.
    fn one_by_one(pieces: u64, order: &[u32]) -> Step {
        let each = order
            .iter()
            .flat_map(|what| (0..pieces).map(move |_| *what));
        downloads(pieces, each.collect::<Vec<u32>>())
    }

    fn all() -> Vec<u32> {
        (0..PRIORITY_DOWNLOADS).collect()
    }

    #[test]
    fn priorities_are_honoured_if_urgent_responses_come_first_or_after_one_window() {
        let mut order: Vec<u32> = all();
        order.sort_by_key(|what| !is_urgent(*what));
        let mut made = one_by_one(8, &order);
        assert_eq!(verdict(made.clone()), Priorities::Honoured);
        // Four pieces of the first request came before the server knew the others.
        made.pieces.rotate_right(4);
        let times: Vec<_> = (0..).map(|n| at_us(40_000 + 10 * n)).take(96).collect();
        for (piece, time) in made.pieces.iter_mut().zip(times) {
            piece.time = time;
        }
        assert_eq!(verdict(made), Priorities::Honoured);
    }

    #[test]
    fn taking_turns_and_the_order_of_requests_do_not_honour_priorities() {
        let turns = (0..8).flat_map(|_| all());
        assert_eq!(verdict(downloads(8, turns)), Priorities::NotHonoured);
        assert_eq!(verdict(one_by_one(8, &all())), Priorities::NotHonoured);
        let reversed: Vec<u32> = all().into_iter().rev().collect();
        assert_eq!(verdict(one_by_one(8, &reversed)), Priorities::NotHonoured);
    }

    #[test]
    fn order_of_short_responses_and_of_late_requests_is_unknown() {
        let mut order: Vec<u32> = all();
        order.sort_by_key(|what| !is_urgent(*what));
        assert_eq!(verdict(one_by_one(2, &order)), Priorities::Unknown);
        let mut late = one_by_one(8, &order);
        late.requests[11].written_last = Some(at_us(1_000_000));
        assert_eq!(verdict(late), Priorities::Unknown);
        let mut seen = healthy(ms(30));
        assert_eq!(
            Diagnosis::of(&seen).endpoint.priorities["HTTP/2"],
            Priorities::Unknown
        );
        seen.heads.clear();
        assert!(Diagnosis::of(&seen).endpoint.priorities.is_empty());
    }
}
