//! What is open on a connection, by stream: for the protocols here and for the stations that use them.
//!
//! Ids only grow and streams mostly end in order, so a sorted queue does: no tree, no hash. It knows nothing of what a
//! stream is; an id is whatever has an order.

use std::collections::VecDeque;

/// A state for each open stream. Large ones had better be in a box: to end a stream moves those behind it.
#[derive(Clone, Debug)]
pub struct Streams<Id, T> {
    open: VecDeque<(Id, T)>,
    /// The place that was asked for last: mostly it is asked for again, or what has moved up to it.
    recent: usize,
}

impl<Id, T> Default for Streams<Id, T> {
    fn default() -> Self {
        Streams {
            open: VecDeque::new(),
            recent: 0,
        }
    }
}

impl<Id: Copy + Ord, T> Streams<Id, T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.open.iter().map(|(id, state)| (*id, state))
    }

    /// All states, oldest first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.open.iter_mut().map(|(_, state)| state)
    }

    /// The state of a stream, if it is open.
    #[inline]
    pub fn find(&mut self, id: Id) -> Option<&mut T> {
        let index = self.index(id).ok()?;
        self.open.get_mut(index).map(|(_, state)| state)
    }

    /// The state of a stream, which is open then.
    pub fn find_or_insert(&mut self, id: Id) -> &mut T
    where
        T: Default,
    {
        let index = self.index(id).unwrap_or_else(|index| {
            self.insert_at(index, id, T::default());
            index
        });
        &mut self.open[index].1
    }

    /// Adds a stream; one that is known already is replaced.
    pub fn insert(&mut self, id: Id, state: T) {
        match self.index(id) {
            Ok(index) => self.open[index].1 = state,
            Err(index) => self.insert_at(index, id, state),
        }
    }

    /// Forgets a stream; gives its state, if it was open.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let index = self.index(id).ok()?;
        let ended = match index {
            // Mostly the oldest ends first, and to take it moves nothing.
            0 => self.open.pop_front(),
            _ => self.open.remove(index),
        };
        ended.map(|(_, state)| state)
    }

    /// Forgets the oldest.
    pub fn pop_oldest(&mut self) {
        self.open.pop_front();
    }

    /// Forgets those that are newer than `last`.
    pub fn truncate_after(&mut self, last: Id) {
        while self.open.back().is_some_and(|(id, _)| *id > last) {
            self.open.pop_back();
        }
    }

    /// Takes all of them, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (Id, T)> {
        self.open.drain(..)
    }

    fn insert_at(&mut self, index: usize, id: Id, state: T) {
        if index == self.open.len() {
            self.open.push_back((id, state));
        } else {
            self.open.insert(index, (id, state));
        }
    }

    /// Where a stream is, or would be: mostly it is the one that was asked for last, or the newest.
    #[inline]
    fn index(&mut self, id: Id) -> Result<usize, usize> {
        let newest = self.open.len().wrapping_sub(1);
        for place in [self.recent, newest] {
            if let Some((known, _)) = self.open.get(place)
                && *known == id
            {
                return Ok(place);
            }
        }
        self.search(id)
    }

    /// The same of any other.
    #[inline(never)]
    fn search(&mut self, id: Id) -> Result<usize, usize> {
        // What is new goes behind all, and says nothing of what is asked for next.
        if self.open.back().is_none_or(|(newest, _)| *newest < id) {
            return Err(self.open.len());
        }
        // Answers mostly come in the order of their requests.
        let next = self.open.get(self.recent + 1);
        if next.is_some_and(|(known, _)| *known == id) {
            self.recent += 1;
            return Ok(self.recent);
        }
        let index = self.open.binary_search_by_key(&id, |(id, _)| *id);
        self.recent = index.unwrap_or_else(|place| place);
        index
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_an_ordered_map(steps in prop::collection::vec((0..4_u8, 0..12_u32), 0..200)) {
            let (mut streams, mut map) = (Streams::default(), BTreeMap::new());
            for (n, (step, id)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        streams.insert(id, n);
                        map.insert(id, n);
                    }
                    1 => prop_assert_eq!(streams.remove(id), map.remove(&id)),
                    2 => {
                        streams.pop_oldest();
                        map.pop_first();
                    }
                    _ => prop_assert_eq!(streams.find(id), map.get_mut(&id)),
                }
            }
            prop_assert!(streams.drain().eq(map));
        }
    }

    #[test]
    fn streams_are_found_until_removed() {
        let mut streams = Streams::<u32, char>::default();
        for (id, state) in [(1, 'a'), (3, 'b'), (7, 'c')] {
            *streams.find_or_insert(id) = state;
        }
        assert_eq!(streams.remove(3), Some('b'));
        assert_eq!(streams.remove(3), None);
        assert_eq!(streams.find(7), Some(&mut 'c'));
        assert_eq!(streams.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(streams.len(), 2);
    }

    #[test]
    fn what_comes_out_of_order_is_kept_in_order() {
        let mut streams = Streams::default();
        for (id, state) in [(1, 'a'), (9, 'd'), (7, 'x'), (3, 'b'), (7, 'c')] {
            streams.insert(id, state);
        }
        streams.pop_oldest();
        streams.truncate_after(7);
        assert_eq!(streams.drain().collect::<Vec<_>>(), [(3, 'b'), (7, 'c')]);
        assert!(streams.is_empty());
    }
}
