//! The page of a sweep, which is several probes of one endpoint behind different links. It says which version is ahead where,
//! has a curve and a table for each measure, and says what each probe found and how the sweep was made.
//!
//! It is pure markup, like the page of one probe (`probe`). Nothing is compared here: squall-analysis' `probe::Sweep` does
//! that.

use squall_analysis::figure;
use squall_analysis::probe::{Sweep, SweepMeasure};
use squall_base::Duration;

use super::deliveries::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT};
use super::probe::{POLICY, begin_method, push_table, shown};
use super::probe_charts::{begin, series_of};
use super::text::{escaped, swatch};
use crate::date;
use crate::lang::{Language, Translator};
use crate::probe::table_of;

/// What the page of a sweep shows.
#[derive(Clone, Debug)]
pub struct SweepPage<'a> {
    /// The command that repeats it, ready for a shell and without anything that may be a credential.
    pub command: String,
    /// When it began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// How long it took.
    pub took: Duration,
    /// Its result.
    pub sweep: &'a Sweep,
}

/// The whole page, in English.
pub fn sweep_page(it: &SweepPage<'_>) -> String {
    let sweep = it.sweep;
    let mut page = super::begin_page("probe", POLICY);
    let window = sweep.upload_window.as_deref();
    let window = window.map(|window| format!("<p class=\"reason\">{}</p>\n", escaped(window)));
    page.push_str(&format!(
        "<header>\n<p class=\"recipe\">squall <b>probe</b></p>\n<h1>{} over the {}</h1>\n<dl class=\"facts\">\n\
         <div><dt>began</dt><dd>{}</dd></div>\n<div><dt>report by</dt><dd>squall {}</dd></div>\n</dl>\n</header>\n<main>\n\
         <div class=\"overview\">\n<p class=\"answer\">{}</p>\n{}</div>\n",
        shown(&sweep.url),
        escaped(&sweep.condition),
        date::utc(it.started_unix_ns),
        env!("CARGO_PKG_VERSION"),
        escaped(&sweep.crossover),
        window.unwrap_or_default(),
    ));
    for measure in SweepMeasure::ALL {
        if sweep.has(measure) {
            push_measure(&mut page, sweep, measure);
        }
    }
    push_verdicts(&mut page, sweep);
    begin_method(&mut page, &it.command);
    page.push_str(&format!(
        "<p>{} in {}, each with the traffic of one probe.</p>\n</section>\n</main>\n</body>\n</html>\n",
        figure::counted(sweep.points.len() as u64, "probe", "probes"),
        figure::time(it.took)
    ));
    page
}

/// The whole page in a language.
pub fn sweep_page_in(language: Language, it: &SweepPage<'_>) -> String {
    Translator::of_sweep(language, it.sweep).page(sweep_page(it))
}

/// What each probe found.
fn push_verdicts(page: &mut String, sweep: &Sweep) {
    page.push_str(
        "<section aria-label=\"Verdicts\">\n<h2>What each probe found</h2>\n<ul class=\"also\">\n",
    );
    for point in &sweep.points {
        let class = if point.is_sound {
            ""
        } else {
            " class=\"some\""
        };
        page.push_str(&format!(
            "<li>{}: <span{class}>{}</span></li>\n",
            escaped(&point.link),
            shown(&point.headline)
        ));
    }
    page.push_str("</ul>\n</section>\n");
}

fn push_measure(page: &mut String, sweep: &Sweep, measure: SweepMeasure) {
    let (title, unit) = match measure {
        SweepMeasure::FirstByte => ("First byte of a fresh connection", "ms"),
        SweepMeasure::Download => ("Downloads", "Mbit/s"),
        SweepMeasure::Upload => ("Uploads", "Mbit/s"),
    };
    page.push_str(&format!(
        "<section class=\"comparison\" aria-label=\"{title}\">\n<h2>{title}</h2>\n<div class=\"beside\">\n\
         <figure class=\"shapes\">\n<figcaption>"
    ));
    for name in sweep.versions() {
        let series = series_of(name);
        page.push_str(&format!(
            "<span class=\"key\">{}{}</span>",
            swatch(series),
            escaped(name)
        ));
    }
    page.push_str("</figcaption>\n");
    push_curves(page, sweep, measure, &format!("{title} in {unit}"));
    page.push_str("</figure>\n<div>\n");
    let caption = match measure {
        SweepMeasure::FirstByte => "The middle of the rounds of each probe".to_owned(),
        _ => format!("The middle of the rounds of each probe, in {unit}"),
    };
    let rows = table_of(sweep, measure);
    push_table(page, &measure.name().replace(' ', "-"), &caption, &rows);
    page.push_str("</div>\n</div>\n</section>\n");
}

