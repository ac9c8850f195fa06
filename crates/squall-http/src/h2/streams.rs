//! The streams that are open on a connection, by their ids.
//!
//! Ids only grow and streams mostly end in order, so a sorted queue does: no tree, no hash.

use std::collections::VecDeque;

/// A state for each open stream.
#[derive(Debug)]
pub(super) struct Streams<T> {
    open: VecDeque<(u32, T)>,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Streams {
            open: VecDeque::new(),
        }
    }
}

impl<T> Streams<T> {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// All streams, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.open.iter().map(|(id, state)| (*id, state))
    }

    pub(super) fn find(&mut self, id: u32) -> Option<&mut T> {
        let index = self.index(id).ok()?;
        self.open.get_mut(index).map(|(_, state)| state)
    }

    pub(super) fn find_or_insert(&mut self, id: u32) -> &mut T
    where
        T: Default,
    {
        let index = self.index(id).unwrap_or_else(|index| {
            self.open.insert(index, (id, T::default()));
            index
        });
        &mut self.open[index].1
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let index = self.index(id).ok()?;
        self.open.remove(index).map(|(_, state)| state)
    }

    fn index(&self, id: u32) -> Result<usize, usize> {
        // Mostly it is the newest or the oldest.
        match (self.open.back(), self.open.front()) {
            (Some((newest, _)), _) if *newest == id => Ok(self.open.len() - 1),
            (Some((newest, _)), _) if *newest < id => Err(self.open.len()),
            (_, Some((oldest, _))) if *oldest == id => Ok(0),
            _ => self.open.binary_search_by_key(&id, |(id, _)| *id),
        }
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
