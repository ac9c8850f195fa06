//! In which order a run's comparisons are tested, so that many of them do not prove by chance what none of them shows.
//!
//! The primary comparison is tested first, by itself, at the full level. The others are tested with Holm's correction, and
//! prove something only if the primary one did: a fixed sequence of families, which keeps the chance of any false
//! difference at the level (P. H. Westfall and A. Krishen, "Optimally weighted, fixed sequence and gatekeeper multiple
//! testing procedures", Journal of Statistical Planning and Inference 99, 2001; A. Dmitrienko, A. C. Tamhane and F. Bretz,
//! *Multiple Testing Problems in Pharmaceutical Statistics*, 2009, section 5.3). Without a primary comparison there is no
//! gate. The comparisons by one measure are a family, so that further measures cost the leading one nothing; the level holds
//! for each measure. Comparisons of a variant with itself say what noise is, and are a family of their own.

use crate::stats::holm::holm;
use crate::verdict::{Comparison, Verdict};

/// Corrects the p-values of a run's comparisons for the others that are tested with them.
pub(crate) fn correct<'a>(verdicts: impl Iterator<Item = &'a mut Verdict>) {
    let compared = verdicts.filter_map(|verdict| match verdict {
        Verdict::Compared(comparison) if comparison.p.is_some() => Some(comparison.as_mut()),
        _ => None,
    });
    let (same, different): (Vec<_>, Vec<_>) =
        compared.partition(|comparison| comparison.is_same_variant);
    let (primary, others): (Vec<_>, Vec<_>) = different
        .into_iter()
        .partition(|comparison| comparison.is_primary);
    let gate = primary.iter().filter_map(|it| it.p).fold(0.0, f64::max);
    correct_family(same, 0.0);
    correct_family(primary, 0.0);
    let mut left = others;
    while let Some(measure) = left.first().map(|it| it.asked()) {
        let (family, rest) = left.into_iter().partition(|it| it.asked() == measure);
        correct_family(family, gate);
        left = rest;
    }
}

/// No p-value of the family becomes smaller than that of the comparisons before it.
fn correct_family(family: Vec<&mut Comparison>, gate: f64) {
    let p_values: Vec<f64> = family.iter().filter_map(|it| it.p).collect();
    let count = p_values.len();
    for (comparison, p) in family.into_iter().zip(holm(&p_values)) {
        comparison.hold_against_others(p.max(gate), count);
    }
}
