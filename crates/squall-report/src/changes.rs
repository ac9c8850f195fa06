//! Two runs side by side in a terminal: a table for each cell that both have, and what changed.
//!
//! squall-analysis decides what counts as a change (`change`); this module only lays it out. Names are foreign text, so
//! control characters in them never reach the terminal.

use squall_analysis::change::{CellChange, Changes, FigureChange};
use squall_analysis::{Overload, Quantile, Reading, figure};

use crate::terminal::printable;

const TITLES: [&str; 7] = ["", "before", "after", "ratio", "95 %", "MDE", "after is"];

/// The comparison as text: the sentence first, then the cells.
pub fn changes(changes: &Changes) -> String {
    let mut text = printable(&changes.sentence()) + "\n";
    for cell in &changes.cells {
        text += &format!(
            "\n{}, {}\n",
            printable(&cell.variant),
            printable(&cell.condition.to_string())
        );
        text += &table(cell);
        text += &format!("  {}\n", trials(cell));
        if let Some(overload) = cell.overload {
            let when = match overload {
                Overload::Variant => "after",
                Overload::Baseline => "before",
                Overload::Both => "before and after",
            };
            text += &format!(
                "  did not carry the load {when}: latencies grow for as long as it lasts\n"
            );
        }
    }
    if !changes.unmatched.is_empty() {
        text += "\nNot compared:\n";
    }
    for cell in &changes.unmatched {
        text += &format!("  {}\n", printable(cell));
    }
    text
}

fn trials(cell: &CellChange) -> String {
    if cell.is_paired {
        format!(
            "{} of the same seeds",
            figure::counted(cell.trials_after.min(cell.trials_before), "pair", "pairs")
        )
    } else {
        format!(
            "unpaired: {} before, {} after, of other seeds",
            figure::counted(cell.trials_before, "trial", "trials"),
            figure::counted(cell.trials_after, "trial", "trials"),
        )
    }
}

fn table(cell: &CellChange) -> String {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(cell.figures.iter().map(row));
    let mut widths = [0; TITLES.len()];
    for row in &rows {
        for (width, field) in widths.iter_mut().zip(row) {
            *width = field.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::from(" ");
        for (place, (field, &width)) in row.iter().zip(&widths).enumerate() {
            // Words are aligned left, numbers right.
            line += &match place {
                0 | 6 => format!(" {field:<width$} "),
                _ => format!(" {field:>width$} "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn row(change: &FigureChange) -> [String; TITLES.len()] {
    let unknown = || "n/a".to_owned();
    let ratio = change.ratio;
    let interval = ratio.and_then(|ratio| ratio.interval);
    let p = change.p_adjusted.filter(|_| interval.is_some());
    let limit = match ratio {
        Some(ratio) if ratio.bound && ratio.median > 1.0 => ">",
        Some(ratio) if ratio.bound => "<",
        _ => "",
    };
    let said = match p {
        Some(p) => format!("{} (p {})", change.words(), figure::chance(p)),
        None => change.words().to_owned(),
    };
    [
        change.figure.name().to_owned(),
        reading(change.before),
        reading(change.after),
        ratio.map_or_else(unknown, |ratio| {
            format!("{limit}{}", figure::ratio(ratio.median))
        }),
        interval.map_or_else(unknown, |interval| {
            format!(
                "{} to {}",
                figure::ratio(interval.low),
                figure::ratio(interval.high)
            )
        }),
        ratio
            .and_then(|ratio| ratio.least_visible)
            .map_or_else(unknown, figure::ratio),
        said,
    ]
}

fn reading(reading: Reading) -> String {
    match reading {
        Reading::Latency(Some(value @ (Quantile::Exact(_) | Quantile::AtLeast(_)))) => {
            format!("{} ms", figure::quantile(value))
        }
        Reading::Latency(Some(Quantile::Never)) => "never".to_owned(),
        Reading::Number(Some(number)) => figure::rate(number),
        Reading::Latency(None) | Reading::Number(None) => "n/a".to_owned(),
    }
}
