//! Numbered members by rank, such as connections by requests in flight: one bit per member and rank.
//!
//! Every request asks for the lowest rank, so finding it touches only a few words however many members there are. What the
//! members and ranks mean is up to `pool`.

/// The number of members that share a word.
const BITS: u32 = u64::BITS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    ranks: Vec<Members>,
    /// The rank last given to each number; meaningful only for current members.
    rank_of: Vec<u32>,
    /// No rank below this one has a member.
    lowest: usize,
}

#[derive(Clone, Debug, Default)]
struct Members {
    words: Vec<u64>,
    count: u32,
}

impl Ranks {
    /// Sets a member's rank, replacing the one it has.
    pub(crate) fn put(&mut self, member: u32, rank: u32) {
        self.remove(member);
        let (place, rank_place) = (member as usize, rank as usize);
        if self.rank_of.len() <= place {
            self.rank_of.resize(place + 1, 0);
        }
        if self.ranks.len() <= rank_place {
            self.ranks.resize_with(rank_place + 1, Members::default);
        }
        self.rank_of[place] = rank;
        self.ranks[rank_place].add(member);
        self.lowest = self.lowest.min(rank_place);
    }

    pub(crate) fn remove(&mut self, member: u32) {
        let rank = self.rank_of.get(member as usize).copied();
        if let Some(members) = rank.and_then(|rank| self.ranks.get_mut(rank as usize)) {
            members.remove(member);
        }
    }

    /// Takes, from the lowest rank, the member with the lowest number at or after `from`; if there is none, the lowest
    /// number of that rank.
    pub(crate) fn take_lowest(&mut self, from: u32) -> Option<u32> {
        while self.ranks.get(self.lowest)?.count == 0 {
            self.lowest += 1;
        }
        let members = &mut self.ranks[self.lowest];
        let member = members.first_from(from).or_else(|| members.first_from(0))?;
        members.remove(member);
        Some(member)
    }
}

impl Members {
    fn add(&mut self, member: u32) {
        let place = (member / BITS) as usize;
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        self.words[place] |= 1 << (member % BITS);
        self.count += 1;
    }

    fn remove(&mut self, member: u32) {
        let bit = 1 << (member % BITS);
        if let Some(word) = self.words.get_mut((member / BITS) as usize)
            && *word & bit != 0
        {
            *word &= !bit;
            self.count -= 1;
        }
    }

    fn first_from(&self, from: u32) -> Option<u32> {
        let place = (from / BITS) as usize;
        let first = *self.words.get(place)? & (u64::MAX << (from % BITS));
        let rest = self.words[place + 1..].iter().copied();
        let mut words = (place as u32..).zip(std::iter::once(first).chain(rest));
        let (place, word) = words.find(|(_, word)| *word != 0)?;
        Some(place * BITS + word.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The structure agrees with a plain list.
        #[test]
        fn take_lowest_matches_a_plain_list(steps in proptest::collection::vec((0_u8..3, 0_u32..200, 0_u32..4), 0..300)) {
            let mut ranks = Ranks::default();
            let mut list: Vec<(u32, u32)> = Vec::new();
            for (what, member, rank) in steps {
                match what {
                    0 => {
                        list.retain(|(known, _)| *known != member);
                        list.push((member, rank));
                        ranks.put(member, rank);
                    }
                    1 => {
                        list.retain(|(known, _)| *known != member);
                        ranks.remove(member);
                    }
                    _ => {
                        let key = |entry: &&(u32, u32)| (entry.1, entry.0 < member, entry.0);
                        let expected = list.iter().min_by_key(key).map(|entry| entry.0);
                        list.retain(|(known, _)| Some(*known) != expected);
                        prop_assert_eq!(ranks.take_lowest(member), expected);
                    }
                }
            }
        }
    }
}
