//! The grids of winners: the conditions by two of their settings, each field in the colour of the variant that wins there, with
//! its name and the ratio.
//!
//! Undecided fields are neutral, those without a pair of valid trials are hatched. There is a grid for each pair of variants
//! and each measure, of which scripts show one at a time (assets/switches.js). squall-analysis' `grid` decides what is in a
//! field.

use squall_analysis::answer::Confidence;
use squall_analysis::{ComparedPair, FieldOutcome, Grid, GridAxis, RunSummary};

use super::text::{SERIES, escaped};

/// Appends the grids; nothing if the conditions do not differ or nothing is compared.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    let (grids, pairs) = (summary.grids(), summary.compared_pairs());
    if grids.is_empty() || pairs.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"crossover\">\n<h3>Who wins where</h3>\n\
         <p class=\"hint\">In each field: the variant that wins, and the first variant’s value over the other’s. A question mark: \
         likely, not proven. Grey: no winner is shown. Hatched: no pair of valid trials.</p>\n",
    );
    for pair in &pairs {
        page.push_str(&format!(
            "<div class=\"compared\" data-measure=\"{}\" data-pair=\"{}\">\n",
            escaped(&pair.measure_name()),
            escaped(&pair_name(pair)),
        ));
        for grid in &grids {
            push_grid(page, summary, grid, pair);
        }
        page.push_str("</div>\n");
    }
    page.push_str("</div>\n");
}

fn pair_name(pair: &ComparedPair) -> String {
    format!("{} against {}", pair.variant, pair.baseline)
}

fn push_grid(page: &mut String, summary: &RunSummary, grid: &Grid, pair: &ComparedPair) {
    let shared = match grid.shared.as_str() {
        "" => String::new(),
        shared => format!(", {shared}"),
    };
    page.push_str(&format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Grid\"><table class=\"grid-of-winners\" \
         data-name=\"winners\">\n<caption>{}: {}{}</caption>\n<thead><tr><th scope=\"col\">{}</th>",
        escaped(&pair_name(pair)),
        escaped(&pair.measure_name()),
        escaped(&shared),
        escaped(&corner(grid)),
    ));
    for value in &grid.columns.values {
        page.push_str(&format!(
            "<th scope=\"col\">{}</th>",
            escaped(&heading(&grid.columns, value))
        ));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (value, row) in grid.rows.values.iter().zip(&grid.conditions) {
        page.push_str(&format!(
            "<tr><th scope=\"row\">{}</th>",
            escaped(&heading(&grid.rows, value))
        ));
        for place in row {
            match place {
                Some(place) => push_field(page, summary, *place, pair),
                None => page.push_str("<td class=\"absent\">–</td>"),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// What the rows and columns are.
fn corner(grid: &Grid) -> String {
    match grid.rows.setting.as_str() {
        "" => grid.columns.setting.clone(),
        rows => format!("{rows} \\ {}", grid.columns.setting),
    }
}

/// A value with its setting, so that a reader of one field need not look for the corner.
fn heading(axis: &GridAxis, value: &str) -> String {
    match (axis.setting.as_str(), value) {
        ("", _) => "all".to_owned(),
        (setting, "") => format!("no {setting}"),
        (setting, value) => format!("{setting} {value}"),
    }
}

fn push_field(page: &mut String, summary: &RunSummary, place: usize, pair: &ComparedPair) {
    let Some(condition) = summary.conditions.get(place) else {
        return;
    };
    let field = pair.field(condition);
    let winner = match field.outcome {
        FieldOutcome::Variant(confidence) => Some((&pair.variant, confidence)),
        FieldOutcome::Baseline(confidence) => Some((&pair.baseline, confidence)),
        FieldOutcome::Undecided | FieldOutcome::Invalid | FieldOutcome::NotCompared => None,
    };
    let title = escaped(&field.sentence);
    let ratio = escaped(&field.ratio);
    let Some((name, confidence)) = winner else {
        let (class, words) = match field.outcome {
            FieldOutcome::Invalid => ("invalid", "invalid"),
            FieldOutcome::NotCompared => ("absent", "no trials"),
            _ => ("undecided", "no winner"),
        };
        page.push_str(&format!(
            "<td class=\"{class}\" title=\"{title}\"><a href=\"#condition-{place}\">{ratio}</a><small>{words}</small></td>"
        ));
        return;
    };
    let variant = summary.variants.iter().position(|own| own == name);
    let (class, mark) = match confidence {
        Confidence::Proven => ("wins proven", ""),
        _ => ("wins likely", " ?"),
    };
    page.push_str(&format!(
        "<td class=\"{class}\" data-winner=\"{0}\" style=\"--series: var(--series-{1})\" title=\"{title}\">\
         <a href=\"#condition-{place}\">{ratio}</a><small>{0}{mark}</small></td>",
        escaped(name),
        variant.unwrap_or_default() % SERIES,
    ));
}
