//! Where the time went, on the page: a stack of causes for each percentile band of each variant of a condition.
//!
//! It is pure markup, so that it works without scripts and on paper; widths are shares of the band's time. Nothing is added
//! up here: squall-analysis does that in `causes/shares.rs`.

use squall_analysis::causes::{BANDS, BandTime, CellBandTimes};
use squall_analysis::figure;
use squall_base::record::Cause;

use super::text::escaped;
use crate::causes::{behind, percent};

/// A piece has a label if its share is at least this.
const LABELLED: f64 = 0.08;

/// Appends the stacks of one condition; nothing if no cell's causes are known.
pub(super) fn push(page: &mut String, cells: &[CellBandTimes]) {
    if cells.is_empty() {
        return;
    }
    page.push_str("<div class=\"scroll\"><table class=\"causes\">\n<caption>Where the time went: share of the requests’ time by cause, over all valid trials; each trial’s requests by rank</caption>\n");
    page.push_str("<thead><tr><th scope=\"col\">variant</th><th scope=\"col\">requests</th><th scope=\"col\" class=\"stack\">");
    for cause in shown(cells) {
        page.push_str(&format!(
            "<span class=\"key\"><span class=\"swatch cause-{0}\"></span>{0}</span>",
            cause.name()
        ));
    }
    page.push_str("</th></tr></thead>\n<tbody>\n");
    for cell in cells {
        for (place, (band, time)) in BANDS.iter().zip(&cell.bands).enumerate() {
            let variant = match place {
                0 => escaped(&cell.variant),
                _ => String::new(),
            };
            page.push_str(&format!(
                "<tr{}><th scope=\"row\">{variant}</th><td>{}</td><td class=\"stack\">",
                if place == 0 { " class=\"first\"" } else { "" },
                escaped(band.name),
            ));
            push_stack(page, time);
            page.push_str("</td></tr>\n");
        }
    }
    page.push_str("</tbody></table></div>\n");
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
        let label = if share >= LABELLED {
            percent(share)
        } else {
            String::new()
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

#[cfg(test)]
mod tests {
    use squall_base::record::Cause;

    /// How bright a colour `#rrggbb` is, from 0 to 1 (WCAG 2.2, "relative luminance").
    fn luminance(colour: &str) -> f64 {
        [(1, 0.2126), (3, 0.7152), (5, 0.0722)]
            .into_iter()
            .map(|(at, weight)| {
                let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits");
                let value = f64::from(value) / 255.0;
                let linear = if value <= 0.04045 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                };
                weight * linear
            })
            .sum()
    }

    #[test]
    fn white_text_is_readable_on_every_colour_of_causes() {
        let mut colours = Vec::new();
        for cause in Cause::ALL {
            let name = format!("--cause-{}: ", cause.name());
            let (_, after) = super::super::STYLE.split_once(&name).expect("it has one");
            let colour = &after[..7];
            let contrast = 1.05 / (luminance(colour) + 0.05);
            assert!(contrast >= 4.5, "{cause:?}: {colour} has {contrast:.2}");
            colours.push(colour);
        }
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Cause::ALL.len());
    }
}
