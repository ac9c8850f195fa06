//! A variant with some settings changed, and the trials that compare it with the variant as it was: how a run tries the fix
//! of a finding.
//!
//! A change passes here if a recipe could have it at that place; `settings` reads the value. Whether a program supports a
//! setting is up to its driver (squall-peers), which fixes to try up to squall-analysis.

use squall_base::plan::{
    CLIENT_PROGRAMS, Condition, Connections, Hop, Implementation, Plan, SettingChange, Side,
    SideSettings, Station, StationSetting, Trial, Variant, listed_changes,
};
use thiserror::Error;

use crate::conflict::{Conflict, Disagreement, check, shared_hosts};
use crate::read::program_setting;
use crate::recipe::{MAX_TRIALS, ManyTrials};
use crate::settings::{self, SettingError};

/// The settings of a program's host.
const HOST_SETTINGS: [&str; 5] = [
    "tcp.congestion_control",
    "tcp.max_cwnd",
    "tcp.send_buffer",
    "tcp.receive_buffer",
    "tcp.slow_start_after_idle",
];
/// The settings that only a host at a link has.
const LINK_SETTINGS: [&str; 2] = ["tcp.max_cwnd", "tcp.slow_start_after_idle"];
/// The settings of the client's connections.
const POOL_SETTINGS: [&str; 3] = ["connections", "connections.at_most", "pool.streams_at_most"];

/// A change that a recipe could not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// The path has no such hop.
    #[error("the path has no hop {0}")]
    NoHop(u8),
    /// The setting or its value is invalid, or the side ignores it.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Not a number of connections or streams.
    #[error("{0:?} is not a whole number of at least 1")]
    NotACount(String),
    /// A setting of connections at the server's side.
    #[error("`{0}` belongs to the client's side of a hop")]
    OfClient(String),
    /// A setting of a link's hosts, on a hop inside one host.
    #[error("`{setting}` belongs to a hop across a link, and hop {hop} is inside a host")]
    InsideHost {
        /// The setting.
        setting: String,
        /// The hop.
        hop: u8,
    },
    /// A setting that recipes cannot give a program.
    #[error("a recipe cannot give {station} `{setting}`")]
    NotForProgram {
        /// The program's station.
        station: String,
        /// The setting.
        setting: String,
    },
    /// The change contradicts other settings.
    #[error("hop {hop} would have {conflict}")]
    Conflict {
        /// The hop.
        hop: u8,
        /// The contradiction.
        conflict: Conflict,
    },
    /// A setting of a host that only one of its hops would have.
    #[error(transparent)]
    SharedHost(#[from] Disagreement),
}

/// The variant as it is and with these changes, in this order. Both get separate names, so that their trials differ
/// from those of the variant: `h2 without tcp.no_delay = true` and `h2 + tcp.no_delay = true`.
///
/// # Errors
/// If a recipe could not have one of the changes at its place, or if they contradict other settings.
pub fn with_and_without(
    variant: &Variant,
    changes: &[SettingChange],
) -> Result<[Variant; 2], ChangeError> {
    let mut changed = variant.clone();
    for change in changes {
        apply(&mut changed, change)?;
    }
    for (number, hop) in (1..).zip(&changed.hops) {
        for settings in [&hop.client, &hop.server] {
            check(settings, hop.protocol).map_err(|conflict| ChangeError::Conflict {
                hop: number,
                conflict,
            })?;
        }
    }
    if let Some(disagreement) = shared_hosts(&changed) {
        return Err(disagreement.into());
    }
    let label = listed_changes(changes);
    changed.name = format!("{} + {label}", variant.name);
    let original = Variant {
        name: format!("{} without {label}", variant.name),
        ..variant.clone()
    };
    Ok([original, changed])
}

fn apply(variant: &mut Variant, change: &SettingChange) -> Result<(), ChangeError> {
    let place = usize::from(change.hop).checked_sub(1);
    let place = place.filter(|place| *place < variant.hops.len());
    let place = place.ok_or(ChangeError::NoHop(change.hop))?;
    let hop = &mut variant.hops[place];
    let station = match change.side {
        Side::Client => &mut variant.stations[place],
        Side::Server => &mut variant.stations[place + 1],
    };
    let setting = change.setting.as_str();
    let is_embedded = station.runs == Implementation::Embedded;
    let refused = || ChangeError::NotForProgram {
        station: station.name.clone(),
        setting: setting.to_owned(),
    };
    if POOL_SETTINGS.contains(&setting) {
        return if is_embedded {
            apply_to_pool(hop, change)
        } else {
            Err(refused())
        };
    }
    if LINK_SETTINGS.contains(&setting) && !hop.across_link {
        return Err(ChangeError::InsideHost {
            setting: setting.to_owned(),
            hop: change.hop,
        });
    }
    let is_of_host = HOST_SETTINGS.contains(&setting) && hop.across_link;
    if !is_embedded && !is_of_host {
        let given = program_value(hop, station, change)?.ok_or_else(refused)?;
        let own = &mut station.asked.settings;
        own.retain(|it| (it.side, it.setting) != (given.side, given.setting));
        own.push(given);
        return Ok(());
    }
    let protocols = [hop.protocol];
    let settings = match change.side {
        Side::Client => &mut hop.client,
        Side::Server => &mut hop.server,
    };
    let assignment = format!("{setting}={}", change.value);
    settings::apply(settings, &assignment, change.side, &protocols)?;
    Ok(())
}

