//! What can be learned about an encoded header section (RFC 7541) without decoding it.

/// Whether the section changes the dynamic table, by a literal with incremental indexing or by a table size update (RFC
/// 7541, sections 6.2.1 and 6.3). Also true of malformed HPACK.
///
/// While no section changes the table, the same bytes decode to the same fields, and the same fields may be sent as the
/// same bytes.
pub(super) fn changes_table(mut block: &[u8]) -> bool {
    while let Some(&first) = block.first() {
        let rest = match first {
            // An indexed field.
            0x80.. => integer(block, 7).map(|(_, rest)| rest),
            // Incremental indexing, or a table size update.
            0x20.. => return true,
            // A literal without indexing, or one never indexed.
            _ => literal(block),
        };
        match rest {
            Some(rest) => block = rest,
            None => return true,
        }
    }
    false
}

/// Skips a literal whose name index has a four-bit prefix.
fn literal(block: &[u8]) -> Option<&[u8]> {
    let (name, rest) = integer(block, 4)?;
    let rest = match name {
        0 => string(rest)?,
        _ => rest,
    };
    string(rest)
}

/// Skips a string (RFC 7541, section 5.2).
fn string(block: &[u8]) -> Option<&[u8]> {
    let (len, rest) = integer(block, 7)?;
    rest.get(len..)
}

/// Reads an integer with a prefix of `prefix_bits` (RFC 7541, section 5.1); returns it and the bytes after it.
fn integer(block: &[u8], prefix_bits: u32) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = block.split_first()?;
    let most = (1 << prefix_bits) - 1;
    let mut value = usize::from(first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insertions_size_updates_and_malformed_blocks_change_the_table() {
        let same: [&[u8]; 6] = [
            &[],
            &[0x88, 0xbe],
            // `x: y` as a literal; the same, never indexed; a literal with an indexed name.
            &[0, 1, b'x', 1, b'y', 0x88],
            &[0x10, 1, b'x', 1, b'y'],
            &[0x0f, 0, 2, b'y', b'y', 0x82],
            // Index 127 + 128.
            &[0xff, 0x80, 1, 0x88],
        ];
        for block in same {
            assert!(!changes_table(block), "{block:?}");
        }
        let changing: [&[u8]; 6] = [
            &[0x88, 0x40, 1, b'x', 1, b'y'],
            &[0x41, 1, b'y'],
            &[0x20],
            // Truncated.
            &[0x0f],
            &[0, 1, b'x', 9, b'y'],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ];
        for block in changing {
            assert!(changes_table(block), "{block:?}");
        }
    }
}
