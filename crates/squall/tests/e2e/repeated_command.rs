//! The report's section "Method and environment": its command reproduces the plan, and its texts are those of the files in the
//! folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{H1, run_squall, seat, short_recipe, stderr};

fn run(home: &Path, arguments: &[&str]) -> PathBuf {
    let output = run_squall(home, arguments);
    // 3: other work on the machine disturbed the trials.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", stderr(&output));
    let runs = fs::read_dir(home.join("runs")).expect("the runs");
    let runs = runs.map(|entry| entry.expect("an entry").path());
    // The time in a run's name has only seconds, so two runs may not be in order by name.
    let newest = runs.max_by_key(|path| {
        let plan = fs::metadata(path.join("plan.json"));
        plan.and_then(|plan| plan.modified()).expect("a time")
    });
    newest.expect("a run")
}

fn page_of(run: &Path) -> String {
    fs::read_to_string(run.join("report.html")).expect("report.html")
}

/// The text of the element that begins with this tag.
fn text_of(page: &str, tag: &str) -> String {
    let (_, rest) = page.split_once(tag).unwrap_or_else(|| panic!("no {tag}"));
    let (markup, _) = rest.split_once("</pre>").expect("its end");
    let text = markup.replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

fn home(change: impl Fn(String) -> String) -> TempDir {
    let home = TempDir::new().expect("a temporary folder");
    let text = short_recipe(&[H1], 2);
    fs::write(home.path().join("my recipe.toml"), change(text)).expect("the recipe is written");
    home
}

#[test]
fn command_of_the_report_reproduces_the_plan() {
    let _seat = seat();
    let home = home(|text| text);
    let first = run(home.path(), &["run", "./my recipe.toml", "--seed", "7"]);
    let page = page_of(&first);
    let command = text_of(&page, "<pre class=\"command\">");
    let expected = "squall run './my recipe.toml' --profile standard --seed 7 --stations real";
    assert_eq!(command, expected);
    let recipe = fs::read_to_string(first.join("recipe.toml")).expect("recipe.toml");
    assert_eq!(text_of(&page, "<pre class=\"recipe-text\">\n"), recipe);
    for fact in [
        "kernel",
        "processors",
        "load averages at the beginning",
        "scheduling of links",
        "docs/METHOD.md",
        "net.ipv4.tcp_",
        "2 seeds of the first link",
    ] {
        assert!(page.contains(fact), "no {fact}");
    }
    let words = command.split_once("'./my recipe.toml'");
    let (_, options) = words.expect("its recipe");
    let options = options.split_whitespace();
    let words: Vec<&str> = ["run", "./my recipe.toml"]
        .into_iter()
        .chain(options)
        .collect();
    let second = run(home.path(), &words);
    assert_ne!(first, second);
    let plan = |run: &Path| fs::read_to_string(run.join("plan.json")).expect("plan.json");
    assert_eq!(plan(&first), plan(&second));
}

#[test]
fn report_of_a_recipe_with_secrets_is_redacted_and_readable_only_by_its_owner() {
    let _seat = seat();
    let home = home(|text| {
        text.replace(
            "accept = \"application/json\"",
            "authorization = \"hidden-word\"",
        )
    });
    let folder = run(home.path(), &["run", "./my recipe.toml", "--keep-secrets"]);
    let page = page_of(&folder);
    let recipe = text_of(&page, "<pre class=\"recipe-text\">\n");
    assert!(
        recipe.contains("authorization = \"[redacted]\""),
        "{recipe}"
    );
    assert!(!page.contains("hidden-word"));
    let report = fs::metadata(folder.join("report.html")).expect("report.html");
    assert_eq!(report.permissions().mode() & 0o077, 0);
}
