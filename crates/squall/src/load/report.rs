//! `squall load --report`: the results of a load as an HTML page.
//!
//! Only chooses what is on the page; squall-report's `html::load` writes it. The page names addresses but no URLs, because
//! those may hold secrets.

use std::path::Path;

use anyhow::Result;
use squall_analysis::load::{Round, VariantRounds};
use squall_linux::clock;
use squall_record::write_whole;
use squall_report::Language;
use squall_report::load::{CheckedThreshold, LoadPage, LoadPageVariant, load_page_in};

use super::result::LoadResult;

/// A variant: its name, its rounds in the order in which they ran, and the last of them.
pub(super) struct ReportedVariant<'a> {
    name: String,
    rounds: Vec<Round>,
    last: &'a LoadResult,
}

impl<'a> ReportedVariant<'a> {
    /// A load that ran once. Its name is what its connections spoke.
    pub(super) fn once(result: &'a LoadResult) -> ReportedVariant<'a> {
        let protocols: Vec<&str> = result.counts.protocols.keys().map(String::as_str).collect();
        ReportedVariant {
            name: if protocols.is_empty() {
                "no connection".to_owned()
            } else {
                protocols.join(", ")
            },
            rounds: vec![Round::of(&result.totals, result.end)],
            last: result,
        }
    }

    /// A version of a comparison.
    pub(super) fn of_rounds(rounds: VariantRounds, last: &'a LoadResult) -> ReportedVariant<'a> {
        ReportedVariant {
            name: rounds.name,
            rounds: rounds.rounds,
            last,
        }
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
    let variants = variants.into_iter().map(|variant| LoadPageVariant {
        rounds: VariantRounds {
            name: variant.name,
            rounds: variant.rounds,
        },
        last: variant.last.finished(),
        intervals: (variant.last.timeline.clone())
            .map_or_else(Vec::new, |timeline| timeline.figures(variant.last.end)),
    });
    let load = LoadPage {
        ended_unix_ns: clock::unix_nanos(),
        addresses,
        variants: variants.collect(),
        thresholds,
    };
    let page = load_page_in(language, &load);
    write_whole(path, &page)?;
    Ok(())
}