/// A curve for each version over the values, which are spaced evenly.
fn push_curves(page: &mut String, sweep: &Sweep, measure: SweepMeasure, label: &str) {
    let scale = match measure {
        SweepMeasure::FirstByte => 1e3,
        SweepMeasure::Download | SweepMeasure::Upload => 8.0 / 1e6,
    };
    let versions = sweep.versions();
    let figure = |place: usize, name: &str| {
        let point = sweep.points.get(place)?;
        point.figure(name, measure).map(|figure| figure * scale)
    };
    let count = sweep.points.len();
    let all =
        (0..count).flat_map(|place| versions.iter().filter_map(move |name| figure(place, name)));
    let y = Axis::up_to(all.fold(f64::MIN_POSITIVE, f64::max)).rounded_up();
    begin(
        page,
        HEIGHT,
        &format!("{label} over the {}", sweep.condition),
    );
    page.push_str(&format!(
        "<text x=\"{LEFT}\" y=\"11\">{}</text>\n",
        escaped(label)
    ));
    for (tick, text) in y.ticks() {
        let at = y.height(tick);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/><text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>\n",
            LEFT - 6.0,
            at + 3.5
        ));
    }
    // Half a step of room at both ends.
    let step = (RIGHT - LEFT) / count.max(1) as f64;
    let across = |place: usize| LEFT + step * (place as f64 + 0.5);
    for (place, point) in sweep.points.iter().enumerate() {
        page.push_str(&format!(
            "<text class=\"of-x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            across(place),
            BOTTOM + 14.0,
            escaped(&point.value)
        ));
    }
    for name in &versions {
        let mut path = String::new();
        let mut dots = String::new();
        for place in 0..count {
            let Some(value) = figure(place, name) else {
                continue;
            };
            let (x, y) = (across(place), y.height(value));
            path += &format!("{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
            dots += &format!("M{x:.1} {y:.1}h.1");
        }
        page.push_str(&format!(
            "<g style=\"--series: var(--series-{})\"><path class=\"curve\" d=\"{path}\"/><path class=\"dots\" \
             d=\"{dots}\"/></g>\n",
            series_of(name)
        ));
    }
    page.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests_of_sweeps::sweep;

    #[test]
    fn page_of_a_sweep_has_a_curve_and_a_table_for_each_measure() {
        let sweep = sweep();
        let page = sweep_page(&SweepPage {
            command: "squall probe --behind 'delay 10..200ms' https://server/".to_owned(),
            started_unix_ns: 1_763_760_301_000_000_000,
            took: Duration::from_secs(90),
            sweep: &sweep,
        });
        for part in [
            "<p class=\"answer\">Downloads: HTTP/1.1 is fastest at 10ms",
            "65,535 bytes at every delay.</p>",
            "data-name=\"downloads\"",
            "data-name=\"first-byte\"",
            "aria-label=\"Downloads in Mbit/s over the delay\"",
            ">100ms</text>",
            "delay 200ms, loss 1%: <span class=\"some\">No answer &lt;b&gt;</span>",
            "3 probes in 90.0 s",
        ] {
            assert!(page.contains(part), "no {part}: {page}");
        }
        for foreign in ["<script", "src=", "href=", "NaN", "sesame", "answer <b>"] {
            assert!(!page.contains(foreign), "{foreign}: {page}");
        }
        assert!(!page.contains("data-name=\"uploads\""));
    }
}
