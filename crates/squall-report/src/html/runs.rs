//! The list of runs of `squall view`: what each run answers, and how the figures of one recipe changed from run to run.
//!
//! Pure markup without scripts. It compares nothing: `squall compare` does, and `compared` draws runs side by side; the
//! page links to both. A trend draws the figure that the recipe's question is about, for each variant under each condition of
//! the last run.

use squall_analysis::answer::Answer;
use squall_analysis::{RunSummary, Value};
use squall_base::plan::{Condition, Measure, Statistic, Targets};

use super::plot::{self, Area, WIDTH};
use super::text::{SERIES, escaped, swatch};
use crate::date;
use crate::lang::{Language, Translator};

/// What the list may do: nothing but have an icon.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'";

/// A run of the list.
#[derive(Clone, Copy, Debug)]
pub struct ListedRun<'a> {
    /// The name of its folder.
    pub name: &'a str,
    /// Its number: its page is `/runs/NUMBER/`.
    pub number: usize,
    /// Its results.
    pub summary: &'a RunSummary,
}

/// The whole page, in English. Runs of one recipe are together, the earliest first.
pub fn runs_page(runs: &[ListedRun<'_>]) -> String {
    let mut page = super::begin_page("runs", POLICY);
    page.push_str(
        "<header>\n<p class=\"recipe\">squall <b>view</b></p>\n<h1>Runs</h1>\n</header>\n<main>\n",
    );
    for runs in by_recipe(runs) {
        push_recipe(&mut page, &runs);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The whole page in a language.
pub fn runs_page_in(language: Language, runs: &[ListedRun<'_>]) -> String {
    let translator = Translator::of_runs(language, runs.iter().map(|run| run.summary));
    let names = runs.iter().map(|run| run.name.to_owned());
    translator.keeping(names).page(runs_page(runs))
}

/// The runs of each recipe, in order of time; recipes in the order in which they first occur.
pub(super) fn by_recipe<'a>(runs: &[ListedRun<'a>]) -> Vec<Vec<ListedRun<'a>>> {
    let mut recipes: Vec<Vec<ListedRun<'a>>> = Vec::new();
    for run in runs {
        let is_same = |of: &&mut Vec<ListedRun<'a>>| of[0].summary.recipe == run.summary.recipe;
        match recipes.iter_mut().find(is_same) {
            Some(of) => of.push(*run),
            None => recipes.push(vec![*run]),
        }
    }
    for of in &mut recipes {
        of.sort_by_key(|run| run.summary.facts.started_unix_ns);
    }
    recipes
}

fn push_recipe(page: &mut String, runs: &[ListedRun<'_>]) {
    let Some(last) = runs.last() else {
        return;
    };
    page.push_str(&format!(
        "<section class=\"condition\">\n<h2>{}</h2>\n<p class=\"reason\">{}</p>\n<ul class=\"runs\">\n",
        escaped(&last.summary.recipe),
        escaped(&last.summary.question),
    ));
    for (place, run) in runs.iter().enumerate() {
        push_run(page, run, place.checked_sub(1).and_then(|it| runs.get(it)));
    }
    page.push_str("</ul>\n");
    if runs.len() > 1 {
        page.push_str("<p><a href=\"/compare/\">Runs beside each other</a></p>\n");
        push_trends(page, runs, last.summary);
    }
    page.push_str("</section>\n");
}

/// One run: when, what it answers, and whether to trust it. `earlier` is the run to compare it with.
fn push_run(page: &mut String, run: &ListedRun<'_>, earlier: Option<&ListedRun<'_>>) {
    let summary = run.summary;
    let number = run.number;
    let health = summary.health();
    let grade = health.grade.name();
    let compared = earlier.map_or_else(String::new, |earlier| {
        format!(
            ", <a href=\"/runs/{number}/compare/{}\">compared with the run before</a>",
            earlier.number
        )
    });
    page.push_str(&format!(
        "<li><p><a href=\"/runs/{number}/\">{}</a>, {}, profile {}{compared}</p>\n<p>{}</p>\n\
         <p class=\"health {grade}\"><b>{grade}</b>: {}</p></li>\n",
        escaped(run.name),
        date_of(summary),
        escaped(&summary.profile),
        answer_of(summary),
        escaped(&health.sentence),
    ));
}

pub(super) fn date_of(summary: &RunSummary) -> String {
    let started = summary.facts.started_unix_ns;
    started.map_or_else(|| "no trial yet".to_owned(), date::utc)
}

/// The answer in one line, as markup.
fn answer_of(summary: &RunSummary) -> String {
    let Some(answer) = &summary.answer else {
        return "It compares nothing.".to_owned();
    };
    let word = answer.confidence.name();
    format!(
        "{} <span class=\"confidence {}\">{word}</span>",
        escaped(clause(answer)),
        word.replace(' ', "-"),
    )
}

/// The answer in one clause; summaries of earlier versions have only the sentence.
fn clause(answer: &Answer) -> &str {
    if answer.headline.is_empty() {
        &answer.sentence
    } else {
        &answer.headline
    }
}

/// The figure of a variant in each run that has it: the place of the run, and the figure in the unit of the measure.
type Trend = Vec<(usize, Value)>;

fn trend(runs: &[ListedRun<'_>], measure: Measure, condition: &Condition, variant: &str) -> Trend {
    let figure = |summary: &RunSummary| {
        let mut conditions = summary.conditions.iter();
        let of = conditions.find(|it| it.condition == *condition)?;
        let cell = of.cells.iter().find(|cell| cell.variant == variant)?;
        let trials = cell.evidence().into_iter();
        Value::median(trials.filter_map(|trial| trial.value(measure)))
    };
    let found = runs.iter().enumerate();
    found
        .filter_map(|(place, run)| Some((place, figure(run.summary)?)))
        .collect()
}

/// What the recipe asks about, or the median where the trials are too short for that.
fn drawn_measure(runs: &[ListedRun<'_>], last: &RunSummary) -> Option<Measure> {
    let median = Measure::ResponseTime(Statistic::P50, Targets::ALL);
    let asked = last.measures.first().copied();
    asked.into_iter().chain([median]).find(|measure| {
        last.conditions.iter().any(|condition| {
            (last.variants.iter())
                .any(|variant| !trend(runs, *measure, &condition.condition, variant).is_empty())
        })
    })
}

/// A drawing for each condition of the last run.
fn push_trends(page: &mut String, runs: &[ListedRun<'_>], last: &RunSummary) {
    let Some(measure) = drawn_measure(runs, last) else {
        return;
    };
    page.push_str(&format!(
        "<p class=\"hint\">{}, from run to run: the median over the trials of each run.</p>\n<p class=\"legend\">",
        escaped(&measure.to_string())
    ));
    for (variant, name) in last.variants.iter().enumerate() {
        page.push_str(&format!(
            "<span class=\"key\">{}{}</span> ",
            swatch(variant),
            escaped(name)
        ));
    }
    page.push_str("</p>\n<div class=\"multiples shapes\">\n");
    for condition in &last.conditions {
        let trends: Vec<Trend> = (last.variants.iter())
            .map(|variant| trend(runs, measure, &condition.condition, variant))
            .collect();
        push_trend(page, runs, measure, &condition.condition, &trends);
    }
    page.push_str("</div>\n");
}

/// The trend of each variant under one condition; nothing if there is no figure.
fn push_trend(
    page: &mut String,
    runs: &[ListedRun<'_>],
    measure: Measure,
    condition: &Condition,
    trends: &[Trend],
) {
    const HEIGHT: f64 = 170.0;
    let bounds = (trends.iter().flatten()).filter_map(|(_, value)| value.bound());
    let Some(most) = bounds.reduce(f64::max).filter(|most| *most > 0.0) else {
        return;
    };
    let area = Area {
        left: 70.0,
        right: WIDTH - 14.0,
        top: 8.0,
        bottom: HEIGHT - 20.0,
    };
    let label = format!("{measure} from run to run, at {condition}");
    page.push_str(&format!(
        "<figure>\n<figcaption>{}</figcaption>\n",
        escaped(&condition.to_string())
    ));
    plot::begin(page, HEIGHT, &label);
    for share in [0.0, 0.5, 1.0] {
        let y = area.height(share);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{} {y:.1}H{}\"/><text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            area.left,
            area.right,
            area.left - 5.0,
            y + 3.5,
            escaped(&Value::Exact(most * share).in_words(measure.unit())),
        ));
    }
    let across = |place: usize| area.across(place as f64 / (runs.len() - 1).max(1) as f64);
    for (variant, trend) in trends.iter().enumerate() {
        let points: Vec<(f64, f64, String)> = (trend.iter())
            .map(|(place, value)| {
                let run = &runs[*place];
                let words = value.in_words(measure.unit());
                let title = format!("{}, {}: {words}", run.name, date_of(run.summary));
                let y = area.height(value.bound().map_or(1.0, |bound| bound / most));
                (across(*place), y, title)
            })
            .collect();
        push_line(page, variant, &points);
    }
    page.push_str("</svg>\n</figure>\n");
}

/// A line through points, each with its title.
fn push_line(page: &mut String, variant: usize, points: &[(f64, f64, String)]) {
    let path: String = (points.iter().enumerate())
        .map(|(n, (x, y, _))| format!("{}{x:.1} {y:.1}", if n == 0 { "M" } else { "L" }))
        .collect();
    page.push_str(&format!(
        "<g style=\"--series: var(--series-{})\"><path class=\"curve\" d=\"{path}\"/>",
        variant % SERIES
    ));
    for (x, y, title) in points {
        page.push_str(&format!(
            "<circle class=\"dot open\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>",
            escaped(title)
        ));
    }
    page.push_str("</g>\n");
}
