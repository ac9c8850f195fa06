//! What is wrong in a run, as text for the terminal: each finding once, with its places, its cost and its fixes; in full,
//! each variant and condition with its findings.
//!
//! It judges nothing: the findings come from squall-analysis, worst first. `html/findings` prints them on the page.

use std::collections::BTreeSet;

use squall_analysis::figure;
use squall_analysis::findings::{CellFindings, Fix, RunFinding, Severity};

use crate::lang::{Language, Translator};
use crate::terminal::{Detail, TerminalWriter};
use crate::text::{Colour, Style};

/// At most this many variants, conditions or fixes of a finding are named.
const NAMED: usize = 3;

/// The findings as text in a language, its sentences wrapped at `width` columns; empty if there are none.
pub fn findings_in(
    language: Language,
    cells: &[CellFindings],
    width: usize,
    colour: Colour,
    detail: Detail,
) -> String {
    let translator = Translator::of_findings(language, cells);
    let writer = TerminalWriter::new(width, colour).saying(translator);
    let mut text = String::new();
    if cells.is_empty() || detail == Detail::Brief {
        return text;
    }
    text.push('\n');
    writer.paragraph(&mut text, Style::Bold, "", "What is wrong");
    if detail == Detail::Full {
        cells.iter().for_each(|cell| full(&mut text, &writer, cell));
    } else {
        merged(&mut text, &writer, &MergedFinding::all_of(cells));
    }
    text
}

/// All findings of a cell, with what happens.
fn full(text: &mut String, writer: &TerminalWriter, cell: &CellFindings) {
    let heading = format!("{}, {}", cell.variant, cell.condition);
    writer.paragraph(text, Style::Plain, "  ", &heading);
    for found in &cell.findings {
        let style = style_of(found.finding.severity);
        writer.paragraph(text, style, "    ", &headline(found));
        writer.paragraph(text, Style::Plain, "      ", found.finding.what_happens());
        for fix in &found.finding.fixes {
            writer.paragraph(text, Style::Faint, "      ", &in_words(fix));
        }
    }
}

fn style_of(severity: Severity) -> Style {
    match severity {
        Severity::Grave => Style::Warning,
        Severity::Serious | Severity::Minor => Style::Plain,
    }
}

fn in_words(fix: &Fix) -> String {
    format!("Fix: {}: {}", fix.station, fix.setting)
}

/// The same finding in all cells that have it.
struct MergedFinding<'a> {
    /// Where the finding is worst.
    worst: &'a RunFinding,
    /// The smallest share that the finding costs in any of these cells.
    least: f64,
    cells: Vec<&'a CellFindings>,
    fixes: BTreeSet<&'a Fix>,
}

impl<'a> MergedFinding<'a> {
    /// The findings of a run, the worst first.
    fn all_of(cells: &'a [CellFindings]) -> Vec<MergedFinding<'a>> {
        let mut all: Vec<MergedFinding<'a>> = Vec::new();
        for cell in cells {
            for found in &cell.findings {
                let finding = &found.finding;
                let is_same = |it: &&mut MergedFinding<'_>| {
                    let other = &it.worst.finding;
                    (&other.name, other.hop) == (&finding.name, finding.hop)
                };
                match all.iter_mut().find(is_same) {
                    Some(merged) => merged.add(cell, found),
                    None => all.push(MergedFinding {
                        worst: found,
                        least: finding.share.part,
                        cells: vec![cell],
                        fixes: finding.fixes.iter().collect(),
                    }),
                }
            }
        }
        all.sort_by(|a, b| {
            b.rank()
                .0
                .cmp(&a.rank().0)
                .then(b.rank().1.total_cmp(&a.rank().1))
        });
        all
    }

    fn add(&mut self, cell: &'a CellFindings, found: &'a RunFinding) {
        self.cells.push(cell);
        self.fixes.extend(&found.finding.fixes);
        self.least = self.least.min(found.finding.share.part);
        let part = found.finding.share.part;
        let (severity, worst) = self.rank();
        if (found.finding.severity, part) > (severity, worst) {
            self.worst = found;
        }
    }

    fn rank(&self) -> (Severity, f64) {
        let finding = &self.worst.finding;
        (finding.severity, finding.share.part)
    }

    /// `TCP head-of-line blocking: grave, 5.2 % to 84 % of the response time; h2c x1, h2c x8; delay 25ms, loss 3%`.
    fn in_words(&self) -> String {
        let finding = &self.worst.finding;
        let on_hop = finding
            .hop
            .map_or_else(String::new, |hop| format!(", on hop {hop}"));
        let (least, most) = (percent(self.least), percent(finding.share.part));
        let cost = if least == most {
            most
        } else {
            format!("{least} to {most}")
        };
        let variants = listed(self.cells.iter().map(|cell| cell.variant.clone()), ", ");
        let conditions = listed(
            self.cells.iter().map(|cell| cell.condition.to_string()),
            " or ",
        );
        format!(
            "{}{on_hop}: {}, {cost} {}; {variants}, at {conditions}",
            finding.title,
            finding.severity.name(),
            finding.share.of.words(),
        )
    }
}

/// These names in their order, without repetitions; if there are many, the first ones and how many more there are.
fn listed(names: impl Iterator<Item = String>, between: &str) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    let more = distinct.len().saturating_sub(NAMED);
    distinct.truncate(NAMED);
    let text = distinct.join(between);
    match more {
        0 => text,
        more => format!("{text}{between}{} more", figure::count(more as u64)),
    }
}

