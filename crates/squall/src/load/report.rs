//! `squall load --report`: the results of a load as an HTML page.
//!
//! Only chooses what is on the page; squall-report's `html::load` writes it. What may be secret in a URL or in the command is
//! left out.

use std::path::Path;

use anyhow::Result;
use squall_analysis::load::{LoadTotals, Round, VariantRounds};
use squall_linux::clock;
use squall_record::write_whole;
use squall_report::load::{CheckedThreshold, LoadPage, LoadPageVariant, LoadSeries, load_page_in};
use squall_report::{Language, Method};

use super::parts::DrawnLoad;
use super::result::LoadResult;
use crate::command_line::redacted_in_shell;

/// A variant: its name, and its rounds in the order in which they ran.
pub(super) struct ReportedVariant<'a> {
    rounds: VariantRounds,
    results: &'a [LoadResult],
    last: &'a LoadResult,
}

impl<'a> ReportedVariant<'a> {
    /// A load that ran once. It is named after the protocols that its connections spoke.
    pub(super) fn once(result: &'a LoadResult) -> ReportedVariant<'a> {
        let protocols: Vec<&str> = result.counts.protocols.keys().map(String::as_str).collect();
        let name = if protocols.is_empty() {
            "no connection".to_owned()
        } else {
            protocols.join(", ")
        };
        ReportedVariant {
            rounds: VariantRounds {
                name,
                rounds: vec![Round::of(&result.totals, result.end)],
            },
            results: std::slice::from_ref(result),
            last: result,
        }
    }

    /// A version of a comparison; `None` without a round.
    pub(super) fn of_rounds(
        rounds: VariantRounds,
        results: &'a [LoadResult],
    ) -> Option<ReportedVariant<'a>> {
        Some(ReportedVariant {
            rounds,
            results,
            last: results.last()?,
        })
    }

    /// The variant's requests, all in one colour.
    fn series(&self) -> Option<LoadSeries<'a>> {
        let rounds: Vec<&LoadTotals> = self.results.iter().map(|it| &it.totals).collect();
        Some(LoadSeries {
            name: self.rounds.name.clone(),
            rounds,
            picture: self.last.drawn.as_ref()?.picture()?,
            end: self.last.end,
        })
    }

    /// The variant's requests with a colour for each URL; empty if they have one colour.
    fn by_url(&self) -> Vec<LoadSeries<'a>> {
        let last = self.last;
        let parts = last.drawn.iter().flat_map(DrawnLoad::named);
        parts
            .map(|(name, picture, totals)| LoadSeries {
                name: name.to_owned(),
                rounds: vec![totals],
                picture,
                end: last.end,
            })
            .collect()
    }
}

pub(super) fn write(
    path: &Path,
    language: Language,
    variants: Vec<ReportedVariant<'_>>,
    thresholds: Vec<CheckedThreshold>,
) -> Result<()> {
    let mut addresses: Vec<String> = (variants.iter())
        .flat_map(|variant| &variant.last.addresses)
        .map(ToString::to_string)
        .collect();
    addresses.sort();
    addresses.dedup();
    let last = variants.last().map(|variant| variant.last);
    let mut series = match variants.as_slice() {
        [only] => only.by_url(),
        _ => Vec::new(),
    };
    if series.is_empty() {
        series.extend(variants.iter().filter_map(ReportedVariant::series));
    }
    let load = LoadPage {
        ended_unix_ns: clock::unix_nanos(),
        addresses,
        series,
        urls_together: last.and_then(|last| last.drawn.as_ref()?.urls_together()),
        method: last.map(method).unwrap_or_default(),
        variants: variants.into_iter().map(on_page).collect(),
        thresholds,
    };
    let page = load_page_in(language, &load);
    write_whole(path, &page)?;
    Ok(())
}

fn on_page(variant: ReportedVariant<'_>) -> LoadPageVariant<'_> {
    LoadPageVariant {
        rounds: variant.rounds,
        last: variant.last.finished(),
        intervals: (variant.last.timeline.clone())
            .map_or_else(Vec::new, |timeline| timeline.figures(variant.last.end)),
    }
}

/// The command that makes the same load, and the machine.
fn method(result: &LoadResult) -> Method {
    let Some(beginning) = &result.beginning else {
        return Method::default();
    };
    let command = redacted_in_shell(beginning.command());
    Method::new(Some(command), None, beginning.facts())
}
