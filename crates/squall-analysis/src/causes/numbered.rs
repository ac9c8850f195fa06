//! Values by the number of a connection or a flow. They are found without a search, because rows of all numbers come
//! interleaved.
//!
//! Numbers count from 0, so they are small. A damaged file may have any number, which then costs a search.

use std::collections::BTreeMap;

/// Numbers below this are positions in a list.
const LOW: u32 = 1 << 20;

/// The values, in the order of their numbers.
#[derive(Debug)]
pub(super) struct NumberMap<T> {
    low: Vec<Option<Box<T>>>,
    high: BTreeMap<u32, T>,
}

impl<T> Default for NumberMap<T> {
    fn default() -> NumberMap<T> {
        NumberMap {
            low: Vec::new(),
            high: BTreeMap::new(),
        }
    }
}

impl<T: Default> NumberMap<T> {
    /// The value with this number, made if there is no such value.
    pub(super) fn of(&mut self, number: u32) -> &mut T {
        if number >= LOW {
            return self.high.entry(number).or_default();
        }
        let place = number as usize;
        if place >= self.low.len() {
            self.low.resize_with(place + 1, || None);
        }
        self.low[place].get_or_insert_default()
    }
}

impl<T> NumberMap<T> {
    pub(super) fn has(&self, number: u32) -> bool {
        let low = self.low.get(number as usize);
        low.is_some_and(Option::is_some) || self.high.contains_key(&number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        match self.low.get_mut(number as usize) {
            Some(place) => place.take().map(|boxed| *boxed),
            None => self.high.remove(&number),
        }
    }

    /// All values with their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let low = (0..).zip(&mut self.low);
        let low = low.filter_map(|(number, place)| Some((number, place.as_deref_mut()?)));
        low.chain(self.high.iter_mut().map(|(number, it)| (*number, it)))
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (u32, T)> + use<T> {
        let low = (0..).zip(std::mem::take(&mut self.low));
        let low = low.filter_map(|(number, place)| Some((number, *place?)));
        low.chain(std::mem::take(&mut self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_small_and_large_numbers() {
        let mut things = NumberMap::<u32>::default();
        let numbers = [3, 0, LOW, u32::MAX, LOW - 1];
        for number in numbers {
            *things.of(number) = number;
        }
        assert!(numbers.into_iter().all(|number| things.has(number)));
        assert!(!things.has(1) && !things.has(LOW + 1));
        let all: Vec<(u32, u32)> = things.iter_mut().map(|(n, it)| (n, *it)).collect();
        assert_eq!(all, [0, 3, LOW - 1, LOW, u32::MAX].map(|n| (n, n)));
        assert_eq!(things.remove(3), Some(3));
        assert_eq!(things.remove(u32::MAX), Some(u32::MAX));
        assert_eq!((things.remove(3), things.remove(1)), (None, None));
        let rest: Vec<(u32, u32)> = things.take_all().collect();
        assert_eq!(rest, [0, LOW - 1, LOW].map(|n| (n, n)));
    }
}