/// A line for each grave or serious finding, with its fixes.
pub(crate) fn one_line_each(cells: &[CellFindings]) -> Vec<String> {
    let all = MergedFinding::all_of(cells);
    let worth = all.iter().filter(|it| it.rank().0 != Severity::Minor);
    let line = |it: &MergedFinding<'_>| {
        let fixes = it.fixes.iter().take(NAMED).map(|fix| in_words(fix));
        std::iter::once(it.in_words())
            .chain(fixes)
            .collect::<Vec<_>>()
            .join(". ")
    };
    worth.map(line).collect()
}

/// Grave and serious findings with their fixes, and how many minor ones there are.
fn merged(text: &mut String, writer: &TerminalWriter, all: &[MergedFinding<'_>]) {
    let is_minor = |it: &&MergedFinding<'_>| it.rank().0 == Severity::Minor;
    for finding in all.iter().filter(|it| !is_minor(it)) {
        let style = style_of(finding.rank().0);
        writer.paragraph(text, style, "  ", &finding.in_words());
        for fix in finding.fixes.iter().take(NAMED) {
            writer.paragraph(text, Style::Faint, "    ", &in_words(fix));
        }
        let more = finding.fixes.len().saturating_sub(NAMED);
        if more > 0 {
            let more = figure::counted(more as u64, "more fix", "more fixes");
            writer.paragraph(text, Style::Faint, "    ", &format!("and {more}: -v"));
        }
    }
    let minor = all.iter().filter(is_minor).count();
    if minor > 0 {
        let minor = figure::counted(minor as u64, "minor finding", "minor findings");
        writer.paragraph(text, Style::Faint, "  ", &format!("{minor}: -v"));
    }
}

/// Title, severity, cost, and how many trials show it.
fn headline(found: &RunFinding) -> String {
    let finding = &found.finding;
    let on_hop = finding
        .hop
        .map_or_else(String::new, |hop| format!(", on hop {hop}"));
    format!(
        "{}{on_hop}: {}, {} {}, in {} of {}",
        finding.title,
        finding.severity.name(),
        percent(finding.share.part),
        finding.share.of.words(),
        figure::count(found.trials),
        figure::counted(found.of, "trial", "trials"),
    )
}

/// A share with two digits, or `below 0.1 %` instead of zero.
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 0.1 => format!("{percent:.1} %"),
        _ => "below 0.1 %".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use squall_analysis::findings::{CostShare, Evidence, Finding, Fix, Number, Whole};

    use super::*;

    pub(crate) fn cells() -> Vec<CellFindings> {
        let finding = Finding {
            name: "head_of_line".to_owned(),
            title: "TCP head-of-line blocking".to_owned(),
            severity: Severity::Grave,
            share: CostShare {
                part: 0.843,
                of: Whole::ResponseTime,
            },
            evidence: Evidence {
                numbers: vec![Number {
                    what: "time that it cost".to_owned(),
                    value: 8_431.25,
                    unit: "ms".to_owned(),
                }],
                requests: vec![7, 12],
            },
            explanation: "Bytes waited for others. One lost packet delays every request."
                .to_owned(),
            fixes: vec![Fix {
                station: "client <b>".to_owned(),
                setting: "h3 & friends".to_owned(),
                changes: Vec::new(),
            }],
            hop: None,
        };
        vec![CellFindings {
            variant: "h2c <x1>".to_owned(),
            condition: squall_made::condition(25, 0.03),
            findings: vec![RunFinding {
                trials: 3,
                of: 5,
                folder: "0003-h2c".to_owned(),
                finding,
            }],
        }]
    }

    fn english(cells: &[CellFindings], width: usize, detail: Detail) -> String {
        findings_in(Language::En, cells, width, Colour::Plain, detail)
    }

    #[test]
    fn healthy_run_prints_nothing() {
        assert_eq!(english(&[], 100, Detail::Usual), "");
    }

    #[test]
    fn finding_is_printed_with_its_cost_and_its_fix() {
        let text = english(&cells(), 100, Detail::Full);
        let expected = "\nWhat is wrong\n  h2c <x1>, delay 25ms, loss 3%\n    TCP head-of-line blocking: grave, 84 % \
                        of the response time, in 3 of 5 trials\n      Bytes waited for others.\n      Fix: client \
                        <b>: h3 & friends\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn finding_in_several_cells_is_printed_once() {
        let mut cells = cells();
        cells.push(cells[0].clone());
        cells[1].variant = "h2c x8".to_owned();
        cells[1].findings[0].finding.share.part = 0.052;
        let text = english(&cells, 200, Detail::Usual);
        let expected = "\nWhat is wrong\n  TCP head-of-line blocking: grave, 5.2 % to 84 % of the response time; h2c <x1>, \
                        h2c x8, at delay 25ms, loss 3%\n    Fix: client <b>: h3 & friends\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn minor_findings_are_only_counted_except_in_the_full_report() {
        let mut cells = cells();
        cells[0].findings[0].finding.severity = Severity::Minor;
        let text = english(&cells, 100, Detail::Usual);
        assert_eq!(text, "\nWhat is wrong\n  1 minor finding: -v\n");
    }

    #[test]
    fn shares_have_two_digits() {
        let words = [0.843, 0.052, 0.001, 0.0002].map(percent);
        assert_eq!(words, ["84 %", "5.2 %", "0.1 %", "below 0.1 %"]);
    }
}