/// The change as a setting of the program at that station; `None` if recipes have no such setting for it.
fn program_value(
    hop: &Hop,
    station: &Station,
    change: &SettingChange,
) -> Result<Option<StationSetting>, ChangeError> {
    let is_known = match &station.runs {
        Implementation::Program { program } => !CLIENT_PROGRAMS.contains(&program.as_str()),
        Implementation::Own(_) | Implementation::Embedded => false,
    };
    let Some((table, key)) = change.setting.split_once('.').filter(|_| is_known) else {
        return Ok(None);
    };
    let mut settings = SideSettings::default();
    let assignment = format!("{}={}", change.setting, change.value);
    settings::apply(&mut settings, &assignment, change.side, &[hop.protocol])?;
    let given = program_setting(&settings, table, key, change.side);
    Ok(given.map(|(setting, value)| StationSetting {
        side: change.side,
        setting,
        value,
    }))
}

fn apply_to_pool(hop: &mut Hop, change: &SettingChange) -> Result<(), ChangeError> {
    if change.side != Side::Client {
        return Err(ChangeError::OfClient(change.setting.clone()));
    }
    let count = change.value.parse().ok().filter(|count: &u32| *count > 0);
    let count = count.ok_or_else(|| ChangeError::NotACount(change.value.clone()))?;
    match change.setting.as_str() {
        "pool.streams_at_most" => hop.pool.streams_at_most = Some(count),
        "connections.at_most" => hop.connections = Connections::OnDemand { at_most: count },
        _ => {
            // Unless the recipe says otherwise, a fixed number of connections is opened before the load begins.
            if hop.connections == Connections::Fixed(hop.pool.warm) {
                hop.pool.warm = count;
            }
            hop.connections = Connections::Fixed(count);
        }
    }
    Ok(())
}

/// The trials that compare a variant with and without a change: for each planned trial of `variant` under these conditions,
/// one trial of each variant in `pair`, with the same seed and back to back, in alternating order as in the plan. Indices
/// begin with `first_index`.
pub fn pair_trials(
    plan: &Plan,
    variant: &str,
    pair: &[Variant; 2],
    conditions: &[Condition],
    first_index: u32,
) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    let own = (plan.trials.iter())
        .filter(|trial| trial.variant.name == variant && conditions.contains(&trial.condition));
    for planned in own {
        let mut place = plan.conditions.iter();
        let place = place.position(|condition| *condition == planned.condition);
        let is_reversed = (planned.repetition as usize + place.unwrap_or(0)) % 2 == 1;
        let [first, second] = pair;
        let order = if is_reversed {
            [second, first]
        } else {
            [first, second]
        };
        for variant in order {
            trials.push(Trial {
                index: first_index + trials.len() as u32,
                variant: variant.clone(),
                ..planned.clone()
            });
        }
    }
    trials
}

