//! One block of ChaCha20 (RFC 8439, section 2.3), for header protection only.
//!
//! BoringSSL's safe interface offers ChaCha20 only together with Poly1305, which fixes the block counter. Header
//! protection takes the counter from the packet (RFC 9001, section 5.4.4). Packets themselves are decrypted in `keys`,
//! by BoringSSL.

/// Computes a block. Key, counter and nonce fill the last twelve words of the initial state, in this order.
pub(crate) fn block(key: &[u8; 32], counter_and_nonce: &[u8; 16]) -> [u8; 64] {
    let mut initial = [0_u32; 16];
    let constants = b"expand 32-byte k";
    let words = constants.chunks_exact(4).chain(key.chunks_exact(4));
    let words = words.chain(counter_and_nonce.chunks_exact(4));
    for (word, bytes) in initial.iter_mut().zip(words) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mut state = initial;
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for diagonal in 0..4 {
            let at = |row: usize| 4 * row + (diagonal + row) % 4;
            quarter_round(&mut state, [at(0), at(1), at(2), at(3)]);
        }
    }
    let mut out = [0; 64];
    for ((bytes, word), before) in out.chunks_exact_mut(4).zip(state).zip(initial) {
        bytes.copy_from_slice(&word.wrapping_add(before).to_le_bytes());
    }
    out
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (x, y, z, left) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_matches_rfc_8439() {
        // Section 2.3.2.
        let key = std::array::from_fn(|at| at as u8);
        let rest = [1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let block = block(&key, &rest);
        assert_eq!(block[..4], [0x10, 0xf1, 0xe7, 0xe4]);
        assert_eq!(block[60..], [0xa2, 0x50, 0x3c, 0x4e]);
    }
}
