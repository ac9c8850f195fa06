//! How often chance alone would set variants this far apart: tests that only swap labels.
//!
//! If two variants are the same, each pair might as well have come the other way round, and each run might have been the
//! other's. All those worlds are tried, or a seeded sample of them where there are too many; the p-value is the share in
//! which the difference of the means is at least as large (E. S. Edgington and P. Onghena, *Randomization Tests*, 4th
//! edition, 2007, chapters 4 and 5). No distribution is assumed.

use super::random::Random;

/// Up to so many worlds all are tried.
const ALL_UP_TO: u64 = 1 << 16;

/// Of more, so many are drawn.
const DRAWN: u64 = 20_000;

/// Sums in another order may differ by rounding alone.
const ROUNDING: f64 = 1e-12;

/// The two-sided p-value of `differences` of pairs, whose signs could as well have been others. 1 without any.
///
/// Exact up to 17 pairs; above, from 20,000 draws of `seed`, the world as it was among them, so that it is never zero.
pub fn sign_flip(differences: &[f64], seed: u64) -> f64 {
    let Some((first, others)) = differences.split_first() else {
        return 1.0;
    };
    let scale: f64 = differences.iter().map(|d| d.abs()).sum();
    let observed = differences.iter().sum::<f64>().abs() - scale * ROUNDING;
    let flips = |signs: &mut dyn FnMut() -> bool| {
        let sum = others
            .iter()
            .fold(*first, |sum, d| if signs() { sum - d } else { sum + d });
        sum.abs() >= observed
    };
    // With all signs the other way round the sum is as far from zero: half of the worlds tell of all.
    let worlds = 1u64.checked_shl(others.len() as u32).unwrap_or(u64::MAX);
    if worlds <= ALL_UP_TO {
        let count = |world: &u64| {
            let mut bits = *world;
            flips(&mut || {
                let bit = bits & 1 == 1;
                bits >>= 1;
                bit
            })
        };
        return (0..worlds).filter(count).count() as f64 / worlds as f64;
    }
    let mut random = Random::new(seed);
    let as_far = (0..DRAWN).filter(|_| flips(&mut || random.bits() & 1 == 1));
    (as_far.count() + 1) as f64 / (DRAWN + 1) as f64
}

/// The smallest p-value that so many pairs can give: 0.0625 for 5, 0.031 for 6, 0.002 for 10.
pub fn smallest_sign_flip(pairs: usize) -> f64 {
    2f64.powi(1 - i32::try_from(pairs.max(1)).unwrap_or(i32::MAX))
}

/// The two-sided p-value of two groups of unpaired runs, whose labels could as well have been dealt otherwise. 1 if a
/// group is empty.
///
/// Exact up to 65,536 ways to deal; above, from 20,000 draws of `seed`, as [`sign_flip`].
pub fn permutation(a: &[f64], b: &[f64], seed: u64) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    let total: f64 = all.iter().sum();
    let scale: f64 = all.iter().map(|value| value.abs()).sum();
    // The means lie furthest apart where the sum of one group is furthest from its share of the total.
    let share = total * a.len() as f64 / all.len() as f64;
    let distance = |sum: f64| (sum - share).abs();
    let observed = distance(a.iter().sum()) - scale * ROUNDING;
    if ways(a.len(), b.len()) <= ALL_UP_TO as f64 {
        let (mut as_far, mut deals) = (0u64, 0u64);
        each_sum(&all, a.len(), 0.0, &mut |sum| {
            deals += 1;
            as_far += u64::from(distance(sum) >= observed);
        });
        return as_far as f64 / deals as f64;
    }
    let mut random = Random::new(seed);
    let mut as_far = 1;
    for _ in 0..DRAWN {
        for place in 0..a.len() {
            let other = place + random.below(all.len() - place);
            all.swap(place, other);
        }
        as_far += u64::from(distance(all[..a.len()].iter().sum()) >= observed);
    }
    as_far as f64 / (DRAWN + 1) as f64
}

/// The smallest p-value that groups of so many runs can give: one deal and, if both are as large, its mirror image.
pub fn smallest_permutation(a: usize, b: usize) -> f64 {
    if a == 0 || b == 0 {
        return 1.0;
    }
    let extremes = if a == b { 2.0 } else { 1.0 };
    (extremes / ways(a, b)).min(1.0)
}

/// In how many ways `a + b` runs can be dealt to groups of `a` and `b`.
fn ways(a: usize, b: usize) -> f64 {
    (1..=a).map(|n| (b + n) as f64 / n as f64).product()
}

/// Calls `found` with the sum of each choice of `left` of `values`, added to `sum`.
fn each_sum(values: &[f64], left: usize, sum: f64, found: &mut impl FnMut(f64)) {
    if left == 0 {
        found(sum);
    } else if let Some((first, others)) = values.split_first()
        && values.len() >= left
    {
        each_sum(others, left - 1, sum + first, found);
        each_sum(others, left, sum, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_all_agree_have_the_smallest_p_that_there_is() {
        for (pairs, p) in [
            (1, 1.0),
            (2, 0.5),
            (5, 0.0625),
            (6, 0.03125),
            (10, 0.001_953_125),
        ] {
            let differences: Vec<f64> = (1..=pairs).map(|n| 0.1 * n as f64).collect();
            assert_eq!(sign_flip(&differences, 1), p);
            assert_eq!(smallest_sign_flip(pairs), p);
        }
        assert_eq!(sign_flip(&[], 1), 1.0);
        assert_eq!(sign_flip(&[0.0; 8], 1), 1.0);
    }

    #[test]
    fn groups_that_lie_apart_have_the_smallest_p_that_there_is() {
        assert_eq!(permutation(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0], 1), 0.1);
        assert_eq!(smallest_permutation(3, 3), 0.1);
        assert_eq!(smallest_permutation(2, 4), 1.0 / 15.0);
        assert_eq!(permutation(&[1.0], &[], 1), 1.0);
    }
}