/// The most trials that this many fixes can add to a plan: for each fix, as many pairs as the most repeated variant has
/// trials. The trials of fixes are not known before the findings are; these stand in for them, and take as long.
///
/// # Errors
/// If the run would then have more than 10,000 trials.
pub fn fix_trials_at_most(plan: &Plan, fixes: u32) -> Result<Vec<&Trial>, ManyTrials> {
    let trials_of = |variant: &Variant| -> Vec<&Trial> {
        let trials = plan.trials.iter();
        trials
            .filter(|trial| trial.variant.name == variant.name)
            .collect()
    };
    let all = plan.variants.iter().map(trials_of);
    let most = all.max_by_key(Vec::len).unwrap_or_default();
    let pairs = (0..fixes).flat_map(|_| most.iter().flat_map(|trial| [*trial, *trial]));
    let trials: Vec<&Trial> = pairs.collect();
    match (plan.trials.len() + trials.len()) as u64 {
        ..=MAX_TRIALS => Ok(trials),
        count => Err(ManyTrials {
            profile: plan.profile.clone(),
            count,
        }),
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::ProgramSetting;

    use super::*;

    const RECIPE: &str = r#"
        name = "fixes"
        question = "Does it help?"
        repetitions = 2
        [load]
        rate = "100/s"
        duration = "1s"
        [conditions]
        delay = ["10ms", "20ms"]
        [[variant]]
        name = "a"
        path = "client ~h2~> server"
        [[variant]]
        name = "b"
        path = "client ~h1~> nginx"
        connections = 4
    "#;

    fn plan() -> Plan {
        let recipe = crate::parse(RECIPE).unwrap_or_else(|e| panic!("{}", e.render("x", RECIPE)));
        recipe.plan("standard", 1).unwrap()
    }

    fn change(hop: u8, side: Side, setting: &str, value: &str) -> SettingChange {
        SettingChange {
            hop,
            side,
            setting: setting.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn changed_variant_has_the_new_settings_and_its_own_name() {
        let plan = plan();
        let changes = [
            change(1, Side::Client, "http2.stream_window", "1MiB"),
            change(1, Side::Server, "tcp.slow_start_after_idle", "false"),
        ];
        let [original, changed] = with_and_without(&plan.variants[0], &changes).unwrap();
        let label = "http2.stream_window = 1MiB, tcp.slow_start_after_idle = false";
        assert_eq!(changed.name, format!("a + {label}"));
        assert_eq!(original.name, format!("a without {label}"));
        assert_eq!(original.hops, plan.variants[0].hops);
        let hop = &changed.hops[0];
        assert_eq!(hop.client.http2.stream_window, Bytes::new(1 << 20));
        assert_eq!(hop.server.tcp.slow_start_after_idle, Some(false));
    }

    #[test]
    fn programs_get_their_settings_and_refuse_others() {
        let variant = &plan().variants[1];
        let requests = change(1, Side::Server, "http1.requests_per_connection", "1000");
        let [_, changed] = with_and_without(variant, &[requests]).unwrap();
        let given = changed.stations[1].asked.settings[0];
        assert_eq!(
            (given.side, given.setting, given.value),
            (Side::Server, ProgramSetting::RequestsPerConnection, 1_000)
        );
        let bbr = change(1, Side::Server, "tcp.congestion_control", "bbr");
        let [_, changed] = with_and_without(variant, &[bbr]).unwrap();
        let used = changed.hops[0].server.tcp.congestion_control.as_deref();
        assert_eq!(used, Some("bbr"), "its host has it");
        let delay = change(1, Side::Server, "tcp.no_delay", "true");
        let error = with_and_without(variant, &[delay]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a recipe cannot give nginx `tcp.no_delay`"
        );
    }

    #[test]
    fn changing_connections_also_changes_those_opened_before_the_load() {
        let variant = &plan().variants[1];
        let more = change(1, Side::Client, "connections", "8");
        let [_, changed] = with_and_without(variant, &[more]).unwrap();
        assert_eq!(changed.hops[0].connections, Connections::Fixed(8));
        assert_eq!(changed.hops[0].pool.warm, 8);
        let none = change(1, Side::Client, "connections", "0");
        assert!(with_and_without(variant, &[none]).is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        let variant = &plan().variants[0];
        let changes = [change(
            1,
            Side::Client,
            "http2.window_updates.every",
            "1MiB",
        )];
        let error = with_and_without(variant, &changes).unwrap_err();
        assert!(matches!(error, ChangeError::Conflict { hop: 1, .. }));
        let nowhere = [change(2, Side::Client, "tcp.no_delay", "true")];
        let error = with_and_without(variant, &nowhere).unwrap_err();
        assert_eq!(error, ChangeError::NoHop(2));
    }

    #[test]
    fn pairs_have_the_seeds_of_the_variant_and_alternate() {
        let plan = plan();
        let changes = [change(1, Side::Client, "tcp.no_delay", "true")];
        let pair = with_and_without(&plan.variants[0], &changes).unwrap();
        let conditions = &plan.conditions[1..];
        let trials = pair_trials(&plan, "a", &pair, conditions, 8);
        let order: Vec<_> = trials
            .iter()
            .map(|trial| {
                (
                    trial.index,
                    trial.repetition,
                    trial.variant.name.contains(" + "),
                )
            })
            .collect();
        assert_eq!(
            order,
            [(8, 0, true), (9, 0, false), (10, 1, false), (11, 1, true)]
        );
        for trial in &trials {
            let mut planned = plan.trials.iter();
            let same = planned.find(|it| {
                it.variant.name == "a"
                    && it.condition == trial.condition
                    && it.repetition == trial.repetition
            });
            assert_eq!(trial.seed, same.unwrap().seed);
            assert_eq!(trial.condition, plan.conditions[1]);
        }
        assert_eq!(fix_trials_at_most(&plan, 1).unwrap().len(), 8);
        assert!(fix_trials_at_most(&plan, 2_000).is_err());
    }
}
