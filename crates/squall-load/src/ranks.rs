//! Numbered members by rank, such as connections by what is in flight on them: a bit for each member and rank.
//!
//! The lowest is found in a few words however many members there are, because each request asks for it. Who is a member,
//! and what its rank means, is `pool`'s business.

/// Members below this share a word with others.
const BITS: u32 = u64::BITS;

/// Members by rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    /// The members of each rank.
    ranks: Vec<Members>,
    /// The rank of each member; only that of a member counts.
    rank_of: Vec<u32>,
    /// No lower rank has a member.
    lowest: usize,
}

#[derive(Clone, Debug, Default)]
struct Members {
    words: Vec<u64>,
    count: u32,
}

impl Ranks {
    /// Gives a member its rank, in place of the one that it has.
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

    /// Takes a member out, if it is one.
    pub(crate) fn remove(&mut self, member: u32) {
        let rank = self.rank_of.get(member as usize).copied();
        if let Some(members) = rank.and_then(|rank| self.ranks.get_mut(rank as usize)) {
            members.remove(member);
        }
    }

    /// Takes the member with the lowest number from `from` on among those of the lowest rank; of all of that rank, if
    /// there is none from there on.
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
        /// Members are where a plain list says.
        #[test]
        fn the_lowest_is_that_of_a_list(steps in proptest::collection::vec((0_u8..3, 0_u32..200, 0_u32..4), 0..300)) {
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
