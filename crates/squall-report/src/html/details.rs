//! The requests that the page shows in full: the list of them, the links to them, and the data from which a dialog shows one.
//!
//! A request or connection is markup that `request` or `connection` draws. It is kept compressed in an element of its own,
//! because all of them together would be most of the page; assets/details.js unpacks one when its link is followed. Without
//! scripts, a link leads to its row of the list. Which requests these are was decided in squall-analysis' `detail`.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use squall_analysis::detail::TrialDetail;
use squall_analysis::explain::Explanation;
use squall_analysis::figure;
use squall_analysis::findings::Finding;
use squall_base::record::Cause;

use super::text::escaped;
use super::{connection, request};
use crate::explain::ExplanationContext;
use crate::points::{DetailedTrial, TrialPoints};

/// The most characters of compressed data. With the rest of the page it stays below 5 MB.
const PACKED_AT_MOST: usize = 1_500_000;

/// The letter of a cause, which stands for it where there is no room for its name.
pub(super) fn letter(cause: Cause) -> char {
    match cause {
        Cause::Queue => 'Q',
        Cause::Connect => 'C',
        Cause::Tls => 'T',
        Cause::WindowStream => 'S',
        Cause::WindowConnection => 'W',
        Cause::WindowReceive => 'R',
        Cause::Cwnd => 'G',
        Cause::Pacing => 'P',
        Cause::SendBuffer => 'B',
        Cause::Link => 'L',
        Cause::Distance => 'D',
        Cause::Loss => 'X',
        Cause::Hol => 'H',
        Cause::Record => 'E',
        Cause::Server => 'V',
        Cause::Host => 'O',
        Cause::Unknown => 'U',
    }
}

/// The trial that a request or connection belongs to, as its markup needs it.
pub(super) struct Page<'a> {
    pub(super) context: &'a ExplanationContext,
    /// Variant, condition, repetition, folder.
    pub(super) title: &'a str,
    detail: &'a TrialDetail,
    /// Whether connections are on the page.
    has_connections: bool,
}

impl Page<'_> {
    /// The id of a request of the trial, if it is shown too.
    pub(super) fn request(&self, request: u64) -> Option<String> {
        let mut all = self.detail.requests.iter();
        let is_shown = all.any(|it| it.explanation.request == request);
        is_shown.then(|| request_id(self.detail, request))
    }

    /// The id of a connection of the trial, if it is shown.
    pub(super) fn connection(&self, hop: u8, number: u32) -> Option<String> {
        let mut all = self.detail.connections.iter();
        let is_shown = all.any(|it| (it.trace.hop, it.trace.connection) == (hop, number));
        (self.has_connections && is_shown).then(|| connection_id(self.detail, hop, number))
    }
}

fn request_id(trial: &TrialDetail, request: u64) -> String {
    format!("request-{}-{request}", trial.index)
}

fn connection_id(trial: &TrialDetail, hop: u8, number: u32) -> String {
    format!("connection-{}-{hop}-{number}", trial.index)
}

/// Everything that the page shows in full.
pub(super) struct Details {
    /// The rows of the list, as markup.
    rows: String,
    count: usize,
    /// The elements with the data.
    elements: String,
    /// Ids of requests by the folder of their trial and their number.
    ids: BTreeMap<(String, u64), String>,
}

impl Details {
    /// What the trials have, as far as there is room: if there is not enough, a trial's connections are left out, or the
    /// whole trial.
    pub(super) fn of(plots: &[TrialPoints]) -> Details {
        let mut details = Details {
            rows: String::new(),
            count: 0,
            elements: String::new(),
            ids: BTreeMap::new(),
        };
        for (place, plot) in plots.iter().enumerate() {
            let Some(trial) = &plot.detail else {
                continue;
            };
            let left = PACKED_AT_MOST.saturating_sub(details.elements.len());
            let mut attempts = [true, false].into_iter();
            let fitting = attempts.find_map(|has_connections| {
                let elements = trial_elements(plot, trial, has_connections);
                (elements.len() <= left).then_some((elements, has_connections))
            });
            if let Some((elements, has_connections)) = fitting {
                details.elements += &elements;
                details.add_rows(place, plot, trial, has_connections);
            }
        }
        details
    }

