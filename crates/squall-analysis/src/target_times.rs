//! The times of a trial's requests to some targets, such as `/video` alone.
//!
//! A request's row names one of the plan's requests, which has the target. At a server, the exchange is matched to its
//! request by the `traceparent` header, which the client writes if there is a station in between. `figures`
//! says what a figure is; `trial` has those of all requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use squall_base::plan::{Plan, Targets};
use squall_base::record::{Phase, RequestRecord};

use crate::distinct::distinct;
use crate::figures::Figures;
use crate::latency::{ServedExchanges, first_chunk_time, latency_since, transfer_time};
use crate::quantile::Sample;

/// The times of measured requests whose targets begin with a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetTimes {
    /// The path.
    pub path: String,
    /// Response times.
    #[serde(rename = "response_ns", alias = "response")]
    pub response: Figures,
    /// Transfer times.
    #[serde(rename = "transfer_ns", alias = "transfer")]
    pub transfer: Figures,
    /// Times to the first chunk.
    #[serde(rename = "first_chunk_ns", alias = "first_chunk", default)]
    pub first_chunk: Figures,
    /// Server times; `None` if they were not requested.
    #[serde(rename = "server_ns", alias = "server")]
    pub server: Option<Figures>,
}

/// The times for each path that a measure of the plan names, each path once.
pub(crate) fn target_times(
    plan: &Plan,
    requests: &[RequestRecord],
    served: Option<&ServedExchanges<'_>>,
) -> Vec<TargetTimes> {
    let named = plan.measures.iter().filter_map(|it| it.targets());
    let named = distinct(named.filter(|it| it.path().is_some()));
    let asked_for: BTreeMap<u64, &str> = (requests.iter())
        .filter_map(|row| Some((row.request, target(plan, row)?)))
        .collect();
    let of = |targets: &Targets| {
        let is_own = |request: u64| {
            asked_for
                .get(&request)
                .is_some_and(|it| targets.contains(it))
        };
        let own = || {
            let measured = requests.iter().filter(|row| row.phase == Phase::Measure);
            measured.filter(|row| is_own(row.request))
        };
        let response: Sample = own().map(|row| latency_since(row, row.intended)).collect();
        let transfer: Sample = own().map(transfer_time).collect();
        let server =
            served.map(|served| Figures::of(&served.times(|it| it.request.is_some_and(is_own))));
        TargetTimes {
            path: targets.path().unwrap_or_default().to_owned(),
            response: Figures::of(&response),
            transfer: Figures::of(&transfer),
            first_chunk: Figures::of(&own().filter_map(first_chunk_time).collect()),
            server,
        }
    };
    named.iter().map(of).collect()
}

fn target<'p>(plan: &'p Plan, row: &RequestRecord) -> Option<&'p str> {
    let request = plan.requests.get(row.what as usize)?;
    Some(&request.target)
}
