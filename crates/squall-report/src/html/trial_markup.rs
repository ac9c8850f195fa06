//! The chosen requests and connections of a trial as compressed markup.
//!
//! `request` or `connection` draws each one. The markup is kept compressed in an element for each, because all of it together
//! would be most of the page. Nothing is chosen here (squall-analysis' `detail` does that); `details` puts them on the page.

use serde::Serialize;
use squall_analysis::detail::{ConnectionDetail, RequestDetail, TrialDetail};
use squall_analysis::explain::Explanation;
use squall_base::Duration;
use squall_base::record::{Cause, TrialRecord};

use super::links::{Page, connection_id, places};
use super::{connection, request};
use crate::deflate::deflated;

/// The chosen requests and connections of a trial, drawn and compressed, which takes much less memory than their records.
#[derive(Clone, Debug)]
pub(crate) struct TrialMarkup {
    pub(super) folder: String,
    pub(super) requests: Vec<RequestMarkup>,
    pub(super) connections: Vec<Packed>,
}

/// A request: its data, and what its row of the list says.
#[derive(Clone, Debug)]
pub(super) struct RequestMarkup {
    pub(super) data: Packed,
    pub(super) request: u64,
    pub(super) latency: Duration,
    /// The cause of most of its time.
    pub(super) mostly: Option<Cause>,
    /// Its connections: their names, and their ids.
    pub(super) places: Vec<(String, Option<String>)>,
    pub(super) reasons: Vec<String>,
}

/// A request or a connection as markup, and the id by which links name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawnDetail {
    /// Such as `request-3-412`: the trial's position in the order of the run, and the request.
    pub id: String,
    /// What the dialog shows of it.
    pub markup: String,
}

impl DrawnDetail {
    fn of_request(it: &RequestDetail, page: &Page<'_>) -> DrawnDetail {
        let mut markup = String::new();
        request::push(&mut markup, it, page);
        DrawnDetail {
            id: page.request(it.explanation.request),
            markup,
        }
    }

    fn of_connection(it: &ConnectionDetail, page: &Page<'_>) -> DrawnDetail {
        let mut markup = String::new();
        connection::push(&mut markup, it, page);
        DrawnDetail {
            id: connection_id(page.detail, it.trace.hop, it.trace.connection),
            markup,
        }
    }
}

/// Draws the requests of a trial's details, and its connections.
pub(crate) fn drawn(
    record: &TrialRecord,
    detail: &TrialDetail,
) -> (Vec<DrawnDetail>, Vec<DrawnDetail>) {
    let page = Page::of(record, detail);
    let requests = detail.requests.iter();
    let connections = detail.connections.iter();
    (
        requests
            .map(|it| DrawnDetail::of_request(it, &page))
            .collect(),
        connections
            .map(|it| DrawnDetail::of_connection(it, &page))
            .collect(),
    )
}

/// Compressed markup, and the id by which links name it.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) id: String,
    text: String,
}

impl Packed {
    pub(super) fn of(detail: DrawnDetail) -> Packed {
        Packed {
            text: deflated(detail.markup.as_bytes()),
            id: detail.id,
        }
    }

    pub(super) fn element(&self) -> String {
        let Packed { id, text } = self;
        format!("<script type=\"text/plain\" id=\"detail-{id}\">{text}</script>\n")
    }
}

impl TrialMarkup {
    /// Draws the chosen requests of a trial.
    pub(crate) fn of(record: &TrialRecord, detail: &TrialDetail) -> TrialMarkup {
        let page = Page::of(record, detail);
        let requests = detail.requests.iter().map(|it| {
            let explanation = &it.explanation;
            RequestMarkup {
                data: Packed::of(DrawnDetail::of_request(it, &page)),
                request: explanation.request,
                latency: explanation.latency,
                mostly: explanation.causes.first().map(|share| share.cause),
                places: named_places(explanation, &page),
                reasons: it.reasons.clone(),
            }
        });
        let connections = detail.connections.iter();
        let connections = connections.map(|it| Packed::of(DrawnDetail::of_connection(it, &page)));
        TrialMarkup {
            folder: detail.folder.clone(),
            requests: requests.collect(),
            connections: connections.collect(),
        }
    }
}

/// The connections of a request: their names, and their ids.
fn named_places(it: &Explanation, page: &Page<'_>) -> Vec<(String, Option<String>)> {
    let named = places(it).into_iter().map(|(hop, number)| {
        let words = format!("{number}{}", page.context.of_hop(hop));
        (words, page.connection(hop, number))
    });
    named.collect()
}
