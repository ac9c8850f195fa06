//! Where the time went, on the page: a stack of causes for each percentile band of each variant of a condition.
//!
//! It is pure markup, so that it works without scripts and on paper; widths are shares of the band's time. Nothing is added
//! up here: squall-analysis does that in `causes/shares.rs`.

use squall_analysis::causes::{BANDS, BandTime, CellBandTimes};
use squall_analysis::figure;
use squall_base::record::Cause;

use super::terms;
use super::text::escaped;
use crate::causes::{behind, percent};
use crate::palette::CauseLook;

/// A piece shows the letter of its cause if its share is at least `LETTERED`, and also the share from `LABELLED` on.
const LETTERED: f64 = 0.02;
const LABELLED: f64 = 0.08;

/// Appends the stacks of the `index`-th condition; nothing if no cell's causes are known.
pub(super) fn push(page: &mut String, index: usize, cells: &[CellBandTimes]) {
    if cells.is_empty() {
        return;
    }
    page.push_str(&format!(
        "<table class=\"causes\" data-name=\"causes-{index}\">\n<caption>Where the time went: share of the requests’ time by cause, over all valid trials; each trial’s requests by rank</caption>\n"
    ));
    page.push_str("<thead><tr><th scope=\"col\">variant</th><th scope=\"col\">requests</th><th scope=\"col\" class=\"stack\">");
    for cause in shown(cells) {
        page.push_str(&format!(
            "<span class=\"key\"><span class=\"swatch cause-{}\"></span>{} {}</span>",
            cause.name(),
            CauseLook::of(cause).letter,
            terms::cause(cause),
        ));
    }
    page.push_str("</th></tr></thead>\n<tbody>\n");
    for cell in cells {
        for (place, (band, time)) in BANDS.iter().zip(&cell.bands).enumerate() {
            let head = match place {
                0 => format!(
                    "<tr class=\"first\"><th scope=\"rowgroup\" rowspan=\"{}\">{}</th>",
                    BANDS.len(),
                    escaped(&cell.variant)
                ),
                _ => "<tr>".to_owned(),
            };
            page.push_str(&format!(
                "{head}<td>{}</td><td class=\"stack\">",
                escaped(band.name)
            ));
            push_stack(page, time);
            page.push_str("</td></tr>\n");
        }
    }
    page.push_str("</tbody></table>\n");
}

/// The causes that any cell has, in the order of the record.
fn shown(cells: &[CellBandTimes]) -> impl Iterator<Item = Cause> {
    let has = |cause: Cause| {
        let mut bands = cells.iter().flat_map(|cell| &cell.bands);
        bands.any(|band| !band.spans[cause].is_zero())
    };
    Cause::ALL.into_iter().filter(move |cause| has(*cause))
}

fn push_stack(page: &mut String, time: &BandTime) {
    let total = time.spans.total().as_nanos();
    if total == 0 {
        page.push_str("<span class=\"none\">n/a</span>");
        return;
    }
    page.push_str("<div class=\"bar\">");
    for cause in Cause::ALL {
        let share = time.spans[cause].as_nanos() as f64 / total as f64;
        if share == 0.0 {
            continue;
        }
        let name = cause.name();
        let letter = CauseLook::of(cause).letter;
        let label = match share {
            share if share >= LABELLED => format!("{letter} {}", percent(share)),
            share if share >= LETTERED => letter.to_string(),
            _ => String::new(),
        };
        page.push_str(&format!(
            "<span class=\"cause-{name}\" style=\"width: {:.3}%\" title=\"{name}: {} of the time of {}\">{label}</span>",
            100.0 * share,
            percent(share),
            figure::counted(time.requests, "request", "requests"),
        ));
    }
    page.push_str("</div>");
    let behind = behind(time);
    if !behind.is_empty() {
        page.push_str(&format!("<div class=\"hint\">queue{behind}</div>"));
    }
}
