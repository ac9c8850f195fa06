//! Randomness that is counted, not consumed: a draw is a function of the seed and of the packet's place.
//!
//! A stateful generator would make one packet's fate depend on how many came before it, so that two protocols, or two runs,
//! would never meet the same conditions. Here each packet has a key (direction, flow, class, number within the class) and
//! its draw depends on nothing else. SplitMix64 (`squall_base::splitmix`) scrambles each word of the key in turn.

use squall_base::Probability;
use squall_base::record::{Direction, PacketClass};
use squall_base::splitmix::splitmix64;

/// What a packet's randomness depends on, in addition to the seed.
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

/// What a draw is for: components of the link must not share draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Purpose {
    /// Whether the packet is lost independently.
    Loss = 0x6c6f_7373,
    /// Whether the state of a burst model changes before this packet.
    BurstChange = 1,
    /// Whether the packet is lost in the burst model's state.
    BurstLoss = 2,
    /// Whether the packet is lost in the weather's state.
    WeatherLoss = 3,
    /// Whether a bit of it is flipped.
    Corrupt = 4,
    /// Which bit.
    CorruptBit = 5,
    /// Whether it is copied.
    Duplicate = 6,
    /// How its delay varies.
    Jitter = 7,
    /// Whether it is held back.
    Reorder = 8,
    /// Whether the queue drops or marks it early.
    Early = 9,
    /// Whether the weather is bad at a point in time; the key names that point, not a packet.
    Spell = 10,
}

/// The seed of one stretch of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Luck {
    /// The seed, mixed.
    state: u64,
}

impl Luck {
    /// The draws of the first stretch with this seed.
    pub(crate) fn new(seed: u64) -> Luck {
        Luck { state: mix(seed) }
    }

    /// The draws of stretch number `stretch`; stretches do not share draws.
    pub(crate) fn of_stretch(seed: u64, stretch: usize) -> Luck {
        match stretch {
            0 => Luck::new(seed),
            n => Luck::new(mix(seed ^ mix(n as u64))),
        }
    }

    /// Whether an event of this probability happens to this packet; exact for 0 and 1.
    pub(crate) fn strikes(
        self,
        probability: Probability,
        purpose: Purpose,
        key: PacketKey,
    ) -> bool {
        const ALL: f64 = 18_446_744_073_709_551_616.0; // 2^64
        let threshold = (probability.get() * ALL) as u128;
        threshold > 0 && u128::from(self.draw(purpose, key)) < threshold
    }

    /// A number strictly between 0 and 1 for this packet.
    pub(crate) fn unit(self, purpose: Purpose, key: PacketKey) -> f64 {
        // 52 and a half bits: the middle of one of 2^52 equal parts.
        ((self.draw(purpose, key) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// A uniformly distributed word for this packet and purpose.
    pub(crate) fn draw(self, purpose: Purpose, key: PacketKey) -> u64 {
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
        let words = [purpose as u64, place, u64::from(key.class_index)];
        words
            .into_iter()
            .fold(self.state, |state, word| mix(state ^ mix(word)))
    }
}

/// One word scrambled into another, without collisions.
fn mix(word: u64) -> u64 {
    splitmix64(word, 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Data packet number `class_index` of `flow`, on its way up.
    pub(crate) fn key(flow: u32, class_index: u32) -> PacketKey {
        PacketKey {
            direction: Direction::Up,
            flow,
            class: PacketClass::Data,
            class_index,
        }
    }

    /// Fails unless `count` of `n` independent events of probability `p` is within 5 standard deviations of the mean.
    #[track_caller]
    pub(crate) fn assert_binomial(count: usize, n: u32, p: f64) {
        let (mean, sd) = (f64::from(n) * p, (f64::from(n) * p * (1.0 - p)).sqrt());
        assert!(
            (count as f64 - mean).abs() <= 5.0 * sd,
            "{count} of {n}, expected {mean} +- {sd}"
        );
    }

    #[test]
    fn every_part_of_the_key_changes_the_draw() {
        let key = key(3, 9);
        let base = Luck::new(1).draw(Purpose::Loss, key);
        assert_eq!(base, Luck::new(1).draw(Purpose::Loss, key));
        let others = [
            Luck::new(2).draw(Purpose::Loss, key),
            Luck::of_stretch(1, 1).draw(Purpose::Loss, key),
            Luck::new(1).draw(Purpose::Jitter, key),
            Luck::new(1).draw(
                Purpose::Loss,
                PacketKey {
                    direction: Direction::Down,
                    ..key
                },
            ),
            Luck::new(1).draw(Purpose::Loss, PacketKey { flow: 4, ..key }),
            Luck::new(1).draw(
                Purpose::Loss,
                PacketKey {
                    class: PacketClass::Ack,
                    ..key
                },
            ),
            Luck::new(1).draw(
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
