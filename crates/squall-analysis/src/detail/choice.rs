//! Which requests of a run a report shows in detail: of each cell the slowest and a median one, and those that findings name
//! as evidence.
//!
//! The choice needs two small facts about each trial, so that rows are read again only for trials with chosen requests.
//! Findings are not judged here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::plan::Condition;
use squall_base::record::{Outcome, Phase, RequestRecord, TrialRecord, Validity};

use crate::findings::CellFindings;

/// The most requests of a run that are shown in detail: a page with all of them stays below a few megabytes.
pub const DETAILED_AT_MOST: usize = 40;

/// How many of a cell's slowest requests are candidates.
const SLOWEST: usize = 3;

/// The requests of one trial that are to be shown, each with the reasons why.
pub type ChosenRequests = BTreeMap<u64, Vec<String>>;

/// The requests of a trial that may be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailCandidates {
    folder: String,
    variant: String,
    condition: Condition,
    is_valid: bool,
    /// The slowest: whether it was answered, its response time, its number. Answered ones come first.
    slowest: Vec<(bool, Duration, u64)>,
    /// The answered request whose response time is the median.
    median: Option<(Duration, u64)>,
}

impl DetailCandidates {
    /// The candidates of a trial. `requests` are all of its rows, in any order.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> DetailCandidates {
        let measured = requests.iter().filter(|row| row.phase == Phase::Measure);
        let is_answered = |row: &RequestRecord| row.outcome == Outcome::Answered;
        let times = measured.map(|row| (is_answered(row), row.response_time(), row.request));
        let mut times: Vec<(bool, Duration, u64)> = times.collect();
        times.sort_by_key(|(is_answered, time, request)| {
            (Reverse(*is_answered), Reverse(*time), *request)
        });
        let answered = times.partition_point(|(is_answered, ..)| *is_answered);
        let median = times[..answered].get(answered / 2);
        let trial = &record.trial;
        DetailCandidates {
            folder: trial.folder(),
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            is_valid: record.health.validity == Validity::Valid,
            median: median.map(|(_, time, request)| (*time, *request)),
            slowest: times.into_iter().take(SLOWEST).collect(),
        }
    }

    /// The trial's folder within the run.
    pub fn folder(&self) -> &str {
        &self.folder
    }
}

/// A request that is proposed, and why.
struct Proposal<'a> {
    folder: &'a str,
    request: u64,
    reason: String,
}

/// Chooses at most [`DETAILED_AT_MOST`] requests of a run, by the folder of their trial: first the slowest of each cell, then
/// the first request that the worst finding of each cell names, a median request of each cell, further findings, further
/// slow requests. Invalid trials count only in cells without a valid one. `cells` are the findings of the run.
pub fn choose_detailed(
    candidates: &[DetailCandidates],
    cells: &[CellFindings],
) -> BTreeMap<String, ChosenRequests> {
    let own: Vec<Vec<&DetailCandidates>> = by_cell(candidates);
    let slowest: Vec<Vec<Proposal<'_>>> = own.iter().map(|cell| slowest_of(cell)).collect();
    let medians = own.iter().filter_map(|cell| median_of(cell)).collect();
    let evidence: Vec<Vec<Proposal<'_>>> = cells.iter().map(evidence_of).collect();
    let [first, rest] = split_ranks(slowest);
    let [worst, further] = split_ranks(evidence);
    let ranks = [first, worst, medians, further, rest];
    let mut chosen: BTreeMap<String, ChosenRequests> = BTreeMap::new();
    let mut count = 0;
    for it in ranks.into_iter().flatten() {
        let of_trial = chosen.get_mut(it.folder);
        if let Some(reasons) = of_trial.and_then(|requests| requests.get_mut(&it.request)) {
            reasons.push(it.reason);
        } else if count < DETAILED_AT_MOST {
            count += 1;
            let of_trial = chosen.entry(it.folder.to_owned()).or_default();
            of_trial.insert(it.request, vec![it.reason]);
        }
    }
    chosen
}

/// The trials that count in each cell, in the order in which cells first occur.
fn by_cell(candidates: &[DetailCandidates]) -> Vec<Vec<&DetailCandidates>> {
    let mut cells: Vec<Vec<&DetailCandidates>> = Vec::new();
    for trial in candidates {
        let is_own = |cell: &&mut Vec<&DetailCandidates>| {
            cell[0].variant == trial.variant && cell[0].condition == trial.condition
        };
        match cells.iter_mut().find(is_own) {
            Some(cell) => cell.push(trial),
            None => cells.push(vec![trial]),
        }
    }
    for cell in &mut cells {
        if cell.iter().any(|trial| trial.is_valid) {
            cell.retain(|trial| trial.is_valid);
        }
    }
    cells
}

