//! Feeds any text to the recipe parser, as a whole recipe without files and as one assignment of `--set`, and checks
//! what must hold for any text.
//!
//! Nothing may panic. A mistake lies within the text, and its excerpt cannot control a terminal. A valid recipe expands
//! to plans, the same each time, with no more trials than a recipe may have.

use squall_base::plan::{Protocol, Side, SideSettings};
use squall_recipe::{NoFiles, Recipe, RecipeError, StationMode, parse_with, settings};

/// The most trials of a recipe (docs/RECIPES.md).
const MAX_TRIALS: usize = 10_000;

/// How many profiles are expanded to plans: each may have the most trials that a recipe can have.
const PROFILES: usize = 3;

/// Any text, as a recipe.
pub fn recipe(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for stations in [StationMode::Real, StationMode::Embedded] {
        match parse_with(&text, stations, &NoFiles) {
            Ok(recipe) => check_plans(&recipe),
            Err(error) => check_mistakes(&error, &text),
        }
    }
}

fn check_plans(recipe: &Recipe) {
    assert!(recipe.files().is_empty(), "there are none");
    assert!(
        recipe
            .profiles()
            .any(|name| name == recipe.default_profile())
    );
    for profile in recipe.profiles().take(PROFILES) {
        let plan = recipe.plan(profile, 7).expect("it has this profile");
        assert!((1..=MAX_TRIALS).contains(&plan.trials.len()));
        let cells = recipe.variants().len() * plan.conditions.len();
        assert_eq!(plan.trials.len() % cells, 0, "cells are repeated alike");
        for (index, trial) in plan.trials.iter().enumerate() {
            assert_eq!(trial.index as usize, index);
            assert!(recipe.variants().contains(&trial.variant));
            // Everything that can be checked before a hop exists has been checked.
            for hop in &trial.variant.hops {
                for side in [&hop.client, &hop.server] {
                    assert_eq!(settings::check(side, hop.protocol), Ok(()));
                }
            }
        }
        assert_eq!(recipe.plan(profile, 7), Ok(plan));
    }
}

fn check_mistakes(error: &RecipeError, text: &str) {
    assert!(!error.problems().is_empty());
    for problem in error.problems() {
        let before = text.get(..problem.span.start);
        let before = before.expect("a mistake begins in the text");
        assert!(text.get(problem.span.clone()).is_some(), "and ends in it");
        let (lines, last) = before
            .rsplit_once('\n')
            .map_or((0, before), |(lines, last)| {
                (lines.split('\n').count(), last)
            });
        assert_eq!(problem.line, lines + 1);
        assert_eq!(problem.column, last.chars().count() + 1);
        assert!(!problem.expected.is_empty());
    }
    let shown = error.render("x.toml", text);
    assert!(shown.chars().all(|c| !c.is_control() || "\n\t".contains(c)));
}

/// Any text, as an assignment; the first byte selects the side and the protocol.
pub fn assignment(input: &[u8]) {
    let Some((&how, text)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let side = match how & 1 {
        0 => Side::Client,
        _ => Side::Server,
    };
    let protocol = Protocol::ALL[usize::from(how >> 1) % Protocol::ALL.len()];
    let assign = |to: &mut SideSettings| settings::apply(to, &text, side, &[protocol]);
    let mut settings = SideSettings::default();
    match assign(&mut settings) {
        Ok(()) => {
            let _ = settings::check(&settings, protocol);
            // Applying it twice changes nothing more.
            let once = settings.clone();
            assert_eq!(assign(&mut settings), Ok(()));
            assert_eq!(settings, once);
        }
        Err(error) => {
            assert_eq!(settings, SideSettings::default(), "it changes nothing");
            assert_eq!(error.assignment, text);
            assert!(!error.expected.is_empty());
            let shown = error.to_string();
            assert!(shown.chars().all(|c| !c.is_control() || c == '\t'));
        }
    }
}
