//! The requests that the page shows in full: the list of them, the links to them, and the elements from which a dialog shows
//! one.
//!
//! `trial_markup` has drawn them. assets/details.js unpacks one when its link is followed. Without scripts, a link leads to its
//! row of the list. Nothing is chosen here: squall-analysis' `detail` does that.

use std::collections::{BTreeMap, BTreeSet};

use squall_analysis::figure;
use squall_analysis::findings::Finding;
use squall_base::Duration;

use super::links::request_id;
use super::text::escaped;
use super::trial_markup::{Packed, RequestMarkup};
use crate::points::TrialPoints;

/// The most characters of compressed data. With the rest of the page it stays below 5 MB.
const PACKED_AT_MOST: usize = 2_000_000;

/// A list of at most this many requests is unfolded.
const UNFOLDED: usize = 8;

/// The most requests of a finding with links to them.
const EVIDENCE_LINKED: usize = 5;

/// The dialog in which the scripts show a request or connection.
const DIALOG: &str = "<dialog id=\"detail\" aria-label=\"Request or connection in full\">\n<form method=\"dialog\">\
                      <button>Close</button></form>\n<div id=\"detail-body\"></div>\n</dialog>\n";

/// The columns of the list after the first.
const COLUMNS: [&str; 7] = [
    "variant",
    "condition",
    "repetition",
    "response time in ms",
    "mostly",
    "connection",
    "why",
];

/// Everything that the page shows in full.
pub(super) struct Details {
    /// The rows of the list, as markup.
    rows: String,
    count: usize,
    /// The response time of the slowest request of the list, and the link to it.
    slowest: Option<(Duration, String)>,
    /// The elements with the data.
    elements: String,
    /// Ids of requests, by their trial's folder and their number.
    ids: BTreeMap<(String, u64), String>,
    /// On a live page, which can show any request: the positions of trials in the order of the run, by their folders.
    /// Otherwise empty.
    served: BTreeMap<String, u32>,
}

impl Details {
    /// What the trials have, as far as there is room: requests first, then connections.
    pub(super) fn of(plots: &[TrialPoints]) -> Details {
        Details::within(plots, PACKED_AT_MOST)
    }

    /// Like [`Details::of`], on a page whose server has all other requests of these trials.
    pub(super) fn live(plots: &[TrialPoints]) -> Details {
        let trials = plots.iter().map(|plot| (plot.folder.clone(), plot.index));
        Details {
            served: trials.collect(),
            ..Details::of(plots)
        }
    }

    /// What the trials have, in elements of at most this many characters.
    fn within(plots: &[TrialPoints], limit: usize) -> Details {
        let mut details = Details {
            rows: String::new(),
            count: 0,
            slowest: None,
            elements: String::new(),
            ids: BTreeMap::new(),
            served: BTreeMap::new(),
        };
        let trials = || {
            let all = plots.iter().enumerate();
            all.filter_map(|(place, plot)| Some((place, plot, plot.detail.as_ref()?)))
        };
        let mut fitting = Vec::new();
        for (place, plot, trial) in trials() {
            for it in &trial.requests {
                if details.add_element(&it.data, limit) {
                    fitting.push((place, plot, trial, it));
                }
            }
        }
        let connections = trials().flat_map(|(_, _, trial)| &trial.connections);
        let connections: BTreeSet<&str> = connections
            .filter(|it| details.add_element(it, limit))
            .map(|it| it.id.as_str())
            .collect();
        for (place, plot, trial, it) in fitting {
            details.add_row(place, plot, it, &connections);
            details
                .ids
                .insert((trial.folder.clone(), it.request), it.data.id.clone());
        }
        details
    }

    /// Adds an element if there is room for it.
    fn add_element(&mut self, data: &Packed, limit: usize) -> bool {
        let element = data.element();
        let has_room = self.elements.len() + element.len() <= limit;
        if has_room {
            self.elements += &element;
        }
        has_room
    }

