//! One request in full, with its connections, for the dialog of a live page, which also shows requests that are not in the
//! page.
//!
//! `html` draws it in the same way as requests in the page, so that both look alike. squall-analysis' `detail` found everything
//! that is drawn, and assets/details.js shows it.

use serde::Serialize;
use squall_analysis::detail::TrialDetail;
use squall_base::record::TrialRecord;

use crate::html::trial_markup::{self, DrawnDetail};
use crate::lang::{Language, Translator};

/// A request in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestInFull {
    /// The request.
    pub request: DrawnDetail,
    /// Its connections over links while it was on them, sorted by hop.
    pub connections: Vec<DrawnDetail>,
}

impl RequestInFull {
    /// Draws the first request of the details of a trial, and all connections of the details, in a language. `None` without
    /// a request.
    pub fn of(
        language: Language,
        record: &TrialRecord,
        detail: &TrialDetail,
    ) -> Option<RequestInFull> {
        let trial = &record.trial;
        let names = [
            trial.variant.name.clone(),
            trial.condition.to_string(),
            detail.folder.clone(),
        ];
        let translator = Translator::of_names(language, names.into());
        let said = |drawn: DrawnDetail| DrawnDetail {
            markup: translator.part(drawn.markup),
            ..drawn
        };
        let (requests, connections) = trial_markup::drawn(record, detail);
        Some(RequestInFull {
            request: requests.into_iter().next().map(said)?,
            connections: connections.into_iter().map(said).collect(),
        })
    }
}
