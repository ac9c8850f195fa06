//! The page of a load without trials: what the rounds of its variants show, thresholds, response times, every request as a
//! point, the load over time, where the time went, and how the load was made.
//!
//! It has the style and the scripts of a run's report. All text, tables and drawings are in the markup; scripts only
//! draw the points, and offer what is drawn as files. This module computes only positions; sentences and figures are
//! those of the text (`crate::load`). `load_requests` draws the response times and the requests, `load_course` the load
//! over time.

use squall_analysis::load::{
    IntervalFigures, Latencies, LoadPicture, LoadTotals, Part, RoundFigure, VariantRounds,
};
use squall_analysis::{Spread, figure};
use squall_base::Time;

use super::method::{self, Method};
use super::text::{escaped, swatch};
use super::{load_course, load_requests, plot, table};
use crate::date;
use crate::lang::{Language, Translator};
use crate::load::{
    CheckedThreshold, FinishedLoad, Glyphs, Overview, PERCENTILES, TextFormat, foreign, known,
    percent, quantile, sentences, summary_text,
};
use crate::payload;
use crate::text::Colour;

/// What the page of a load shows.
#[derive(Clone, Debug)]
pub struct LoadPage<'a> {
    /// When the load ended, in nanoseconds since 1970-01-01 UTC.
    pub ended_unix_ns: u64,
    /// Where requests were sent to.
    pub addresses: Vec<String>,
    /// The variants, at least one. Others are compared with the first.
    pub variants: Vec<LoadPageVariant<'a>>,
    /// What is drawn in colours of its own, at least one.
    pub series: Vec<LoadSeries<'a>>,
    /// The number of URLs, if several are drawn in one colour.
    pub urls_together: Option<u64>,
    /// The thresholds.
    pub thresholds: Vec<CheckedThreshold>,
    /// How the load was made.
    pub method: Method,
}

/// A variant of a load.
#[derive(Clone, Debug)]
pub struct LoadPageVariant<'a> {
    /// Its name and the figures of its rounds.
    pub rounds: VariantRounds,
    /// The last round.
    pub last: FinishedLoad<'a>,
    /// The measured phase of the last round, by interval.
    pub intervals: Vec<IntervalFigures>,
}

/// Requests that are drawn in one colour: those of a variant, or those to one URL if the load has a single variant.
#[derive(Clone, Debug)]
pub struct LoadSeries<'a> {
    /// The variant's name, or a short form of the URL.
    pub name: String,
    /// Their sums in each round, in the order in which the rounds ran.
    pub rounds: Vec<&'a LoadTotals>,
    /// What is drawn of the last round.
    pub picture: &'a LoadPicture,
    /// When the last round was over, on the clock of its requests' times.
    pub end: Time,
}

/// The whole page in a language.
pub fn load_page_in(language: Language, load: &LoadPage<'_>) -> String {
    let plots = load_requests::plots(load);
    let mut page = super::begin_page("load", super::POLICY);
    push_header(&mut page, load);
    page.push_str("<main>\n");
    page.push_str(plot::HATCHING);
    push_answer(&mut page, load);
    push_thresholds(&mut page, &load.thresholds);
    push_compared(&mut page, load);
    push_response_times(&mut page, load);
    load_requests::push(&mut page, load, &plots);
    for (place, variant) in load.variants.iter().enumerate() {
        push_variant(&mut page, place, variant, language);
    }
    method::push_of_load(&mut page, &load.method);
    page.push_str(
        "<noscript><p class=\"note\">The plots of single requests need scripts; everything else does not.</p></noscript>\n\
         </main>\n",
    );
    let series: Vec<String> = load.series.iter().map(|of| of.name.clone()).collect();
    super::push_scripts(&mut page, "", |room| {
        payload::elements_of_load(&series, &plots, room)
    });
    let messages = load.variants.iter().flat_map(|it| foreign(&it.last));
    // Names of series without a space, such as URLs and protocols, stay as they are; the others are phrases.
    let names = series.into_iter().filter(|name| !name.contains(' '));
    Translator::of_names(language, messages.chain(names).collect()).page(page)
}

fn push_header(page: &mut String, load: &LoadPage<'_>) {
    let names: Vec<String> = (load.variants.iter())
        .map(|variant| escaped(&variant.rounds.name))
        .collect();
    page.push_str(&format!(
        "<header>\n<p class=\"recipe\">squall <b>load</b></p>\n<h1>{}</h1>\n<dl class=\"facts\">\n\
         <div><dt>ended</dt><dd>{}</dd></div>\n",
        names.join(", "),
        date::utc(load.ended_unix_ns),
    ));
    if !load.addresses.is_empty() {
        page.push_str(&format!(
            "<div><dt>asked</dt><dd>{}</dd></div>\n",
            escaped(&load.addresses.join(", "))
        ));
    }
    page.push_str(&format!(
        "<div><dt>report by</dt><dd>squall {}</dd></div>\n</dl>\n</header>\n",
        env!("CARGO_PKG_VERSION")
    ));
}

