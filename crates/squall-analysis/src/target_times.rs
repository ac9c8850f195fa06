//! The times of a trial's requests of some targets, such as those of `/video` alone.
//!
//! Which target a request has stands in the plan: its row names one of the plan's requests. At a server the exchange says
//! whose it is, by the `traceparent` that the client writes where a station stands between. What a measure's figure is,
//! and the figures of all requests, are in `trial`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use squall_base::plan::{Plan, Targets};
use squall_base::record::{ExchangeRecord, Phase, RequestRecord, TrialRecord};

use crate::quantile::{Quantile, Sample};
use crate::trial::{Figures, latency_since, server_time, transfer_time};

/// The times of the measured phase's requests whose targets begin with a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetTimes {
    /// The path.
    pub path: String,
    /// Response times.
    pub response: Figures,
    /// Transfer times.
    pub transfer: Figures,
    /// Server times; `None` if they were not asked for.
    pub server: Option<Figures>,
}

/// Of each path that a measure of the plan names, once.
pub(crate) fn target_times(
    plan: &Plan,
    record: &TrialRecord,
    requests: &[RequestRecord],
    exchanges: Option<&[ExchangeRecord]>,
) -> Vec<TargetTimes> {
    let mut named: Vec<Targets> = Vec::new();
    for targets in plan.measures.iter().filter_map(|it| it.targets()) {
        if targets.path().is_some() && !named.contains(&targets) {
            named.push(targets);
        }
    }
    let asked_for: BTreeMap<u64, &str> = (requests.iter())
        .filter_map(|row| Some((row.request, target(plan, row)?)))
        .collect();
    let of = |targets: &Targets| {
        let is_own = |request: u64| asked_for.get(&request).is_some_and(|it| targets.have(it));
        let own = || {
            let measured = requests.iter().filter(|row| row.phase == Phase::Measure);
            measured.filter(|row| is_own(row.request))
        };
        let response: Sample = own().map(|row| latency_since(row, row.intended)).collect();
        let transfer: Sample = own().map(transfer_time).collect();
        let server = exchanges.map(|exchanges| {
            let own = exchanges.iter().filter(|it| it.request.is_some_and(is_own));
            let times = own.filter_map(|exchange| server_time(record, exchange));
            Figures::of(&times.map(Quantile::Exact).collect())
        });
        TargetTimes {
            path: targets.path().unwrap_or_default().to_owned(),
            response: Figures::of(&response),
            transfer: Figures::of(&transfer),
            server,
        }
    };
    named.iter().map(of).collect()
}

fn target<'p>(plan: &'p Plan, row: &RequestRecord) -> Option<&'p str> {
    let request = plan.requests.get(row.what as usize)?;
    Some(&request.target)
}
