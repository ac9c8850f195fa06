//! Which cells of a page are not null: one-bit definition levels in Parquet's hybrid of runs and packed bits.
//!
//! Like `delta`, it refuses whatever it does not know, and leaves that to the parquet crate.

use bytes::Bytes;

/// The remaining definition levels of a page.
#[derive(Debug)]
pub(super) struct Levels {
    bytes: Bytes,
    at: usize,
    run: Run,
    /// Levels left in the current run.
    remaining: usize,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Same(bool),
    /// Packed bits, starting at this bit.
    Bits(usize),
}

/// Which of the next cells are not null, and how many cells this covers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Presence {
    All(usize),
    None(usize),
    /// One bit per cell, the first cell in the least significant bit; at most 64 cells.
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
    /// Splits a version 1 page into its levels and the bytes after them; `None` if the page is too short for its
    /// levels.
    pub(super) fn of(page: &Bytes) -> Option<(Levels, Bytes)> {
        let size = u32::from_le_bytes(*page.first_chunk()?) as usize;
        let end = size.checked_add(4).filter(|end| *end <= page.len())?;
        let levels = Levels {
            bytes: page.slice(4..end),
            at: 0,
            run: Run::Same(false),
            remaining: 0,
        };
        Some((levels, page.slice(end..)))
    }

    /// The next levels: at least one, and at most `most`.
    pub(super) fn run(&mut self, most: usize) -> Option<Presence> {
        if self.remaining == 0 {
            self.begin_run()?;
        }
        let most = most.min(self.remaining);
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
        self.remaining -= presence.count();
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
            (self.run, self.remaining) = (Run::Same(level == 1), count);
        } else {
            // The count is in groups of eight levels, one byte each.
            self.bytes.get(self.at..self.at + count)?;
            (self.run, self.remaining) = (Run::Bits(self.at * 8), count * 8);
            self.at += count;
        }
        Some(())
    }
}

/// The bits from position `at` on, and their number: as many of `most` as eight bytes hold.
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
