//! One column of the page being written: gathers its cells from the rows and packs them. What covers a whole row group,
//! dictionaries and extremes, is kept until the group ends.
//!
//! Each kind of cell has its own packing, and gathers directly from the rows, piece by piece. `chunk` turns the packed
//! bytes into pages and a column chunk; `RowGroup` decides which column comes next.

use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::bits::Bits;
use super::delta::{Deltas, RecentBlocks, Width};
use super::runs::{NumberDictionary, WordDictionary, put_indices};
use super::{PAGE_ROWS, PIECE_ROWS};
use crate::table::schema::{Column, Packing};

/// How many words are compared at once, to see whether they are all the same.
const WORDS_AT_ONCE: usize = 16;

/// The cells of a column, by how they are packed.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    Numbers(Numbers),
    RepeatedNumbers(RepeatedNumbers),
    Words(Words),
    Flags(Flags),
    Texts(Texts),
}

impl Cells {
    pub(super) fn new(column: &Column) -> Cells {
        match (column.packing, &column.data_type) {
            (Packing::Words, _) => Cells::Words(Words::new()),
            (_, DataType::Boolean) => Cells::Flags(Flags::default()),
            (_, DataType::Utf8) => Cells::Texts(Texts::default()),
            (Packing::Dictionary, _) => Cells::RepeatedNumbers(RepeatedNumbers::new()),
            (Packing::Delta, DataType::Int64) => Cells::Numbers(Numbers::new(Width::Wide)),
            (Packing::Delta, _) => Cells::Numbers(Numbers::new(Width::Narrow)),
        }
    }

    /// Which cells are not null.
    pub(super) fn present(&self) -> &Bits {
        match self {
            Cells::Numbers(cells) => &cells.present,
            Cells::RepeatedNumbers(cells) => &cells.spilled.present,
            Cells::Words(cells) => &cells.present,
            Cells::Flags(cells) => &cells.present,
            Cells::Texts(cells) => &cells.present,
        }
    }

    /// Bytes of the page's texts. Cells of any other kind take at most about eight bytes per row.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Cells::Texts(cells) => cells.bytes.len(),
            _ => 0,
        }
    }

    /// The dictionary page in plain encoding, and its number of values; `None` if the column has no dictionary.
    pub(super) fn dictionary(&self) -> Option<(Vec<u8>, usize)> {
        match self {
            Cells::RepeatedNumbers(cells) => {
                let numbers = cells.dictionary.numbers();
                let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
                Some((bytes.collect(), numbers.len()))
            }
            Cells::Words(cells) => {
                let mut bytes = Vec::new();
                for word in cells.dictionary.words() {
                    put_text(word, &mut bytes);
                }
                Some((bytes, cells.dictionary.words().len()))
            }
            _ => None,
        }
    }

    /// Appends the values of the data page, without nulls, and begins the next page. Returns their encoding.
    pub(super) fn put(&mut self, out: &mut Vec<u8>) -> Encoding {
        match self {
            Cells::Numbers(cells) => cells.put(out),
            Cells::RepeatedNumbers(cells) => cells.put(out),
            Cells::Words(cells) => {
                put_indices(&cells.indices, cells.dictionary.words().len(), out);
                cells.indices.clear();
                cells.present.clear();
                Encoding::RLE_DICTIONARY
            }
            Cells::Flags(cells) => cells.put(out),
            Cells::Texts(cells) => {
                out.append(&mut cells.bytes);
                cells.present.clear();
                Encoding::PLAIN
            }
        }
    }

    /// The statistics by which readers may filter, over all pages that were put; `nulls` of their cells are null. Words
    /// and texts have no minimum and maximum, because no reader would use them.
    pub(super) fn statistics(&self, nulls: u64) -> Option<Statistics> {
        match self {
            Cells::Numbers(cells) => Some(cells.statistics(nulls)),
            Cells::RepeatedNumbers(cells) => Some(narrow_statistics(cells.extremes(), nulls)),
            Cells::Flags(cells) => {
                let (least, greatest) = cells.extremes.unzip();
                let statistics = ValueStatistics::new(least, greatest, None, Some(nulls), false);
                Some(statistics.into())
            }
            Cells::Texts(_) => Some(Statistics::byte_array(None, None, None, Some(nulls), false)),
            Cells::Words(_) => None,
        }
    }

    /// Begins the next row group, after all pages were put. Keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        match self {
            Cells::Numbers(cells) => cells.deltas.clear(),
            Cells::RepeatedNumbers(cells) => cells.clear(),
            Cells::Words(cells) => cells.dictionary.clear(),
            Cells::Flags(cells) => cells.extremes = None,
            Cells::Texts(_) => {}
        }
    }
}

