//! The links between requests and connections that the page shows in full: their ids, and the trial that they belong to.
//!
//! Nothing is drawn here: `request` and `connection` do that.

use squall_analysis::detail::TrialDetail;
use squall_analysis::explain::Explanation;

use crate::explain::ExplanationContext;

/// The trial that a request or connection belongs to, as its markup needs it.
pub(super) struct Page<'a> {
    pub(super) context: &'a ExplanationContext,
    /// Variant, condition, repetition, folder.
    pub(super) title: &'a str,
    pub(super) detail: &'a TrialDetail,
}

impl Page<'_> {
    /// The id of a request of the trial, if the page shows it in full too.
    pub(super) fn request(&self, request: u64) -> Option<String> {
        let mut all = self.detail.requests.iter();
        let is_chosen = all.any(|it| it.explanation.request == request);
        is_chosen.then(|| request_id(self.detail, request))
    }

    /// The id of a connection of the trial, if its link saw it.
    pub(super) fn connection(&self, hop: u8, number: u32) -> Option<String> {
        let mut all = self.detail.connections.iter();
        let is_known = all.any(|it| (it.trace.hop, it.trace.connection) == (hop, number));
        is_known.then(|| connection_id(self.detail, hop, number))
    }
}

pub(super) fn request_id(trial: &TrialDetail, request: u64) -> String {
    format!("request-{}-{request}", trial.index)
}

pub(super) fn connection_id(trial: &TrialDetail, hop: u8, number: u32) -> String {
    format!("connection-{}-{hop}-{number}", trial.index)
}

/// The connections of a request: the hop of each, and the hop's client's number for it.
pub(super) fn places(it: &Explanation) -> Vec<(u8, u32)> {
    let hops = &it.course.hops;
    let only = (1, it.connection.filter(|_| hops.is_empty()));
    let all = hops.iter().map(|hop| (hop.hop, hop.connection));
    let all = std::iter::once(only).chain(all);
    all.filter_map(|(hop, number)| Some((hop, number?)))
        .collect()
}
