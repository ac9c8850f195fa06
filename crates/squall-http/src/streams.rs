//! The streams that are open on a connection, by their ids.
//!
//! Ids only grow and streams mostly end in order, so a sorted queue does: no tree, no hash.

use std::collections::VecDeque;

/// A state for each open stream.
#[derive(Clone, Debug)]
pub(crate) struct Streams<T> {
    open: VecDeque<(u32, T)>,
    /// The place that was asked for last: mostly it is asked for again, or what has moved up to it.
    recent: usize,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Streams {
            open: VecDeque::new(),
            recent: 0,
        }
    }
}

impl<T> Streams<T> {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// All streams, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.open.iter().map(|(id, state)| (*id, state))
    }

    pub(crate) fn find(&mut self, id: u32) -> Option<&mut T> {
        let index = self.index(id).ok()?;
        self.open.get_mut(index).map(|(_, state)| state)
    }

    pub(crate) fn find_or_insert(&mut self, id: u32) -> &mut T
    where
        T: Default,
    {
        let index = self.index(id).unwrap_or_else(|index| {
            if index == self.open.len() {
                self.open.push_back((id, T::default()));
            } else {
                self.open.insert(index, (id, T::default()));
            }
            index
        });
        &mut self.open[index].1
    }

    /// All states.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.open.iter_mut().map(|(_, state)| state)
    }

    /// Adds a stream that is newer than all others.
    pub(crate) fn push(&mut self, id: u32, state: T) {
        debug_assert!(self.open.back().is_none_or(|(newest, _)| *newest < id));
        self.open.push_back((id, state));
    }

    /// Forgets the oldest.
    pub(crate) fn pop_oldest(&mut self) {
        self.open.pop_front();
    }

    /// Forgets those that are newer than `last`.
    pub(crate) fn truncate_after(&mut self, last: u32) {
        while self.open.back().is_some_and(|(id, _)| *id > last) {
            self.open.pop_back();
        }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let index = self.index(id).ok()?;
        self.open.remove(index).map(|(_, state)| state)
    }

    fn index(&mut self, id: u32) -> Result<usize, usize> {
        let is_at = |place: usize| self.open.get(place).is_some_and(|(known, _)| *known == id);
        if is_at(self.recent) {
            return Ok(self.recent);
        }
        // What is new goes behind all, and says nothing of what is asked for next.
        let newest = self.open.len().wrapping_sub(1);
        match self.open.back() {
            Some((known, _)) if *known == id => return Ok(newest),
            Some((known, _)) if *known > id => {}
            _ => return Err(self.open.len()),
        }
        // Answers mostly come in the order of their requests.
        if is_at(self.recent + 1) {
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
    use super::*;

    #[test]
    fn streams_are_found_until_removed() {
        let mut streams = Streams::<char>::default();
        for (id, state) in [(1, 'a'), (3, 'b'), (7, 'c')] {
            *streams.find_or_insert(id) = state;
        }
        assert_eq!(streams.remove(3), Some('b'));
        assert_eq!(streams.remove(3), None);
        assert_eq!(streams.find(7), Some(&mut 'c'));
        assert_eq!(streams.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(streams.len(), 2);
    }
}
