//! What a complete trial found, for its progress line.
//!
//! Only that line is made here: summaries are squall-analysis', and `progress` prints.

use anyhow::Result;
use squall_analysis::{figure, trial_stats};
use squall_base::plan::{Load, LoadKind, PageQuestion};
use squall_base::record::{Phase, RequestRecord, Validity};
use squall_record::{TrialFolder, read_requests};

use crate::pages;

/// What a complete trial found, in English, for its progress line.
pub(super) fn trial_outcome(complete: &TrialFolder) -> Result<String> {
    let record = complete.read_record()?;
    let requests = complete.read_checked(&record, &complete.requests(), read_requests)?;
    let stats = trial_stats(&record, &requests);
    let quantile = |value: Option<_>| value.map_or_else(|| "n/a".to_owned(), figure::quantile);
    let mut said = match (stats.median, stats.p99) {
        (Some(_), Some(_)) => format!(
            "p50 {} ms, p99 {} ms",
            quantile(stats.median),
            quantile(stats.p99)
        ),
        (Some(_), None) => format!("p50 {} ms", quantile(stats.median)),
        // There are too few requests for a percentile.
        (None, _) => format!("mean {} ms", quantile(stats.mean)),
    };
    if stats.failed + stats.censored > 0 {
        said += &format!(", {} failed, {} unfinished", stats.failed, stats.censored);
    }
    if let Some(pages) = &record.pages {
        let held = || held(&record.trial.load, &requests);
        let further = pages::sentence(pages).into_iter().chain(held());
        further.for_each(|further| said += &format!("; {further}"));
    }
    match &stats.validity {
        Validity::Valid => {}
        Validity::Invalid { .. } => said += ", INVALID",
        Validity::Doubtful { .. } => said += ", DOUBTFUL",
        Validity::Limited { reasons } => said += &format!(", a limit: {}", reasons.join("; ")),
    }
    Ok(said)
}

/// For a load with a held request: whether the other request waited for it.
fn held(load: &Load, requests: &[RequestRecord]) -> Option<String> {
    let LoadKind::Pages {
        question: PageQuestion::Held,
        ..
    } = load.kind
    else {
        return None;
    };
    let measured =
        |request: &&RequestRecord| request.phase == Phase::Measure && request.succeeded();
    let answers: Vec<_> = (requests.iter().filter(measured))
        .map(|request| (request.what, request.response_time()))
        .collect();
    pages::held(&answers)
}
