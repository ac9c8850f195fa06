//! The page of a probe: the verdict, all faults with their fixes, what windows allow at other round trips, how fast each
//! version carried bodies, how transfers and handshakes went, the facts, and how the probe was made.
//!
//! It is pure markup in the style of a run's report, without scripts. Two endpoints are side by side where there is room.
//! Nothing is judged here: sentences and figures are those of the text (`crate::probe`). `probe_charts` has the drawings.

use squall_analysis::figure;
use squall_analysis::probe::{DetectedFault, Diagnosis, Opening, Relevance, TransferCourse};
use squall_base::Duration;
use squall_base::secrets::redacted_text;

use super::text::escaped;
use super::{plot, probe_charts, table};
use crate::date;
use crate::lang::{Language, Translator};
use crate::probe::{facts, headline};

/// What the page of a probe may do: nothing but apply its own styles.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What the page of a probe shows.
#[derive(Clone, Debug)]
pub struct ProbePage {
    /// The command that repeats it, ready for a shell and without anything that may be a credential.
    pub command: String,
    /// When it began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// The settings of the link that was in between, if there was one.
    pub link: Option<String>,
    /// One or two endpoints.
    pub endpoints: Vec<ProbedEndpoint>,
}

/// A probed endpoint.
#[derive(Clone, Debug)]
pub struct ProbedEndpoint {
    /// What is wrong with it.
    pub diagnosis: Diagnosis,
    /// Its transfers over time.
    pub courses: Vec<TransferCourse>,
    /// Its first responses.
    pub openings: Vec<Opening>,
    /// What the probe cost it.
    pub spent: ProbeCost,
}

/// What a probe has sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// Requests.
    pub requests: u64,
    /// Bytes of requests' bodies.
    pub sent_bytes: u64,
    /// Bytes of responses' bodies.
    pub received_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The whole page, in English.
