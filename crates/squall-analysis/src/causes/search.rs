//! Finds moments in sorted rows, and sorts rows that are nearly in order.
//!
//! It expects rows to be spread evenly over time and few to be out of order; otherwise it only takes longer. It does not
//! know what the rows are.

/// If a row is this far from its place, all rows are sorted.
const FAR: usize = 64;

/// How many of the rows, which are sorted by their times, are at or before `time`.
///
/// The rows of a trial are usually spread evenly over its time, so the search begins where the row would then be. It looks
/// at few rows that are far apart, because those are not in the processor's cache. At worst it takes twice as long as a
/// binary search.
pub(super) fn up_to<T>(rows: &[T], time: u64, at: impl Fn(&T) -> u64) -> usize {
    let [first, .., last] = rows else {
        return rows.iter().filter(|row| at(row) <= time).count();
    };
    let (from, to) = (at(first), at(last));
    if time < from {
        return 0;
    }
    if time >= to {
        return rows.len();
    }
    let part = (time - from) as f64 / (to - from) as f64;
    up_to_near(rows, (part * rows.len() as f64) as usize, time, at)
}

/// Like [`up_to`], for a caller with a guess.
pub(super) fn up_to_near<T>(rows: &[T], guess: usize, time: u64, at: impl Fn(&T) -> u64) -> usize {
    let Some(last) = rows.len().checked_sub(1) else {
        return 0;
    };
    let guess = guess.min(last);
    let (mut low, mut high, mut step) = (0, rows.len(), 1);
    if at(&rows[guess]) <= time {
        low = guess + 1;
        while low + step < rows.len() {
            if at(&rows[low + step]) > time {
                high = low + step;
                break;
            }
            low += step + 1;
            step *= 2;
        }
    } else {
        high = guess;
        while step < high {
            if at(&rows[high - step]) <= time {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + rows[low..high].partition_point(|row| at(row) <= time)
}

/// Sorts rows that are mostly in order: of the others, few are far from their places.
pub(super) fn sort_nearly_sorted<T, K: Ord>(rows: &mut [T], key: impl Fn(&T) -> K) {
    let mut moves = 0;
    for place in 1..rows.len() {
        let own = key(&rows[place]);
        let before = rows[..place].iter().rev();
        let far = before.take_while(|row| key(row) > own).take(FAR).count();
        rows[place - far..=place].rotate_right(1);
        moves += far;
        if far == FAR || moves > rows.len() {
            // Equal rows are still in their original order.
            return rows.sort_by_key(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn up_to_counts_like_a_binary_search() {
        let rows = |many: u64, bits: u64| {
            let mut rows: Vec<u64> = (0..many).map(|n| splitmix64(bits, n) >> bits).collect();
            rows.sort_unstable();
            rows
        };
        for (many, bits) in [
            (0, 0),
            (1, 60),
            (2, 60),
            (3, 61),
            (50, 58),
            (1_000, 0),
            (1_000, 54),
        ] {
            let mut rows = rows(many, bits);
            for _ in 0..2 {
                let near = rows
                    .iter()
                    .flat_map(|row| [row.saturating_sub(1), *row, row.saturating_add(1)]);
                for time in near.chain([0, u64::MAX]) {
                    let expected = rows.partition_point(|row| *row <= time);
                    assert_eq!(up_to(&rows, time, |row| *row), expected);
                    let guess = splitmix64(time, many) as usize % (rows.len() + 2);
                    assert_eq!(up_to_near(&rows, guess, time, |row| *row), expected);
                }
                // A time that is never reached puts the guess far off.
                rows.push(u64::MAX);
            }
        }
    }

    #[test]
    fn nearly_sorted_rows_end_up_as_after_a_stable_sort() {
        for (many, far) in [(0, 1), (1, 1), (2, 2), (500, 4), (500, 40), (500, 500)] {
            let row = |n: u64| ((n + splitmix64(far, n) % far) / 2, n);
            let mut rows: Vec<(u64, u64)> = (0..many).map(row).collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_nearly_sorted(&mut rows, |(key, _)| *key);
            assert_eq!(rows, expected);
        }
    }
}
