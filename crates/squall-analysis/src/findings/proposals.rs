//! Which fixes a run tries: those of its most costly findings, each once per variant.
//!
//! A fix that the caller cannot apply to the variant is passed over, with the reason. Nothing is applied or run here.

use squall_base::plan::Condition;

use super::aggregate::{CellFindings, RunFinding};
use super::finding::Fix;

/// A fix of a finding for a variant, under every condition under which the variant shows the finding.
#[derive(Clone, Debug, PartialEq)]
pub struct FixProposal {
    /// The variant.
    pub variant: String,
    /// The finding's identifier.
    pub finding: String,
    /// The finding's name for people.
    pub title: String,
    /// Where the variant shows it, the condition where it costs most first.
    pub conditions: Vec<Condition>,
    /// The first of its fixes that is a setting of a recipe; otherwise its first one, in words only.
    pub fix: Fix,
}

impl FixProposal {
    /// Whether this proposal is for that variant and already has that fix: the same settings at the same places. Their
    /// values may differ between conditions.
    fn covers(&self, variant: &str, fix: &Fix) -> bool {
        let keys = |fix: &Fix| -> Vec<_> {
            let changes = fix.changes.iter();
            changes
                .map(|it| (it.hop, it.side, it.setting.clone()))
                .collect()
        };
        let is_in_words = fix.changes.is_empty();
        let is_same_in_words = self.fix.station == fix.station && self.fix.setting == fix.setting;
        self.variant == variant
            && keys(&self.fix) == keys(fix)
            && (!is_in_words || is_same_in_words)
    }
}

/// A fix that is not tried.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedFix {
    /// The fix.
    pub proposal: FixProposal,
    /// Why.
    pub why: String,
}

/// The fixes of a run's findings, those of the most costly finding first. The cost of a finding is its share, times the part
/// of the cell's trials that show it. Fixes of one variant that change the same settings are one proposal, with the values
/// for the condition where the finding costs most.
pub fn proposals(cells: &[CellFindings]) -> Vec<FixProposal> {
    let all = cells.iter();
    let mut ranked: Vec<(&CellFindings, &RunFinding)> = all
        .flat_map(|cell| cell.findings.iter().map(move |found| (cell, found)))
        .collect();
    ranked.sort_by(|(_, a), (_, b)| cost(b).total_cmp(&cost(a)));
    let mut proposals: Vec<FixProposal> = Vec::new();
    for (cell, found) in ranked {
        let fixes = &found.finding.fixes;
        let as_settings = fixes.iter().find(|fix| !fix.changes.is_empty());
        let Some(fix) = as_settings.or(fixes.first()) else {
            continue;
        };
        let mut known = proposals.iter_mut();
        match known.find(|it| it.covers(&cell.variant, fix)) {
            Some(proposal) if proposal.conditions.contains(&cell.condition) => {}
            Some(proposal) => proposal.conditions.push(cell.condition.clone()),
            None => proposals.push(FixProposal {
                variant: cell.variant.clone(),
                finding: found.finding.name.clone(),
                title: found.finding.title.clone(),
                conditions: vec![cell.condition.clone()],
                fix: fix.clone(),
            }),
        }
    }
    proposals
}

fn cost(found: &RunFinding) -> f64 {
    found.finding.share.part * found.trials as f64 / found.of.max(1) as f64
}

