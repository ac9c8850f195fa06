//! What is open on a connection, by stream.
//!
//! Ids only grow and streams mostly end in order, so a sorted queue does: no tree, no hash.

use std::collections::VecDeque;

use squall_http::StreamId;

/// A state for each open stream. The states are boxed, so that ending one moves little.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    open: VecDeque<(StreamId, Box<T>)>,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Streams {
            open: VecDeque::new(),
        }
    }
}

impl<T> Streams<T> {
    /// Adds a stream; one that is known already is replaced.
    pub(crate) fn insert(&mut self, stream: StreamId, state: T) {
        match self.index(stream) {
            Ok(index) => *self.open[index].1 = state,
            Err(index) => self.open.insert(index, (stream, Box::new(state))),
        }
    }

    pub(crate) fn find(&mut self, stream: StreamId) -> Option<&mut T> {
        let index = self.index(stream).ok()?;
        Some(&mut self.open[index].1)
    }

    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<Box<T>> {
        let index = self.index(stream).ok()?;
        self.open.remove(index).map(|(_, state)| state)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes all of them, oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (StreamId, Box<T>)> {
        self.open.drain(..)
    }

    fn index(&self, stream: StreamId) -> Result<usize, usize> {
        // Mostly it is the oldest or the newest.
        match (self.open.front(), self.open.back()) {
            (Some((oldest, _)), _) if *oldest == stream => Ok(0),
            (_, Some((newest, _))) if *newest == stream => Ok(self.open.len() - 1),
            (_, Some((newest, _))) if *newest < stream => Err(self.open.len()),
            _ => self.open.binary_search_by_key(&stream, |(id, _)| *id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_until_removed() {
        let mut streams = Streams::default();
        for (id, state) in [(1, 'a'), (7, 'c'), (3, 'b')] {
            streams.insert(StreamId(id), state);
        }
        assert_eq!(streams.remove(StreamId(3)).as_deref(), Some(&'b'));
        assert!(streams.remove(StreamId(3)).is_none());
        assert_eq!(streams.find(StreamId(7)), Some(&mut 'c'));
        let ids: Vec<u64> = streams.drain().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [1, 7]);
    }
}
