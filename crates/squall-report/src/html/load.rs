//! The page of a load without trials: what the rounds of its variants show, thresholds, percentiles, the load over time, and
//! where the time went.
//!
//! It is pure markup in the style of a run's report, without scripts, so that it is complete on paper and in any viewer.
//! Nothing is computed here but places; sentences and figures are those of the text (`crate::load`). `load_course` draws the
//! load over time.

use squall_analysis::load::{
    IntervalFigures, Latencies, LoadTotals, Part, RoundFigure, VariantRounds,
};
use squall_analysis::{Quantile, Spread, figure};

use super::plot::{self, Area, LogAxis, WIDTH};
use super::text::{SERIES, escaped, swatch};
use super::{load_course, table};
use crate::date;
use crate::lang::{Language, Translator};
use crate::load::{
    CheckedThreshold, FinishedLoad, Glyphs, Overview, PERCENTILES, TextFormat, foreign, known,
    percent, quantile, sentences, summary_text,
};
use crate::text::Colour;

/// What the page of a load may do: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Points of a percentile curve for each tenfold smaller rest of the requests.
const POINTS_A_DECADE: u32 = 8;
/// How far a curve goes at most: 99.9999 %.
const DECADES_AT_MOST: u32 = 6;

/// What the page of a load shows.
#[derive(Clone, Debug)]
pub struct LoadPage<'a> {
    /// When the load ended, in nanoseconds since 1970-01-01 UTC.
    pub ended_unix_ns: u64,
    /// Where requests were sent to.
    pub addresses: Vec<String>,
    /// The variants, at least one. Others are compared with the first.
    pub variants: Vec<LoadPageVariant<'a>>,
    /// The thresholds.
    pub thresholds: Vec<CheckedThreshold>,
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

/// The whole page, in English.
pub fn load_page(load: &LoadPage<'_>) -> String {
    load_page_in(Language::En, load)
}

