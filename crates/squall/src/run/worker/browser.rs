//! The pages of a browser in a trial: the phase of their requests, and the load times that the browser reports.
//!
//! squall-peers drives the browser. squall-analysis computes the page times that variants are compared by, from the
//! requests alone.

use std::collections::BTreeMap;

use squall_base::record::{Outcome, PageRecord, Phase, RequestRecord};
use squall_peers::client::PageLine;

use crate::pages::nearest_rank;

/// Summarises pages of `count` requests each. Every request gets the phase of its document, so that a page belongs to
/// one phase.
pub(super) fn pages(told: &[PageLine], rows: &mut [RequestRecord], count: u64) -> PageRecord {
    let mut phases: BTreeMap<u64, Phase> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.request % count == 0) {
        phases.insert(row.request / count, row.phase);
    }
    let mut failed: BTreeMap<u64, bool> = BTreeMap::new();
    for row in rows {
        let page = row.request / count;
        if let Some(phase) = phases.get(&page) {
            row.phase = *phase;
        }
        let has_failed = !row.succeeded() && row.outcome != Outcome::Censored;
        *failed.entry(page).or_default() |= has_failed;
    }
    let mut record = PageRecord::default();
    let mut times = Vec::new();
    for page in told {
        let is_measured = phases.get(&page.page) == Some(&Phase::Measure);
        match (page.is_loaded, failed.get(&page.page)) {
            (false, _) if page.error.is_none() => record.unfinished += 1,
            (true, Some(false)) if is_measured => times.push(page.took),
            _ if is_measured => record.failed += 1,
            _ => {}
        }
    }
    times.sort_unstable();
    PageRecord {
        loaded: times.len() as u64,
        least: times.first().copied(),
        median: nearest_rank(&times),
        most: times.last().copied(),
        ..record
    }
}

#[cfg(test)]
mod tests {
    use squall_base::{Duration, Time};

    use super::*;

    /// A request of a page that has two requests.
    fn row(request: u64, phase: Phase, status: u16) -> RequestRecord {
        RequestRecord {
            phase,
            what: (request % 2) as u32,
            status: Some(status),
            outcome: Outcome::Answered,
            ..RequestRecord::due(request, Time::ZERO)
        }
    }

    fn page(page: u64, ms: u64, error: Option<&str>) -> PageLine {
        PageLine {
            page,
            start: Time::ZERO,
            took: Duration::from_millis(ms),
            is_loaded: ms > 0,
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn page_takes_phase_from_its_document_and_time_from_the_browser() {
        use Phase::{Measure, Warmup};
        // The second request of the first page was sent after the warm-up.
        let mut rows = vec![row(0, Warmup, 200), row(1, Measure, 200)];
        rows.extend((2..8).map(|request| row(request, Measure, 200)));
        rows.extend([
            row(8, Measure, 200),
            row(9, Measure, 404),
            row(10, Measure, 200),
        ]);
        let mut told: Vec<PageLine> = [90, 30, 10, 20, 99]
            .into_iter()
            .zip(0..)
            .map(|(ms, number)| page(number, ms, None))
            .collect();
        told.push(page(5, 0, None));
        told.push(page(6, 0, Some("net::ERR_FAILED")));
        rows.push(row(12, Measure, 500));
        let found = pages(&told, &mut rows, 2);
        assert_eq!((found.loaded, found.failed, found.unfinished), (3, 2, 1));
        let times = [found.least, found.median, found.most].map(|time| time.unwrap().to_string());
        assert_eq!(times, ["10ms", "20ms", "30ms"]);
        assert_eq!((rows[1].phase, rows[2].phase), (Warmup, Measure));
    }
}
