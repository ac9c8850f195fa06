//! Which cells of a page are there: definition levels of one bit, in Parquet's hybrid of runs and packed bits.
//!
//! Like `delta` it says of what it does not know that it cannot read it.

use bytes::Bytes;

/// The levels of a page that are still to come.
#[derive(Debug)]
pub(super) struct Levels {
    bytes: Bytes,
    at: usize,
    run: Run,
    /// Levels that are left of the run.
    left: usize,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Same(bool),
    /// Packed bits, from this one on.
    Bits(usize),
}

/// Which of some cells are there, and how many these are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Presence {
    All(usize),
    None(usize),
    /// A bit for each, the first is the last one; at most 64.
    Some(u64, usize),
}

impl Presence {
    pub(super) fn count(self) -> usize {
        match self {
            Presence::All(count) | Presence::None(count) | Presence::Some(_, count) => count,
        }
    }
}

impl Levels {
    /// Of the front of a page of version 1, and what is behind; `None` if there is no such.
    pub(super) fn of(page: &Bytes) -> Option<(Levels, Bytes)> {
        let size = u32::from_le_bytes(*page.first_chunk()?) as usize;
        let end = size.checked_add(4).filter(|end| *end <= page.len())?;
        let levels = Levels {
            bytes: page.slice(4..end),
            at: 0,
            run: Run::Same(false),
            left: 0,
        };
        Some((levels, page.slice(end..)))
    }

    /// What the next levels say, at most `most` of them and at least one.
    pub(super) fn run(&mut self, most: usize) -> Option<Presence> {
        if self.left == 0 {
            self.begin_run()?;
        }
        let most = most.min(self.left);
        let presence = match &mut self.run {
            Run::Same(true) => Presence::All(most),
            Run::Same(false) => Presence::None(most),
            Run::Bits(at) => {
                let (bits, count) = bits_at(&self.bytes, *at, most);
                *at += count;
                match bits.count_ones() as usize {
                    0 => Presence::None(count),
                    ones if ones == count => Presence::All(count),
                    _ => Presence::Some(bits, count),
                }
            }
        };
        self.left -= presence.count();
        Some(presence)
    }

    fn begin_run(&mut self) -> Option<()> {
        let mut header = 0_usize;
        for shift in [0, 7, 14, 21] {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            header |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return self.begin(header);
            }
        }
        None
    }

    fn begin(&mut self, header: usize) -> Option<()> {
        let count = header >> 1;
        if count == 0 {
            return None;
        }
        if header & 1 == 0 {
            let level = *self.bytes.get(self.at)?;
            if level > 1 {
                return None;
            }
            self.at += 1;
            (self.run, self.left) = (Run::Same(level == 1), count);
        } else {
            // A count of eights, each a byte.
            self.bytes.get(self.at..self.at + count)?;
            (self.run, self.left) = (Run::Bits(self.at * 8), count * 8);
            self.at += count;
        }
        Some(())
    }
}

/// Bits from place `at` on, and how many: as many of `most` as lie in eight bytes.
fn bits_at(bytes: &[u8], at: usize, most: usize) -> (u64, usize) {
    let bytes = &bytes[at / 8..];
    let mut word = [0; 8];
    let known = bytes.len().min(8);
    word[..known].copy_from_slice(&bytes[..known]);
    let shift = at % 8;
    let count = most.min(8 * known - shift);
    let mask = u64::MAX >> (64 - count);
    (u64::from_le_bytes(word) >> shift & mask, count)
}
