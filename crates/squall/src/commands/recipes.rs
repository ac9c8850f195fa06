//! `squall recipes`: lists and prints the available recipes.

use anyhow::{Context, Result};
use serde::Serialize;
use squall_recipe::{StationMode, bundled, parse_with, schema};

use super::named::find_recipe;
use crate::outcome::CommandOutcome;
use crate::output::{print, print_json};
use crate::recordings::{SiblingFiles, bundled_file};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall recipes\n  squall recipes twilio > mine.toml\n  \
                  squall recipes --schema > recipe.schema.json"
)]
pub(crate) struct Arguments {
    /// Recipe to print, by name or path, or a file that a bundled recipe uses [default: list all bundled recipes]
    name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
    /// Print the JSON Schema of recipes, for editors
    #[arg(long, conflicts_with_all = ["name", "json"])]
    schema: bool,
}

/// A recipe as listed by `--json`.
#[derive(Serialize)]
struct RecipeEntry<'a> {
    name: &'a str,
    question: &'a str,
    profiles: Vec<&'a str>,
    default_profile: &'a str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    if let Some(name) = &arguments.name {
        match bundled_file(name) {
            Some(text) => print(text)?,
            None => print(find_recipe(name)?.text)?,
        }
        return Ok(CommandOutcome::Success);
    }
    if arguments.schema {
        print_json(&schema(), "schema")?;
        return Ok(CommandOutcome::Success);
    }
    let mut recipes = Vec::new();
    for (name, text) in bundled() {
        let recipe = parse_with(text, StationMode::Real, &SiblingFiles::bundled())
            .with_context(|| format!("the bundled recipe {name} is broken"))?;
        recipes.push((*name, recipe));
    }
    let entries: Vec<RecipeEntry> = recipes
        .iter()
        .map(|(name, recipe)| RecipeEntry {
            name,
            question: recipe.question(),
            profiles: recipe.profiles().collect(),
            default_profile: recipe.default_profile(),
        })
        .collect();
    if arguments.json {
        print_json(&entries, "list")?;
        return Ok(CommandOutcome::Success);
    }
    for RecipeEntry {
        name,
        question,
        profiles,
        default_profile,
    } in entries
    {
        let profiles = profiles.join(", ");
        print(format_args!(
            "{name:<20} {question}\n{:<20} profiles: {profiles} (without --profile: {default_profile})\n",
            ""
        ))?;
    }
    Ok(CommandOutcome::Success)
}