/// The first `at_most` proposals that `apply` accepts, each with its result, and up to `at_most` of those that it refused on
/// the way.
pub fn choose<T>(
    proposals: Vec<FixProposal>,
    at_most: usize,
    mut apply: impl FnMut(&FixProposal) -> Result<T, String>,
) -> (Vec<(FixProposal, T)>, Vec<RefusedFix>) {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for proposal in proposals {
        if accepted.len() == at_most {
            break;
        }
        match apply(&proposal) {
            Ok(applied) => accepted.push((proposal, applied)),
            Err(why) => refused.push(RefusedFix { proposal, why }),
        }
    }
    refused.truncate(at_most);
    (accepted, refused)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{Protocol, SettingChange, Side};

    use super::super::finding::{CostShare, Evidence, Finding, Severity, Whole};
    use super::super::made;
    use super::*;

    fn fix(changes: &[(&str, &str)]) -> Fix {
        let change = |(setting, value): &(&str, &str)| SettingChange {
            hop: 1,
            side: Side::Client,
            setting: (*setting).to_owned(),
            value: (*value).to_owned(),
        };
        Fix {
            station: "client".to_owned(),
            setting: "words".to_owned(),
            changes: changes.iter().map(change).collect(),
        }
    }

    /// A cell with one finding, at this delay.
    fn cell(variant: &str, delay: u64, name: &str, part: f64, fixes: Vec<Fix>) -> CellFindings {
        let condition = Condition {
            delay: made::ms(delay).into(),
            ..made::trial(Protocol::H2).trial.condition
        };
        let finding = Finding {
            name: name.to_owned(),
            title: format!("{name} for people"),
            severity: Severity::of(part),
            share: CostShare {
                part,
                of: Whole::ResponseTime,
            },
            evidence: Evidence::default(),
            explanation: String::new(),
            fixes,
            hop: None,
        };
        CellFindings {
            variant: variant.to_owned(),
            condition,
            findings: vec![RunFinding {
                trials: 2,
                of: 2,
                folder: String::new(),
                finding,
            }],
        }
    }

    #[test]
    fn same_fix_of_a_variant_counts_once_with_all_its_conditions() {
        let window = |value| vec![fix(&[("http2.stream_window", value)])];
        let cells = [
            cell("a", 10, "stream_window", 0.3, window("1MiB")),
            cell("a", 50, "stream_window", 0.7, window("4MiB")),
            cell("b", 10, "stream_window", 0.5, window("1MiB")),
            cell(
                "a",
                10,
                "nagle",
                0.1,
                vec![fix(&[("tcp.no_delay", "true")])],
            ),
        ];
        let found = proposals(&cells);
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                let value = it.fix.changes[0].value.as_str();
                (it.variant.as_str(), value, it.conditions.len())
            })
            .collect();
        assert_eq!(
            found,
            [("a", "4MiB", 2), ("b", "1MiB", 1), ("a", "true", 1)]
        );
    }

    #[test]
    fn setting_of_a_recipe_is_preferred_to_words() {
        let fixes = vec![fix(&[]), fix(&[("tcp.congestion_control", "bbr")])];
        let found = proposals(&[cell("a", 10, "bufferbloat", 0.3, fixes)]);
        assert_eq!(found[0].fix.changes.len(), 1);
        let found = proposals(&[cell("a", 10, "bufferbloat", 0.3, vec![fix(&[])])]);
        assert!(found[0].fix.changes.is_empty());
    }

    #[test]
    fn the_most_costly_fixes_that_can_be_applied_are_chosen() {
        let cells = [
            cell("a", 10, "head_of_line", 0.9, vec![fix(&[])]),
            cell("a", 10, "stream_window", 0.5, vec![fix(&[("s", "1")])]),
            cell("a", 10, "nagle", 0.4, vec![fix(&[("n", "1")])]),
            cell("a", 10, "small_records", 0.2, vec![fix(&[("r", "1")])]),
        ];
        let apply = |proposal: &FixProposal| match proposal.fix.changes.as_slice() {
            [] => Err("no setting".to_owned()),
            [change, ..] => Ok(change.setting.clone()),
        };
        let (accepted, refused) = choose(proposals(&cells), 2, apply);
        let accepted: Vec<_> = accepted.into_iter().map(|(_, setting)| setting).collect();
        assert_eq!(accepted, ["s", "n"]);
        let refused: Vec<_> = refused
            .iter()
            .map(|it| it.proposal.finding.as_str())
            .collect();
        assert_eq!(refused, ["head_of_line"]);
    }
}
