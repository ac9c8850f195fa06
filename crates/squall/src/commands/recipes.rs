//! `squall recipes`: what there is to run.

use anyhow::{Context, Result};
use serde::Serialize;
use squall_recipe::{Stations, bundled, parse_with, schema};

use super::find_recipe;
use crate::Ending;
use crate::output::print;
use crate::recordings::{Beside, bundled_file};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall recipes\n  squall recipes twilio > mine.toml\n  \
                  squall recipes --schema > recipe.schema.json"
)]
pub(crate) struct Arguments {
    /// The recipe to print, by name or path, or a file that a bundled one names; without it, all bundled recipes are listed
    name: Option<String>,
    /// List as JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
    /// Print a JSON Schema of recipes, for editors
    #[arg(long, conflicts_with_all = ["name", "json"])]
    schema: bool,
}

/// A recipe as `--json` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    question: &'a str,
    profiles: Vec<&'a str>,
    default_profile: &'a str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    if let Some(name) = &arguments.name {
        match bundled_file(name) {
            Some(text) => print(text)?,
            None => print(find_recipe(name)?.text)?,
        }
        return Ok(Ending::Fine);
    }
    if arguments.schema {
        let json = serde_json::to_string_pretty(&schema()).context("cannot write the schema")?;
        print(format_args!("{json}\n"))?;
        return Ok(Ending::Fine);
    }
    let mut recipes = Vec::new();
    for (name, text) in bundled() {
        let recipe = parse_with(text, Stations::Real, &Beside::bundled())
            .with_context(|| format!("the bundled recipe {name} is broken"))?;
        recipes.push((*name, recipe));
    }
    let listed: Vec<Listed> = recipes
        .iter()
        .map(|(name, recipe)| Listed {
            name,
            question: recipe.question(),
            profiles: recipe.profiles().collect(),
            default_profile: recipe.default_profile(),
        })
        .collect();
    if arguments.json {
        let json =
            serde_json::to_string_pretty(&listed).context("cannot write the list as JSON")?;
        print(format_args!("{json}\n"))?;
        return Ok(Ending::Fine);
    }
    for Listed {
        name,
        question,
        profiles,
        default_profile,
    } in listed
    {
        let profiles = profiles.join(", ");
        print(format_args!(
            "{name:<20} {question}\n{:<20} profiles: {profiles} (without --profile: {default_profile})\n",
            ""
        ))?;
    }
    Ok(Ending::Fine)
}
