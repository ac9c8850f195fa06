//! The requests that the page shows in full: the list of them, the links to them, and the data from which a dialog shows one.
//!
//! A request or connection is markup that `request` or `connection` draws. It is kept compressed in an element of its own,
//! because all of them together would be most of the page; assets/details.js unpacks one when its link is followed. Without
//! scripts, a link leads to its row of the list. Which requests these are was decided in squall-analysis' `detail`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use squall_analysis::detail::TrialDetail;
use squall_analysis::explain::Explanation;
use squall_analysis::figure;
use squall_analysis::findings::Finding;
use squall_base::Duration;
use squall_base::record::{Cause, TrialRecord};

use super::text::escaped;
use super::{connection, request};
use crate::explain::ExplanationContext;
use crate::palette::CauseLook;
use crate::points::TrialPoints;

/// The most characters of compressed data. With the rest of the page it stays below 5 MB.
const PACKED_AT_MOST: usize = 2_000_000;

/// A list of at most this many requests is unfolded.
const UNFOLDED: usize = 8;

/// The columns of the list behind the first.
const COLUMNS: [&str; 7] = [
    "variant",
    "condition",
    "repetition",
    "response time in ms",
    "mostly",
    "connection",
    "why",
];

/// The letter of a cause, which stands for it where there is no room for its name.
pub(super) fn letter(cause: Cause) -> char {
    CauseLook::of(cause).letter
}

/// The trial that a request or connection belongs to, as its markup needs it.
pub(super) struct Page<'a> {
    pub(super) context: &'a ExplanationContext,
    /// Variant, condition, repetition, folder.
    pub(super) title: &'a str,
    detail: &'a TrialDetail,
}

impl Page<'_> {
    /// The id of a request of the trial, if it is chosen too.
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

fn request_id(trial: &TrialDetail, request: u64) -> String {
    format!("request-{}-{request}", trial.index)
}

fn connection_id(trial: &TrialDetail, hop: u8, number: u32) -> String {
    format!("connection-{}-{hop}-{number}", trial.index)
}

/// The chosen requests and connections of a trial, drawn and compressed: much less than what they are drawn from.
#[derive(Clone, Debug)]
pub(crate) struct TrialMarkup {
    folder: String,
    requests: Vec<RequestMarkup>,
    connections: Vec<Packed>,
}

/// A request: its data, and what its row of the list says.
#[derive(Clone, Debug)]
struct RequestMarkup {
    data: Packed,
    request: u64,
    latency: Duration,
    /// The cause of most of its time.
    mostly: Option<Cause>,
    /// Its connections: what they are called, and their ids.
    places: Vec<(String, Option<String>)>,
    reasons: Vec<String>,
}

/// Compressed markup, and the id by which links name it.
#[derive(Clone, Debug)]
struct Packed {
    id: String,
    text: String,
}

impl Packed {
    /// Deflates markup with a zlib header (RFC 1950), in base64.
    fn of(id: String, markup: &str) -> Packed {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        let deflated = encoder
            .write_all(markup.as_bytes())
            .and_then(|()| encoder.finish());
        let text = STANDARD.encode(deflated.expect("writing to memory does not fail"));
        Packed { id, text }
    }

    fn element(&self) -> String {
        let Packed { id, text } = self;
        format!("<script type=\"text/plain\" id=\"detail-{id}\">{text}</script>\n")
    }
}

impl TrialMarkup {
    /// Draws the chosen requests of a trial.
    pub(crate) fn of(record: &TrialRecord, detail: &TrialDetail) -> TrialMarkup {
        let trial = &record.trial;
        let title = format!(
            "{}, {}, repetition {} ({})",
            trial.variant.name,
            trial.condition,
            trial.repetition + 1,
            detail.folder
        );
        let page = Page {
            context: &ExplanationContext::of_trial(record),
            title: &title,
            detail,
        };
        let requests = detail.requests.iter().map(|it| {
            let mut markup = String::new();
            request::push(&mut markup, it, &page);
            let explanation = &it.explanation;
            let id = request_id(detail, explanation.request);
            RequestMarkup {
                data: Packed::of(id, &markup),
                request: explanation.request,
                latency: explanation.latency,
                mostly: explanation.causes.first().map(|share| share.cause),
                places: named_places(explanation, &page),
                reasons: it.reasons.clone(),
            }
        });
        let connections = detail.connections.iter().map(|it| {
            let mut markup = String::new();
            connection::push(&mut markup, it, &page);
            let id = connection_id(detail, it.trace.hop, it.trace.connection);
            Packed::of(id, &markup)
        });
        TrialMarkup {
            folder: detail.folder.clone(),
            requests: requests.collect(),
            connections: connections.collect(),
        }
    }
}

