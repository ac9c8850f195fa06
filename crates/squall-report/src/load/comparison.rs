//! Several variants of a load side by side, and which differences their rounds show.
//!
//! It judges nothing (squall-analysis's `load` does), and does not hint at differences that are not shown.

use squall_analysis::load::{
    FigureComparison, Order, RoundFigure, RoundsComparison, VariantRounds, compare_rounds,
};
use squall_analysis::{Quantile, Spread, figure};

use super::text::{Style, TextFormat, fit, printable, row, span};

/// Longer names are cut to this.
const NAME_AT_MOST_COLUMNS: usize = 24;

const QUANTILES: [RoundFigure; 3] = [RoundFigure::P50, RoundFigure::P90, RoundFigure::P99];

/// What the rounds show in sentences, and the table of the variants. The first variant is the baseline.
pub fn comparison(variants: &[VariantRounds], format: &TextFormat) -> String {
    let mut text = String::new();
    let compared = compare_rounds(variants);
    for comparison in &compared {
        text += &format.paragraph(Style::Bold, "", &sentence(comparison, variants));
    }
    if let Some(chance) = chance(&compared) {
        text += &format.paragraph(Style::Faint, "", &chance);
        text.push('\n');
    }
    for line in format.titled(&table(variants, format)) {
        text += &line;
        text.push('\n');
    }
    text
}

/// What the rounds of the variants show, in sentences; the last one says how certain that is.
pub(crate) fn sentences(variants: &[VariantRounds]) -> Vec<String> {
    let compared = compare_rounds(variants);
    let found = compared.iter().map(|it| sentence(it, variants));
    found.chain(chance(&compared)).collect()
}

/// Medians over the rounds, each with its range below it.
fn table(variants: &[VariantRounds], format: &TextFormat) -> Vec<String> {
    let mut rows = vec![row([
        "median of rounds",
        "rate/s",
        "p50",
        "p90",
        "p99",
        "errors",
    ])];
    for variant in variants {
        let rates = variant.rate_per_s();
        let quantiles = QUANTILES.map(|figure| variant.quantile(figure));
        let name = format.cut(&printable(&variant.name), NAME_AT_MOST_COLUMNS);
        let mut medians = vec![
            name,
            rates.map_or_else(none, |rate| figure::rate(rate.median)),
        ];
        medians
            .extend(quantiles.map(|found| found.map_or_else(none, |found| quantile(found.median))));
        medians.push(figure::count(variant.errors()));
        rows.push(medians);
        if variant.rounds.len() > 1 {
            let count = variant.rounds.len();
            let mut lows = vec![
                format!("  lowest of {count}"),
                rates.map_or_else(String::new, |r| figure::rate(r.low)),
            ];
            let mut highs = vec![
                format!("  highest of {count}"),
                rates.map_or_else(String::new, |r| figure::rate(r.high)),
            ];
            let of = |value: fn(Spread<Quantile>) -> Quantile| {
                quantiles
                    .map(|found| found.map_or_else(String::new, |found| quantile(value(found))))
            };
            lows.extend(of(|found| found.low));
            highs.extend(of(|found| found.high));
            rows.extend([lows, highs]);
        }
    }
    let lines = format.aligned(&rows);
    if fit(&lines, format.columns()) {
        return lines;
    }
    // Leave out the p90, which readers miss least.
    rows.iter_mut().for_each(|row| drop(row.remove(3)));
    format.aligned(&rows)
}

fn none() -> String {
    "n/a".to_owned()
}

/// A quantile with its unit.
pub(crate) fn quantile(value: Quantile) -> String {
    match value {
        Quantile::Exact(value) => span(value),
        Quantile::AtLeast(value) => format!(">{}", span(value)),
        Quantile::Never => "never".to_owned(),
    }
}

/// `h2 against h1: p99 0.47x (119 ms against 251 ms), rate 1.8x; no difference shown in p50 and p90`.
fn sentence(comparison: &RoundsComparison, variants: &[VariantRounds]) -> String {
    let names = format!(
        "{} against {}",
        printable(&comparison.variant),
        printable(&comparison.baseline)
    );
    let of = |wanted: &[Order]| -> Vec<&FigureComparison> {
        comparison
            .figures
            .iter()
            .filter(|figure| wanted.contains(&figure.order))
            .collect()
    };
    let mut words: Vec<String> = of(&[Order::Higher, Order::Lower])
        .into_iter()
        .map(|figure| difference(figure, comparison, variants))
        .collect();
    let list = |figures: &[&FigureComparison]| {
        figures
            .iter()
            .map(|figure| name(figure.figure))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (not_shown, unknown) = (of(&[Order::NotShown]), of(&[Order::Unknown]));
    if !not_shown.is_empty() {
        words.push(format!("no difference shown in {}", list(&not_shown)));
    }
    if !unknown.is_empty() {
        words.push(format!("nothing can be said about {}", list(&unknown)));
    }
    format!("{names}: {}", words.join("; "))
}

fn difference(
    found: &FigureComparison,
    comparison: &RoundsComparison,
    variants: &[VariantRounds],
) -> String {
    let direction = match found.order {
        Order::Higher => "higher",
        _ => "lower",
    };
    let median = |name: &str| {
        let variant = variants.iter().find(|variant| variant.name == name)?;
        match found.figure {
            RoundFigure::Rate => Some(format!("{}/s", figure::rate(variant.rate_per_s()?.median))),
            quantiles => Some(quantile(variant.quantile(quantiles)?.median)),
        }
    };
    let mut text = format!("{} {direction}", name(found.figure));
    if let Some(ratio) = found.ratio {
        text += &format!(", {}", figure::ratio(ratio));
    }
    if let Some((of, than)) = median(&comparison.variant).zip(median(&comparison.baseline)) {
        text += &format!(" ({of} against {than})");
    }
    text
}

fn name(figure: RoundFigure) -> &'static str {
    match figure {
        RoundFigure::Rate => "rate",
        RoundFigure::P50 => "p50",
        RoundFigure::P90 => "p90",
        RoundFigure::P99 => "p99",
    }
}

/// How strong the evidence of the rounds is.
fn chance(compared: &[RoundsComparison]) -> Option<String> {
    let by_chance = compared
        .iter()
        .map(|comparison| comparison.by_chance)
        .reduce(f64::max)?;
    Some(if by_chance >= 1.0 {
        "A single round shows no difference: any two differ. Run each variant 4 times or more."
            .to_owned()
    } else {
        format!(
            "A difference is shown if all rounds of one lie beyond all of the other; chance alone does that to {:.1} % of figures \
             of equal variants.",
            by_chance * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::samples::{self, FORMAT};

    #[test]
    fn comparison_prints_variants_side_by_side() {
        let text = comparison(&samples::variants(), &FORMAT);
        assert_eq!(text, include_str!("golden/comparison.txt"), "\n{text}");
    }

    #[test]
    fn single_rounds_show_no_difference() {
        let mut variants = samples::variants();
        variants
            .iter_mut()
            .for_each(|variant| variant.rounds.truncate(1));
        let text = comparison(&variants[..2], &FORMAT);
        let said = "HTTP/2 against HTTP/1.1: nothing can be said about rate, p50, p90, p99\n";
        assert!(text.contains(said), "{text}");
        assert_eq!(comparison(&[], &FORMAT).lines().count(), 1);
    }

    #[test]
    fn tables_fit_the_width() {
        for width in [40, 60, 80, 200] {
            let text = comparison(&samples::variants(), &TextFormat { width, ..FORMAT });
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{text}"
            );
        }
    }
}
