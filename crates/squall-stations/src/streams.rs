//! What is open on a connection, by stream.
//!
//! Ids only grow and streams mostly end in order, so a sorted queue does: no tree, no hash.

use std::collections::VecDeque;

use squall_http::StreamId;

/// A state for each open stream. Large ones had better be in a box: to end a stream moves those behind it.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    open: VecDeque<(StreamId, T)>,
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
    /// Adds a stream; one that is known already is replaced.
    pub(crate) fn insert(&mut self, stream: StreamId, state: T) {
        match self.index(stream) {
            Ok(index) => self.open[index].1 = state,
            Err(index) if index == self.open.len() => self.open.push_back((stream, state)),
            Err(index) => self.open.insert(index, (stream, state)),
        }
    }

    pub(crate) fn find(&mut self, stream: StreamId) -> Option<&mut T> {
        let index = self.index(stream).ok()?;
        Some(&mut self.open[index].1)
    }

    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<T> {
        let index = self.index(stream).ok()?;
        self.open.remove(index).map(|(_, state)| state)
    }

    /// All of them, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        self.open.iter().map(|(stream, state)| (*stream, state))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes all of them, oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (StreamId, T)> {
        self.open.drain(..)
    }

    fn index(&mut self, stream: StreamId) -> Result<usize, usize> {
        let is_at = |place: usize| {
            self.open
                .get(place)
                .is_some_and(|(known, _)| *known == stream)
        };
        if is_at(self.recent) {
            return Ok(self.recent);
        }
        // What is new goes behind all, and says nothing of what is asked for next.
        let newest = self.open.len().wrapping_sub(1);
        match self.open.back() {
            Some((known, _)) if *known == stream => return Ok(newest),
            Some((known, _)) if *known > stream => {}
            _ => return Err(self.open.len()),
        }
        // Answers mostly come in the order of their requests.
        if is_at(self.recent + 1) {
            self.recent += 1;
            return Ok(self.recent);
        }
        let index = self.open.binary_search_by_key(&stream, |(id, _)| *id);
        self.recent = index.unwrap_or_else(|place| place);
        index
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
        assert_eq!(streams.remove(StreamId(3)), Some('b'));
        assert!(streams.remove(StreamId(3)).is_none());
        assert_eq!(streams.find(StreamId(7)), Some(&mut 'c'));
        let ids: Vec<u64> = streams.drain().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [1, 7]);
    }
}