/// The connections of a request: what they are called, and their ids.
fn named_places(it: &Explanation, page: &Page<'_>) -> Vec<(String, Option<String>)> {
    let named = places(it).into_iter().map(|(hop, number)| {
        let words = format!("{number}{}", page.context.of_hop(hop));
        (words, page.connection(hop, number))
    });
    named.collect()
}

/// The connections of a request: hop and the number of the hop's client.
pub(super) fn places(it: &Explanation) -> Vec<(u8, u32)> {
    let hops = &it.course.hops;
    let only = (1, it.connection.filter(|_| hops.is_empty()));
    let all = hops.iter().map(|hop| (hop.hop, hop.connection));
    let all = std::iter::once(only).chain(all);
    all.filter_map(|(hop, number)| Some((hop, number?)))
        .collect()
}

/// Everything that the page shows in full.
pub(super) struct Details {
    /// The rows of the list, as markup.
    rows: String,
    count: usize,
    /// The response time of the slowest request of the list, and the link to it.
    slowest: Option<(Duration, String)>,
    /// The elements with the data.
    elements: String,
    /// Ids of requests by the folder of their trial and their number.
    ids: BTreeMap<(String, u64), String>,
}

impl Details {
    /// What the trials have, as far as there is room: requests first, then connections.
    pub(super) fn of(plots: &[TrialPoints]) -> Details {
        Details::within(plots, PACKED_AT_MOST)
    }

    /// What the trials have, in elements of at most this many characters.
    fn within(plots: &[TrialPoints], limit: usize) -> Details {
        let mut details = Details {
            rows: String::new(),
            count: 0,
            slowest: None,
            elements: String::new(),
            ids: BTreeMap::new(),
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

    /// Appends the list and the dialog; nothing if no request is shown.
    pub(super) fn push(&self, page: &mut String) {
        if self.count == 0 {
            return;
        }
        let slowest = self.slowest.as_ref().map_or_else(String::new, |(_, link)| {
            format!("<p>The slowest of them: {link}.</p>\n")
        });
        page.push_str(&format!(
            "<section class=\"details\" id=\"details\" aria-label=\"Requests in detail\">\n<h2>Requests in detail</h2>\n\
             {slowest}<p class=\"hint\">{} in full, with what their connections did meanwhile: of each variant and condition the \
             slowest and a median one, and the evidence of findings, as far as there is room. Rings in the plots below are \
             these requests. <code>squall explain</code> shows any other one.</p>\n<details{}><summary>List</summary>\n\
             <table class=\"numbers\"><thead><tr><th scope=\"col\">request</th>",
            figure::counted(self.count as u64, "request", "requests"),
            // A long list would hide what is below it.
            if self.count <= UNFOLDED { " open" } else { "" },
        ));
        for title in COLUMNS {
            page.push_str(&format!("<th scope=\"col\">{title}</th>"));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        page.push_str(&self.rows);
        page.push_str(
            "</tbody></table></details>\n</section>\n<dialog id=\"detail\" aria-label=\"Request or connection in full\">\n\
             <form method=\"dialog\"><button>Close</button></form>\n<div id=\"detail-body\"></div>\n</dialog>\n",
        );
    }

    /// The elements with the data.
    pub(super) fn elements(&self) -> &str {
        &self.elements
    }

    /// A link to the first request that a finding of a trial names, if it is shown; otherwise empty.
    pub(super) fn evidence(&self, folder: &str, finding: &Finding) -> String {
        let first = finding.evidence.requests.first();
        let id = first.and_then(|request| self.ids.get(&(folder.to_owned(), *request)));
        id.zip(first).map_or_else(String::new, |(id, request)| {
            format!(" <a href=\"#{id}\">request {request} in full</a>")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_do_not_fit_are_left_out() {
        let mut details = Details::of(&[]);
        let data = Packed::of("request-0-1".to_owned(), "<h2>a request</h2>");
        let length = data.element().len();
        assert!(details.add_element(&data, 2 * length));
        assert!(details.add_element(&data, 2 * length));
        assert!(!details.add_element(&data, 2 * length));
        assert_eq!(details.elements().len(), 2 * length);
    }
}
