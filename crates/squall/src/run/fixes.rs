//! `squall run --try-fix`: chooses the fixes that a run tries after its planned trials, and puts their trials in the plan.
//!
//! The choice is in plan.json, so that a resumed run tries the same fixes. squall-analysis proposes them, squall-recipe
//! applies them to a variant, `programs` checks them against the programs of its path; `commands/report` compares the trials.

use anyhow::{Result, anyhow};
use squall_analysis::findings::{CellFindings, FixProposal, RefusedFix, choose, proposals};
use squall_base::plan::{
    ChosenFixes, FixTrials, FixesToTry, Plan, SettingChange, UntriedFix, Variant, listed_changes,
};
use squall_linux::machine;
use squall_recipe::{fix_trials_at_most, pair_trials, with_and_without};
use squall_record::{RunFolder, read_plan, write_plan};
use squall_report::{Language, ProgressLines};

use super::programs;
use super::progress::Progress;
use crate::commands::report::findings_of;
use crate::outcome::BadInput;
use crate::output::{eprint, error_chain};

/// The most fixes that a run tries: each takes twice the time of its variant.
pub(super) const FIXES_AT_MOST: i64 = 5;

/// Lets a new run try this many fixes.
pub(super) fn ask(plan: &mut Plan, at_most: u32) -> Result<(), BadInput> {
    fix_trials_at_most(plan, at_most).map_err(BadInput::new)?;
    plan.fixes = Some(FixesToTry {
        at_most,
        chosen: None,
    });
    Ok(())
}

/// Lets a run that was begun without fixes try this many. plan.json stays as it is.
pub(super) fn ask_resumed(folder: &RunFolder, plan: &mut Plan, at_most: u32) -> Result<()> {
    if plan.fixes.is_some() {
        let run = folder.root().display();
        let refused = format!("{run} tries fixes already: leave out --try-fix to go on with them");
        return Err(BadInput::new(refused).into());
    }
    ask(plan, at_most)?;
    Ok(())
}

/// How many trials the fixes of a plan add, as a line for `--dry-run`; empty if it tries none.
pub(super) fn preview(plan: &Plan, language: Language) -> String {
    let Some(fixes) = &plan.fixes else {
        return String::new();
    };
    let trials = fix_trials_at_most(plan, fixes.at_most).unwrap_or_default();
    let size = Progress::new(trials.iter().copied(), language).size();
    let lines = ProgressLines::of(language);
    let heading = lines.say(&format!("fixes to try, {} at most", fixes.at_most));
    lines.labelled(&heading, &size) + "\n"
}

/// Chooses the fixes to try from the findings of the planned trials, unless that was done before, and writes the plan.
pub(super) fn choose_for(folder: &RunFolder, plan: &mut Plan, language: Language) -> Result<()> {
    let Some(FixesToTry {
        at_most,
        chosen: None,
    }) = plan.fixes
    else {
        return Ok(());
    };
    let cells = findings_of(folder, plan)?;
    let chosen = chosen(plan, &cells, at_most);
    announce(&chosen, language);
    plan.fixes = Some(FixesToTry {
        at_most,
        chosen: Some(chosen),
    });
    write(folder, plan)
}

/// Writes the trials of a plan and which fixes to try. The rest of plan.json stays: it may have fewer secrets than the plan.
pub(super) fn write(folder: &RunFolder, plan: &Plan) -> Result<()> {
    let mut written = read_plan(folder.plan())?;
    written.trials.clone_from(&plan.trials);
    written.fixes.clone_from(&plan.fixes);
    write_plan(folder.plan(), &written)?;
    Ok(())
}

fn chosen(plan: &Plan, cells: &[CellFindings], at_most: u32) -> ChosenFixes {
    let (accepted, refused) = choose(proposals(cells), at_most as usize, |proposal| {
        applied(plan, proposal).map_err(|error| error_chain(&error))
    });
    let mut tried: Vec<FixTrials> = Vec::new();
    let mut next = plan.trials.len() as u32;
    for (proposal, pair) in accepted {
        let FixProposal {
            variant,
            finding,
            title,
            conditions,
            fix,
        } = proposal;
        let trials = pair_trials(plan, &variant, &pair, &conditions, next);
        next += trials.len() as u32;
        let [original, fixed] = pair.map(|variant| variant.name);
        tried.push(FixTrials {
            finding,
            title,
            variant,
            station: fix.station,
            changes: fix.changes,
            original,
            fixed,
            trials,
        });
    }
    let not_tried = refused.into_iter().map(untried).collect();
    ChosenFixes { tried, not_tried }
}

fn untried(RefusedFix { proposal, why }: RefusedFix) -> UntriedFix {
    UntriedFix {
        finding: proposal.finding,
        title: proposal.title,
        variant: proposal.variant,
        station: proposal.fix.station,
        setting: proposal.fix.setting,
        why,
    }
}

