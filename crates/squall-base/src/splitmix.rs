//! SplitMix64: the only source of seeds and of counted randomness.
//!
//! Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with the constants of the
//! reference implementation (prng.di.unimi.it/splitmix64.c). It keeps no state: outputs are addressed by number.

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output number `n`, from 0, of SplitMix64 started at `seed`. For one seed, all numbers have different outputs: the
/// increment is odd and the mixing steps are invertible.
pub const fn splitmix64(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(INCREMENT));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed whose output number `n` is `output`: the inverse of [`splitmix64`].
pub const fn seed_of_output(output: u64, n: u64) -> u64 {
    // Undoes the steps of `splitmix64`, from the last to the first. Each factor here is the inverse, modulo 2^64, of a
    // factor there.
    let mut z = output ^ (output >> 31) ^ (output >> 62);
    z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    z = z ^ (z >> 27) ^ (z >> 54);
    z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_sub(n.wrapping_add(1).wrapping_mul(INCREMENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the reference implementation for these seeds.
    #[test]
    fn outputs_match_the_reference_implementation() {
        assert_eq!(splitmix64(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(0, 1), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(splitmix64(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(1_234_567, 1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn seed_follows_from_each_of_its_outputs() {
        for seed in [0, 1, 7, 1_234_567, u64::MAX] {
            for n in [0, 1, 99, 3 << 32, u64::MAX] {
                assert_eq!(seed_of_output(splitmix64(seed, n), n), seed, "{seed} {n}");
            }
        }
    }
}
