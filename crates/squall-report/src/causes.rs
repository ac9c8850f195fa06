//! Where a run's time went, in a terminal: two bars for each cell, all requests and the slowest hundredth.
//!
//! The letters of a bar, and its colours, stand for causes (`palette`); the largest causes are named beside it, or below it
//! where the terminal is too narrow. Nothing is added up here: squall-analysis does that in `causes/shares.rs`. The page's
//! bars are in `html/causes`.

use squall_analysis::causes::{BANDS, BandTime, CellBandTimes};
use squall_base::record::Cause;

use crate::columns::{chinese_lines, left, width_of};
use crate::lang::Translator;
use crate::palette::CauseLook;
use crate::text::{Colour, printable, unbroken_words, wrapped};

/// The length of a bar in characters.
const BAR: usize = 24;
/// The width of the bands' names.
const BAND: usize = 11;
/// At most this many causes are drawn and named; `REST` stands for all others.
const CAUSES: usize = 4;
const REST: char = '·';
/// A smaller share would be printed as `0.0 %`.
const SHARE_AT_LEAST: f64 = 0.000_5;
/// At most this many causes of a queue are named, if their share is at least `ROOT_AT_LEAST`.
const ROOTS: usize = 3;
const ROOT_AT_LEAST: f64 = 0.01;

/// The bars of one condition, within `width` columns; empty without cells.
pub(crate) fn bars(
    cells: &[CellBandTimes],
    width: usize,
    colour: Colour,
    translator: &Translator,
) -> String {
    let mut text = String::new();
    let names: Vec<String> = cells.iter().map(|cell| printable(&cell.variant)).collect();
    let longest = names.iter().map(|name| width_of(name)).max();
    let longest = longest.unwrap_or(0);
    // If a name leaves no room for a bar, it has a line of its own.
    let is_beside = 2 + longest + 2 + BAND + 2 + BAR <= width;
    let name_width = if is_beside { longest } else { 0 };
    for (cell, name) in cells.iter().zip(&names) {
        if !is_beside {
            text.push_str(&format!("  {name}\n"));
        }
        let label = if is_beside { name.as_str() } else { "" };
        for (place, label) in [(0, label), (BANDS.len() - 1, "")] {
            let band = &cell.bands[place];
            // With too few requests, there is no slowest hundredth to show.
            if place > 0 && band.spans.total().is_zero() {
                continue;
            }
            let (label, of_band) = (left(label, name_width), translator.say(BANDS[place].name));
            let head = format!("  {label}  {}  ", left(&of_band, BAND));
            push_bar(&mut text, &head, band, width, colour, translator);
        }
    }
    text
}

/// Appends `head`, the bar and its legend, which has lines of its own if it does not fit beside the bar.
fn push_bar(
    text: &mut String,
    head: &str,
    band: &BandTime,
    width: usize,
    colour: Colour,
    translator: &Translator,
) {
    let taken = width_of(head);
    let length = BAR.min(width.saturating_sub(taken)).max(1);
    let Some(bar) = Bar::of(band, length) else {
        text.push_str(&format!("{head}{}\n", translator.say("n/a")));
        return;
    };
    let legend = translator.say(&bar.named.join(", "));
    let drawn = bar.drawn(colour);
    if taken + length + 2 + width_of(&legend) <= width {
        text.push_str(&format!("{head}{drawn}  {legend}\n"));
        return;
    }
    text.push_str(&format!("{head}{drawn}\n"));
    let lines = if translator.is_english() {
        wrapped(unbroken_words(&legend), width, "      ", str::to_owned)
    } else {
        chinese_lines(&legend, width, "      ")
    };
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
}

/// The bar of a band: a piece for each cause, which together fill it, and the causes in words.
struct Bar {
    pieces: Vec<(Option<Cause>, usize)>,
    named: Vec<String>,
}

impl Bar {
    /// `None` if the band has no time.
    fn of(band: &BandTime, length: usize) -> Option<Bar> {
        let total = band.spans.total().as_nanos();
        if total == 0 {
            return None;
        }
        let mut bar = Bar {
            pieces: Vec::new(),
            named: Vec::new(),
        };
        let (mut so_far, mut filled) = (0.0, 0);
        for found in band.shares().into_iter().take(CAUSES) {
            let (cause, share) = (found.cause, found.time.as_nanos() as f64 / total as f64);
            if share < SHARE_AT_LEAST {
                break;
            }
            so_far += share;
            let end = (so_far * length as f64).round() as usize;
            bar.pieces.push((Some(cause), end.saturating_sub(filled)));
            filled = filled.max(end);
            let behind = match cause {
                Cause::Queue => behind(band),
                _ => String::new(),
            };
            let (letter, name) = (CauseLook::of(cause).letter, cause.name());
            bar.named
                .push(format!("{letter} {name} {}{behind}", percent(share)));
        }
        bar.pieces.push((None, length.saturating_sub(filled)));
        if 1.0 - so_far >= SHARE_AT_LEAST {
            bar.named
                .push(format!("{REST} others {}", percent(1.0 - so_far)));
        }
        Some(bar)
    }

    fn drawn(&self, colour: Colour) -> String {
        let pieces = self.pieces.iter().map(|(cause, length)| match cause {
            Some(cause) => {
                let look = CauseLook::of(*cause);
                let letters = look.letter.to_string().repeat(*length);
                colour.on_background(look.terminal, &letters)
            }
            None => REST.to_string().repeat(*length),
        });
        pieces.collect()
    }
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

#[cfg(test)]
mod tests {
    use squall_base::Duration;

    use super::*;

    fn cell(name: &str) -> CellBandTimes {
        let mut band = BandTime {
            requests: 10,
            ..BandTime::default()
        };
        band.spans[Cause::Loss] = Duration::from_millis(75);
        band.spans[Cause::Distance] = Duration::from_millis(25);
        CellBandTimes {
            variant: name.to_owned(),
            bands: [band; BANDS.len()],
        }
    }

    #[test]
    fn bar_always_has_letters_of_causes_but_colours_only_if_asked_for() {
        let text = bars(&[cell("h1")], 100, Colour::Plain, &Translator::english());
        let bar = "LLLLLLLLLLLLLLLLLLDDDDDD  L loss 75 %, D distance 25 %\n";
        let expected = format!("  h1  all          {bar}      slowest 1 %  {bar}");
        assert_eq!(text, expected);
        let coloured = bars(&[cell("h1")], 100, Colour::Ansi, &Translator::english());
        assert!(coloured.contains("\x1b[97;48;5;167mLLL"), "{coloured:?}");
    }

    #[test]
    fn legend_is_printed_below_its_bar_if_it_does_not_fit_beside_it() {
        let text = bars(&[cell("h1")], 60, Colour::Plain, &Translator::english());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], "      L loss 75 %, D distance 25 %");
        for width in [40, 60, 80, 200] {
            let text = bars(
                &[cell("a name of some length")],
                width,
                Colour::Plain,
                &Translator::english(),
            );
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{text}");
        }
    }

    #[test]
    fn a_band_without_requests_has_no_bar() {
        let mut cell = cell("h1");
        cell.bands[BANDS.len() - 1] = BandTime::default();
        let text = bars(&[cell], 100, Colour::Plain, &Translator::english());
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
