//! Secrets of a run's requests. People share a run's folder, so squall leaves the secrets out of it unless the user
//! asks to keep them. A resumed run reads them back from the recipe.
//!
//! squall-base decides what a secret is. Copies of bodies stay whole, because requests send them; only the folder's owner
//! may read them.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use squall_base::plan::{FormValue, Plan, RequestBody};
use squall_recipe::{Recipe, StationMode, bundled, parse_with, redacted};
use squall_record::import::redacted_recording;
use squall_record::write_private;

use crate::commands::named::{RecipeText, find_recipe};
use crate::outcome::BadInput;
use crate::output::eprint;
use crate::recordings::OutsideFiles;

/// What to do with the secrets in the files of a run's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    /// They stay. Files with secrets are only for their owner.
    Kept,
    /// They are left out.
    LeftOut,
}

impl Secrets {
    /// What to do for a recipe of this text. The secrets of a recipe that is bundled with squall are made up and known to
    /// everyone.
    pub(super) fn of(text: &str, are_kept: bool) -> Secrets {
        let is_public = bundled().iter().any(|(_, known)| *known == text);
        if are_kept || is_public {
            Secrets::Kept
        } else {
            Secrets::LeftOut
        }
    }

    /// The plan for plan.json.
    pub(super) fn plan(self, plan: &Plan) -> Cow<'_, Plan> {
        match self {
            Secrets::LeftOut if plan.has_secrets() => Cow::Owned(plan.redacted()),
            Secrets::LeftOut | Secrets::Kept => Cow::Borrowed(plan),
        }
    }

    /// The text for recipe.toml.
    pub(super) fn recipe(self, text: &str) -> Cow<'_, str> {
        match self {
            Secrets::LeftOut => Cow::Owned(redacted(text)),
            Secrets::Kept => Cow::Borrowed(text),
        }
    }

    /// Removes the secrets from the run's copy of a file, unless a request sends that file.
    pub(super) fn settle_copy(self, plan: &Plan, kept_as: &str, copy: &Path) -> Result<()> {
        if self == Secrets::Kept || sent_files(plan).any(|sent| sent == kept_as) {
            return Ok(());
        }
        let content = fs::read(copy).with_context(|| format!("cannot read {}", copy.display()))?;
        if let Cow::Owned(shown) = redacted_recording(&content) {
            write_private(copy, &shown)
                .with_context(|| format!("cannot write {}", copy.display()))?;
        }
        Ok(())
    }
}

/// The names of the copies that requests send.
fn sent_files(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.requests.iter().flat_map(|request| {
        let files: Vec<&str> = match &request.body {
            RequestBody::File(file) => vec![file.kept_as.as_str()],
            RequestBody::Form(fields) => (fields.iter())
                .filter_map(|field| match &field.value {
                    FormValue::File { file, .. } => Some(file.kept_as.as_str()),
                    FormValue::Text(_) | FormValue::Generated { .. } => None,
                })
                .collect(),
            RequestBody::Size(_) | RequestBody::Text(_) | RequestBody::Binary(_) => Vec::new(),
        };
        files
    })
}

/// Prints a notice if the secrets were left out of the recipe: its requests differ from those of the original.
pub(super) fn warn_of_a_copy(plan: &Plan) {
    if plan.is_redacted() {
        eprint(
            "squall: the recipe contains [redacted] in place of secrets, and sends it as it is: use the original recipe to \
             send the same requests\n",
        );
    }
}

/// The complete plan of a run that is to be resumed. Secrets that plan.json lacks are taken from the recipe: the named one, or
/// the one that has the plan's name.
pub(super) fn complete(
    plan: Plan,
    named: Option<&str>,
    outside: OutsideFiles,
) -> Result<Plan, BadInput> {
    if !plan.is_redacted() {
        return match named {
            None => Ok(plan),
            Some(recipe) => Err(BadInput::new(format!(
                "plan.json has everything needed to resume the run: leave out the recipe {recipe:?}"
            ))),
        };
    }
    if let Some(recipe) = named {
        return add_secrets(&plan, recipe, outside);
    }
    // Anyone may have written plan.json, so its name must not be used as a path.
    let is_name = !plan.recipe.contains(['/', '.']);
    let found = is_name.then(|| add_secrets(&plan, &plan.recipe, OutsideFiles::Refused).ok());
    found.flatten().ok_or_else(|| {
        BadInput::new(
            "the secrets of its requests were left out of plan.json: name its recipe again, as in \
             `squall run RECIPE --resume RUN` (--keep-secrets keeps them, for the next run)",
        )
    })
}