    fn add_rows(
        &mut self,
        place: usize,
        plot: &TrialPoints,
        DetailedTrial { context, detail }: &DetailedTrial,
        has_connections: bool,
    ) {
        let page = Page {
            context,
            title: "",
            detail,
            has_connections,
        };
        for it in &detail.requests {
            let explanation = &it.explanation;
            let id = request_id(detail, explanation.request);
            let cells = [
                ("variant", escaped(&plot.variant)),
                ("condition", escaped(&plot.condition.to_string())),
                ("repetition", (plot.repetition + 1).to_string()),
                ("response time in ms", figure::millis(explanation.latency)),
                ("mostly", mostly(explanation)),
                ("connection", connections(explanation, &page)),
                ("why", escaped(&it.reasons.join("; "))),
            ];
            self.rows.push_str(&format!(
                "<tr id=\"{id}\" data-points=\"points-{place}\" data-request=\"{0}\"><th scope=\"row\"><a href=\"#{id}\">request \
                 {0}</a></th>",
                explanation.request
            ));
            for (title, cell) in cells {
                self.rows
                    .push_str(&format!("<td data-label=\"{title}\">{cell}</td>"));
            }
            self.rows.push_str("</tr>\n");
            self.count += 1;
            self.ids
                .insert((detail.folder.clone(), explanation.request), id);
        }
    }

    /// Appends the list and the dialog; nothing if no request is shown.
    pub(super) fn push(&self, page: &mut String) {
        if self.count == 0 {
            return;
        }
        page.push_str(&format!(
            "<section class=\"details\" id=\"details\" aria-label=\"Requests in detail\">\n<h2>Requests in detail</h2>\n\
             <p class=\"hint\">{} in full, with what their connections did meanwhile: of each variant and condition the \
             slowest and a median one, and the evidence of findings, as far as there is room. Rings in the plots below are \
             these requests. <code>squall explain</code> shows any other one.</p>\n<details{}><summary>List</summary>\n\
             <table class=\"numbers\"><thead><tr>",
            figure::counted(self.count as u64, "request", "requests"),
            // A long list would hide what is below it.
            if self.count <= 8 { " open" } else { "" },
        ));
        let titles = [
            "request",
            "variant",
            "condition",
            "repetition",
            "response time in ms",
            "mostly",
            "connection",
            "why",
        ];
        for title in titles {
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

/// The cause of most of a request's time.
fn mostly(it: &Explanation) -> String {
    it.causes.first().map_or_else(String::new, |share| {
        let name = share.cause.name();
        format!("<span class=\"swatch cause-{name}\"></span>{name}")
    })
}

/// Links to the connections of a request.
fn connections(it: &Explanation, page: &Page<'_>) -> String {
    let links = places(it).into_iter().map(|(hop, number)| {
        let words = format!("{number}{}", page.context.of_hop(hop));
        match page.connection(hop, number) {
            Some(id) => format!("<a href=\"#{id}\">{words}</a>"),
            None => words,
        }
    });
    links.collect::<Vec<String>>().join(", ")
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

/// An element for each request and connection of a trial.
fn trial_elements(
    plot: &TrialPoints,
    DetailedTrial { context, detail }: &DetailedTrial,
    has_connections: bool,
) -> String {
    let title = format!(
        "{}, {}, repetition {} ({})",
        plot.variant,
        plot.condition,
        plot.repetition + 1,
        detail.folder
    );
    let page = Page {
        context,
        title: &title,
        detail,
        has_connections,
    };
    let mut elements = String::new();
    for it in &detail.requests {
        let mut markup = String::new();
        request::push(&mut markup, it, &page);
        let id = request_id(detail, it.explanation.request);
        elements += &element(&id, &markup);
    }
    for it in detail.connections.iter().filter(|_| has_connections) {
        let mut markup = String::new();
        connection::push(&mut markup, it, &page);
        let id = connection_id(detail, it.trace.hop, it.trace.connection);
        elements += &element(&id, &markup);
    }
    elements
}

/// An element with compressed markup: deflated with a zlib header (RFC 1950), in base64.
fn element(id: &str, markup: &str) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let deflated = encoder
        .write_all(markup.as_bytes())
        .and_then(|()| encoder.finish());
    let text = STANDARD.encode(deflated.expect("writing to memory does not fail"));
    format!("<script type=\"text/plain\" id=\"detail-{id}\">{text}</script>\n")
}
