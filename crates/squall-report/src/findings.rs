//! What is wrong in a run, as text for the terminal: each variant and condition with its findings, their cost and their
//! fixes.
//!
//! It judges nothing: the findings come from squall-analysis, worst first. `html/findings` prints them on the page.

use squall_analysis::figure;
use squall_analysis::findings::{CellFindings, RunFinding, Severity};

use crate::terminal::{Detail, TerminalWriter};
use crate::text::{Colour, Style};

/// The findings as text, its sentences wrapped at `width` characters; empty if there are none.
pub fn findings(cells: &[CellFindings], width: usize, colour: Colour, detail: Detail) -> String {
    let writer = TerminalWriter::new(width, colour);
    let mut text = String::new();
    if cells.is_empty() || detail == Detail::Brief {
        return text;
    }
    let shown = if detail == Detail::Full {
        usize::MAX
    } else {
        1
    };
    text.push('\n');
    writer.paragraph(&mut text, Style::Bold, "", "What is wrong");
    for cell in cells {
        let heading = format!("{}, {}", cell.variant, cell.condition);
        writer.paragraph(&mut text, Style::Plain, "  ", &heading);
        for found in cell.findings.iter().take(shown) {
            let style = match found.finding.severity {
                Severity::Grave => Style::Warning,
                Severity::Serious | Severity::Minor => Style::Plain,
            };
            writer.paragraph(&mut text, style, "    ", &headline(found));
            writer.paragraph(
                &mut text,
                Style::Plain,
                "      ",
                found.finding.what_happens(),
            );
            for fix in &found.finding.fixes {
                let fix = format!("Fix: {}: {}", fix.station, fix.setting);
                writer.paragraph(&mut text, Style::Faint, "      ", &fix);
            }
        }
        let more = cell.findings.len().saturating_sub(shown);
        if more > 0 {
            let more = figure::counted(more as u64, "more finding", "more findings");
            let more = format!("and {more}: see the report, or `squall report --full`");
            writer.paragraph(&mut text, Style::Faint, "    ", &more);
        }
    }
    text
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
    use squall_base::plan::Condition;
    use squall_base::{Duration, Probability};

    use super::*;

    pub(crate) fn cells() -> Vec<CellFindings> {
        let condition = Condition {
            delay: Duration::from_millis(25).into(),
            loss: Probability::new(0.03).unwrap().into(),
            link: String::new().into(),
            schedule: String::new(),
            next_links: Vec::new(),
        };
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
            condition,
            findings: vec![RunFinding {
                trials: 3,
                of: 5,
                folder: "0003-h2c".to_owned(),
                finding,
            }],
        }]
    }

    #[test]
    fn healthy_run_prints_nothing() {
        assert_eq!(findings(&[], 100, Colour::Ansi, Detail::Usual), "");
    }

    #[test]
    fn finding_is_printed_with_its_cost_and_its_fix() {
        let text = findings(&cells(), 100, Colour::Plain, Detail::Usual);
        let expected = "\nWhat is wrong\n  h2c <x1>, delay 25ms, loss 3%\n    TCP head-of-line blocking: grave, 84 % \
                        of the response time, in 3 of 5 trials\n      Bytes waited for others.\n      Fix: client \
                        <b>: h3 & friends\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn shares_have_two_digits() {
        let words = [0.843, 0.052, 0.001, 0.0002].map(percent);
        assert_eq!(words, ["84 %", "5.2 %", "0.1 %", "below 0.1 %"]);
    }
}