fn slowest_of<'a>(cell: &[&'a DetailCandidates]) -> Vec<Proposal<'a>> {
    let all = cell.iter().flat_map(|trial| {
        let (slowest, folder) = (trial.slowest.iter(), trial.folder.as_str());
        slowest.map(move |(is_answered, time, request)| {
            let rank = (Reverse(*is_answered), Reverse(*time));
            (rank, folder, *request)
        })
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    let slowest = (1..=SLOWEST).zip(all);
    slowest
        .map(|(place, (_, folder, request))| Proposal {
            folder,
            request,
            reason: match place {
                1 => "the slowest of its variant and condition".to_owned(),
                _ => format!("number {place} of the slowest of its variant and condition"),
            },
        })
        .collect()
}

/// The median request of the trial with the middle median.
fn median_of<'a>(cell: &[&'a DetailCandidates]) -> Option<Proposal<'a>> {
    let medians = cell.iter().filter_map(|trial| {
        let (time, request) = trial.median?;
        Some((time, trial.folder.as_str(), request))
    });
    let mut medians: Vec<(Duration, &str, u64)> = medians.collect();
    medians.sort_unstable();
    let last = medians.len().checked_sub(1)?;
    let (_, folder, request) = medians[last / 2];
    Some(Proposal {
        folder,
        request,
        reason: "a median request of its variant and condition".to_owned(),
    })
}

/// The first request that each finding names.
fn evidence_of(cell: &CellFindings) -> Vec<Proposal<'_>> {
    let found = cell.findings.iter().filter_map(|found| {
        Some(Proposal {
            folder: &found.folder,
            request: *found.finding.evidence.requests.first()?,
            reason: format!("evidence of: {}", found.finding.title),
        })
    });
    found.collect()
}

