//! The findings of a run by kind: each pathology once, with every variant and condition that shows it.
//!
//! The figures are those of the cell that it costs most; nothing is averaged over cells. `aggregate` has the cells.

use squall_base::plan::Condition;

use super::aggregate::{CellFindings, RunFinding};
use super::finding::Fix;

/// A pathology, and where a run shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedFinding<'a> {
    /// The finding of the cell that it costs most.
    pub worst: &'a RunFinding,
    /// The cells that show it, the one that it costs most first.
    pub cells: Vec<FindingPlace<'a>>,
    /// Every fix of these cells, each once.
    pub fixes: Vec<&'a Fix>,
}

/// A cell with a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FindingPlace<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The condition.
    pub condition: &'a Condition,
    /// The finding there.
    pub found: &'a RunFinding,
}

impl MergedFinding<'_> {
    /// The variants that show it, each once.
    pub fn variants(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.variant) {
                names.push(cell.variant);
            }
        }
        names
    }

    /// Under how many conditions it is shown.
    pub fn conditions(&self) -> u64 {
        let mut seen: Vec<&Condition> = Vec::new();
        for cell in &self.cells {
            if !seen.contains(&cell.condition) {
                seen.push(cell.condition);
            }
        }
        seen.len() as u64
    }
}

/// Groups the findings of cells by kind and hop, the worst first.
pub fn merged(cells: &[CellFindings]) -> Vec<MergedFinding<'_>> {
    let places = cells.iter().flat_map(|cell| {
        cell.findings.iter().map(|found| FindingPlace {
            variant: &cell.variant,
            condition: &cell.condition,
            found,
        })
    });
    let mut groups: Vec<Vec<FindingPlace<'_>>> = Vec::new();
    for place in places {
        let kind = |of: &FindingPlace<'_>| (of.found.finding.name.clone(), of.found.finding.hop);
        let mut same = groups.iter_mut();
        match same.find(|group| kind(&group[0]) == kind(&place)) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    let mut merged: Vec<MergedFinding<'_>> = groups.into_iter().filter_map(merge).collect();
    merged.sort_by(|a, b| worse_first(a.worst, b.worst));
    merged
}

fn worse_first(a: &RunFinding, b: &RunFinding) -> std::cmp::Ordering {
    let by_severity = b.finding.severity.cmp(&a.finding.severity);
    by_severity.then(b.finding.share.part.total_cmp(&a.finding.share.part))
}

fn merge(mut cells: Vec<FindingPlace<'_>>) -> Option<MergedFinding<'_>> {
    cells.sort_by(|a, b| worse_first(a.found, b.found));
    let worst = cells.first()?.found;
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in cells.iter().flat_map(|cell| &cell.found.finding.fixes) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    Some(MergedFinding {
        worst,
        cells,
        fixes,
    })
}
