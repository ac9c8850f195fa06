//! The links between requests and connections that the page shows in full: their ids, and the trial that they belong to.
//!
//! Nothing is drawn here: `request` and `connection` do that.

use squall_analysis::detail::TrialDetail;
use squall_analysis::explain::Explanation;
use squall_base::record::TrialRecord;

use crate::explain::ExplanationContext;

/// The trial that a request or connection belongs to, as its markup needs it.
pub(super) struct Page<'a> {
    pub(super) context: ExplanationContext,
    /// Variant, condition, repetition, folder.
    pub(super) title: String,
    pub(super) detail: &'a TrialDetail,
}

impl<'a> Page<'a> {
    /// For the trial of `record`.
    pub(super) fn of(record: &TrialRecord, detail: &'a TrialDetail) -> Page<'a> {
        let trial = &record.trial;
        Page {
            context: ExplanationContext::of_trial(record),
            title: format!(
                "{}, {}, repetition {} ({})",
                trial.variant.name,
                trial.condition,
                trial.repetition + 1,
                detail.folder
            ),
            detail,
        }
    }

    /// The id of a request of the trial. assets/details.js turns links to requests that cannot be shown into plain text.
    pub(super) fn request(&self, request: u64) -> String {
        request_id(self.detail.index, request)
    }

    /// The id of a connection of the trial, if its link saw it.
    pub(super) fn connection(&self, hop: u8, number: u32) -> Option<String> {
        let mut all = self.detail.connections.iter();
        let is_known = all.any(|it| (it.trace.hop, it.trace.connection) == (hop, number));
        is_known.then(|| connection_id(self.detail, hop, number))
    }
}

/// The id of a request of the trial at this position in the order of the run.
pub(super) fn request_id(trial: u32, request: u64) -> String {
    format!("request-{trial}-{request}")
}

pub(super) fn connection_id(trial: &TrialDetail, hop: u8, number: u32) -> String {
    format!("connection-{}-{hop}-{number}", trial.index)
}

/// The connections of a request: the hop of each, and the number that the hop's client gave it.
pub(super) fn places(it: &Explanation) -> Vec<(u8, u32)> {
    let hops = &it.course.hops;
    let only = (1, it.connection.filter(|_| hops.is_empty()));
    let all = hops.iter().map(|hop| (hop.hop, hop.connection));
    let all = std::iter::once(only).chain(all);
    all.filter_map(|(hop, number)| Some((hop, number?)))
        .collect()
}
