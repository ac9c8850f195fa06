//! Recipes: the text of a TOML file becomes a checked [`Recipe`], and a recipe becomes a plan of trials.
//!
//! ```text
//! text --raw, section--> keys and types --read--> Recipe --plan--> squall_base::plan::Plan
//!        (with spans)                     (values)        (profile, seed)
//! ```
//!
//! It starts nothing, reads no file and knows no default of the machine: the caller brings the text, the files that it
//! names ([`Files`]) and the seed, so the same recipe gives the same plan everywhere. Each mistake is reported with its line,
//! column and what was expected, all mistakes of a file at once ([`RecipeError`]).
//!
//! Where to go next: `shapes` for all tables and keys, `section` for how they are read, `read` for what the values mean,
//! `path` for the notation of paths, `recipe` for the order and the seeds of trials, `settings` for the settings of one
//! side without a recipe, `schema` for editors. The reference for those who write recipes is docs/RECIPES.md.
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
mod error;
mod files;
mod path;
mod problems;
mod raw;
mod read;
mod recipe;
mod schema;
mod section;
pub mod settings;
mod shapes;
mod stations;

pub use bundled::{bundled, bundled_files};
pub use error::{Mistake, Problem, RecipeError};
pub use files::{Files, NoFiles, RecordingChoice};
pub use path::PathMistake;
pub use recipe::{Recipe, UnknownProfile};
pub use schema::schema;
pub use stations::Stations;

/// Parses the text of a recipe that names no files.
///
/// # Errors
/// Every mistake that the text has, in the order of the text; a TOML syntax error comes alone, because
/// nothing after it can be trusted.
pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
    parse_with(text, Stations::Real, &NoFiles)
}

/// Parses the text of a recipe, with programs on its paths or with our own stations in their places, and with the files
/// that it names.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    text: &str,
    stations: Stations,
    files: &dyn Files,
) -> Result<Recipe, RecipeError> {
    let problems = problems::Problems::new(text);
    let recipe = raw::RawRecipe::parse(text, &problems)
        .and_then(|raw| read::recipe(&raw.root(&shapes::RECIPE, &problems), stations, files));
    problems.finish(recipe)
}