pub fn probe_page(probe: &ProbePage) -> String {
    let mut page = super::begin_page("probe", POLICY);
    push_header(&mut page, probe);
    page.push_str("<main>\n");
    page.push_str(plot::HATCHING);
    let several = probe.endpoints.len() > 1;
    if several {
        push_beside(&mut page, probe);
    }
    page.push_str(if several {
        "<div class=\"endpoints\">\n"
    } else {
        "<div>\n"
    });
    for (place, endpoint) in probe.endpoints.iter().enumerate() {
        push_endpoint(&mut page, several.then_some(place), endpoint);
    }
    page.push_str("</div>\n");
    push_method(&mut page, probe);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The whole page in a language.
pub fn probe_page_in(language: Language, probe: &ProbePage) -> String {
    let results = probe.endpoints.iter().map(|endpoint| &endpoint.diagnosis);
    let translator = Translator::of_probe(language, results).keeping(probe.link.clone());
    translator.page(probe_page(probe))
}

/// A text of the probe as markup, without the secrets that URLs may have, because people share pages.
pub(super) fn shown(text: &str) -> String {
    escaped(&redacted_text(text))
}

fn push_header(page: &mut String, probe: &ProbePage) {
    let urls: Vec<String> = (probe.endpoints.iter())
        .map(|endpoint| shown(&endpoint.diagnosis.endpoint.url))
        .collect();
    page.push_str(&format!(
        "<header>\n<p class=\"recipe\">squall <b>probe</b></p>\n<h1>{}</h1>\n<dl class=\"facts\">\n\
         <div><dt>began</dt><dd>{}</dd></div>\n",
        urls.join(" and "),
        date::utc(probe.started_unix_ns),
    ));
    if let Some(link) = &probe.link {
        page.push_str(&format!(
            "<div><dt>behind a link</dt><dd>{}</dd></div>\n",
            escaped(link)
        ));
    }
    page.push_str(&format!(
        "<div><dt>report by</dt><dd>squall {}</dd></div>\n</dl>\n</header>\n",
        env!("CARGO_PKG_VERSION")
    ));
}

/// The figures of several endpoints in one table.
fn push_beside(page: &mut String, probe: &ProbePage) {
    let diagnoses: Vec<Diagnosis> = (probe.endpoints.iter())
        .map(|endpoint| endpoint.diagnosis.clone())
        .collect();
    page.push_str("<section aria-label=\"Side by side\">\n<h2>Side by side</h2>\n");
    push_table(
        page,
        "beside",
        "Middle figures of the rounds",
        &named(facts::beside(&diagnoses), "figure"),
    );
    page.push_str("</section>\n");
}

/// One endpoint; `place` is its place among several.
fn push_endpoint(page: &mut String, place: Option<usize>, probed: &ProbedEndpoint) {
    let diagnosis = &probed.diagnosis;
    let endpoint = &diagnosis.endpoint;
    let name = place.map_or_else(String::new, |place| format!("{}: ", facts::letter(place)));
    page.push_str(&format!(
        "<section class=\"endpoint\" aria-label=\"{name}{}\">\n",
        shown(&endpoint.url)
    ));
    push_verdict(page, &name, diagnosis);
    push_findings(page, &diagnosis.faults);
    let versions = named(facts::versions(endpoint), "version");
    if versions.len() > 1 {
        page.push_str("<h2>Versions</h2>\n");
        let names = format!("versions{}", suffix(place));
        push_table(page, &names, "Middle figures of the rounds", &versions);
        for facts in &endpoint.versions {
            if let Some(problem) = &facts.problem {
                let said = format!("{}: {problem}", facts.version);
                page.push_str(&format!("<p class=\"untried\">{}</p>\n", shown(&said)));
            }
        }
    }
    probe_charts::push_rates(page, endpoint);
    let predictions = facts::predictions(endpoint);
    if !predictions.is_empty() {
        page.push_str("<h2>Uploads over round trips</h2>\n");
        let name = format!("round-trips{}", suffix(place));
        let caption = "One window for each round trip is the most that flow control allows; what was measured is at the round trip of this \
             path";
        push_table(page, &name, caption, &predictions);
    }
    probe_charts::push_courses(page, &probed.courses);
    probe_charts::push_openings(page, &probed.openings, endpoint.round_trip);
    page.push_str("<h2>Facts</h2>\n<dl class=\"facts\">\n");
    for (name, value) in facts::facts(endpoint) {
        page.push_str(&format!(
            "<div><dt>{}</dt><dd>{}</dd></div>\n",
            escaped(name),
            shown(&value)
        ));
    }
    page.push_str("</dl>\n");
    for note in &endpoint.notes {
        page.push_str(&format!("<p class=\"untried\">{}</p>\n", shown(note)));
    }
    page.push_str("</section>\n");
}

/// A suffix for the names of tables, so that tables of several endpoints have different names.
fn suffix(place: Option<usize>) -> String {
    place.map_or_else(String::new, |place| format!("-{}", facts::letter(place)))
}

/// The verdict, in large letters, with a badge and one sentence.
fn push_verdict(page: &mut String, name: &str, diagnosis: &Diagnosis) {
    let verdict = &diagnosis.verdict;
    let (class, badge) = match diagnosis.faults.first().map(|found| found.matters) {
        None => ("proven", "sound"),
        Some(Relevance::Here) => ("wrong", "costs time here"),
        Some(Relevance::FartherAway) => ("likely", "costs clients farther away"),
        Some(Relevance::Overhead) => ("likely", "overhead"),
    };
    page.push_str(&format!(
        "<div class=\"overview\">\n<p class=\"answer\">{name}{} <span class=\"confidence {class}\">{badge}</span></p>\n\
         <p class=\"reason\">{}</p>\n",
        shown(&verdict.headline),
        shown(&verdict.sentence),
    ));
    if !verdict.fix.is_empty() {
        page.push_str(&format!(
            "<p class=\"reason\"><b>Fix:</b> {}</p>\n",
            shown(&verdict.fix)
        ));
    }
    if diagnosis.faults.is_empty() {
        page.push_str(&format!(
            "<p class=\"how-sure\">{}</p>\n",
            shown(&verdict.cause)
        ));
    }
    page.push_str("</div>\n");
}

/// All faults, the first one unfolded.
fn push_findings(page: &mut String, faults: &[DetectedFault]) {
    if faults.is_empty() {
        return;
    }
    page.push_str("<div class=\"findings\">\n<h2>What is wrong</h2>\n");
    for (place, found) in faults.iter().enumerate() {
        let class = match found.matters {
            Relevance::Here => "finding grave",
            Relevance::FartherAway | Relevance::Overhead => "finding",
        };
        let open = if place == 0 { " open" } else { "" };
        page.push_str(&format!(
            "<details class=\"{class}\"{open}><summary><b>{}</b> <span class=\"fix\">Fix: {}</span></summary>\n<p>{}</p>\n\
             <ul>\n",
            shown(&headline(found)),
            shown(&found.fix),
            shown(&found.sentence),
        ));
        for evidence in &found.evidence {
            page.push_str(&format!("<li>{}</li>\n", shown(evidence)));
        }
        page.push_str("</ul>\n</details>\n");
    }
    page.push_str("</div>\n");
}

/// A table whose first column gets this title.
fn named(mut rows: Vec<Vec<String>>, title: &str) -> Vec<Vec<String>> {
    if let Some(first) = rows.first_mut().and_then(|heading| heading.first_mut()) {
        title.clone_into(first);
    }
    rows
}

/// Appends a table. The first row is the heading, and the first cell of each row is its name.
pub(super) fn push_table(page: &mut String, name: &str, caption: &str, rows: &[Vec<String>]) {
    let Some((titles, rows)) = rows.split_first() else {
        return;
    };
    let shown_titles = titles.iter().map(String::as_str);
    table::begin(page, name, &escaped(caption), shown_titles);
    for row in rows {
        let Some((name, cells)) = row.split_first() else {
            continue;
        };
        page.push_str(&format!(
            "<tr><th scope=\"row\">{}</th>",
            escaped(name.trim())
        ));
        for (title, cell) in titles.iter().skip(1).zip(cells) {
            let class = if cell == "-" { "none" } else { "" };
            table::push_cell(page, title, class, &escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    table::end(page);
}

/// How the probe was made, and what it cost.
fn push_method(page: &mut String, probe: &ProbePage) {
    begin_method(page, &probe.command);
    for (place, probed) in probe.endpoints.iter().enumerate() {
        let ProbeCost {
            requests,
            sent_bytes,
            received_bytes,
            took,
        } = probed.spent;
        let megabytes = |bytes: u64| figure::three_digits(bytes as f64 / 1e6);
        let letter = match probe.endpoints.len() {
            1 => String::new(),
            _ => format!("{}: ", facts::letter(place)),
        };
        page.push_str(&format!(
            "<p>{letter}{} in {}: {} MB of bodies sent, {} MB received.</p>\n",
            figure::counted(requests, "request", "requests"),
            figure::time(took),
            megabytes(sent_bytes),
            megabytes(received_bytes),
        ));
    }
    page.push_str("</section>\n");
}

/// Begins the section on how the probe was made.
pub(super) fn begin_method(page: &mut String, command: &str) {
    page.push_str(&format!(
        "<section class=\"method\" aria-label=\"Method\">\n<h2>Method</h2>\n\
         <p>docs/PROBE.md, which comes with squall, says what is sent and how each figure is obtained.</p>\n\
         <h3>Repeat it</h3>\n<pre class=\"command\">{}</pre>\n<h3>What it cost</h3>\n",
        shown(command)
    ));
}

#[cfg(test)]
mod tests {
    use squall_analysis::probe::{Observations, Transfer};
    use squall_base::plan::Version;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn endpoint(url: &str) -> ProbedEndpoint {
        ProbedEndpoint {
            diagnosis: Diagnosis::of(&Observations {
                url: url.to_owned(),
                address: "192.0.2.1:443".to_owned(),
                failures: vec![(Version::Http2, "reset <b> by the peer".to_owned())],
                ..Observations::default()
            }),
            courses: vec![TransferCourse {
                version: "HTTP/2",
                transfer: Transfer::Upload,
                points: vec![(ms(10), 65_535), (ms(40), 131_070)],
                blocked: vec![(ms(10), ms(40))],
            }],
            openings: vec![Opening {
                version: "HTTP/2",
                connect: ms(30),
                secure: ms(30),
                answer: ms(31),
            }],
            spent: ProbeCost {
                requests: 1_200,
                sent_bytes: 5_000_000,
                received_bytes: 40_000_000,
                took: ms(12_500),
            },
        }
    }

    fn page(endpoints: Vec<ProbedEndpoint>) -> String {
        probe_page(&ProbePage {
            command: "squall probe https://server/?token=sesame".to_owned(),
            started_unix_ns: 1_763_760_301_000_000_000,
            link: Some("delay 15ms".to_owned()),
            endpoints,
        })
    }

    #[test]
    fn page_of_a_probe_has_each_section_and_fetches_nothing() {
        let page = page(vec![endpoint("https://server/?token=sesame")]);
        for part in [
            "<p class=\"answer\">No answer <span class=\"confidence wrong\">",
            "<b>Fix:</b>",
            "<h2>What is wrong</h2>",
            "data-name=\"versions\"",
            "Upload over HTTP/2",
            "class=\"blocked\"",
            "<h2>First response</h2>",
            "<h2>Facts</h2>",
            "<pre class=\"command\">squall probe https://server/?token=",
            "1,200 requests in 12.5 s: 5.00 MB of bodies sent, 40.0 MB received.",
            "2025-11-21 21:25 UTC",
            "<dd>delay 15ms</dd>",
            "reset &lt;b&gt; by the peer",
        ] {
            assert!(page.contains(part), "no {part}: {page}");
        }
        for foreign in ["<script", "src=", "href=", "NaN", "sesame", "reset <b>"] {
            assert!(!page.contains(foreign), "{foreign}: {page}");
        }
        let drawings = page.matches("<svg viewBox").count();
        assert!(drawings >= 2, "{page}");
        assert_eq!(page.matches("role=\"img\"").count(), drawings);
        assert_eq!(page.matches("<title>").count(), drawings + 1);
    }

    #[test]
    fn two_endpoints_are_side_by_side() {
        let page = page(vec![endpoint("https://a/"), endpoint("https://b/")]);
        assert_eq!(page.matches("<section class=\"endpoint\"").count(), 2);
        assert!(page.contains("<div class=\"endpoints\">"));
        assert!(page.contains("data-name=\"beside\""), "{page}");
        assert!(page.contains("A: No answer") && page.contains("B: No answer"));
        assert!(page.contains("data-name=\"versions-B\""), "{page}");
    }
}
