//! What users name on the command line: a recipe, or the folder of a run. Finds it, and says what is missing.
//!
//! Nothing is checked beyond that: squall-recipe reads recipes, squall-record reads folders. Used by the commands here,
//! `run`, `trials`, `export` and `view`.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use squall_base::plan::Plan;
use squall_base::text::without_bom;
use squall_recipe::bundled;
use squall_record::{RunFolder, TrialFolder, read_plan, read_text_at_most};

use crate::limits;
use crate::outcome::BadInput;
use crate::recordings::SiblingFiles;

/// A recipe's text, its name for messages, and the files that it refers to.
pub(crate) struct RecipeText {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) files: SiblingFiles,
}

/// Finds a recipe. A path (with a `/` or ending in `.toml`) is read; a name is looked up in ./recipes/, then among the
/// bundled recipes.
pub(crate) fn find_recipe(wanted: &str) -> Result<RecipeText, BadInput> {
    let read = |path: &Path| match read_text_at_most(path, limits::SETTINGS) {
        Ok(text) => Ok(RecipeText {
            name: path.display().to_string(),
            text: without_bom(&text).to_owned(),
            files: SiblingFiles::recipe(path),
        }),
        Err(error) => Err(BadInput::new(format!(
            "cannot read the recipe {}: {error}",
            path.display()
        ))),
    };
    if wanted.contains('/') || wanted.ends_with(".toml") {
        return read(Path::new(wanted));
    }
    let beside = Path::new("recipes").join(format!("{wanted}.toml"));
    if beside.is_file() {
        return read(&beside);
    }
    match bundled().iter().find(|(name, _)| *name == wanted) {
        Some((name, text)) => Ok(RecipeText {
            name: format!("recipes/{name}.toml"),
            text: (*text).to_owned(),
            files: SiblingFiles::bundled(),
        }),
        None => {
            let known: Vec<&str> = bundled().iter().map(|(name, _)| *name).collect();
            Err(BadInput::new(format!(
                "there is no recipe {wanted:?}: neither the file {} nor a bundled one ({}). \
                 To use a file, give its path, such as ./{wanted}.toml",
                beside.display(),
                known.join(", ")
            )))
        }
    }
}

/// Opens the folder of a run that the user named, and reads its plan.
pub(crate) fn open_run(path: &Path) -> Result<(RunFolder, Plan), BadInput> {
    let opened = RunFolder::open(path).and_then(|folder| {
        let plan = read_plan(folder.plan())?;
        Ok((folder, plan))
    });
    opened.map_err(|error| {
        refused_folder_of_runs(path).unwrap_or_else(|| {
            BadInput::new(format!(
                "{} is not the folder of a run made by `squall run`: {error}",
                path.display()
            ))
        })
    })
}

/// The error for a folder that contains runs but is not one; it names the last of them. `None` if there is no run in it.
pub(crate) fn refused_folder_of_runs(path: &Path) -> Option<BadInput> {
    let entries = fs::read_dir(path).ok()?.flatten();
    let runs = entries.map(|entry| entry.path());
    let run = runs.filter(|run| RunFolder::open(run).is_ok()).max()?;
    Some(BadInput::new(format!(
        "{} is a folder of runs: name one of them, such as {}",
        path.display(),
        run.display()
    )))
}

/// The complete trials of a run, of which there must be at least one. `purpose` is what they are for: `report`.
pub(crate) fn complete_trials(folder: &RunFolder, purpose: &str) -> Result<Vec<TrialFolder>> {
    let trials = folder.complete_trials()?;
    if trials.is_empty() {
        bail!(
            "no trial of {} is complete, so there is nothing to {purpose}",
            folder.root().display()
        );
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_folder_of_runs_names_one_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let said = || open_run(folder.path()).unwrap_err().to_string();
        assert!(said().contains("is not the folder of a run"), "{}", said());
        for run in ["demo-1", "demo-2"] {
            fs::create_dir(folder.path().join(run)).unwrap();
            fs::write(folder.path().join(run).join("plan.json"), "{}").unwrap();
        }
        assert!(said().contains("demo-2"), "{}", said());
    }

    #[test]
    fn recipe_file_may_begin_with_a_byte_order_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        fs::write(&path, "\u{feff}name = \"mine\"\n").unwrap();
        let found = find_recipe(path.to_str().unwrap()).unwrap();
        assert_eq!(found.text, "name = \"mine\"\n");
    }
}
