//! Randomness that is counted, not consumed: a draw is a function of the seed and of the packet's place.
//!
//! A generator with a state would make one packet's fate depend on how many came before it, so that two
//! protocols, or two runs, never met the same conditions. Here each packet has a key (direction, flow,
//! class, number within the class) and its draw depends on nothing else. Each word of the key is scrambled by
//! SplitMix64 (`squall_base::splitmix`) in turn.

use squall_base::record::{Direction, PacketClass};
use squall_base::splitmix::splitmix64;

/// What the randomness of a packet depends on, besides the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketKey {
    /// Which way it goes.
    pub(crate) direction: Direction,
    /// Its flow, by order of appearance.
    pub(crate) flow: u32,
    /// Its class within the flow.
    pub(crate) class: PacketClass,
    /// Its number within flow, direction and class.
    pub(crate) class_index: u32,
}

/// What a draw is for: components of the link must not share their luck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Whether the packet is lost.
    Loss,
}

/// A uniformly distributed word for this packet and purpose.
pub(crate) fn draw(seed: u64, purpose: Purpose, key: PacketKey) -> u64 {
    let purpose_word = match purpose {
        Purpose::Loss => 0x6c6f_7373_u64,
    };
    let direction_bit = match key.direction {
        Direction::Up => 0,
        Direction::Down => 1,
    };
    let class_bits = match key.class {
        PacketClass::Syn => 0,
        PacketClass::Data => 1,
        PacketClass::Ack => 2,
        PacketClass::Close => 3,
        PacketClass::Other => 4,
    };
    let place = (u64::from(key.flow) << 32) | (direction_bit << 8) | class_bits;
    let words = [purpose_word, place, u64::from(key.class_index)];
    words
        .into_iter()
        .fold(mix(seed), |state, word| mix(state ^ mix(word)))
}

/// One word scrambled into another, without collisions.
fn mix(word: u64) -> u64 {
    splitmix64(word, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_counts() {
        let key = PacketKey {
            direction: Direction::Up,
            flow: 3,
            class: PacketClass::Data,
            class_index: 9,
        };
        let base = draw(1, Purpose::Loss, key);
        assert_eq!(base, draw(1, Purpose::Loss, key));
        let others = [
            draw(2, Purpose::Loss, key),
            draw(
                1,
                Purpose::Loss,
                PacketKey {
                    direction: Direction::Down,
                    ..key
                },
            ),
            draw(1, Purpose::Loss, PacketKey { flow: 4, ..key }),
            draw(
                1,
                Purpose::Loss,
                PacketKey {
                    class: PacketClass::Ack,
                    ..key
                },
            ),
            draw(
                1,
                Purpose::Loss,
                PacketKey {
                    class_index: 10,
                    ..key
                },
            ),
        ];
        assert!(
            others.iter().all(|other| *other != base),
            "{others:?} against {base}"
        );
    }
}
