//! Permutation tests: how often chance alone would set variants this far apart, found by only swapping labels.
//!
//! If two variants are equal, each pair could as well have come out the other way round, and each run could have been the
//! other variant's. All such relabellings are tried, or a seeded sample if there are too many. The p-value is the share in
//! which the difference of the means is at least as large (E. S. Edgington and P. Onghena, *Randomization Tests*, 4th
//! edition, 2007, chapters 4 and 5). No distribution is assumed.

use super::random::Random;

/// Up to this many relabellings, all are tried.
const ALL_UP_TO: u64 = 1 << 16;

/// Of more relabellings, this many are drawn.
const DRAWN: u64 = 20_000;

/// Sums in a different order may differ by rounding alone.
const ROUNDING: f64 = 1e-12;

/// The two-sided p-value of the `differences` of pairs, under flips of their signs. 1 without pairs.
///
/// Exact up to 17 pairs. Above that, it comes from 20,000 draws seeded with `seed`, plus the labels as they were, so that
/// it is never zero.
pub fn sign_flip(differences: &[f64], seed: u64) -> f64 {
    let Some((first, others)) = differences.split_first() else {
        return 1.0;
    };
    let scale: f64 = differences.iter().map(|d| d.abs()).sum();
    let observed = differences.iter().sum::<f64>().abs() - scale * ROUNDING;
    // Flipping all signs leaves the sum as far from zero, so half of the relabellings stand for all.
    let worlds = 1u64.checked_shl(others.len() as u32).unwrap_or(u64::MAX);
    if worlds <= ALL_UP_TO {
        let count = |world: &u64| {
            let mut bits = *world;
            let sum = flipped_sum(*first, others, || {
                let bit = bits;
                bits >>= 1;
                bit
            });
            sum.abs() >= observed
        };
        return (0..worlds).filter(count).count() as f64 / worlds as f64;
    }
    let mut random = Random::new(seed);
    let as_far =
        (0..DRAWN).filter(|_| flipped_sum(*first, others, || random.bits()).abs() >= observed);
    (as_far.count() + 1) as f64 / (DRAWN + 1) as f64
}

/// The sum of `first` and the `others`, each of which has its sign flipped if the lowest of its `bits` is 1. It takes no
/// branch, which a processor could not predict.
fn flipped_sum(first: f64, others: &[f64], mut bits: impl FnMut() -> u64) -> f64 {
    // The sign is the highest bit.
    others.iter().fold(first, |sum, other| {
        sum + f64::from_bits(other.to_bits() ^ (bits() << 63))
    })
}

/// The smallest p-value that this many pairs can reach: 0.0625 for 5, 0.031 for 6, 0.002 for 10.
pub fn smallest_sign_flip(pairs: usize) -> f64 {
    2f64.powi(1 - i32::try_from(pairs.max(1)).unwrap_or(i32::MAX))
}

/// The two-sided p-value of two groups of unpaired runs, if their labels are dealt anew. 1 if a group is empty.
///
/// Exact up to 65,536 ways to deal. Above that, it comes from 20,000 draws seeded with `seed`, as in [`sign_flip`].
pub fn permutation(a: &[f64], b: &[f64], seed: u64) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    let total: f64 = all.iter().sum();
    let scale: f64 = all.iter().map(|value| value.abs()).sum();
    // The means are furthest apart if the sum of one group is furthest from its share of the total.
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

/// The smallest p-value that groups of this size can reach: from one deal and, if both are equally large, its mirror image.
pub fn smallest_permutation(a: usize, b: usize) -> f64 {
    if a == 0 || b == 0 {
        return 1.0;
    }
    let extremes = if a == b { 2.0 } else { 1.0 };
    (extremes / ways(a, b)).min(1.0)
}

/// The number of ways to deal `a + b` runs into groups of `a` and `b`.
pub(crate) fn ways(a: usize, b: usize) -> f64 {
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
    fn pairs_that_all_agree_have_the_smallest_possible_p() {
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
    fn odd_bits_flip_the_signs_of_their_numbers() {
        let mut bits = [7, 6, 1].into_iter();
        let sum = flipped_sum(1.0, &[2.0, -4.0, 8.0], || bits.next().unwrap());
        assert_eq!(sum, 1.0 - 2.0 - 4.0 - 8.0);
    }

    #[test]
    fn groups_that_do_not_overlap_have_the_smallest_possible_p() {
        assert_eq!(permutation(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0], 1), 0.1);
        assert_eq!(smallest_permutation(3, 3), 0.1);
        assert_eq!(smallest_permutation(2, 4), 1.0 / 15.0);
        assert_eq!(permutation(&[1.0], &[], 1), 1.0);
    }
}
