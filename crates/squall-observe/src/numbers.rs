//! Connection numbers: both ends give the same number to the same connection.
//!
//! The end that sees a connection first assigns its number; the other end asks for it later, after the link's delay. A
//! connection is identified by its addresses and its client's initial sequence number, because ports are reused.
//! `tap` and `quic` handle the connections themselves.

use std::collections::{BTreeMap, VecDeque};

use squall_base::record::Direction;

use crate::packet::FlowKey;

/// How many connections may wait for the second end to ask for their number. Only if all connections are refused are
/// more of them opened while a packet crosses a link.
const MAX_AWAITED: usize = 1 << 16;

type ConnectionKey = (FlowKey, Option<u32>);

/// Assigns connection numbers.
#[derive(Debug, Default)]
pub(crate) struct ConnectionNumbers {
    next: u32,
    /// Numbers that only this end has asked for so far.
    awaited: BTreeMap<ConnectionKey, (Direction, u32)>,
    /// In the order in which numbers were assigned.
    order: VecDeque<ConnectionKey>,
}

impl ConnectionNumbers {
    /// The number of a connection that `end` sees for the first time.
    pub(crate) fn of(&mut self, end: Direction, key: FlowKey, initial: Option<u32>) -> u32 {
        let connection_key = (key, initial);
        if let Some((by, number)) = self.awaited.get(&connection_key).copied()
            && by != end
        {
            self.awaited.remove(&connection_key);
            return number;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.awaited.insert(connection_key, (end, number));
        self.order.push_back(connection_key);
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
    fn both_ends_give_a_connection_the_same_number() {
        let key = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let mut numbers = ConnectionNumbers::default();
        assert_eq!(numbers.of(Direction::Up, key, Some(5)), 0);
        assert_eq!(numbers.of(Direction::Up, key, Some(6)), 1);
        assert_eq!(numbers.of(Direction::Down, key, Some(5)), 0);
        assert_eq!(numbers.of(Direction::Down, key, Some(6)), 1);
        assert_eq!(numbers.of(Direction::Down, key, None), 2);
        assert_eq!(numbers.of(Direction::Up, key, None), 2);
        assert!(numbers.awaited.is_empty());
    }
}