/// The proposal's variant without and with the fix, or the reason why this run cannot try it.
fn applied(plan: &Plan, proposal: &FixProposal) -> Result<[Variant; 2]> {
    let changes = &proposal.fix.changes;
    if changes.is_empty() {
        return Err(anyhow!("no recipe setting does this"));
    }
    let mut variants = plan.variants.iter();
    let variant = variants
        .find(|variant| variant.name == proposal.variant)
        .ok_or_else(|| anyhow!("the plan has no variant {}", proposal.variant))?;
    let pair = with_and_without(variant, changes)?;
    let available = machine::congestion_controls_available();
    check_congestion_controls(changes, available.as_deref())?;
    let [_, fixed] = &pair;
    let with_fix = Plan {
        variants: vec![fixed.clone()],
        ..plan.clone()
    };
    programs::check(&with_fix)?;
    Ok(pair)
}

/// Refuses a congestion control of TCP that is not among the kernel's, if these are known: the trial would fail.
fn check_congestion_controls(changes: &[SettingChange], available: Option<&str>) -> Result<()> {
    let Some(available) = available else {
        return Ok(());
    };
    let mut wanted = changes
        .iter()
        .filter(|change| change.setting == "tcp.congestion_control")
        .map(|change| change.value.as_str());
    let is_missing = |name: &&str| !available.split_whitespace().any(|other| other == *name);
    match wanted.find(is_missing) {
        Some(name) => Err(anyhow!(
            "the kernel has no {name} loaded: `sudo modprobe tcp_{name}` may load it"
        )),
        None => Ok(()),
    }
}

/// Prints what is tried, to stderr.
fn announce(chosen: &ChosenFixes, language: Language) {
    let lines = ProgressLines::of(language);
    for fix in &chosen.tried {
        let settings = format!("{} on {}", listed_changes(&fix.changes), fix.station);
        eprint(lines.trying_fix(&fix.variant, &fix.title, &settings) + "\n");
    }
    if chosen.tried.is_empty() {
        eprint(lines.say("no finding of this run has a fix that it can try") + "\n");
    }
}

#[cfg(test)]
mod tests {
    use squall_analysis::findings::{
        CostShare, Evidence, Finding, Fix, RunFinding, Severity, Whole,
    };
    use squall_base::plan::Side;

    use super::*;

    const RECIPE: &str = "name = \"fixes\"\nquestion = \"Does it help?\"\nrepetitions = 2\n[load]\nrate = \"100/s\"\n\
        duration = \"1s\"\n[conditions]\ndelay = \"10ms\"\n[[variant]]\nname = \"a\"\npath = \"client ~h2~> server\"\n";

    fn plan() -> Plan {
        let recipe = squall_recipe::parse(RECIPE).unwrap();
        recipe.plan("standard", 1).unwrap()
    }

    fn cell(plan: &Plan, changes: Vec<SettingChange>) -> CellFindings {
        let finding = Finding {
            name: "stream_window".to_owned(),
            title: "Stream window too small".to_owned(),
            severity: Severity::Grave,
            share: CostShare {
                part: 0.5,
                of: Whole::ResponseTime,
            },
            evidence: Evidence::default(),
            explanation: String::new(),
            fixes: vec![Fix {
                station: "client".to_owned(),
                setting: "in words".to_owned(),
                changes,
            }],
            hop: None,
        };
        CellFindings {
            variant: "a".to_owned(),
            condition: plan.conditions[0].clone(),
            findings: vec![RunFinding {
                trials: 2,
                of: 2,
                folder: String::new(),
                finding,
            }],
        }
    }

    fn change(setting: &str, value: &str) -> SettingChange {
        SettingChange {
            hop: 1,
            side: Side::Client,
            setting: setting.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn trials_of_a_fix_follow_the_planned_ones() {
        let plan = plan();
        let cell = cell(&plan, vec![change("http2.stream_window", "1MiB")]);
        let chosen = chosen(&plan, &[cell], 1);
        assert_eq!(chosen.not_tried, []);
        let [fix] = chosen.tried.as_slice() else {
            panic!("{chosen:?}");
        };
        let places: Vec<u32> = fix.trials.iter().map(|trial| trial.index).collect();
        assert_eq!(places, [2, 3, 4, 5]);
        assert_eq!(fix.fixed, "a + http2.stream_window = 1MiB");
    }

    #[test]
    fn fix_without_a_recipe_setting_is_not_tried_for_that_reason() {
        let plan = plan();
        let chosen = chosen(&plan, &[cell(&plan, Vec::new())], 1);
        assert_eq!(chosen.tried, []);
        assert_eq!(chosen.not_tried.len(), 1);
        assert!(chosen.not_tried[0].why.contains("no recipe setting"));
    }

    #[test]
    fn congestion_control_is_refused_if_the_kernel_lacks_it() {
        let bbr = [change("tcp.congestion_control", "bbr")];
        let check = |available| check_congestion_controls(&bbr, available).is_ok();
        assert!(check(Some("reno cubic bbr")) && check(None));
        assert!(!check(Some("reno cubic")));
    }

    #[test]
    fn dry_run_says_how_many_trials_fixes_add() {
        let mut plan = plan();
        assert_eq!(preview(&plan, Language::En), "");
        ask(&mut plan, 2).unwrap();
        let said = preview(&plan, Language::En);
        assert!(
            said.starts_with("fixes to try, 2 at most: 8 trials, about "),
            "{said}"
        );
    }
}
