//! State per open stream of a connection, for the protocols here and for the stations that use them.
//!
//! Ids only grow and streams usually end in order, so a sorted queue is enough: no tree, no hash table. It knows
//! nothing about streams; an id can be anything ordered.

use std::collections::VecDeque;

/// A state for each open stream. Box large states, because removing a stream moves the ones after it.
#[derive(Clone, Debug)]
pub struct Streams<Id, T> {
    open: VecDeque<(Id, T)>,
    /// The position looked up last. Usually the next lookup is for it, or for the stream that has moved up to it.
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
    /// How many streams are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// All streams, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.open.iter().map(|(id, state)| (*id, state))
    }

    /// All states, oldest first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.open.iter_mut().map(|(_, state)| state)
    }

    /// The state of a stream, if it is open, without noting the lookup.
    pub fn get(&self, id: Id) -> Option<&T> {
        let index = self.open.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.open.get(index).map(|(_, state)| state)
    }

    /// The state of a stream, if it is open.
    #[inline]
    pub fn find(&mut self, id: Id) -> Option<&mut T> {
        let index = self.index(id).ok()?;
        self.open.get_mut(index).map(|(_, state)| state)
    }

    /// The state of a stream, which is opened if necessary.
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

    /// Adds a stream; replaces the state of one that is already open.
    pub fn insert(&mut self, id: Id, state: T) {
        match self.index(id) {
            Ok(index) => self.open[index].1 = state,
            Err(index) => self.insert_at(index, id, state),
        }
    }

    /// Removes a stream; returns its state, if it was open.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let index = self.index(id).ok()?;
        let ended = match index {
            // Usually the oldest ends first, and removing it moves nothing.
            0 => self.open.pop_front(),
            _ => self.open.remove(index),
        };
        ended.map(|(_, state)| state)
    }

    /// Removes the oldest stream.
    pub fn pop_oldest(&mut self) {
        self.open.pop_front();
    }

    /// Removes the streams that are newer than `last`.
    pub fn truncate_after(&mut self, last: Id) {
        while self.open.back().is_some_and(|(id, _)| *id > last) {
            self.open.pop_back();
        }
    }

    /// Takes all streams, oldest first.
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

    /// The position of a stream, or where it would be. Usually it is the one looked up last, or the newest.
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

    /// The position of any other stream, or where it would be.
    #[inline(never)]
    fn search(&mut self, id: Id) -> Result<usize, usize> {
        // A new stream goes to the end, and does not predict the next lookup.
        if self.open.back().is_none_or(|(newest, _)| *newest < id) {
            return Err(self.open.len());
        }
        // Responses usually come in the order of their requests.
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
        fn streams_behave_like_an_ordered_map(steps in prop::collection::vec((0..4_u8, 0..12_u32), 0..200)) {
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
        assert_eq!((streams.get(7), streams.get(3)), (Some(&'c'), None));
        assert_eq!(streams.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(streams.len(), 2);
    }

    #[test]
    fn streams_inserted_out_of_order_are_kept_sorted() {
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
