//! What a recipe's question is about: `measure`, and the `primary` comparison of a profile.
//!
//! Which comparison is tested in which order is squall-analysis's; how often it is repeated is in `profile`.

use squall_base::plan::{Condition, Measure, PerDirection, Primary, Statistic, Variant};
use squall_base::{Duration, Probability};

use super::load::Word;
use super::{conditions, distinct};
use crate::error::Mistake;
use crate::files::Named;
use crate::problems::{Reported, did_you_mean};
use crate::section::{Field, Section, listed};
use crate::shapes;

/// What variants are compared by, the one that answers the question first.
pub(super) fn measures(root: &Section<'_>, word: Option<Word>) -> Result<Vec<Measure>, Reported> {
    let named = root.maybe("measure", |field| {
        let measures = field.one_or_more(|field| {
            let text = field.text()?;
            let measure: Result<Measure, _> = text.value.parse();
            let value = measure.map_err(|_| {
                let words: Vec<String> = Measure::all().map(|it| it.to_string()).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                field.malformed(text.value, "a measure", MEASURES, &words)
            })?;
            Ok(field.at(value))
        })?;
        distinct(root.problems(), "measure", &measures)?;
        Ok(measures.into_iter().map(|at| at.value).collect())
    })?;
    let has_pages = matches!(word, Some(Word::Page | Word::Tiles | Word::Hold));
    let usual = if has_pages {
        Measure::PageTime(Statistic::P50)
    } else {
        Measure::USUAL
    };
    Ok(named.unwrap_or_else(|| vec![usual]))
}

/// Refuses server times of some targets where a variant has no station between client and server: only for one does the
/// client name its requests.
pub(super) fn refuse_nameless(
    root: &Section<'_>,
    measures: &[Measure],
    variants: &[Variant],
) -> Result<(), Reported> {
    let needs_names = |measure: &Measure| match measure {
        Measure::ServerTime(_, targets) => targets.path().is_some(),
        _ => false,
    };
    let Some(field) = root
        .field("measure")
        .filter(|_| measures.iter().any(needs_names))
    else {
        return Ok(());
    };
    let Some(direct) = variants.iter().find(|variant| variant.hops.len() == 1) else {
        return Ok(());
    };
    let variant = direct.name.clone();
    let expected = "server times of all requests, or `transfer time` of these, or a station between client and server on each path";
    Err(field.refuse_key(Mistake::Nameless { variant }, expected))
}

const MEASURES: &str = "`response time`, `page time`, `transfer time` or `server time` with `mean`, `p50`, `p90`, `p95`, \
     `p99`, `p99.9` or `iqr`, such as \"response time p99\" or, of some targets, \"response time p99 of /video\"; or \
     `throughput`, `connections`, `handshakes` or `failed share`";

/// `primary` as it is written: profiles have different conditions, so each finds its own.
pub(super) struct Wanted<'d> {
    table: Section<'d>,
    variant: String,
    baseline: String,
    delay: Option<PerDirection<Duration>>,
    loss: Option<PerDirection<Probability>>,
    link: Option<PerDirection<String>>,
    schedule: Option<String>,
}

/// Reads `primary` of the recipe or of a profile; the baseline is the first variant if nothing is said.
pub(super) fn wanted<'d>(
    section: &Section<'d>,
    variants: &[Variant],
    files: &Named<'_>,
) -> Result<Option<Wanted<'d>>, Reported> {
    section.maybe("primary", |field| {
        let table = field.section(&shapes::PRIMARY, shapes::PRIMARY.label)?;
        let variant = table.required("variant", "the name of a variant", |field| {
            known(&field, variants)
        });
        let baseline = table.maybe("baseline", |field| known(&field, variants));
        let delay = table.maybe("delay", |field| Ok(conditions::delay(&field)?.value));
        let loss = table.maybe("loss", |field| Ok(conditions::loss(&field)?.value));
        let link = table.maybe("link", |field| Ok(conditions::link(&field, files)?.value));
        let schedule = table.maybe("schedule", |field| {
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
        Ok(Wanted {
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

/// The name of a variant that the recipe has.
pub(super) fn known(field: &Field<'_>, variants: &[Variant]) -> Result<String, Reported> {
    let name = field.text()?.value;
    let names: Vec<&str> = variants.iter().map(|it| it.name.as_str()).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let mistake = Mistake::UnknownVariant {
        name: name.to_owned(),
    };
    let hint = did_you_mean(name, names.iter().copied());
    Err(field.refuse_part(0..name.len(), mistake, &listed(&names), hint))
}

impl Wanted<'_> {
    /// The comparison among a profile's variants and conditions, of which exactly one must be meant.
    pub(super) fn find(
        &self,
        profile: &str,
        variants: &[&Variant],
        conditions: &[Condition],
    ) -> Result<Primary, Reported> {
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
        let is_meant = |condition: &&Condition| {
            self.delay.is_none_or(|delay| delay == condition.delay)
                && self.loss.is_none_or(|loss| loss == condition.loss)
                && (self.link.as_ref()).is_none_or(|link| *link == condition.link)
                && (self.schedule.as_ref()).is_none_or(|it| *it == condition.schedule)
        };
        let meant: Vec<&Condition> = conditions.iter().filter(is_meant).collect();
        if let [condition] = meant[..] {
            return Ok(Primary {
                variant: self.variant.clone(),
                baseline: self.baseline.clone(),
                condition: condition.clone(),
            });
        }
        let mistake = Mistake::NotOneCondition {
            profile: profile.to_owned(),
            count: meant.len(),
        };
        let expected = "one condition, by `delay`, `loss`, `link` and `schedule` as far as they differ; a profile may have its own \
             `primary`";
        Err(self.table.refuse(mistake, expected))
    }
}