/// Integers that are close to the ones before them.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    deltas: Deltas,
    present: Bits,
    /// Whether the last rows were a mix of numbers and nulls.
    is_mixed: bool,
    width: Width,
}

impl Numbers {
    fn new(width: Width) -> Numbers {
        Numbers {
            deltas: Deltas::new(width, PIECE_ROWS),
            present: Bits::default(),
            is_mixed: false,
            width,
        }
    }

    /// Takes a number from every row. Returns the bitwise OR of all of them.
    pub(super) fn gather<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> u64,
        recent: &mut RecentBlocks,
    ) -> u64 {
        let bits = copy_numbers(rows, self.deltas.room(rows.len()), cell);
        self.deltas.take(rows.len(), recent);
        self.present.push_same(true, rows.len());
        bits
    }

    /// Takes the numbers of the rows that have one. Returns the bitwise OR of all of them.
    pub(super) fn gather_some<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> Option<u64>,
        recent: &mut RecentBlocks,
    ) -> u64 {
        let mut bits = 0;
        let room = self.deltas.room(rows.len());
        let mut count = 0;
        for rows in rows.chunks(64) {
            let room = &mut room[count..];
            let uniform = if self.is_mixed {
                None
            } else {
                copy_uniform(rows, room, &cell)
            };
            let some = if let Some((some, more)) = uniform {
                bits |= more;
                self.present.push_same(some > 0, rows.len());
                some
            } else {
                let some = gather_mixed(rows, &mut self.present, room, |row| {
                    let cell = cell(row);
                    bits |= cell.unwrap_or(0);
                    cell.map(|number| number as i64)
                });
                self.is_mixed = some > 0 && some < rows.len();
                some
            };
            count += some;
        }
        self.deltas.take(count, recent);
        bits
    }

    fn put(&mut self, out: &mut Vec<u8>) -> Encoding {
        self.deltas.put(out);
        self.present.clear();
        Encoding::DELTA_BINARY_PACKED
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        match self.width {
            Width::Narrow => narrow_statistics(self.narrow_extremes(), nulls),
            Width::Wide => {
                let (least, greatest) = self.deltas.extremes().unzip();
                ValueStatistics::new(least, greatest, None, Some(nulls), false)
                    .with_backwards_compatible_min_max(true)
                    .into()
            }
        }
    }

    fn narrow_extremes(&self) -> Option<(u32, u32)> {
        let extremes = self.deltas.extremes();
        extremes.map(|(least, greatest)| (least as u32, greatest as u32))
    }
}

/// Parquet stores unsigned numbers in signed types, but orders them as unsigned.
fn narrow_statistics(extremes: Option<(u32, u32)>, nulls: u64) -> Statistics {
    let (least, greatest) = extremes
        .map(|(least, greatest)| (least as i32, greatest as i32))
        .unzip();
    ValueStatistics::new(least, greatest, None, Some(nulls), false).into()
}

/// Numbers of at most 32 bits in every row, with few distinct values. Packed by dictionary, or as differences once the
/// distinct values are too many.
#[derive(Clone, Debug)]
pub(super) struct RepeatedNumbers {
    dictionary: NumberDictionary,
    indices: Vec<u16>,
    is_spilled: bool,
    spilled: Numbers,
}

