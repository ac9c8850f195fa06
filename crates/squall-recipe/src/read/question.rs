//! What answers a recipe's question: `measure`, and the `primary` comparison of a profile.
//!
//! squall-analysis decides in which order comparisons are tested; `profile` reads how often they are repeated.

use squall_base::plan::{Condition, Measure, PerDirection, Primary, Statistic, Variant};
use squall_base::{Duration, Probability};

use super::conditions;
use super::load::KindName;
use super::names::distinct;
use crate::error::Mistake;
use crate::files::RecipeFiles;
use crate::problems::ReportedProblem;
use crate::section::{Field, Section};
use crate::shapes;
use crate::words::{did_you_mean, listed};

/// The measures by which variants are compared. The first one answers the question.
pub(super) fn measures(
    root: &Section<'_>,
    kind_name: Option<KindName>,
) -> Result<Vec<Measure>, ReportedProblem> {
    let named = root.optional("measure", |field| {
        let measures = field.one_or_more(|field| {
            let text = field.text()?;
            let measure: Result<Measure, _> = text.value.parse();
            let value = measure.map_err(|_| {
                let words: Vec<String> = Measure::all().map(|it| it.to_string()).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                field.malformed(text.value, "a measure", MEASURES, &words)
            })?;
            Ok(field.with_span(value))
        })?;
        distinct(root.problems(), "measure", &measures)?;
        Ok(measures.into_iter().map(|it| it.value).collect())
    })?;
    let has_pages = matches!(
        kind_name,
        Some(KindName::Page | KindName::Tiles | KindName::Hold)
    );
    let usual = if has_pages {
        Measure::PageTime(Statistic::P50)
    } else {
        Measure::USUAL
    };
    Ok(named.unwrap_or_else(|| vec![usual]))
}

/// Refuses server times of some targets if a variant has no station between client and server: without one, the client
/// does not tag its requests.
pub(super) fn refuse_untagged_requests(
    root: &Section<'_>,
    measures: &[Measure],
    variants: &[Variant],
) -> Result<(), ReportedProblem> {
    let needs_tags = |measure: &Measure| match measure {
        Measure::ServerTime(_, targets) => targets.path().is_some(),
        _ => false,
    };
    let Some(field) = root
        .field("measure")
        .filter(|_| measures.iter().any(needs_tags))
    else {
        return Ok(());
    };
    let Some(direct) = variants.iter().find(|variant| variant.hops.len() == 1) else {
        return Ok(());
    };
    let variant = direct.name.clone();
    let expected = "server times of all requests, or `transfer time` of these, or a station between client and server on each path";
    Err(field.refuse_key(Mistake::UntaggedRequests(variant), expected))
}

const MEASURES: &str = "`response time`, `page time`, `transfer time`, `server time`, `first chunk time` or `gap` with `mean`, `p50`, \
     `p90`, `p95`, `p99`, `p99.9` or `iqr`, such as \"response time p99\" or, of some targets, \"response time p99 of /video\"; or \
     `throughput`, `connections`, `handshakes` or `failed share`";

/// `primary` as it is written. Profiles differ in their conditions, so each resolves it for itself.
pub(super) struct PrimarySection<'d> {
    table: Section<'d>,
    variant: String,
    baseline: String,
    delay: Option<PerDirection<Duration>>,
    loss: Option<PerDirection<Probability>>,
    link: Option<PerDirection<String>>,
    schedule: Option<String>,
}

/// Reads `primary` of the recipe or of a profile. The baseline defaults to the first variant.
pub(super) fn primary<'d>(
    section: &Section<'d>,
    variants: &[Variant],
    files: &RecipeFiles<'_>,
) -> Result<Option<PrimarySection<'d>>, ReportedProblem> {
    section.optional("primary", |field| {
        let table = field.section(&shapes::PRIMARY, shapes::PRIMARY.label)?;
        let variant = table.required("variant", "the name of a variant", |field| {
            known_variant(&field, variants)
        });
        let baseline = table.optional("baseline", |field| known_variant(&field, variants));
        let delay = table.optional("delay", |field| Ok(conditions::delay(&field)?.value));
        let loss = table.optional("loss", |field| Ok(conditions::loss(&field)?.value));
        let link = table.optional("link", |field| Ok(conditions::link(&field, files)?.value));
        let schedule = table.optional("schedule", |field| {
            Ok(conditions::schedule(&field, files)?.value)
        });
        let (variant, baseline) = (variant?, baseline?);
        let baseline = baseline.unwrap_or_else(|| variants[0].name.clone());
        if variant == baseline {
            let mistake = Mistake::Duplicate {
                what: "variant",
                name: variant,
                first_line: table.line(),
            };
            return Err(table.refuse(mistake, "two variants, `variant` and `baseline`"));
        }
        Ok(PrimarySection {
            table,
            variant,
            baseline,
            delay: delay?,
            loss: loss?,
            link: link?,
            schedule: schedule?,
        })
    })
}

/// The name of a variant, which the recipe must have.
pub(super) fn known_variant(
    field: &Field<'_>,
    variants: &[Variant],
) -> Result<String, ReportedProblem> {
    let name = field.text()?.value;
    let names: Vec<&str> = variants.iter().map(|it| it.name.as_str()).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let mistake = Mistake::UnknownVariant(name.to_owned());
    let hint = did_you_mean(name, names.iter().copied());
    Err(field.refuse_part(0..name.len(), mistake, &listed(&names), hint))
}

impl PrimarySection<'_> {
    /// The comparison among a profile's variants and conditions. It must match exactly one condition.
    pub(super) fn resolve(
        &self,
        profile: &str,
        variants: &[&Variant],
        conditions: &[Condition],
    ) -> Result<Primary, ReportedProblem> {
        for name in [&self.variant, &self.baseline] {
            if !variants.iter().any(|variant| variant.name == *name) {
                let mistake = Mistake::NotInProfile {
                    name: name.clone(),
                    profile: profile.to_owned(),
                };
                let expected = "a comparison of variants that the profile has; a profile may have its own `primary`";
                return Err(self.table.refuse(mistake, expected));
            }
        }
        let is_match = |condition: &&Condition| {
            self.delay.is_none_or(|delay| delay == condition.delay)
                && self.loss.is_none_or(|loss| loss == condition.loss)
                && (self.link.as_ref()).is_none_or(|link| *link == condition.link)
                && (self.schedule.as_ref()).is_none_or(|it| *it == condition.schedule)
        };
        let matching: Vec<&Condition> = conditions.iter().filter(is_match).collect();
        if let [condition] = matching[..] {
            return Ok(Primary {
                variant: self.variant.clone(),
                baseline: self.baseline.clone(),
                condition: condition.clone(),
            });
        }
        let mistake = Mistake::NotOneCondition {
            profile: profile.to_owned(),
            count: matching.len(),
        };
        let expected = "one condition, by `delay`, `loss`, `link` and `schedule` as far as they differ; a profile may have its own \
             `primary`";
        Err(self.table.refuse(mistake, expected))
    }
}
