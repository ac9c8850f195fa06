//! The order in which a run's comparisons are tested, so that testing many of them does not prove a difference by chance.
//!
//! The primary comparison is tested first, alone, at the full level. The others are tested with Holm's correction, and
//! prove something only if the primary one did. This is a fixed sequence of families, which keeps the chance of any false
//! difference at the level (P. H. Westfall and A. Krishen, "Optimally weighted, fixed sequence and gatekeeper multiple
//! testing procedures", Journal of Statistical Planning and Inference 99, 2001; A. Dmitrienko, A. C. Tamhane and F. Bretz,
//! *Multiple Testing Problems in Pharmaceutical Statistics*, 2009, section 5.3). Without a primary comparison there is no
//! gate. The comparisons by one measure form a family, so further measures do not weaken the leading one; the level holds
//! for each measure. Comparisons of a variant with itself show the noise, and form a separate family.

use crate::stats::holm::holm;
use crate::verdict::{Comparison, Verdict};

/// Adjusts the p-values of a run's comparisons for the comparisons that are tested with them.
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
    let mut remaining = others;
    while let Some(measure) = remaining.first().map(|it| it.requested_measure()) {
        let (family, rest) = remaining
            .into_iter()
            .partition(|it| it.requested_measure() == measure);
        correct_family(family, gate);
        remaining = rest;
    }
}

/// Adjusts the p-values of comparisons that are tested with each other and with no others.
pub(crate) fn correct_own<'a>(comparisons: impl Iterator<Item = &'a mut Comparison>) {
    correct_family(comparisons.filter(|it| it.p.is_some()).collect(), 0.0);
}

/// Applies Holm's correction to a family. No adjusted p-value is below `gate`, the p-value of the preceding family.
fn correct_family(family: Vec<&mut Comparison>, gate: f64) {
    let p_values: Vec<f64> = family.iter().filter_map(|it| it.p).collect();
    let count = p_values.len();
    for (comparison, p) in family.into_iter().zip(holm(&p_values)) {
        comparison.apply_correction(p.max(gate), count);
    }
}
