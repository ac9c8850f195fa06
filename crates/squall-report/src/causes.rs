//! Where a run's time went, in a terminal: two bars for each cell, all requests and the slowest hundredth.
//!
//! The characters of a bar stand for its causes, in the order in which they are named beside it; in colour, each piece and
//! its name have the cause's colour on the page (`palette`). Nothing is added up here: squall-analysis does that in
//! `causes/shares.rs`. The page's bars are in `html/causes`.

use squall_analysis::causes::{BANDS, BandTime, CellBandTimes};
use squall_base::record::Cause;

use crate::palette::CauseLook;
use crate::text::{Colour, printable};

/// The length of a bar in characters.
const BAR: usize = 24;
/// The characters of the largest cause, the second largest and so on; `REST` stands for all others.
const FILLS: [char; 4] = ['█', '▓', '▒', '░'];
const REST: char = '·';
/// At most this many causes of a queue are named, if their share is at least `ROOT_AT_LEAST`.
const ROOTS: usize = 3;
const ROOT_AT_LEAST: f64 = 0.01;

/// The bars of one condition; empty without cells.
pub(crate) fn bars(cells: &[CellBandTimes], colour: Colour) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let mut text = String::from("  where the time went\n");
    let names: Vec<String> = cells.iter().map(|cell| printable(&cell.variant)).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    for (cell, name) in cells.iter().zip(names) {
        for (place, label) in [(0, name.as_str()), (BANDS.len() - 1, "")] {
            let band = &cell.bands[place];
            let line = format!(
                "  {label:<width$}  {:<11}  {}",
                BANDS[place].name,
                bar(band, colour)
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

fn bar(band: &BandTime, colour: Colour) -> String {
    let total = band.spans.total().as_nanos();
    if total == 0 {
        return "n/a".to_owned();
    }
    let shares = band.shares();
    let share = |ns: u64| ns as f64 / total as f64;
    let mut bar = String::new();
    let mut drawn = 0;
    let mut named = Vec::new();
    let mut so_far = 0.0;
    for (cause, fill) in shares.iter().zip(FILLS) {
        let share = share(cause.time.as_nanos());
        so_far += share;
        let end = (so_far * BAR as f64).round() as usize;
        let piece: String = std::iter::repeat_n(fill, end.saturating_sub(drawn)).collect();
        drawn = drawn.max(end);
        let code = CauseLook::of(cause.cause).terminal_code();
        bar += &colour.in_palette(code, &piece);
        let behind = match cause.cause {
            Cause::Queue => behind(band),
            _ => String::new(),
        };
        let name = colour.in_palette(code, cause.cause.name());
        named.push(format!("{name} {}{behind}", percent(share)));
    }
    bar.extend(std::iter::repeat_n(REST, BAR.saturating_sub(drawn)));
    if shares.len() > FILLS.len() {
        named.push(format!("others {}", percent((1.0 - so_far).max(0.0))));
    }
    format!("{bar}  {}", named.join(", "))
}

/// What the requests ahead in the queue waited for, as far as known: ` (behind: cwnd 71 %, loss 22 %)`.
pub(crate) fn behind(band: &BandTime) -> String {
    let total = band.queue_roots.total().as_nanos().max(1) as f64;
    let shares = band.queue_shares().into_iter();
    let named: Vec<String> = shares
        .filter(|share| share.cause != Cause::Queue)
        .map(|share| (share.cause, share.time.as_nanos() as f64 / total))
        .filter(|(_, share)| *share >= ROOT_AT_LEAST)
        .take(ROOTS)
        .map(|(cause, share)| format!("{} {}", cause.name(), percent(share)))
        .collect();
    if named.is_empty() {
        return String::new();
    }
    format!(" (behind: {})", named.join(", "))
}

/// A share in percent, with one decimal below ten: `84 %`, `0.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = usize::from(percent < 9.95 && percent > 0.0);
    format!("{percent:.digits$} %")
}
