//! The runs of `squall view` side by side: for each recipe the bars and the table of `comparison`, with a bar for each run
//! where a run's page has one for each variant.
//!
//! It judges nothing: `squall compare` says what changed between two runs, and the list of runs (`runs`) links to that.

use super::comparison::{self, Group, Row, Wording};
use super::plot;
use super::runs::{ListedRun, by_recipe, date_of};
use super::text::escaped;
use crate::lang::{Language, Translator};
use crate::shown::ShownCell;

/// What the page may do: run its scripts, which switch between statistics and save files, and fetch nothing but an icon.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:";

/// Its scripts, each after the ones that it imports.
const MODULES: [&str; 5] = [
    include_str!("../../assets/data.js"),
    include_str!("../../assets/export.js"),
    include_str!("../../assets/state.js"),
    include_str!("../../assets/switches.js"),
    include_str!("../../assets/compared.js"),
];

const OF_RUNS: Wording = Wording {
    whose: "each run, by variant and condition",
    titles: ["variant and condition", "run"],
};

/// The whole page, in English. Runs of one recipe are together, the earliest first.
pub fn compared_page(runs: &[ListedRun<'_>]) -> String {
    let mut page = super::begin_page("runs", POLICY);
    page.push_str(
        "<nav class=\"recipe\" aria-label=\"Runs\"><a href=\"/\">All runs</a></nav>\n<header>\n\
         <p class=\"recipe\">squall <b>view</b></p>\n<h1>Runs beside each other</h1>\n</header>\n<main>\n",
    );
    page.push_str(plot::HATCHING);
    for runs in by_recipe(runs) {
        push_recipe(&mut page, &runs);
    }
    page.push_str(&format!(
        "</main>\n<script type=\"module\">\n{}</script>\n</body>\n</html>\n",
        super::bundle(&MODULES)
    ));
    page
}

/// The whole page in a language.
pub fn compared_page_in(language: Language, runs: &[ListedRun<'_>]) -> String {
    let translator = Translator::of_runs(language, runs.iter().map(|run| run.summary));
    let mut names: Vec<String> = runs.iter().map(name_of).collect();
    for runs in by_recipe(runs) {
        names.extend(groups(&runs).into_iter().map(|group| group.name));
    }
    translator.keeping(names).page(compared_page(runs))
}

/// The number of a run, by which its page is found, and its name. The number is first because names of runs often differ only
/// at their ends, which drawings cut off.
fn name_of(run: &ListedRun<'_>) -> String {
    format!("{}: {}", run.number, run.name)
}

fn push_recipe(page: &mut String, runs: &[ListedRun<'_>]) {
    let Some(last) = runs.last() else {
        return;
    };
    page.push_str(&format!(
        "<section class=\"comparison\">\n<h2>{}</h2>\n<p class=\"reason\">{}</p>\n<ul class=\"runs\">\n",
        escaped(&last.summary.recipe),
        escaped(&last.summary.question),
    ));
    for run in runs {
        page.push_str(&format!(
            "<li><a href=\"/runs/{}/\">{}</a>, {}, profile {}</li>\n",
            run.number,
            escaped(&name_of(run)),
            date_of(run.summary),
            escaped(&run.summary.profile),
        ));
    }
    page.push_str("</ul>\n");
    let groups = groups(runs);
    if groups.is_empty() {
        page.push_str("<p>No trials yet.</p>\n");
    } else {
        let names: Vec<String> = runs.iter().map(name_of).collect();
        comparison::push_legend(page, names.iter().map(String::as_str));
        comparison::push_beside(page, &groups, OF_RUNS);
    }
    page.push_str("</section>\n");
}

/// A group for each variant under each condition that has a trial in any run, with the bars of the runs that have one.
fn groups<'a>(runs: &[ListedRun<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (colour, run) in runs.iter().enumerate() {
        for condition in &run.summary.conditions {
            let cells = ShownCell::all_of(condition).into_iter();
            for cell in cells.filter(|cell| !cell.figures.trials.is_empty()) {
                let name = format!("{}, {}", cell.figures.variant, condition.condition);
                let row = Row {
                    name: name_of(run),
                    colour,
                    cell,
                };
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.rows.push(row),
                    None => groups.push(Group {
                        name,
                        link: None,
                        rows: vec![row],
                    }),
                }
            }
        }
    }
    groups
}
