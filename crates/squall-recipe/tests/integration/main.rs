//! Recipes as text: what they expand to, and what is said about their mistakes.

mod conditions;
#[path = "../../../../fuzz/src/drive_recipe.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_recipe;
#[path = "../../../../fuzz/src/drive_words.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_words;
mod effects;
mod errors;
mod garbage;
mod laws;
mod loads;
mod plans;
mod questions;
