//! How a run was made, for its report: the command that repeats it, its recipe and its machine, from the files of its folder.
//!
//! It shows no secret, also of a run that keeps them in its files, because people share reports. What was in force in each
//! trial, the report adds from trial.json; squall-report has the markup.

use squall_base::plan::Plan;
use squall_recipe::{bundled, redacted};
use squall_record::{RunFolder, read_json, read_text_at_most};
use squall_report::Method;

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
    let command = command_line(beginning.command(), plan);
    Method::new(command, recipe, beginning.facts())
}

/// The recipe as people may see it. What looks like a secret in a recipe that comes with squall is made up.
fn without_secrets(recipe: String) -> String {
    if bundled().iter().any(|(_, known)| *known == recipe) {
        recipe
    } else {
        redacted(&recipe)
    }
}

/// The command for a shell, with the fixes that the run was asked to try, perhaps only when it was resumed.
fn command_line(words: &[String], plan: &Plan) -> Option<String> {
    let mut quoted: Vec<String> = words.iter().map(|word| in_shell(word)).collect();
    if quoted.is_empty() {
        return None;
    }
    if let Some(fixes) = &plan.fixes {
        quoted.push(format!("--try-fix={}", fixes.at_most));
    }
    Some(quoted.join(" "))
}

/// A word as a POSIX shell reads it back.
pub(crate) fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell_where_they_must_be() {
        for (word, expected) in [
            ("./mine.toml", "./mine.toml"),
            ("my recipe.toml", "'my recipe.toml'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(in_shell(word), expected);
        }
    }

    #[test]
    fn secrets_are_left_out_of_a_recipe_unless_it_is_public() {
        let own = "headers = { authorization = \"hidden\" }\n".to_owned();
        assert!(!without_secrets(own).contains("hidden"));
        let (_, public) = bundled()[0];
        assert_eq!(without_secrets(public.to_owned()), public);
    }
}