    fn add_row(
        &mut self,
        place: usize,
        plot: &TrialPoints,
        it: &RequestMarkup,
        connections: &BTreeSet<&str>,
    ) {
        let (id, request) = (&it.data.id, it.request);
        let mostly = it.mostly.map_or_else(String::new, |cause| {
            let name = cause.name();
            format!("<span class=\"swatch cause-{name}\"></span>{name}")
        });
        let links = it.places.iter().map(|(words, id)| {
            let id = id.as_deref().filter(|id| connections.contains(id));
            id.map_or_else(
                || words.clone(),
                |id| format!("<a href=\"#{id}\">{words}</a>"),
            )
        });
        let cells = [
            escaped(&plot.variant),
            escaped(&plot.condition.to_string()),
            (plot.repetition + 1).to_string(),
            figure::millis(it.latency),
            mostly,
            links.collect::<Vec<String>>().join(", "),
            escaped(&it.reasons.join("; ")),
        ];
        self.rows.push_str(&format!(
            "<tr id=\"{id}\" data-points=\"points-{place}\" data-request=\"{request}\"><th scope=\"row\"><a \
             href=\"#{id}\">request {request}</a></th>"
        ));
        for (title, cell) in COLUMNS.iter().zip(cells) {
            self.rows
                .push_str(&format!("<td data-label=\"{title}\">{cell}</td>"));
        }
        self.rows.push_str("</tr>\n");
        self.count += 1;
        if self
            .slowest
            .as_ref()
            .is_none_or(|(latency, _)| it.latency > *latency)
        {
            let mostly = it
                .mostly
                .map_or_else(String::new, |cause| format!(", mostly {}", cause.name()));
            let link = format!(
                "<a class=\"slowest\" href=\"#{id}\">request {request}</a> of {} ({} ms{mostly})",
                escaped(&plot.variant),
                figure::millis(it.latency),
            );
            self.slowest = Some((it.latency, link));
        }
    }

    /// Appends the list and the dialog; nothing if no request can be shown.
    pub(super) fn push(&self, page: &mut String) {
        if self.count > 0 {
            self.push_list(page);
        }
        if self.count > 0 || !self.served.is_empty() {
            page.push_str(DIALOG);
        }
    }

    fn push_list(&self, page: &mut String) {
        let slowest = self.slowest.as_ref().map_or_else(String::new, |(_, link)| {
            format!("<p>The slowest of them: {link}.</p>\n")
        });
        page.push_str(&format!(
            "<section class=\"details\" id=\"details\" aria-label=\"Requests in detail\">\n<h2>Requests in detail</h2>\n\
             {slowest}<p class=\"hint\">{} in full, with what their connections did meanwhile: of each variant and condition the \
             slowest and a median one, and the evidence of findings, as far as there is room. Rings in the plots below are \
             these requests. <code>squall explain</code> shows any other one.</p>\n<details{}><summary>List</summary>\n\
             <table class=\"numbers\" data-name=\"requests-in-detail\"><thead><tr><th scope=\"col\">request</th>",
            figure::counted(self.count as u64, "request", "requests"),
            // A long list would hide what is below it.
            if self.count <= UNFOLDED { " open" } else { "" },
        ));
        for title in COLUMNS {
            page.push_str(&format!("<th scope=\"col\">{title}</th>"));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        page.push_str(&self.rows);
        page.push_str("</tbody></table></details>\n</section>\n");
    }

    /// The elements with the data.
    pub(super) fn elements(&self) -> &str {
        &self.elements
    }

    /// Links to the first requests that a finding of a trial names, as far as they can be shown; otherwise empty.
    pub(super) fn evidence(&self, folder: &str, finding: &Finding) -> String {
        let named = finding.evidence.requests.iter().copied();
        let links = named.filter_map(|request| {
            let id = self.id_of(folder, request)?;
            Some(format!("<a href=\"#{id}\">request {request} in full</a>"))
        });
        let links: Vec<String> = links.take(EVIDENCE_LINKED).collect();
        if links.is_empty() {
            return String::new();
        }
        format!(" {}", links.join(", "))
    }

    /// The id of a request that can be shown.
    fn id_of(&self, folder: &str, request: u64) -> Option<String> {
        let shown = self.ids.get(&(folder.to_owned(), request)).cloned();
        let served = self.served.get(folder);
        shown.or_else(|| served.map(|index| request_id(*index, request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::trial_markup::DrawnDetail;

    #[test]
    fn elements_that_do_not_fit_are_left_out() {
        let mut details = Details::of(&[]);
        let data = Packed::of(DrawnDetail {
            id: "request-0-1".to_owned(),
            markup: "<h2>a request</h2>".to_owned(),
        });
        let length = data.element().len();
        assert!(details.add_element(&data, 2 * length));
        assert!(details.add_element(&data, 2 * length));
        assert!(!details.add_element(&data, 2 * length));
        assert_eq!(details.elements().len(), 2 * length);
    }
}
