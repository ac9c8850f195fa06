//! squall's own generator was late: the trial measured it, not the variant.

use squall_base::Duration;
use squall_base::record::{LAG_QUANTILES, LateSpans, Outcome, Side, lag_fault};

use super::case::{Case, number};
use super::costs::Costs;
use super::detector::{Detector, Scope};
use super::finding::Detection;
use super::knob::Knob;
use super::records::RequestRow;

pub(super) const DETECTOR: Detector = Detector {
    name: "generator_late",
    title: "The generator was late",
    explanation: "The generator started requests later than they were due, by more than a valid trial allows. Their \
                  latencies are partly the generator's own.",
    scope: Scope::Path,
    causes: &[],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let answered = || {
        let rows = case.measured();
        rows.filter(|row| row.outcome == Outcome::Answered)
    };
    let nothing = LateSpans::default();
    let late = case.health().link_late.as_ref().unwrap_or(&nothing);
    let percentiles = |time: &dyn Fn(&RequestRow) -> Duration| {
        let times = answered().map(time);
        let mut times: Vec<Duration> = times.collect();
        times.sort_unstable();
        LAG_QUANTILES.map(|quantile| {
            let place = (times.len() as f64 * quantile) as usize;
            times.get(place).copied().unwrap_or_default()
        })
    };
    let response = percentiles(&|row| row.end.since(row.intended));
    let own =
        |row: &RequestRow| row.taken_up.since(row.intended) + late.within(row.taken_up, row.end);
    let without_own = || percentiles(&|row| row.end.since(row.intended) - own(row));
    let fault = lag_fault(&case.health().schedule_lag, response, without_own)?;
    let mut costs = Costs::default();
    for row in case.measured() {
        costs.add(row.request, own(row));
    }
    let numbers = vec![
        number("lag at the tail", fault.lag.as_millis_f64(), "ms"),
        number("allowed, at most", fault.at_most.as_millis_f64(), "ms"),
    ];
    case.detection_by_time(costs, 0.0, numbers, case.fix(1, Side::Client, Knob::Load))
}

#[cfg(test)]
mod tests {
    use squall_base::Time;
    use squall_base::plan::Protocol;
    use squall_base::record::{LateSpan, LateSpans};

    use super::super::Severity;
    use super::super::made::{TestTrial, is_near, ms};

    /// A trial whose requests from `first` on were started late.
    fn lag(millis: u64, first: usize) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        made.trial.health.schedule_lag.count = 1_000;
        made.trial.health.schedule_lag.p99 = ms(millis);
        made.trial.health.schedule_lag.p999 = ms(millis);
        for request in made.requests.iter_mut().skip(first) {
            request.taken_up += ms(millis);
        }
        made
    }

    #[test]
    fn severity_of_a_lag_follows_from_the_time_that_it_cost() {
        // Each request takes 50 ms.
        for (millis, severity) in [(3, Severity::Serious), (20, Severity::Grave)] {
            let finding = lag(millis, 0).finding("generator_late").unwrap();
            assert_eq!(finding.severity, severity, "{finding:?}");
            assert!(is_near(finding.share.part, millis as f64 / 50.0));
            assert!(!finding.evidence.requests.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn lag_of_a_single_request_is_named_and_minor() {
        let mut made = lag(10, 99);
        made.requests[99].end += ms(10);
        let finding = made.finding("generator_late").unwrap();
        assert_eq!(finding.severity, Severity::Minor);
        assert!(is_near(finding.share.part, 10.0 / 5_010.0));
        assert_eq!(finding.evidence.requests, [99]);
    }

    #[test]
    fn a_lag_that_changes_no_percentile_is_not_reported() {
        let mut made = lag(3, 0);
        let first = made.requests[0].intended;
        for request in &mut made.requests[1..] {
            request.taken_up = request.intended;
        }
        assert_eq!(made.requests[0].taken_up, first + ms(3));
        assert_eq!(made.finding("generator_late"), None);
    }

    #[test]
    fn time_of_a_late_link_counts_like_lag() {
        let mut made = lag(3, usize::MAX);
        let spans = made.requests.iter().map(|request| LateSpan {
            from: request.taken_up,
            until: request.taken_up + ms(3),
        });
        made.trial.health.link_late = Some(LateSpans::of(spans.collect(), Time::ZERO));
        let finding = made.finding("generator_late").unwrap();
        assert!(!finding.evidence.requests.is_empty(), "{finding:?}");
        assert!(finding.share.part > 0.05, "{finding:?}");
    }

    #[test]
    fn a_lag_below_a_twentieth_of_the_median_is_not_reported() {
        assert_eq!(lag(2, 0).finding("generator_late"), None);
    }
}
