//! The checked recipe, and how it expands to a plan: the order of the trials and their seeds.
//!
//! Expansion fails only if the profile is unknown. It is deterministic: the seed of the run is an argument, and the seeds
//! of the trials are derived from it.

use std::num::NonZeroU32;

use squall_base::plan::{
    Condition, Load, Measure, Plan, Primary, RecipeFile, RequestTemplate, ResponseTemplate, Trial,
    Variant,
};
use squall_base::splitmix::{seed_of_output, splitmix64};
use squall_base::{Bytes, Duration};
use thiserror::Error;

use crate::fast::{FastPath, largest_bodies};
use crate::words::{did_you_mean, listed};

/// The most trials of a run: their folders are numbered with four digits.
pub(crate) const MAX_TRIALS: u64 = 10_000;

/// A recipe without mistakes: every plan that it expands to can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    pub(crate) name: String,
    pub(crate) question: String,
    /// The measures by which variants are compared; at least one.
    pub(crate) measures: Vec<Measure>,
    /// The requests of the load, by index; at least one.
    pub(crate) requests: Vec<RequestTemplate>,
    /// The files that it names.
    pub(crate) files: Vec<RecipeFile>,
    pub(crate) response: ResponseTemplate,
    pub(crate) sample_every: Duration,
    /// At least one, with different names.
    pub(crate) variants: Vec<Variant>,
    /// At least one, with different names.
    pub(crate) profiles: Vec<Profile>,
    /// An index into `profiles`.
    pub(crate) default_profile: usize,
}

/// One size of the experiment, complete.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) fast: FastPath,
    pub(crate) load: Load,
    /// Replaces the size of all request bodies.
    pub(crate) body: Option<Bytes>,
    /// Replaces the size of response bodies.
    pub(crate) response_body: Option<Bytes>,
    /// Indices into the recipe's variants, ascending; at least one.
    pub(crate) variants: Vec<usize>,
    pub(crate) repetitions: u32,
    pub(crate) primary: Option<Primary>,
    /// Repetitions of the primary comparison's two cells; at least `repetitions`.
    pub(crate) primary_repetitions: u32,
}

impl Profile {
    pub(crate) fn trial_count(&self) -> u64 {
        let cells = self.conditions.len() as u64 * self.variants.len() as u64;
        let more = self.primary_repetitions - self.repetitions;
        cells * u64::from(self.repetitions) + 2 * u64::from(more)
    }

    /// Whether a cell belongs to the primary comparison.
    fn is_primary(&self, variant: &Variant, condition: &Condition) -> bool {
        self.primary.as_ref().is_some_and(|primary| {
            primary.condition == *condition
                && [&primary.variant, &primary.baseline].contains(&&variant.name)
        })
    }
}

/// An unknown profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "recipe `{recipe}` has no profile `{name}`: expected {}{}",
    listed(known), hint.as_ref().map(|h| format!(" ({h})")).unwrap_or_default()
)]
pub struct UnknownProfile {
    /// The recipe's name.
    pub recipe: String,
    /// The requested name.
    pub name: String,
    /// The recipe's profiles, in its order.
    pub known: Vec<String>,
    /// A guess at what was meant.
    pub hint: Option<String>,
}

/// A profile would have more trials than a run may have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("profile `{profile}` would have {count} trials: expected at most {MAX_TRIALS}")]
pub struct ManyTrials {
    /// The profile's name.
    pub profile: String,
    /// How many trials it would have.
    pub count: u64,
}

impl Recipe {
    /// The same recipe, but with this many repetitions of each cell of a profile. If the profile repeats its primary
    /// comparison more often, it keeps doing so. An unknown profile is ignored: [`Recipe::plan`] reports it.
    ///
    /// # Errors
    /// If the profile would then have more than 10,000 trials.
    pub fn with_repetitions(
        mut self,
        profile: &str,
        repetitions: NonZeroU32,
    ) -> Result<Recipe, ManyTrials> {
        let Some(chosen) = self.profiles.iter_mut().find(|p| p.name == profile) else {
            return Ok(self);
        };
        let has_more = chosen.primary_repetitions > chosen.repetitions;
        chosen.repetitions = repetitions.get();
        chosen.primary_repetitions = if has_more {
            chosen.primary_repetitions.max(chosen.repetitions)
        } else {
            chosen.repetitions
        };
        match chosen.trial_count() {
            ..=MAX_TRIALS => Ok(self),
            count => Err(ManyTrials {
                profile: profile.to_owned(),
                count,
            }),
        }
    }

    /// The recipe's name, such as `twilio`: lower-case letters, digits, `-` and `_`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The question that the recipe asks, in one sentence.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The variants in the recipe's order; the others are compared with the first.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The files that the recipe names. A run keeps copies of them, which its plan refers to.
    pub fn files(&self) -> &[RecipeFile] {
        &self.files
    }

