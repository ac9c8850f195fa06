//! The findings of a run by kind: each pathology once, with every variant and condition that shows it.
//!
//! The figures of a pathology are those of the cell that it costs most; nothing is averaged over cells. `aggregate` has the
//! cells.

use squall_base::plan::Condition;

use super::aggregate::{CellFindings, RunFinding};
use super::finding::Fix;
use crate::distinct::distinct;

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
        distinct(self.cells.iter().map(|cell| cell.variant))
    }

    /// Under how many conditions it is shown.
    pub fn conditions(&self) -> u64 {
        distinct(self.cells.iter().map(|cell| cell.condition)).len() as u64
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
    merged.sort_by(|a, b| a.worst.finding.worst_first(&b.worst.finding));
    merged
}

fn merge(mut cells: Vec<FindingPlace<'_>>) -> Option<MergedFinding<'_>> {
    cells.sort_by(|a, b| a.found.finding.worst_first(&b.found.finding));
    Some(MergedFinding {
        worst: cells.first()?.found,
        fixes: distinct(cells.iter().flat_map(|cell| &cell.found.finding.fixes)),
        cells,
    })
}
