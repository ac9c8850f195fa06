//! Recipes: the text of a TOML file becomes a checked [`Recipe`], and a recipe becomes a plan of trials.
//!
//! ```text
//! text --raw, section--> keys and types --read--> Recipe --plan--> squall_base::plan::Plan
//!        (with spans)                     (values)        (profile, seed)
//! ```
//!
//! The crate starts nothing, reads no file and depends on nothing about the machine. The caller supplies the text, the
//! files that it names ([`Files`]) and the seed, so a recipe expands to the same plan everywhere. Parsing reports all
//! mistakes of a text together, each with its line, its column and what was expected ([`RecipeError`]).
//!
//! Where to go next: `shapes` for all tables and keys, `section` for how they are read, `read` for what the values mean,
//! `path` for the notation of paths, `recipe` for the order and the seeds of trials, `settings` for the settings of one
//! side without a recipe, `changed` for variants with a fix, `repeated` for more repetitions of a run, `schema` for editors.
//! docs/RECIPES.md is the reference for recipe authors.
//!
//! ```
//! let recipe = squall_recipe::parse(
//!     r#"
//!     name = "hello"
//!     question = "Does one connection suffice?"
//!     [load]
//!     rate = "100/s"
//!     duration = "5s"
//!     [conditions]
//!     delay = ["0ms", "10ms"]
//!     [[variant]]
//!     name = "h2c x1"
//!     path = "client ~h2c~> server"
//!     "#,
//! )?;
//! let plan = recipe.plan(recipe.default_profile(), 7)?;
//! assert_eq!(plan.trials.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bundled;
mod changed;
mod conflict;
mod error;
mod fast;
mod files;
pub mod limits;
mod path;
mod presets;
mod problems;
mod raw;
mod read;
mod recipe;
mod redaction;
mod repeated;
mod schema;
mod section;
pub mod settings;
mod shapes;
mod stations;
mod words;

pub use bundled::{bundled, bundled_files};
pub use changed::{ChangeError, fix_trials_at_most, pair_trials, with_and_without};
pub use conflict::Disagreement;
pub use error::{Mistake, Problem, RecipeError};
pub use files::{Files, NoFiles, RecordingChoice};
pub use path::PathMistake;
pub use recipe::{ManyTrials, Recipe, UnknownProfile};
pub use redaction::redacted;
pub use repeated::{RepetitionsError, trials_to_add};
pub use schema::schema;
pub use stations::StationMode;

/// Parses the text of a recipe that names no files.
///
/// # Errors
/// Every mistake in the text, in text order. A TOML syntax error is reported alone, because nothing after it can be
/// trusted.
pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
    parse_with(text, StationMode::Real, &NoFiles)
}

/// Parses the text of a recipe. `station_mode` says whether programs on its paths run themselves or our own stations stand
/// in for them; `files` supplies the files that the recipe names.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    text: &str,
    station_mode: StationMode,
    files: &dyn Files,
) -> Result<Recipe, RecipeError> {
    let problems = problems::Problems::new(text);
    let recipe = raw::RawRecipe::parse(text, &problems)
        .and_then(|raw| read::recipe(&raw.root(&shapes::RECIPE, &problems), station_mode, files));
    problems.finish(recipe)
}