/// Splits the proposals of all cells into the first of each cell and all others, second ones before third ones.
fn split_ranks(cells: Vec<Vec<Proposal<'_>>>) -> [Vec<Proposal<'_>>; 2] {
    let mut ranked: Vec<(usize, Proposal<'_>)> = cells
        .into_iter()
        .flat_map(|cell| cell.into_iter().enumerate())
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let (first, rest): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|(rank, _)| *rank == 0);
    [first, rest].map(|proposals| proposals.into_iter().map(|(_, it)| it).collect())
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;

    use super::*;
    use crate::findings::{CostShare, Evidence, Finding, RunFinding, Severity, Whole, made_trial};
    use crate::load::requests::answered;

    /// A repetition with requests that took these times in ms.
    fn trial(repetition: u32, millis: &[u64]) -> DetailCandidates {
        let mut record = made_trial(Protocol::H2);
        record.trial.index = repetition;
        record.trial.repetition = repetition;
        let rows: Vec<RequestRecord> = (0..)
            .zip(millis)
            .map(|(request, millis)| RequestRecord {
                request,
                ..answered(10_000, millis * 1_000)
            })
            .collect();
        DetailCandidates::of(&record, &rows)
    }

    fn chosen(candidates: &[DetailCandidates]) -> Vec<(usize, u64, Vec<String>)> {
        chosen_with(candidates, &[])
    }

    /// The place of the trial, the request, and why it was chosen.
    fn chosen_with(
        candidates: &[DetailCandidates],
        cells: &[CellFindings],
    ) -> Vec<(usize, u64, Vec<String>)> {
        let by_trial = choose_detailed(candidates, cells);
        let mut all = Vec::new();
        for (place, it) in candidates.iter().enumerate() {
            let own = by_trial.get(it.folder()).into_iter().flatten();
            all.extend(own.map(|(request, reasons)| (place, *request, reasons.clone())));
        }
        all
    }

    #[test]
    fn slowest_and_median_requests_of_a_cell_are_chosen_across_its_trials() {
        let trials = [
            trial(0, &[10, 11, 90, 12, 13]),
            trial(1, &[20, 21, 22, 80, 70]),
            trial(2, &[10, 10, 10, 10, 10]),
        ];
        let found = chosen(&trials);
        let places: Vec<(usize, u64)> = found.iter().map(|it| (it.0, it.1)).collect();
        // The medians of the trials are 12, 22 and 10 ms.
        assert_eq!(places, [(0, 2), (0, 3), (1, 3), (1, 4)]);
        assert_eq!(found[0].2, ["the slowest of its variant and condition"]);
        assert_eq!(
            found[1].2,
            ["a median request of its variant and condition"]
        );
    }

    #[test]
    fn unanswered_requests_count_as_slow_only_after_answered_ones() {
        let mut record = made_trial(Protocol::H2);
        let given_up = |request, outcome| RequestRecord {
            request,
            outcome,
            ..answered(10_000, 500_000)
        };
        record.trial.repetition = 0;
        let rows = [
            given_up(0, Outcome::Censored),
            RequestRecord {
                request: 1,
                ..answered(10_000, 7_000)
            },
        ];
        let found = chosen(&[DetailCandidates::of(&record, &rows)]);
        let numbers: Vec<u64> = found.iter().map(|it| it.1).collect();
        assert_eq!(numbers, [0, 1]);
        assert_eq!(
            found[1].2,
            [
                "the slowest of its variant and condition",
                "a median request of its variant and condition"
            ]
        );
    }

    /// The findings of a trial's cell, the worst first: the title of each, and the requests that it names.
    fn cell_of(trial: &DetailCandidates, findings: &[(&str, &[u64])]) -> CellFindings {
        let findings = findings.iter().map(|(title, requests)| RunFinding {
            trials: 1,
            of: 1,
            folder: trial.folder.clone(),
            finding: Finding {
                name: String::new(),
                title: (*title).to_owned(),
                severity: Severity::Grave,
                share: CostShare {
                    part: 0.5,
                    of: Whole::ResponseTime,
                },
                evidence: Evidence {
                    numbers: Vec::new(),
                    requests: requests.to_vec(),
                },
                explanation: String::new(),
                fixes: Vec::new(),
                hop: None,
            },
        });
        CellFindings {
            variant: trial.variant.clone(),
            condition: trial.condition.clone(),
            findings: findings.collect(),
        }
    }

    #[test]
    fn first_request_of_a_finding_is_chosen_with_its_title_as_the_reason() {
        // The slowest are 2, 6 and 5; the median is 4.
        let trials = [trial(0, &[10, 11, 90, 12, 13, 70, 80])];
        let cell = cell_of(
            &trials[0],
            &[
                ("Nagle", &[3, 1]),
                ("Stream window too small", &[]),
                ("Loss", &[2]),
            ],
        );
        let found = chosen_with(&trials, &[cell]);
        let numbers: Vec<u64> = found.iter().map(|it| it.1).collect();
        assert_eq!(
            numbers,
            [2, 3, 4, 5, 6],
            "and no further request of a finding"
        );
        assert_eq!(found[1].2, ["evidence of: Nagle"]);
        assert_eq!(
            found[0].2,
            [
                "the slowest of its variant and condition",
                "evidence of: Loss"
            ]
        );
        // The same choice without findings has neither the request nor the second reason.
        let without = chosen(&trials);
        let numbers: Vec<u64> = without.iter().map(|it| it.1).collect();
        assert_eq!(numbers, [2, 4, 5, 6]);
        assert_eq!(without[0].2.len(), 1);
    }

    #[test]
    fn worst_findings_come_before_medians_and_further_findings_after_them() {
        let trials = cells(38);
        // Request 3 is the slowest of each cell, 1 its median.
        let findings: [(&str, &[u64]); 2] = [("Nagle", &[0]), ("Loss", &[2])];
        let of_two = [&trials[0], &trials[37]].map(|trial| cell_of(trial, &findings));
        let found = chosen_with(&trials, &of_two);
        let others = found.iter().filter(|it| it.1 != 3);
        let others: Vec<(usize, u64)> = others.map(|it| (it.0, it.1)).collect();
        assert_eq!(others, [(0, 0), (37, 0)], "38 slowest leave room for two");
        let trials = cells(19);
        let found = chosen_with(&trials, &[cell_of(&trials[0], &findings)]);
        let medians = found.iter().filter(|it| it.1 == 1).count();
        let further = found.iter().filter(|it| it.1 == 2);
        let further: Vec<usize> = further.map(|it| it.0).collect();
        assert_eq!((medians, further), (19, vec![0]), "19 + 1 + 19 + 1");
    }

    /// Cells with one trial each, of four requests, of which the last is the slowest.
    fn cells(count: u64) -> Vec<DetailCandidates> {
        let cell = |n| {
            let mut own = trial(0, &[n, n + 1, n + 2, n + 3]);
            own.folder = format!("{n:04}-h2");
            own.variant = format!("variant {n}");
            own
        };
        (0..count).map(cell).collect()
    }

    #[test]
    fn no_more_than_the_limit_is_chosen() {
        let trials = cells(60);
        let found = chosen(&trials);
        assert_eq!(found.len(), DETAILED_AT_MOST);
        assert!(found.iter().all(|(_, request, _)| *request == 3));
    }
}