impl RepeatedNumbers {
    fn new() -> RepeatedNumbers {
        RepeatedNumbers {
            dictionary: NumberDictionary::new(),
            indices: Vec::with_capacity(PAGE_ROWS),
            is_spilled: false,
            spilled: Numbers::new(Width::Narrow),
        }
    }

    pub(super) fn gather<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> u32,
        recent: &mut RecentBlocks,
    ) {
        let before = self.indices.len();
        if !self.is_spilled {
            let dictionary = &mut self.dictionary;
            let indices = rows.iter().map_while(|row| dictionary.of(cell(row)));
            self.indices.extend(indices);
            if self.indices.len() - before == rows.len() {
                return self.spilled.present.push_same(true, rows.len());
            }
            self.indices.truncate(before);
            self.spill(recent);
        }
        let number = |row: &R| u64::from(cell(row));
        self.spilled.gather(rows, number, recent);
    }

    /// Switches to differences, for this page and all later ones in the row group.
    fn spill(&mut self, recent: &mut RecentBlocks) {
        self.is_spilled = true;
        let numbers = self.dictionary.numbers();
        self.spilled.present.clear();
        for indices in self.indices.chunks(PIECE_ROWS) {
            let number = |index: &u16| u64::from(numbers[usize::from(*index)]);
            self.spilled.gather(indices, number, recent);
        }
        self.indices.clear();
    }

    fn put(&mut self, out: &mut Vec<u8>) -> Encoding {
        if self.is_spilled {
            return self.spilled.put(out);
        }
        put_indices(&self.indices, self.dictionary.numbers().len(), out);
        self.indices.clear();
        self.spilled.present.clear();
        Encoding::RLE_DICTIONARY
    }

    /// The minimum and maximum. The dictionary covers the pages up to and including the one that filled it up.
    fn extremes(&self) -> Option<(u32, u32)> {
        let spilled = self.spilled.narrow_extremes();
        let numbers = self.dictionary.numbers().iter().copied();
        let all = || {
            numbers
                .clone()
                .chain(spilled.into_iter().flat_map(|(a, b)| [a, b]))
        };
        all().min().zip(all().max())
    }

    fn clear(&mut self) {
        self.dictionary.clear();
        self.is_spilled = false;
        self.spilled.deltas.clear();
    }
}

/// Words of an enumeration.
#[derive(Clone, Debug)]
pub(super) struct Words {
    dictionary: WordDictionary,
    indices: Vec<u16>,
    present: Bits,
}

impl Words {
    fn new() -> Words {
        Words {
            dictionary: WordDictionary::new(),
            indices: Vec::with_capacity(PAGE_ROWS),
            present: Bits::default(),
        }
    }

    /// Takes a word from every row: `number` returns the row's number, `word` the word for a number.
    pub(super) fn gather<R>(
        &mut self,
        rows: &[R],
        number: impl Fn(&R) -> u8,
        word: impl Fn(u8) -> &'static str,
    ) {
        for rows in rows.chunks(WORDS_AT_ONCE) {
            let first = number(&rows[0]);
            let different = (rows.iter()).fold(0, |bits, row| bits | (number(row) ^ first));
            let index = self.dictionary.of(first, || word(first));
            if different == 0 {
                self.indices.resize(self.indices.len() + rows.len(), index);
                continue;
            }
            let dictionary = &mut self.dictionary;
            self.indices.extend(rows.iter().map(|row| {
                let number = number(row);
                dictionary.of(number, || word(number))
            }));
        }
        self.present.push_same(true, rows.len());
    }

