//! squall's own generator was late: the trial measured it, not the variant.

use squall_base::Duration;
use squall_base::record::{Outcome, Side};

use super::case::{Case, number};
use super::costs::Costs;
use super::knob::Knob;
use super::{Detection, Detector, Scope};

pub(super) const DETECTOR: Detector = Detector {
    name: "generator_late",
    title: "The generator was late",
    explanation: "Requests were taken up later than the schedule wanted them, by more than a sound trial allows. \
                  Their latencies are partly the generator's own, so the trial is no evidence.",
    scope: Scope::Path,
    detect,
};

/// The limits by which a trial is judged (docs/METHOD.md, "Our own error"): a twentieth of the median latency ...
const OF_MEDIAN_AT_MOST: f64 = 0.05;
/// ... or a millisecond, if that is more: about twice the worst p99.9 of the idle machine.
const ALWAYS_SOUND: Duration = Duration::from_millis(1);
/// From this many requests on, the limit applies to the 99.9th percentile; below, to the 99th.
const FOR_P999: u64 = 1_000;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let lag = case.health().schedule_lag;
    let tail = if lag.count < FOR_P999 {
        lag.p99
    } else {
        lag.p999
    };
    let answered = case
        .measured()
        .filter(|row| row.outcome == Outcome::Answered);
    let mut latencies: Vec<u64> = answered
        .map(|row| row.end.since(row.intended).as_nanos())
        .collect();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or(0);
    let at_most =
        Duration::from_nanos((median as f64 * OF_MEDIAN_AT_MOST) as u64).max(ALWAYS_SOUND);
    if tail <= at_most {
        return None;
    }
    let mut costs = Costs::default();
    for row in case.measured() {
        costs.add(row.request, row.taken_up.since(row.intended));
    }
    let numbers = vec![
        number("lag at the tail", tail.as_millis_f64(), "ms"),
        number("sound, at most", at_most.as_millis_f64(), "ms"),
    ];
    case.detection_by_time(
        costs,
        0.0,
        numbers,
        vec![case.fix(1, Side::Client, Knob::Load)],
    )
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;

    use super::super::Severity;
    use super::super::made::{TestTrial, ms};

    fn lag(millis: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.trial.health.schedule_lag.count = 1_000;
        made.trial.health.schedule_lag.p999 = ms(millis);
        made.requests[9].taken_up += ms(millis);
        made
    }

    #[test]
    fn a_lag_above_the_limit_is_grave() {
        let finding = lag(3).finding("generator_late").unwrap();
        assert_eq!(finding.severity, Severity::Grave);
        assert_eq!(finding.evidence.requests, [9]);
    }

    #[test]
    fn a_twentieth_of_the_median_is_sound() {
        assert_eq!(lag(2).finding("generator_late"), None);
    }
}
