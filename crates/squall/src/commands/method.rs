//! How a run was made, for its report: the command that repeats it, its recipe and its machine, from the files of its folder.
//!
//! No secret is shown, even for a run that keeps them in its files, because people share reports. The report adds from
//! trial.json what was in force in each trial; squall-report has the markup.

use squall_base::plan::Plan;
use squall_recipe::{bundled, redacted};
use squall_record::{RunFolder, read_json, read_text_at_most};
use squall_report::Method;

use crate::command_line::{in_shell, without_credentials};
use crate::environment::RunBeginning;
use crate::limits;

/// Reads how a run was made. What a file does not say, or a file that cannot be read, is left out: figures do not depend on it.
pub(super) fn read_method(folder: &RunFolder, plan: &Plan) -> Method {
    let recipe = read_text_at_most(folder.recipe(), limits::SETTINGS);
    let recipe = recipe.ok().map(without_secrets);
    let beginning: Option<RunBeginning> = read_json(folder.environment()).ok();
    let Some(beginning) = beginning else {
        return Method::new(None, recipe, Vec::new());
    };
    let words: Vec<String> = (words_of(&beginning, plan).iter())
        .map(|word| in_shell(word))
        .collect();
    let command = (!words.is_empty()).then(|| words.join(" "));
    Method::new(command, recipe, beginning.facts())
}

/// The words of the command that makes the same run, as results show them; empty if they are not known.
pub(super) fn command_words(folder: &RunFolder, plan: &Plan) -> Vec<String> {
    let beginning: Option<RunBeginning> = read_json(folder.environment()).ok();
    beginning.map_or_else(Vec::new, |beginning| words_of(&beginning, plan))
}

/// The recipe as people may see it. In a recipe that is bundled with squall, what looks like a secret is made up.
fn without_secrets(recipe: String) -> String {
    if bundled().iter().any(|(_, known)| *known == recipe) {
        recipe
    } else {
        redacted(&recipe)
    }
}

/// The words of the command that makes the same run, without what may be a credential; empty if they are not known.
fn words_of(beginning: &RunBeginning, plan: &Plan) -> Vec<String> {
    let fixes = plan.fixes.as_ref().map(|fixes| fixes.at_most);
    shown_words(beginning.command(), fixes)
}

/// `words` without what may be a credential, with the number of fixes that the run was asked to try, perhaps only when it was
/// resumed.
fn shown_words(words: &[String], fixes: Option<u32>) -> Vec<String> {
    let mut shown = without_credentials(words.iter().cloned());
    if let Some(at_most) = fixes.filter(|_| !shown.is_empty()) {
        shown.push(format!("--try-fix={at_most}"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_has_the_fixes_to_try_and_no_credential() {
        let words = ["squall", "run", "https://me:hidden@host/mine.toml"].map(str::to_owned);
        let shown = shown_words(&words, Some(2)).join(" ");
        assert_eq!(shown, "squall run https://...@host/mine.toml --try-fix=2");
        assert!(shown_words(&[], Some(2)).is_empty());
    }

    #[test]
    fn secrets_are_left_out_of_a_recipe_unless_it_is_public() {
        let own = "headers = { authorization = \"hidden\" }\n".to_owned();
        assert!(!without_secrets(own).contains("hidden"));
        let (_, public) = bundled()[0];
        assert_eq!(without_secrets(public.to_owned()), public);
    }
}