    /// Takes the words of the rows that have one. Rows with equal `key` have the same word, whose number `number`
    /// returns.
    pub(super) fn gather_some<R, K: PartialEq>(
        &mut self,
        rows: &[R],
        key: impl Fn(&R) -> K,
        number: impl Fn(&K) -> Option<u8>,
        word: impl Fn(u8) -> &'static str,
    ) {
        let before = self.indices.len();
        self.indices.resize(before + rows.len(), 0);
        let mut count = before;
        // Usually a row has the same word as the row before, so the word is looked up only if the key changes.
        let mut known = None;
        for rows in rows.chunks(64) {
            count += gather_mixed(rows, &mut self.present, &mut self.indices[count..], |row| {
                let key = key(row);
                match &known {
                    Some((known, index)) if *known == key => *index,
                    _ => {
                        let number = number(&key);
                        let index =
                            number.map(|number| self.dictionary.of(number, || word(number)));
                        known = Some((key, index));
                        index
                    }
                }
            });
        }
        self.indices.truncate(count);
    }
}

/// A flag in every row.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    flags: Bits,
    present: Bits,
    /// The minimum and maximum over all pages of the row group.
    extremes: Option<(bool, bool)>,
}

impl Flags {
    pub(super) fn gather<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> bool) {
        for rows in rows.chunks(64) {
            let bits = rows.iter().enumerate();
            let bits = bits.fold(0, |bits, (i, row)| bits | u64::from(cell(row)) << i);
            self.flags.push(bits, rows.len());
        }
        self.present.push_same(true, rows.len());
    }

    fn put(&mut self, out: &mut Vec<u8>) -> Encoding {
        let (least, greatest) = (self.flags.ones() == self.flags.len(), self.flags.ones() > 0);
        self.extremes = Some(match self.extremes {
            Some(before) => (before.0 && least, before.1 || greatest),
            None => (least, greatest),
        });
        self.flags.put_plain(out);
        self.flags.clear();
        self.present.clear();
        Encoding::PLAIN
    }
}

/// Free text, usually null. Stored as it is: compression finds repetitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    present: Bits,
}

impl Texts {
    pub(super) fn gather<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<String>) {
        for rows in rows.chunks(64) {
            let mut present = 0;
            for (i, row) in rows.iter().enumerate() {
                if let Some(text) = cell(row) {
                    put_text(&text, &mut self.bytes);
                    present |= 1 << i;
                }
            }
            self.present.push(present, rows.len());
        }
    }
}

/// Appends a text in Parquet's plain encoding.
fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Copies the numbers of all rows to the front of `room`. Returns the bitwise OR of all of them.
fn copy_numbers<R>(rows: &[R], room: &mut [i64], mut cell: impl FnMut(&R) -> u64) -> u64 {
    let mut bits = 0;
    for (place, row) in room.iter_mut().zip(rows) {
        let number = cell(row);
        bits |= number;
        *place = number as i64;
    }
    bits
}

/// Copies the numbers of all rows to the front of `room`, if all rows have one or none has. Returns how many were
/// copied and their bitwise OR; `None` if the rows are a mix.
fn copy_uniform<R>(
    rows: &[R],
    room: &mut [i64],
    cell: impl Fn(&R) -> Option<u64>,
) -> Option<(usize, u64)> {
    let (mut some, mut bits) = (0, 0);
    if rows.first().and_then(&cell).is_some() {
        bits = copy_numbers(rows, room, |row| {
            let cell = cell(row);
            some += usize::from(cell.is_some());
            cell.unwrap_or(0)
        });
    } else {
        some = rows.iter().filter(|row| cell(row).is_some()).count();
    }
    (some == 0 || some == rows.len()).then_some((some, bits))
}

/// Takes up to 64 rows, puts the cells of those that have one at the front of `room`, which has space for every row,
/// and appends to `present` which rows those are. Returns their number.
fn gather_mixed<R, T: Copy + Default>(
    rows: &[R],
    present: &mut Bits,
    room: &mut [T],
    mut cell: impl FnMut(&R) -> Option<T>,
) -> usize {
    let (mut bits, mut count) = (0, 0);
    for (i, row) in rows.iter().enumerate() {
        let cell = cell(row);
        room[count] = cell.unwrap_or_default();
        bits |= u64::from(cell.is_some()) << i;
        count += usize::from(cell.is_some());
    }
    present.push(bits, rows.len());
    count
}
