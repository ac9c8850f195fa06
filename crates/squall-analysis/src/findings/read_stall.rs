//! A receiver had all that its window allowed, and returned no credit for a long time.

use squall_base::record::Cause;
use squall_base::{Duration, Time};

use super::case::{Case, TIME_AT_LEAST, count, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "read_stall",
    title: "The receiving program does not read",
    explanation: "The receiver had every byte that its window allowed, and gave nothing back for much longer than a \
                  round trip. The network had nothing to do with it: the program was busy, waited for its own \
                  upstream, or never returns what it reads.",
    scope: Scope::Path,
    causes: &[
        Cause::WindowStream,
        Cause::WindowConnection,
        Cause::WindowReceive,
    ],
    detect,
};

/// Five round trips: an update that is due is sent within one, so the path is not the reason. A judgement.
const ROUND_TRIPS: u64 = 5;
/// And at least this long: a busy machine keeps a program waiting for tens of milliseconds.
const STALL_AT_LEAST: Duration = Duration::from_millis(100);

fn detect(case: &Case<'_>) -> Option<Detection> {
    let mut costs = Costs::default();
    let (mut stalls, mut longest, mut of) = (0, Duration::ZERO, None);
    // The latest moment at which a stall without an end can have delayed anything.
    let ends = case.records.requests.iter().map(|row| row.end);
    let end = ends.max().unwrap_or(Time::ZERO);
    for (key, frames) in &case.records.frames {
        let round_trips = ROUND_TRIPS * case.round_trip_at(key.0).as_nanos();
        let at_least = Duration::from_nanos(round_trips).max(STALL_AT_LEAST);
        for stall in frames.stalls() {
            let to = stall.to.unwrap_or(frames.last.max(end));
            let span = to.since(stall.from);
            if span < at_least {
                continue;
            }
            stalls += 1;
            if span > longest {
                (longest, of) = (span, Some(*key));
            }
            if let Some(stream) = stall.stream
                && let Some(row) = case.measured_row(*key, stream)
            {
                costs.add(row.request, row.end.min(to).since(stall.from));
            }
        }
    }
    let (hop, side, _) = of?;
    let numbers = vec![
        count("stalls", stalls),
        number("longest", longest.as_millis_f64(), "ms"),
    ];
    let fix = case.fix(hop, side, Knob::Reader);
    case.detection_by_time(costs, TIME_AT_LEAST, numbers, fix)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Side, Way};

    use super::super::made::{TestTrial, is_near, ms};

    fn stalled(millis: Option<u64>) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.requests[0].end += ms(1_000);
        made.data(1_050, Side::Client, Way::Received, 1, (65_535, 0));
        if let Some(millis) = millis {
            made.update(1_050 + millis, Side::Client, Way::Sent, 1, 65_535);
        }
        made
    }

    #[test]
    fn a_window_that_is_never_returned_is_found() {
        let finding = stalled(Some(600)).finding("read_stall").unwrap();
        assert!(is_near(finding.share.part, 600.0 / 6_000.0));
        assert_eq!(finding.evidence.requests, [0]);
        let finding = stalled(None).finding("read_stall").unwrap();
        assert!(is_near(finding.share.part, 1_000.0 / 6_000.0));
    }

    #[test]
    fn a_stall_of_a_few_round_trips_is_not_reported() {
        assert_eq!(stalled(Some(240)).finding("read_stall"), None);
    }
}
