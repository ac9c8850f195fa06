//! The numbers of connections: both ends have the same for the same one.
//!
//! The end that sees a connection first gives it its number, the other asks for it, later by what the link takes. A
//! connection is known by its addresses and by the first sequence number of its client, since ports serve again.

use std::collections::{BTreeMap, VecDeque};

use squall_base::record::Direction;

use crate::packet::FlowKey;

/// Connections of which one end has not asked: more than are opened while a packet crosses any link, unless all are
/// refused.
const MAX_AWAITED: usize = 1 << 16;

type Name = (FlowKey, Option<u32>);

/// The numbers that were given.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    next: u32,
    /// Those that only one end, this one, has asked for.
    awaited: BTreeMap<Name, (Direction, u32)>,
    /// In the order in which they were given.
    order: VecDeque<Name>,
}

impl Numbers {
    /// The number of a connection that `end` sees for the first time.
    pub(crate) fn of(&mut self, end: Direction, key: FlowKey, initial: Option<u32>) -> u32 {
        let name = (key, initial);
        if let Some((by, number)) = self.awaited.get(&name).copied()
            && by != end
        {
            self.awaited.remove(&name);
            return number;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.awaited.insert(name, (end, number));
        self.order.push_back(name);
        if self.order.len() > MAX_AWAITED
            && let Some(oldest) = self.order.pop_front()
        {
            self.awaited.remove(&oldest);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_number() {
        let key = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of(Direction::Up, key, Some(5)), 0);
        assert_eq!(numbers.of(Direction::Up, key, Some(6)), 1);
        assert_eq!(numbers.of(Direction::Down, key, Some(5)), 0);
        assert_eq!(numbers.of(Direction::Down, key, Some(6)), 1);
        assert_eq!(numbers.of(Direction::Down, key, None), 2);
        assert_eq!(numbers.of(Direction::Up, key, None), 2);
        assert!(numbers.awaited.is_empty());
    }
}