/// What the rounds show, or how the only load went.
fn push_answer(page: &mut String, load: &LoadPage<'_>) {
    page.push_str("<section class=\"overview\" aria-label=\"Answer\">\n");
    if load.variants.len() > 1 {
        let rounds: Vec<VariantRounds> = (load.variants.iter())
            .map(|variant| variant.rounds.clone())
            .collect();
        for sentence in sentences(&rounds) {
            page.push_str(&format!("<p class=\"reason\">{}</p>\n", escaped(&sentence)));
        }
    }
    for variant in &load.variants {
        let overview = Overview::of(&variant.last);
        let (class, name) = match load.variants.len() {
            1 => ("answer", String::new()),
            _ => ("how-sure", format!("{}, last round: ", variant.rounds.name)),
        };
        page.push_str(&format!(
            "<p class=\"{class}\">{}</p>\n<ul class=\"also\">\n",
            escaped(&(name + &overview.headline))
        ));
        for line in &overview.outcomes {
            page.push_str(&format!("<li>{}</li>\n", escaped(line)));
        }
        for line in &overview.failures {
            page.push_str(&format!(
                "<li class=\"overloaded\">{}</li>\n",
                escaped(line)
            ));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

fn push_thresholds(page: &mut String, thresholds: &[CheckedThreshold]) {
    let lines = (thresholds.iter()).map(|check| (escaped(&check.sentence), check.holds));
    super::push_threshold_list(page, lines);
}

/// The rounds of several variants, as medians with their ranges.
fn push_compared(page: &mut String, load: &LoadPage<'_>) {
    const TITLES: [&str; 7] = ["variant", "rounds", "rate/s", "p50", "p90", "p99", "errors"];
    if load.variants.len() < 2 {
        return;
    }
    page.push_str("<section class=\"comparison\" aria-label=\"Versions\">\n<h2>Versions</h2>\n");
    table::begin(
        page,
        "versions",
        "Medians over the rounds; below them the lowest and the highest round",
        TITLES,
    );
    for (place, variant) in load.variants.iter().enumerate() {
        let rounds = &variant.rounds;
        page.push_str(&row_head(place, &rounds.name));
        table::push_cell(page, TITLES[1], "", &rounds.rounds.len().to_string());
        push_spread(page, TITLES[2], rounds.rate_per_s(), figure::rate);
        let quantiles = [RoundFigure::P50, RoundFigure::P90, RoundFigure::P99];
        for (title, of) in TITLES[3..].iter().zip(quantiles) {
            push_spread(page, title, rounds.quantile(of), quantile);
        }
        table::push_cell(page, TITLES[6], "", &figure::count(rounds.errors()));
        page.push_str("</tr>\n");
    }
    table::end(page);
    page.push_str("</section>\n");
}

fn row_head(place: usize, name: &str) -> String {
    format!(
        "<tr><th scope=\"row\">{}{}</th>",
        swatch(place),
        escaped(name)
    )
}

fn push_spread<T: Copy>(
    page: &mut String,
    title: &str,
    spread: Option<Spread<T>>,
    words: impl Fn(T) -> String,
) {
    let Some(spread) = spread else {
        table::push_cell(page, title, "none", "n/a");
        return;
    };
    let [median, low, high] =
        [spread.median, spread.low, spread.high].map(|value| escaped(&words(value)));
    let range = format!("<small>{low}\u{2009}–\u{2009}{high}</small>");
    table::push_cell(page, title, "", &(median + &range));
}

/// The response times: of all requests as bars and as a table, and the percentiles of each variant's last round.
fn push_response_times(page: &mut String, load: &LoadPage<'_>) {
    page.push_str(
        "<section class=\"comparison\" aria-label=\"Response times\">\n<h2>Response times</h2>\n",
    );
    load_requests::push_comparison(page, load);
    let names = (load.variants.iter()).flat_map(|variant| {
        let name = &variant.rounds.name;
        [format!("{name}: response"), format!("{name}: service")]
    });
    let titles: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    table::begin(
        page,
        "percentiles",
        "Requests that succeeded, in the last round: response time from when a request was due, service time from when it had \
         a connection",
        titles.iter().map(String::as_str),
    );
    push_row(page, &titles, load, "mean", |it| known(it.mean()));
    for (name, share) in PERCENTILES {
        push_row(page, &titles, load, name, |it| known(it.quantile(share)));
    }
    push_row(page, &titles, load, "max", |it| known(it.max()));
    table::end(page);
    page.push_str("</section>\n");
}

/// A figure of the response times and of the service times of each variant.
fn push_row(
    page: &mut String,
    titles: &[String],
    load: &LoadPage<'_>,
    name: &str,
    words: impl Fn(&Latencies) -> String,
) {
    page.push_str(&format!("<tr><th scope=\"row\">{name}</th>"));
    let latencies =
        (load.variants.iter()).flat_map(|it| [it.last.totals.response(), it.last.totals.service()]);
    for (title, latencies) in titles[1..].iter().zip(latencies) {
        table::push_cell(page, title, "", &words(latencies));
    }
    page.push_str("</tr>\n");
}

/// The last round of one variant: over time, its parts, and its whole text, which is in `language` already.
fn push_variant(
    page: &mut String,
    place: usize,
    variant: &LoadPageVariant<'_>,
    language: Language,
) {
    page.push_str(&format!(
        "<section class=\"condition\" id=\"variant-{place}\" aria-label=\"{name}\">\n<h2>{}{name}</h2>\n",
        swatch(place),
        name = escaped(&variant.rounds.name)
    ));
    load_course::push(page, place, &variant.intervals);
    push_parts(page, place, variant.last.totals);
    let format = TextFormat {
        width: 110,
        colour: Colour::Plain,
        glyphs: Glyphs::Unicode,
        language,
    };
    page.push_str(&format!(
        "<details><summary>All figures as text</summary>\n<pre tabindex=\"0\">{}</pre></details>\n</section>\n",
        escaped(&summary_text(&variant.last, &format))
    ));
}

/// Where the response times of successful requests went: a bar and a table.
fn push_parts(page: &mut String, place: usize, totals: &LoadTotals) {
    const TITLES: [&str; 6] = ["time in", "what it is", "share", "mean", "p99", "max"];
    let whole_ns = totals.response().sum_ns();
    let parts = (Part::ALL.into_iter().enumerate())
        .map(|(colour, part)| (colour, part, totals.part(part)))
        .filter(|(_, _, latencies)| latencies.sum_ns() > 0);
    let parts: Vec<(usize, Part, &Latencies)> = parts.collect();
    if parts.is_empty() {
        return;
    }
    page.push_str("<h2>Where the time went</h2>\n<div class=\"bar\">");
    for (colour, part, latencies) in &parts {
        let share = percent(latencies.sum_ns() as f64, whole_ns as f64);
        page.push_str(&format!(
            "<span style=\"--cause: var(--series-{colour}); width: {:.3}%\" title=\"{}: {share}\"></span>",
            100.0 * latencies.sum_ns() as f64 / whole_ns as f64,
            part.name(),
            share = escaped(&share),
        ));
    }
    page.push_str("</div>\n");
    let name = format!("parts-{place}");
    table::begin(
        page,
        &name,
        "Requests that succeeded; shares of the sum of their response times",
        TITLES,
    );
    for (colour, part, latencies) in &parts {
        page.push_str(&row_head(*colour, part.name()));
        let cells: [String; 5] = [
            part.meaning().to_owned(),
            percent(latencies.sum_ns() as f64, whole_ns as f64),
            known(latencies.mean()),
            known(latencies.quantile(0.99)),
            known(latencies.max()),
        ];
        for (title, cell) in TITLES[1..].iter().zip(cells) {
            table::push_cell(page, title, "", &escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    table::end(page);
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;

    use super::*;
    use crate::load::samples::{self, Sample};

    fn english(load: &LoadPage<'_>) -> String {
        load_page_in(Language::En, load)
    }

    fn page_of(variants: Vec<VariantRounds>) -> String {
        let sample = samples::mixed();
        let second = Duration::from_secs(1);
        let interval = |succeeded, failed| IntervalFigures {
            length: second,
            succeeded,
            failed,
            p50: Some(Duration::from_millis(2)),
            ..IntervalFigures::default()
        };
        english(&LoadPage {
            ended_unix_ns: 1_763_760_301_000_000_000,
            addresses: vec!["127.0.0.1:8080".to_owned()],
            series: (variants.iter())
                .map(|rounds| sample.series(&rounds.name, rounds.rounds.len()))
                .collect(),
            variants: (variants.into_iter())
                .map(|rounds| LoadPageVariant {
                    rounds,
                    last: sample.finished(),
                    intervals: vec![interval(900, 0), interval(700, 12)],
                })
                .collect(),
            urls_together: None,
            thresholds: vec![CheckedThreshold {
                sentence: "p(99)<1: FAILED, 3.00 ms".to_owned(),
                holds: false,
            }],
            method: Method::new(
                Some("squall load -n 3 http://x/".to_owned()),
                None,
                Vec::new(),
            ),
        })
    }

    #[test]
    fn page_of_one_load_has_each_section_and_no_reference_to_other_files() {
        let mut variants = samples::variants();
        variants.truncate(1);
        variants[0].name = "h1 <b>".to_owned();
        let page = page_of(variants);
        for part in [
            "<dt>asked</dt><dd>127.0.0.1:8080</dd>",
            "<dt>ended</dt><dd>2025-11-21 21:25 UTC</dd>",
            "<p class=\"answer\">",
            "<li class=\"overloaded\">p(99)&lt;1: FAILED, 3.00 ms</li>",
            "<figure data-statistic=\"p95\">\n<figcaption>Response time of all requests, p95",
            "data-name=\"response-times\"",
            "aria-label=\"Response time by percentile\" data-plot=\"percentiles\"",
            "aria-label=\"Box plots of the response time\" data-plot=\"boxes\"",
            ": heat map of requests by start time and response time, most often ",
            "requests in flight over time, at most ",
            "<div class=\"plots\" data-condition=\"0\"></div>",
            "<pre class=\"command\">squall load -n 3 http://x/</pre>",
            "data-name=\"percentiles\"",
            "Requests per second",
            "Response time in ms",
            "data-name=\"parts-0\"",
            "<details><summary>All figures as text</summary>",
            "h1 &lt;b&gt;",
        ] {
            assert!(page.contains(part), "no {part}");
        }
        assert!(!page.contains("data-name=\"versions\""));
        let (markup, data) = page.split_once("<script").unwrap();
        for foreign in [
            " src=",
            " href=",
            "h1 <b>",
            "NaN",
            "repetition",
            "valid trial",
        ] {
            assert!(!markup.contains(foreign), "{foreign}");
        }
        // Of 2,200 requests, ten are unfinished.
        assert!(
            data.contains("\"is_load\":true") && data.contains("\"variants\":[\"h1 \\u003cb>\"]")
        );
        assert!(
            data.contains("\"caption\":\"all 2,200 requests\"")
                && data.contains("\"warmup_count\":200")
        );
        assert!(data.contains("\"unfinished when the load ended\""));
    }

    #[test]
    fn page_of_several_versions_compares_their_rounds() {
        let variants = samples::variants();
        let count = variants.len();
        let page = page_of(variants);
        assert!(page.contains("data-name=\"versions\""));
        assert!(page.contains("<p class=\"reason\">"));
        assert_eq!(page.matches(" id=\"variant-").count(), count);
        assert!(page.contains("each dot a round, the line their range</figcaption>"));
        // A dot for each round, in the bars of four statistics.
        assert_eq!(page.matches("<circle class=\"dot").count(), 4 * 3 * count);
        assert_eq!(page.matches("data-plot=\"heat map\"").count(), count);
        assert_eq!(
            page.matches("<script type=\"text/plain\" id=\"points-")
                .count(),
            count
        );
    }

    /// A load of a single version, with these series.
    fn of_one<'a>(sample: &'a Sample, series: Vec<LoadSeries<'a>>) -> LoadPage<'a> {
        LoadPage {
            ended_unix_ns: 0,
            addresses: Vec::new(),
            variants: vec![LoadPageVariant {
                rounds: VariantRounds {
                    name: "h2".to_owned(),
                    rounds: Vec::new(),
                },
                last: sample.finished(),
                intervals: Vec::new(),
            }],
            series,
            urls_together: None,
            thresholds: Vec::new(),
            method: Method::default(),
        }
    }

    #[test]
    fn load_without_requests_has_a_page() {
        let sample = samples::empty();
        let page = english(&of_one(&sample, vec![sample.series("h2", 1)]));
        assert!(page.contains("<p class=\"answer\">0 requests"), "{page}");
        let (markup, _) = page.split_once("<script").unwrap();
        assert!(!markup.contains("NaN") && !markup.contains("class=\"plots\""));
    }

    #[test]
    fn page_of_a_million_requests_has_less_than_5_mb() {
        let sample = samples::scattered(1_000_000);
        let series = (0..7).map(|n| sample.series(&format!("/{n}"), 1));
        let page = english(&of_one(&sample, series.collect()));
        assert!(page.len() < 5_000_000, "{} bytes", page.len());
        let thinned = page.matches(" of 1,000,000 requests: the slowest ").count();
        assert_eq!(thinned, 7);
        assert_eq!(
            page.matches("<figcaption>1,000,000 requests</figcaption>")
                .count(),
            7
        );
    }

    #[test]
    fn urls_that_share_a_colour_are_counted() {
        let sample = samples::one();
        let page = english(&LoadPage {
            urls_together: Some(12),
            ..of_one(&sample, vec![sample.series("h2", 1)])
        });
        assert!(page.contains("The 12 URLs are drawn together."), "{page}");
        // A single request has a point.
        assert!(page.contains("\"caption\":\"all 1 request\""), "{page}");
    }
}
