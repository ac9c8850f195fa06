//! What is wrong in a run, on the page: each finding with its cost, its explanation, its evidence and its fixes.
//!
//! It is pure markup and needs no script. `crate::findings` prints the same in the terminal.

use squall_analysis::figure;
use squall_analysis::findings::{CellFindings, Finding, Number, RunFinding};

use super::details::Details;
use super::text::escaped;
use crate::findings::headline;

/// Appends the findings; nothing if there are none.
pub(super) fn push(page: &mut String, cells: &[CellFindings], details: &Details) {
    if cells.is_empty() {
        return;
    }
    page.push_str(
        "<section class=\"findings\" aria-label=\"What is wrong\">\n<h2>What is wrong</h2>\n",
    );
    for cell in cells {
        page.push_str(&format!(
            "<h3>{}, {}</h3>\n<ul>\n",
            escaped(&cell.variant),
            escaped(&cell.condition.to_string())
        ));
        for found in &cell.findings {
            push_finding(page, found, details);
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

fn push_finding(page: &mut String, found: &RunFinding, details: &Details) {
    let finding = &found.finding;
    page.push_str(&format!(
        "<li><b>{}</b><br>{}\n",
        escaped(&headline(found)),
        escaped(&finding.explanation)
    ));
    for fix in &finding.fixes {
        page.push_str(&format!(
            "<br>Fix: {}: <code>{}</code>\n",
            escaped(&fix.station),
            escaped(&fix.setting)
        ));
    }
    page.push_str(&format!(
        "<br><small>{}{}</small></li>\n",
        escaped(&evidence(finding, &found.folder)),
        details.evidence(&found.folder, finding),
    ));
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
            page.contains("<h3>h2c &lt;x1&gt;, delay 25ms, loss 3%</h3>"),
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
    fn healthy_run_has_no_section() {
        let mut page = String::new();
        push(&mut page, &[], &Details::of(&[]));
        assert_eq!(page, "");
    }
}
