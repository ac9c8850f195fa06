//! The texts of a report in English, in which most tests read them.

use squall_analysis::RunSummary;
use squall_analysis::change::Changes;
use squall_analysis::findings::CellFindings;
use squall_report::{Colour, Detail, Language, changes_in, findings_in, fixes_in, terminal_in};

pub fn terminal(summary: &RunSummary, width: usize, colour: Colour, detail: Detail) -> String {
    terminal_in(Language::En, summary, width, colour, detail)
}

pub fn findings(cells: &[CellFindings], width: usize, colour: Colour, detail: Detail) -> String {
    findings_in(Language::En, cells, width, colour, detail)
}

pub fn fixes(summary: &RunSummary, width: usize, colour: Colour, detail: Detail) -> String {
    fixes_in(Language::En, summary, width, colour, detail)
}

pub fn changes(changes: &Changes, width: usize) -> String {
    changes_in(Language::En, changes, width)
}
