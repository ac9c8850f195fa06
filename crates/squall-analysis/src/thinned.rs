//! Long lists with some of their entries left out, always the same ones.
//!
//! The choice depends only on the order of the entries, so a record always produces the same report. This module does not know
//! what the entries are.

/// Some of a list, in its order, and how long the list was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinned<T> {
    /// The entries that were kept.
    pub kept: Vec<T>,
    /// How many entries the list had.
    pub all: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Thinned<T> {
        Thinned {
            kept: Vec::new(),
            all: 0,
        }
    }
}

impl<T> Thinned<T> {
    /// Keeps at most `limit` entries, at most half of them special ones, for which `is_special` holds. Of each kind, evenly
    /// spaced ones are kept.
    ///
    /// ```
    /// use squall_analysis::Thinned;
    ///
    /// let thinned = Thinned::of((0..100).collect(), 10, |n| *n == 33);
    /// assert_eq!(thinned.kept, [0, 11, 22, 33, 34, 45, 56, 67, 78, 89]);
    /// assert_eq!(thinned.all, 100);
    /// ```
    pub fn of(entries: Vec<T>, limit: usize, is_special: impl Fn(&T) -> bool) -> Thinned<T> {
        let all = entries.len();
        if all <= limit {
            return Thinned {
                kept: entries,
                all: all as u64,
            };
        }
        let special = entries.iter().filter(|entry| is_special(entry)).count();
        let special_step = special.div_ceil((limit / 2).max(1)).max(1);
        let left = limit.saturating_sub(special.div_ceil(special_step)).max(1);
        let step = (all - special).div_ceil(left).max(1);
        let mut places = [0_usize; 2];
        let mut kept = Vec::with_capacity(limit);
        for entry in entries {
            let kind = usize::from(is_special(&entry));
            if places[kind].is_multiple_of([step, special_step][kind]) {
                kept.push(entry);
            }
            places[kind] += 1;
        }
        Thinned {
            kept,
            all: all as u64,
        }
    }

    /// Keeps at most `limit` entries. It divides the entries into equal parts and keeps the smallest and the largest of
    /// each part, so that a line through them has every peak.
    ///
    /// ```
    /// use squall_analysis::Thinned;
    ///
    /// let thinned = Thinned::peaks(vec![5, 1, 9, 2, 2, 3, 0, 4], 4, |n| *n);
    /// assert_eq!(thinned.kept, [1, 9, 0, 4]);
    /// assert_eq!(thinned.all, 8);
    /// ```
    pub fn peaks(entries: Vec<T>, limit: usize, value: impl Fn(&T) -> u64) -> Thinned<T>
    where
        T: Copy,
    {
        let all = entries.len();
        if all <= limit {
            return Thinned {
                kept: entries,
                all: all as u64,
            };
        }
        let length = all.div_ceil((limit / 2).max(1));
        let mut kept = Vec::with_capacity(limit);
        for part in entries.chunks(length) {
            let places = || 0..part.len();
            let low = places().min_by_key(|place| value(&part[*place]));
            let high = places().max_by_key(|place| value(&part[*place]));
            let (low, high) = (low.unwrap_or(0), high.unwrap_or(0));
            kept.push(part[low.min(high)]);
            if low != high {
                kept.push(part[low.max(high)]);
            }
        }
        Thinned {
            kept,
            all: all as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_are_kept_whole() {
        let whole = Thinned::of(vec![3, 1, 2], 3, |_| true);
        assert_eq!(
            (whole.kept.as_slice(), whole.all),
            ([3, 1, 2].as_slice(), 3)
        );
    }

    #[test]
    fn peaks_survive_however_few_entries_are_kept() {
        let mut values: Vec<u64> = (0..10_000).map(|n| 100 + n % 3).collect();
        values[4_321] = 900;
        values[7_654] = 1;
        let few = Thinned::peaks(values, 60, |n| *n);
        assert!(few.all == 10_000 && few.kept.len() <= 60);
        assert_eq!(few.kept.iter().max(), Some(&900));
        assert_eq!(few.kept.iter().min(), Some(&1));
        let short = Thinned::peaks(vec![3, 1, 2], 3, |n| *n);
        assert_eq!(short.kept, [3, 1, 2]);
    }

    #[test]
    fn special_entries_are_kept_as_long_as_there_is_room() {
        let few = Thinned::of((0..10_000).collect(), 100, |n: &u32| n % 500 == 1);
        assert!(few.all == 10_000 && few.kept.len() <= 100);
        assert_eq!(few.kept.iter().filter(|n| **n % 500 == 1).count(), 20);
        assert!(few.kept.is_sorted());
        let only = Thinned::of((0..10_000).collect(), 100, |_: &u32| true);
        assert_eq!(only.kept.len(), 50);
    }
}
