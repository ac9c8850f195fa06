//! How the run was made, at the end of the page: the command that repeats it, the machine, the settings, the seeds and the
//! recipe.
//!
//! It reads no file and runs nothing: the caller has the texts, without secrets. How each number is obtained is not said here
//! but in docs/METHOD.md. Pure markup, which needs no script.

use std::collections::{BTreeMap, BTreeSet};

use squall_analysis::figure;
use squall_base::record::TrialRecord;
use squall_base::secrets::REDACTED;

use super::text::escaped;

/// What stands in a command in place of a value that may be a credential.
const LEFT_OUT: &str = "...";

/// How a run was made. Texts are shown as they are, so they must have no secrets.
#[derive(Clone, Debug, Default)]
pub struct Method {
    command: Option<String>,
    recipe: Option<String>,
    machine: Vec<(&'static str, String)>,
    trials: TrialSettings,
}

/// The settings that were in force in the trials.
#[derive(Clone, Debug, Default)]
struct TrialSettings {
    /// Values by name; several if trials differ.
    settings: BTreeMap<&'static str, BTreeSet<String>>,
    /// Sysctls by name, with values in the same form.
    sysctls: BTreeMap<String, BTreeSet<String>>,
    /// The versions that programs on paths reported, by station.
    versions: BTreeMap<String, BTreeSet<String>>,
    /// Conditions, each with the seeds of its repetitions.
    seeds: Vec<(String, Vec<u64>)>,
}

impl Method {
    /// A run without trials yet. `command` repeats it and is ready for a shell, `recipe` is the recipe's text, and `machine`
    /// has names and values of facts in the order in which they are shown. What is not known is not shown.
    pub fn new(
        command: Option<String>,
        recipe: Option<String>,
        machine: Vec<(&'static str, String)>,
    ) -> Method {
        Method {
            command,
            recipe,
            machine,
            trials: TrialSettings::default(),
        }
    }

    /// Adds the settings that were in force in a trial. Trials come in the order of the plan.
    pub fn add_trial(&mut self, record: &TrialRecord) {
        let TrialSettings {
            settings,
            sysctls,
            versions,
            seeds,
        } = &mut self.trials;
        let used = &record.used;
        let user_namespace = if used.user_namespace { "yes" } else { "no" };
        let in_force = [
            ("kernel of the trials", used.kernel.as_str()),
            ("scheduling of links", used.link_scheduling.as_str()),
            ("scheduling of stations", used.station_scheduling.as_str()),
            ("in a user namespace", user_namespace),
        ];
        for (name, value) in in_force {
            settings.entry(name).or_default().insert(value.to_owned());
        }
        for (name, value) in &used.sysctls {
            let values = sysctls.entry(name.clone()).or_default();
            values.insert(value.clone());
        }
        for station in &record.stations {
            if let Some(version) = &station.version {
                let known = versions.entry(station.name.clone()).or_default();
                known.insert(version.clone());
            }
        }
        let condition = record.trial.condition.to_string();
        let place = seeds.iter().position(|(name, _)| *name == condition);
        let place = place.unwrap_or_else(|| {
            seeds.push((condition, Vec::new()));
            seeds.len() - 1
        });
        let of_condition = &mut seeds[place].1;
        if !of_condition.contains(&record.trial.seed) {
            of_condition.push(record.trial.seed);
        }
    }
}

/// Appends the section. `profile` is the run's, `document` where the server of a live page has docs/METHOD.md.
pub(super) fn push(page: &mut String, profile: &str, method: &Method, document: Option<&str>) {
    begin(page, document);
    push_command(page, profile, method);
    push_facts(page, method);
    push_seeds(page, &method.trials.seeds);
    push_sysctls(page, &method.trials.sysctls);
    push_recipe(page, method);
    page.push_str("</section>\n");
}

/// Begins the section, and says where the method is described.
fn begin(page: &mut String, document: Option<&str>) {
    page.push_str(
        "<section class=\"method\" id=\"method\" tabindex=\"-1\" aria-label=\"Method and environment\">\n\
         <h2>Method and environment</h2>\n",
    );
    match document {
        Some(path) => page.push_str(&format!(
            "<p>How each number is obtained, and how large its error is: <a href=\"{path}\">docs/METHOD.md</a></p>\n"
        )),
        None => page.push_str(
            "<p>docs/METHOD.md, which comes with squall, says how each number is obtained and how large its error is.</p>\n",
        ),
    }
}

/// Appends the section of a load without trials.
pub(super) fn push_of_load(page: &mut String, method: &Method) {
    begin(page, None);
    if let Some(command) = &method.command {
        let left_out = if command.contains(REDACTED) || command.contains(LEFT_OUT) {
            "<p>Values that may be secret are left out of it.</p>\n"
        } else {
            ""
        };
        page.push_str(&format!(
            "<h3>Repeat it</h3>\n<pre class=\"command\">{}</pre>\n{left_out}\
             <p>A load has no link of squall’s: its response times depend on the network and on the server as they are then. The \
             seed repeats only what is chosen at random.</p>\n",
            escaped(command)
        ));
    }
    push_facts(page, method);
    page.push_str("</section>\n");
}

fn push_command(page: &mut String, profile: &str, method: &Method) {
    page.push_str("<h3>Repeat it</h3>\n");
    match &method.command {
        Some(command) => page.push_str(&format!(
            "<pre class=\"command\">{}</pre>\n\
             <p>With the same seed the same packets of each flow are lost, as long as a variant sends the same ones.</p>\n",
            escaped(command)
        )),
        None => page.push_str(&format!(
            "<p>The run’s folder does not say which command started it. Its recipe is below; the profile is {}.</p>\n",
            escaped(profile)
        )),
    }
}

fn push_facts(page: &mut String, method: &Method) {
    let joined = |values: &BTreeSet<String>| {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        values.join("; ")
    };
    let machine = method.machine.iter();
    let mut rows: Vec<(String, String)> = machine
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let TrialSettings {
        settings, versions, ..
    } = &method.trials;
    rows.extend(
        settings
            .iter()
            .map(|(name, values)| ((*name).to_owned(), joined(values))),
    );
    rows.extend(
        versions
            .iter()
            .map(|(station, values)| (format!("version of {station}"), joined(values))),
    );
    if rows.is_empty() {
        return;
    }
    page.push_str("<h3>Environment</h3>\n<dl class=\"facts\">\n");
    for (name, value) in rows {
        page.push_str(&format!(
            "<div><dt>{}</dt><dd>{}</dd></div>\n",
            escaped(&name),
            escaped(&value)
        ));
    }
    page.push_str("</dl>\n");
}

fn push_seeds(page: &mut String, seeds: &[(String, Vec<u64>)]) {
    if seeds.is_empty() {
        return;
    }
    let count: u64 = seeds.iter().map(|(_, seeds)| seeds.len() as u64).sum();
    page.push_str(&format!(
        "<details><summary>{} of the first link, by condition and repetition</summary>\n<ul>\n",
        figure::counted(count, "seed", "seeds")
    ));
    for (condition, seeds) in seeds {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        page.push_str(&format!(
            "<li>{}: {}</li>\n",
            escaped(condition),
            seeds.join(", ")
        ));
    }
    page.push_str("</ul>\n</details>\n");
}

fn push_sysctls(page: &mut String, sysctls: &BTreeMap<String, BTreeSet<String>>) {
    if sysctls.is_empty() {
        return;
    }
    page.push_str(
        "<details><summary>Sysctls of the client’s host that affect TCP</summary>\n<pre>",
    );
    for (name, values) in sysctls {
        for value in values {
            page.push_str(&escaped(&format!("{name} = {value}\n")));
        }
    }
    page.push_str("</pre>\n</details>\n");
}

fn push_recipe(page: &mut String, method: &Method) {
    let Some(recipe) = &method.recipe else {
        return;
    };
    let left_out = if recipe.contains(REDACTED) {
        "<p>Secrets are left out of this text: repeat the run with the original recipe.</p>\n"
    } else {
        ""
    };
    // HTML ignores a line break directly after the tag (section 13.1.2.5), so the recipe keeps its own first one.
    page.push_str(&format!(
        "<details><summary>Recipe</summary>\n{left_out}<pre class=\"recipe-text\">\n{}</pre>\n</details>\n",
        escaped(recipe)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(method: &Method) -> String {
        let mut page = String::new();
        push(&mut page, "quick <1>", method, None);
        page
    }

    #[test]
    fn command_recipe_and_machine_are_shown_as_text() {
        let method = Method::new(
            Some("squall run './<b>.toml' --seed 7".to_owned()),
            Some("name = \"<i>\"\ntoken = \"[redacted]\"\n".to_owned()),
            vec![("processor", "Chip <9>".to_owned())],
        );
        let page = page(&method);
        assert!(
            page.contains(
                "<pre class=\"command\">squall run &#39;./&lt;b&gt;.toml&#39; --seed 7</pre>"
            ),
            "{page}"
        );
        assert!(page.contains("name = &quot;&lt;i&gt;&quot;"), "{page}");
        assert!(page.contains("Secrets are left out"), "{page}");
        assert!(
            page.contains("<dt>processor</dt><dd>Chip &lt;9&gt;</dd>"),
            "{page}"
        );
    }

    #[test]
    fn method_document_is_a_link_only_if_a_server_has_it() {
        let mut live = String::new();
        push(&mut live, "quick", &Method::default(), Some("/METHOD.md"));
        let link = "<a href=\"/METHOD.md\">docs/METHOD.md</a>";
        assert!(live.contains(link), "{live}");
        let report = page(&Method::default());
        assert!(
            report.contains("<p>docs/METHOD.md, which comes with squall, ")
                && !report.contains("<a "),
            "{report}"
        );
    }

    #[test]
    fn load_has_its_command_and_its_machine_without_a_profile() {
        let of_load = |command: &str| {
            let machine = vec![("kernel", "6.1 <x>".to_owned())];
            let method = Method::new(Some(command.to_owned()), None, machine);
            let mut page = String::new();
            push_of_load(&mut page, &method);
            page
        };
        let page = of_load("squall load -n 3 'http://x/?a=<b>'");
        for part in [
            "<pre class=\"command\">squall load -n 3 &#39;http://x/?a=&lt;b&gt;&#39;</pre>",
            "<dt>kernel</dt><dd>6.1 &lt;x&gt;</dd>",
            "docs/METHOD.md, which comes with squall, ",
        ] {
            assert!(page.contains(part), "no {part}: {page}");
        }
        assert!(!page.contains("left out") && !page.contains("profile"));
        let with_field = of_load("squall load -H ... http://x/");
        assert!(with_field.contains("may be secret are left out"));
    }

    #[test]
    fn unknown_facts_are_named_as_such_or_left_out() {
        let page = page(&Method::default());
        assert!(page.contains("the profile is quick &lt;1&gt;"), "{page}");
        for absent in ["<dl", "<details", "<pre"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }
}