    /// The names of the profiles in the recipe's order; at least one.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|profile| profile.name.as_str())
    }

    /// The profile that is run if none is chosen.
    pub fn default_profile(&self) -> &str {
        &self.profiles[self.default_profile].name
    }

    /// All trials of a profile, in the order in which they are run.
    ///
    /// A block is one repetition of one condition with all variants, run back to back, so that drift of the machine
    /// affects all of them. Every other block runs the variants in reverse order, and consecutive repetitions of a
    /// condition alternate in direction. All conditions of a repetition run before the next repetition. The additional
    /// repetitions of the primary comparison come last, each a block of its two cells. The trials of a block share a
    /// seed: see docs/RECIPES.md.
    ///
    /// # Errors
    /// If the recipe has no profile of that name.
    pub fn plan(&self, profile: &str, seed: u64) -> Result<Plan, UnknownProfile> {
        let chosen = self
            .profiles
            .iter()
            .find(|p| p.name == profile)
            .ok_or_else(|| UnknownProfile {
                recipe: self.name.clone(),
                name: profile.to_owned(),
                known: self.profiles().map(str::to_owned).collect(),
                hint: did_you_mean(profile, self.profiles()),
            })?;
        Ok(Plan {
            recipe: self.name.clone(),
            question: self.question.clone(),
            measures: self.measures.clone(),
            primary: chosen.primary.clone(),
            profile: chosen.name.clone(),
            variants: self.variants_of(chosen).cloned().collect(),
            conditions: chosen.conditions.clone(),
            requests: self.requests(chosen),
            files: self.files.clone(),
            trials: self.trials(chosen, seed),
            fixes: None,
        })
    }

    fn requests(&self, profile: &Profile) -> Vec<RequestTemplate> {
        let mut requests = self.requests.clone();
        if let Some(size) = profile.body {
            for own in requests.iter_mut().filter_map(|one| one.body.size_mut()) {
                *own = size;
            }
        }
        requests
    }

    fn variants_of<'a>(&'a self, profile: &'a Profile) -> impl Iterator<Item = &'a Variant> {
        profile.variants.iter().map(|&place| &self.variants[place])
    }

    fn trials(&self, profile: &Profile, run_seed: u64) -> Vec<Trial> {
        let response = ResponseTemplate {
            body: profile.response_body.unwrap_or(self.response.body),
            ..self.response
        };
        let bodies = largest_bodies(&self.requests(profile), &response);
        let mut trials = Vec::new();
        for repetition in 0..profile.primary_repetitions {
            for (condition_index, condition) in (0_u32..).zip(&profile.conditions) {
                let is_run = |variant: &&Variant| {
                    repetition < profile.repetitions || profile.is_primary(variant, condition)
                };
                let mut block: Vec<&Variant> = self.variants_of(profile).filter(is_run).collect();
                if is_reversed(condition_index, repetition) {
                    block.reverse();
                }
                for variant in block {
                    trials.push(Trial {
                        index: trials.len() as u32,
                        repetition,
                        seed: trial_seed(run_seed, condition_index, repetition),
                        variant: variant.clone(),
                        condition: condition.clone(),
                        load: profile.load.clone(),
                        response: response.clone(),
                        sample_every: self.sample_every,
                        fast: profile.fast.of_links(variant, condition, bodies),
                    });
                }
            }
        }
        trials
    }
}

/// Whether the block of this repetition and condition runs its variants backwards.
pub(crate) fn is_reversed(condition_index: u32, repetition: u32) -> bool {
    (repetition + condition_index) % 2 == 1
}

/// Output number `repetition * 2^32 + condition_index` of SplitMix64 started at `run_seed`, so no two blocks of a run
/// share a seed.
pub(crate) fn trial_seed(run_seed: u64, condition_index: u32, repetition: u32) -> u64 {
    splitmix64(run_seed, block_number(condition_index, repetition))
}

/// The seed of the run in which trials of this block have the seed `trial_seed`.
pub(crate) fn run_seed(trial_seed: u64, condition_index: u32, repetition: u32) -> u64 {
    seed_of_output(trial_seed, block_number(condition_index, repetition))
}

fn block_number(condition_index: u32, repetition: u32) -> u64 {
    (u64::from(repetition) << 32) | u64::from(condition_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_between_blocks_and_between_runs() {
        let mut seeds: Vec<u64> = (0..100)
            .flat_map(|c| (0..100).map(move |r| trial_seed(42, c, r)))
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 10_000);
        assert_ne!(trial_seed(1, 0, 0), trial_seed(2, 0, 0));
    }
}