/// The whole page in a language.
pub fn load_page_in(language: Language, load: &LoadPage<'_>) -> String {
    let mut page = super::begin_page("load", POLICY);
    push_header(&mut page, load);
    page.push_str("<main>\n");
    page.push_str(plot::HATCHING);
    push_answer(&mut page, load);
    push_thresholds(&mut page, &load.thresholds);
    push_compared(&mut page, load);
    push_percentiles(&mut page, load);
    for (place, variant) in load.variants.iter().enumerate() {
        push_variant(&mut page, place, variant, language);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    let messages = load.variants.iter().flat_map(|it| foreign(&it.last));
    Translator::of_names(language, messages.collect()).page(page)
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

/// The percentiles of each variant's last round, as a curve and as a table.
fn push_percentiles(page: &mut String, load: &LoadPage<'_>) {
    page.push_str(
        "<section class=\"comparison\" aria-label=\"Percentiles\">\n<h2>Response times</h2>\n<div class=\"beside\">\n\
         <div class=\"shapes\">\n",
    );
    push_curves(page, load);
    page.push_str("</div>\n<div>\n");
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
    page.push_str("</div>\n</div>\n</section>\n");
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

/// A point of a percentile curve: how many decades of the requests are not above it, and its value.
type CurvePoint = (f64, Quantile);

/// The percentiles of all requests, as far as there are enough.
fn curve(totals: &LoadTotals) -> Vec<CurvePoint> {
    let steps = 0..=POINTS_A_DECADE * DECADES_AT_MOST;
    let points = steps.map_while(|step| {
        let decades = f64::from(step) / f64::from(POINTS_A_DECADE);
        let share = (1.0 - 10f64.powf(-decades)).max(1e-9);
        Some((decades, totals.response_quantile(share)?))
    });
    points.collect()
}

fn push_curves(page: &mut String, load: &LoadPage<'_>) {
    const HEIGHT: f64 = 250.0;
    let curves: Vec<Vec<CurvePoint>> = (load.variants.iter())
        .map(|variant| curve(variant.last.totals))
        .collect();
    let points = || curves.iter().flatten();
    let Some(axis) = LogAxis::of(points().map(|(_, value)| *value)) else {
        return;
    };
    let area = Area {
        left: 58.0,
        right: WIDTH - 12.0,
        top: 8.0,
        bottom: HEIGHT - 20.0,
    };
    let decades = points().map(|(decades, _)| *decades).fold(0.1, f64::max);
    page.push_str(
        "<figure>\n<figcaption>Percentiles of all requests; failed ones were never answered. Each step has a tenth of the \
         requests beyond the one before. Dashed: it took at least that long.</figcaption>\n",
    );
    plot::begin(page, HEIGHT, "Response time by percentile");
    plot::push_y_axis(page, axis, &area);
    plot::push_percentile_axis(page, decades, &area);
    for (place, points) in curves.iter().enumerate() {
        let at = |&(along, value): &CurvePoint| {
            (area.across(along / decades), area.height(axis.share(value)))
        };
        push_curve(page, place, points, at);
    }
    page.push_str("</svg>\n</figure>\n");
}

fn push_curve(
    page: &mut String,
    place: usize,
    points: &[CurvePoint],
    at: impl Fn(&CurvePoint) -> (f64, f64),
) {
    let is_exact = |point: &&CurvePoint| point.1.exact().is_some();
    let exact = points.iter().take_while(is_exact).count();
    let finite = (points.iter().take_while(|point| point.1 != Quantile::Never)).count();
    // The dashed part begins at the last known point.
    let dashed = exact.saturating_sub(1).min(finite)..finite;
    for (class, part) in [
        ("curve", &points[..exact]),
        ("curve bound", &points[dashed]),
    ] {
        if part.len() < 2 {
            continue;
        }
        let path: String = (part.iter().enumerate())
            .map(|(n, point)| {
                let (x, y) = at(point);
                format!("{}{x:.1} {y:.1}", if n == 0 { "M" } else { "L" })
            })
            .collect();
        page.push_str(&format!(
            "<path class=\"{class}\" style=\"--series: var(--series-{})\" d=\"{path}\"/>\n",
            place % SERIES,
        ));
    }
}

/// The last round of one variant: over time, its parts, and its whole text, which is in `language` already.
fn push_variant(
    page: &mut String,
    place: usize,
    variant: &LoadPageVariant<'_>,
    language: Language,
) {
    page.push_str(&format!(
        "<section class=\"condition\" id=\"variant-{place}\">\n<h2>{}{}</h2>\n",
        swatch(place),
        escaped(&variant.rounds.name)
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
    use crate::load::samples;

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
        load_page(&LoadPage {
            ended_unix_ns: 1_763_760_301_000_000_000,
            addresses: vec!["127.0.0.1:8080".to_owned()],
            variants: (variants.into_iter())
                .map(|rounds| LoadPageVariant {
                    rounds,
                    last: sample.finished(),
                    intervals: vec![interval(900, 0), interval(700, 12)],
                })
                .collect(),
            thresholds: vec![CheckedThreshold {
                sentence: "p(99)<1: FAILED, 3.00 ms".to_owned(),
                holds: false,
            }],
        })
    }

    #[test]
    fn page_of_one_load_has_each_section_and_needs_nothing_else() {
        let mut variants = samples::variants();
        variants.truncate(1);
        variants[0].name = "h1 <b>".to_owned();
        let page = page_of(variants);
        for part in [
            "<dt>asked</dt><dd>127.0.0.1:8080</dd>",
            "<dt>ended</dt><dd>2025-11-21 21:25 UTC</dd>",
            "<p class=\"answer\">",
            "<li class=\"overloaded\">p(99)&lt;1: FAILED, 3.00 ms</li>",
            "aria-label=\"Response time by percentile\"",
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
        for foreign in ["<script", "src=", "href=", "h1 <b>", "NaN"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn page_of_several_versions_compares_their_rounds() {
        let variants = samples::variants();
        let count = variants.len();
        let page = page_of(variants);
        assert!(page.contains("data-name=\"versions\""));
        assert!(page.contains("<p class=\"reason\">"));
        assert_eq!(page.matches("<section class=\"condition\"").count(), count);
    }

    #[test]
    fn load_without_requests_has_a_page() {
        let sample = samples::empty();
        let page = load_page(&LoadPage {
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
            thresholds: Vec::new(),
        });
        assert!(page.contains("<p class=\"answer\">0 requests"), "{page}");
        assert!(!page.contains("NaN"));
    }
}
