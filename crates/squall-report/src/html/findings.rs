//! What is wrong in a run, on the page: each kind of finding in one line with its cost and its fixes, and folded below it the
//! explanation and the evidence of every variant and condition.
//!
//! It is pure markup and needs no script. `crate::findings` prints the findings of each cell in the terminal.

use squall_analysis::figure;
use squall_analysis::findings::{CellFindings, Finding, MergedFinding, Number, RunFinding, merged};

use super::details::Details;
use super::terms::explained;
use super::text::escaped;
use crate::findings::percent;

/// Appends the findings; nothing if there are none.
pub(super) fn push(page: &mut String, cells: &[CellFindings], details: &Details) {
    if cells.is_empty() {
        return;
    }
    page.push_str(
        "<section class=\"findings\" aria-label=\"What is wrong\">\n<h2>What is wrong</h2>\n",
    );
    for found in &merged(cells) {
        push_finding(page, found, details);
    }
    page.push_str("</section>\n");
}

fn push_finding(page: &mut String, found: &MergedFinding<'_>, details: &Details) {
    let finding = &found.worst.finding;
    let fixes: Vec<String> = found
        .fixes
        .iter()
        .map(|fix| {
            format!(
                "{}: <code>{}</code>",
                escaped(&fix.station),
                escaped(&fix.setting)
            )
        })
        .collect();
    let fixes = if fixes.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"fix\">Fix: {}</span>", fixes.join("; "))
    };
    page.push_str(&format!(
        "<details class=\"finding {}\" data-finding=\"{}\"><summary><b>{}</b>{fixes}</summary>\n<p>{}</p>\n<ul>\n",
        finding.severity.name(),
        escaped(&id(finding)),
        escaped(&line(found)),
        explained(&finding.explanation),
    ));
    for cell in &found.cells {
        page.push_str(&format!(
            "<li>{}, {}: {}<br><small>{}{}</small></li>\n",
            escaped(cell.variant),
            escaped(&cell.condition.to_string()),
            escaped(&cost(cell.found)),
            escaped(&evidence(&cell.found.finding, &cell.found.folder)),
            details.evidence(&cell.found.folder, &cell.found.finding),
        ));
    }
    page.push_str("</ul>\n</details>\n");
}

/// The name of an unfolded finding in the page's address (assets/switches.js), with its hop if it has one.
fn id(finding: &Finding) -> String {
    match finding.hop {
        Some(hop) => format!("{}-{hop}", finding.name),
        None => finding.name.clone(),
    }
}

/// Title, severity, the highest cost, and where it is seen.
fn line(found: &MergedFinding<'_>) -> String {
    let finding = &found.worst.finding;
    let on_hop = finding
        .hop
        .map_or_else(String::new, |hop| format!(", on hop {hop}"));
    let up_to = if found.cells.len() > 1 { "up to " } else { "" };
    format!(
        "{}{on_hop}: {}, {up_to}{} {}; {}, under {}",
        finding.title,
        finding.severity.name(),
        percent(finding.share.part),
        finding.share.of.words(),
        found.variants().join(", "),
        figure::counted(found.conditions(), "condition", "conditions"),
    )
}

/// The cost of a finding in a cell, and in how many of the cell's trials it occurred.
fn cost(found: &RunFinding) -> String {
    let share = found.finding.share;
    format!(
        "{} {}, in {} of {}",
        percent(share.part),
        share.of.words(),
        figure::count(found.trials),
        figure::counted(found.of, "trial", "trials"),
    )
}

/// The numbers, and the requests of a trial to look at.
fn evidence(finding: &Finding, folder: &str) -> String {
    let mut words: Vec<String> = finding.evidence.numbers.iter().map(number).collect();
    let requests = &finding.evidence.requests;
    if !requests.is_empty() {
        let numbers: Vec<String> = requests.iter().map(u64::to_string).collect();
        words.push(format!("requests {}", numbers.join(", ")));
    }
    format!("{folder}: {}", words.join("; "))
}

fn number(number: &Number) -> String {
    let value = if number.value.fract() == 0.0 && number.value >= 0.0 {
        figure::count(number.value as u64)
    } else {
        format!("{:.2}", number.value)
    };
    format!("{} {value} {}", number.what, number.unit)
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::cells;

    #[test]
    fn markup_in_findings_is_escaped() {
        let mut page = String::new();
        push(&mut page, &cells(), &Details::of(&[]));
        assert!(
            page.contains("<li>h2c &lt;x1&gt;, delay 25ms, loss 3%: 84 % of the response time, in 3 of 5 trials"),
            "{page}"
        );
        assert!(
            page.contains("Fix: client &lt;b&gt;: <code>h3 &amp; friends</code>"),
            "{page}"
        );
        assert!(
            page.contains("0003-h2c: time that it cost 8431.25 ms; requests 7, 12"),
            "{page}"
        );
        assert!(
            page.contains("One lost packet delays every request."),
            "{page}"
        );
    }

    #[test]
    fn finding_in_several_cells_is_one_line_with_its_highest_cost() {
        let mut cells = cells();
        let mut other = cells[0].clone();
        other.variant = "h2c x2".to_owned();
        other.findings[0].finding.share.part = 0.912;
        cells.push(other);
        let mut page = String::new();
        push(&mut page, &cells, &Details::of(&[]));
        assert_eq!(page.matches("<details").count(), 1, "{page}");
        assert!(
            page.contains("TCP head-of-line blocking: grave, up to 91 % of the response time; h2c x2, h2c &lt;x1&gt;, under 1 condition"),
            "{page}"
        );
        assert_eq!(page.matches("Fix: ").count(), 1, "{page}");
        assert_eq!(page.matches("<li>").count(), 2, "{page}");
    }

    #[test]
    fn page_of_a_healthy_run_has_no_section_of_findings() {
        let mut page = String::new();
        push(&mut page, &[], &Details::of(&[]));
        assert_eq!(page, "");
    }
}
