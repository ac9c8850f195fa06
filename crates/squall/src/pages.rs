//! Outcomes of pages, and of requests sent while the server holds back an earlier response: the sums and sentences of
//! `squall load` and of trials.

use squall_analysis::load::PageTotals;
use squall_base::Duration;
use squall_base::record::{PageRecord, Phase};
use squall_load::PageEnd;

/// Summarises completed pages; `unfinished` is the number of those still loading when the load ended.
pub(crate) fn record(ended: &[PageEnd], unfinished: u64) -> PageRecord {
    let mut times: Vec<Duration> = Vec::new();
    let mut failed = 0;
    let measured = ended.iter().filter(|page| page.phase == Phase::Measure);
    for page in measured {
        match page.failed {
            0 => times.push(page.end.since(page.start)),
            _ => failed += 1,
        }
    }
    times.sort();
    PageRecord {
        loaded: times.len() as u64,
        failed,
        unfinished,
        least: times.first().copied(),
        median: nearest_rank(&times),
        most: times.last().copied(),
    }
}

/// Totals of the pages of a load: those completed, and those still loading when it ended.
pub(crate) fn totals(ended: &[PageEnd], unfinished: &[PageEnd]) -> PageTotals {
    let mut totals = PageTotals::default();
    let measured = |page: &&PageEnd| page.phase == Phase::Measure;
    for page in ended.iter().filter(measured) {
        totals.add_ended(page.end.since(page.start), page.failed);
    }
    for page in unfinished.iter().filter(measured) {
        totals.add_unfinished(page.end.since(page.start));
    }
    totals
}

/// The median of sorted values, by nearest rank.
pub(crate) fn nearest_rank(sorted: &[Duration]) -> Option<Duration> {
    let rank = sorted.len().div_ceil(2).max(1);
    sorted.get(rank - 1).copied()
}

/// A sentence about page times, if there were any pages.
pub(crate) fn sentence(pages: &PageRecord) -> Option<String> {
    if pages.loaded == 0 && pages.failed == 0 && pages.unfinished == 0 {
        return None;
    }
    let ms = |time: Option<Duration>| match time {
        None => "n/a".to_owned(),
        Some(time) => format!("{:.3}", time.as_millis_f64()),
    };
    Some(format!(
        "pages: {} loaded, {} with a failed request, {} unfinished; page time ms: least {}, median {}, most {}",
        pages.loaded,
        pages.failed,
        pages.unfinished,
        ms(pages.least),
        ms(pages.median),
        ms(pages.most)
    ))
}

/// A sentence on whether a request had to wait for the one that the server held. `answers` are response times with the
/// number of the request: 0 is the held one, 1 the other.
pub(crate) fn held(answers: &[(u32, Duration)]) -> Option<String> {
    let median = |wanted: u32| -> Option<Duration> {
        let mut times: Vec<Duration> = (answers.iter())
            .filter_map(|(what, took)| (*what == wanted).then_some(*took))
            .collect();
        times.sort();
        times.get(times.len() / 2).copied()
    };
    let (held, other) = (median(0)?, median(1)?);
    let ms = |span: Duration| format!("{:.3} ms", span.as_millis_f64());
    // Half is the limit, because a request that waits takes nearly as long as the held one, and any other only a round trip.
    let verdict = if other.as_secs_f64() < held.as_secs_f64() / 2.0 {
        "the second request did not wait for the first"
    } else {
        "the second request waited for the first"
    };
    Some(format!(
        "held: the first response took {}, the second {}: {verdict}",
        ms(held),
        ms(other)
    ))
}

#[cfg(test)]
mod tests {
    use squall_base::Time;

    use super::*;

    fn page(phase: Phase, ms: u64, failed: u32) -> PageEnd {
        PageEnd {
            page: 0,
            user: 0,
            phase,
            start: Time::ZERO,
            end: Time::ZERO + Duration::from_millis(ms),
            requests: 2,
            failed,
        }
    }

    #[test]
    fn page_record_counts_only_measured_pages() {
        let mut ended = vec![page(Phase::Warmup, 1, 0), page(Phase::Measure, 99, 1)];
        ended.extend([7, 3, 9, 5].map(|ms| page(Phase::Measure, ms, 0)));
        let found = record(&ended, 2);
        assert_eq!((found.loaded, found.failed, found.unfinished), (4, 1, 2));
        let times = [found.least, found.median, found.most].map(|time| time.unwrap().to_string());
        assert_eq!(times, ["3ms", "5ms", "9ms"]);
        let said = sentence(&found).unwrap();
        assert!(
            said.ends_with("least 3.000, median 5.000, most 9.000"),
            "{said}"
        );
        assert_eq!(sentence(&record(&[], 0)), None);
    }

    #[test]
    fn page_totals_leave_out_the_warm_up() {
        let ended = [
            page(Phase::Warmup, 1, 0),
            page(Phase::Measure, 5, 0),
            page(Phase::Measure, 99, 1),
        ];
        let unfinished = [page(Phase::Warmup, 7, 0), page(Phase::Measure, 8, 0)];
        let found = totals(&ended, &unfinished);
        assert_eq!((found.count(), found.failed()), (3, 1));
        assert_eq!(found.times().max(), Some(Duration::from_millis(5)));
        assert_eq!(found.unfinished().max(), Some(Duration::from_millis(8)));
    }

    #[test]
    fn request_nearly_as_slow_as_the_held_one_has_waited_for_it() {
        let ms = Duration::from_millis;
        let said = |other| held(&[(0, ms(100)), (1, ms(other))]).unwrap();
        assert!(said(90).ends_with(": the second request waited for the first"));
        assert!(said(1).ends_with("the second request did not wait for the first"));
        assert_eq!(held(&[(0, ms(100))]), None);
    }
}