fn add_secrets(plan: &Plan, wanted: &str, outside: OutsideFiles) -> Result<Plan, BadInput> {
    let RecipeText { name, text, files } = find_recipe(wanted)?;
    let files = files.with_outside(outside);
    // Requests do not depend on which programs the stations are.
    let parsed: Result<Recipe, _> = parse_with(&text, StationMode::Embedded, &files)
        .or_else(|_| parse_with(&text, StationMode::Real, &files));
    let recipe = parsed.map_err(|error| BadInput::in_file(&error.render(&name, &text)))?;
    let fresh = recipe.plan(&plan.profile, 0).map_err(BadInput::new)?;
    if fresh.redacted().requests != plan.requests {
        return Err(BadInput::new(format!(
            "the requests of {name} are not those of the run, so it cannot have begun with this recipe: name the original"
        )));
    }
    Ok(Plan {
        requests: fresh.requests,
        ..plan.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "name = \"mine\"\nquestion = \"?\"\nload = { rate = \"1/s\", duration = \"1s\" }\n\
                          [request]\ntarget = \"/a?token=hidden1\"\nheaders = { authorization = \"hidden2\" }\n\
                          [[variant]]\nname = \"v\"\npath = \"client ~h1~> server\"\n";

    /// A recipe in a folder, and its plan.
    fn plan_of(text: &str, folder: &Path) -> (String, Plan) {
        let path = folder.join("mine.toml");
        fs::write(&path, text).unwrap();
        let recipe = squall_recipe::parse(text).unwrap();
        let plan = recipe.plan(recipe.default_profile(), 7).unwrap();
        (path.to_str().unwrap().to_owned(), plan)
    }

    #[test]
    fn files_of_a_run_have_no_secrets_unless_they_are_kept_or_public() {
        let home = tempfile::tempdir().unwrap();
        let (_, plan) = plan_of(RECIPE, home.path());
        let left_out = Secrets::of(RECIPE, false);
        let stored = left_out.plan(&plan).into_owned();
        let texts = [
            serde_json::to_string(&stored).unwrap(),
            left_out.recipe(RECIPE).into_owned(),
        ];
        for text in texts {
            assert!(
                !text.contains("hidden") && text.contains("[redacted]"),
                "{text}"
            );
        }
        assert!(stored.is_redacted() && !stored.has_secrets() && !plan.is_redacted());
        let kept = Secrets::of(RECIPE, true);
        assert_eq!(*kept.plan(&plan), plan);
        assert_eq!(kept.recipe(RECIPE), RECIPE);
        let (_, public) = bundled()[0];
        assert_eq!(Secrets::of(public, false), Secrets::Kept);
    }

    #[test]
    fn resumed_run_gets_its_secrets_from_the_same_recipe_and_no_other() {
        let home = tempfile::tempdir().unwrap();
        let (path, plan) = plan_of(RECIPE, home.path());
        let stored = plan.redacted();
        let complete =
            |plan: &Plan, named: Option<&str>| complete(plan.clone(), named, OutsideFiles::Refused);
        assert_eq!(complete(&stored, Some(path.as_str())).unwrap(), plan);
        assert_eq!(complete(&plan, None).unwrap(), plan);
        let refused =
            |plan: &Plan, named: Option<&str>| complete(plan, named).unwrap_err().to_string();
        let said = refused(&stored, None);
        assert!(said.contains("squall run RECIPE --resume RUN"), "{said}");
        let said = refused(&plan, Some(path.as_str()));
        assert!(said.contains("leave out the recipe"), "{said}");
        let (path, _) = plan_of(&RECIPE.replace("/a?", "/b?"), home.path());
        let said = refused(&stored, Some(path.as_str()));
        assert!(said.contains("are not those of the run"), "{said}");
    }

    #[test]
    fn copies_of_recordings_lose_their_secrets_but_bodies_stay_whole() {
        let home = tempfile::tempdir().unwrap();
        let (_, mut plan) = plan_of(RECIPE, home.path());
        let copy = home.path().join("0-targets.txt");
        let text = "GET http://a/\ncookie: hidden\n";
        let settle = |plan: &Plan| {
            fs::write(&copy, text).unwrap();
            Secrets::LeftOut
                .settle_copy(plan, "0-targets.txt", &copy)
                .unwrap();
            fs::read_to_string(&copy).unwrap()
        };
        assert_eq!(settle(&plan), "GET http://a/\ncookie: [redacted]\n");
        plan.requests[0].body = RequestBody::File(squall_base::plan::FileCopy {
            kept_as: "0-targets.txt".to_owned(),
            bytes: squall_base::Bytes::new(29),
        });
        assert_eq!(settle(&plan), text);
    }
}
