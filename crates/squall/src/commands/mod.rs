//! The commands, one file each. They print results to stdout and everything else to stderr.

pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fetch;
pub(crate) mod import;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod proxy;
pub(crate) mod recipes;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod selftest;
pub(crate) mod serve;

use std::fs;
use std::path::Path;

use squall_base::plan::Plan;
use squall_recipe::bundled;
use squall_record::{RunFolder, read_plan};

use crate::BadInput;
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
    let read = |path: &Path| match fs::read_to_string(path) {
        Ok(text) => Ok(RecipeText {
            name: path.display().to_string(),
            text,
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
                "there is no recipe {wanted:?}: neither {} nor one of the bundled ({}). \
                 A file is named by its path, such as ./{wanted}.toml",
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
        BadInput::new(format!(
            "{} is not the folder of a run, as `squall run` makes them: {error}",
            path.display()
        ))
    })
}
