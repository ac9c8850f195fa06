//! Two runs side by side in a terminal: a table for each cell that both have, and what changed.
//!
//! squall-analysis decides what counts as a change (`change`); this module only lays it out. Names are foreign text, so
//! control characters in them never reach the terminal.

use squall_analysis::change::{CellChange, Changes, FigureChange};
use squall_analysis::{Overload, Quantile, Reading, figure};

use crate::columns::width_of;
use crate::lang::{Language, Translator};
use crate::text::{aligned, printable};

/// The titles of a cell's table.
pub(crate) const TITLES: [&str; 7] = ["", "before", "after", "ratio", "95 %", "MDE", "after is"];

/// What stands in a field without a figure.
const NONE: &str = "n/a";

/// The columns that a narrow terminal leaves out, in this order.
const OPTIONAL: [&str; 3] = ["MDE", "95 %", "ratio"];

/// The comparison as text in a language: the sentence first, then the cells, whose tables fit into `width` columns.
pub fn changes_in(language: Language, changes: &Changes, width: usize) -> String {
    let translator = Translator::of_changes(language, changes);
    let say = |text: &str| printable(&translator.say(text));
    let mut text = say(&changes.sentence()) + "\n";
    for cell in &changes.cells {
        let name = format!("{}, {}", cell.variant, cell.condition);
        text += &format!("\n{}\n", say(&name));
        text += &table(cell, width, &translator);
        text += &format!("  {}\n", say(&trials(cell)));
        if let Some(overload) = cell.overload {
            let when = match overload {
                Overload::Variant => "after",
                Overload::Baseline => "before",
                Overload::Both => "before and after",
            };
            let said =
                format!("did not carry the load {when}: latencies grow for as long as it lasts");
            text += &format!("  {}\n", say(&said));
        }
    }
    if !changes.unmatched.is_empty() {
        text += &format!("\n{}\n", say("Not compared:"));
    }
    for cell in &changes.unmatched {
        text += &format!("  {}\n", say(cell));
    }
    text
}

/// A sentence about these changes in a language, such as one about a limit or about another difference.
pub fn change_sentence_in(language: Language, changes: &Changes, sentence: &str) -> String {
    Translator::of_changes(language, changes).say(sentence)
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

fn table(cell: &CellChange, width: usize, translator: &Translator) -> String {
    let mut rows = vec![TITLES.map(str::to_owned).to_vec()];
    rows.extend(cell.figures.iter().map(row));
    // The last column has words, so it is aligned left and laid out apart from the others.
    let mut said: Vec<String> = rows.iter_mut().filter_map(Vec::pop).collect();
    for title in TITLES {
        // A column without any figure is left out.
        let has_figure = |place: usize| rows[1..].iter().any(|row| row[place] != NONE);
        if let Some(place) = place_of(&rows, title).filter(|place| !has_figure(*place)) {
            remove(&mut rows, place);
        }
    }
    let is_fitting = |rows: &[Vec<String>], said: &[String]| {
        lines(rows, said, translator).all(|line| width_of(&line) <= width)
    };
    for title in OPTIONAL {
        if let Some(place) = place_of(&rows, title).filter(|_| !is_fitting(&rows, &said)) {
            remove(&mut rows, place);
        }
    }
    if !is_fitting(&rows, &said) {
        let words = cell.figures.iter().map(|change| change.words().to_owned());
        said = said.into_iter().take(1).chain(words).collect();
    }
    let lines = lines(&rows, &said, translator);
    lines.map(|line| line + "\n").collect()
}

fn place_of(rows: &[Vec<String>], title: &str) -> Option<usize> {
    rows[0].iter().position(|other| other == title)
}

fn remove(rows: &mut [Vec<String>], place: usize) {
    for row in rows {
        row.remove(place);
    }
}

/// The rows as lines, each ending with its verdict.
fn lines(
    rows: &[Vec<String>],
    said: &[String],
    translator: &Translator,
) -> impl Iterator<Item = String> {
    let lines = aligned(&translator.rows(rows)).into_iter().zip(said);
    lines.map(move |(line, said)| {
        let line = format!("{line}  {}", translator.say(said));
        line.trim_end().to_owned()
    })
}

/// A field for each title.
pub(crate) fn row(change: &FigureChange) -> Vec<String> {
    let unknown = || NONE.to_owned();
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
    vec![
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
        Reading::Latency(None) | Reading::Number(None) => NONE.to_owned(),
    }
}
