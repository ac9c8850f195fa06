//! The rows of causes that attribution found, packed: there is one for each request.
//!
//! Attribution makes the rows connection by connection, but they are read in the order of the requests, so each is looked
//! up by its position. `timeline` works out what they say.

use std::fmt;

use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Direction, PacketRef};

use super::packed::{Coder, PackedRows, RowStart};

/// Rows of causes.parquet in few bytes each; most have few causes.
#[derive(Clone, Default)]
pub struct CauseRows {
    rows: PackedRows,
    /// Where each row begins.
    starts: Vec<RowStart>,
}

/// Bits of the mask: which spans are not empty, whether a packet is responsible and its direction, whether a queue has
/// roots, and the hop.
const RESPONSIBLE: u32 = Cause::ALL.len() as u32;
const DIRECTION: u32 = RESPONSIBLE + 1;
const ROOTS: u32 = DIRECTION + 1;
const HOP: u32 = ROOTS + 1;

const NO_ROW: CausesRecord = CausesRecord {
    request: 0,
    hop: CausesRecord::IN_TOTAL,
    spans: CauseSpans::NONE,
    queue_roots: CauseSpans::NONE,
    responsible: None,
};

/// The roots of a queue if it is unknown what it waited for: all of its time stays `queue`.
pub(crate) fn without_roots(spans: &CauseSpans) -> CauseSpans {
    let mut roots = CauseSpans::NONE;
    roots[Cause::Queue] = spans[Cause::Queue];
    roots
}

/// A bit for each span that is not empty.
fn mask_of(spans: &CauseSpans) -> u64 {
    let all = Cause::ALL.into_iter().enumerate();
    all.fold(0, |mask, (bit, cause)| {
        mask | u64::from(!spans[cause].is_zero()) << bit
    })
}

/// Codes the spans whose bit is set in `left`.
fn code_spans(coder: &mut impl Coder, mut left: u64, spans: &mut CauseSpans) {
    while left != 0 {
        let span = &mut spans[Cause::ALL[left.trailing_zeros() as usize]];
        let mut nanos = span.as_nanos();
        coder.plain(&mut nanos);
        *span = Duration::from_nanos(nanos);
        left &= left - 1;
    }
}

fn code<C: Coder>(coder: &mut C, place: usize, row: &mut CausesRecord) {
    let mut mask = if C::WRITES { mask_of_row(row) } else { 0 };
    coder.plain(&mut mask);
    coder.near(place as u64, &mut row.request);
    row.hop = (mask >> HOP) as u8;
    code_spans(coder, mask & ((1 << RESPONSIBLE) - 1), &mut row.spans);
    if mask >> ROOTS & 1 == 1 {
        let mut roots = mask_of(&row.queue_roots);
        coder.plain(&mut roots);
        code_spans(coder, roots, &mut row.queue_roots);
    } else {
        row.queue_roots = without_roots(&row.spans);
    }
    if mask >> RESPONSIBLE & 1 == 1 {
        let mut hop = row.responsible.map_or(0, |packet| packet.hop.into());
        let mut index = row.responsible.map_or(0, |packet| packet.index);
        coder.plain(&mut hop);
        coder.plain(&mut index);
        row.responsible = Some(PacketRef {
            hop: hop as u8,
            direction: Direction::ALL[(mask >> DIRECTION & 1) as usize],
            index,
        });
    }
}

fn mask_of_row(row: &CausesRecord) -> u64 {
    // Usually a queue is too short to have roots, and no number is written for them.
    let has_roots = row.queue_roots != without_roots(&row.spans);
    let direction = row
        .responsible
        .map_or(Direction::Up, |packet| packet.direction);
    mask_of(&row.spans)
        | u64::from(row.responsible.is_some()) << RESPONSIBLE
        | (direction as u64) << DIRECTION
        | u64::from(has_roots) << ROOTS
        | u64::from(row.hop) << HOP
}

/// Rows whose positions are filled in any order.
pub(super) struct CauseRowsBuilder {
    causes: CauseRows,
    /// Starts that are yet to be written to their positions. The positions are far apart, so that the processor would
    /// wait for each single write, while many writes in a row overlap.
    pending: Vec<(usize, RowStart)>,
}

/// How many starts are written in a row.
const AT_ONCE: usize = 1024;

impl CauseRowsBuilder {
    pub(super) fn new(places: usize) -> CauseRowsBuilder {
        CauseRowsBuilder {
            causes: CauseRows {
                rows: PackedRows::default(),
                starts: vec![RowStart::default(); places],
            },
            pending: Vec::with_capacity(AT_ONCE),
        }
    }

    /// Fills a position.
    pub(super) fn put(&mut self, place: usize, row: &mut CausesRecord) {
        if self.pending.len() == AT_ONCE {
            self.write_pending();
        }
        let rows = &mut self.causes.rows;
        self.pending.push((place, rows.next_start()));
        code(&mut rows.write(), place, row);
    }

    /// Changes the row at a position that is filled.
    pub(super) fn amend(&mut self, place: usize, change: impl FnOnce(&mut CausesRecord)) {
        self.write_pending();
        if let Some(mut row) = self.causes.get(place) {
            change(&mut row);
            self.put(place, &mut row);
        }
    }

    /// The rows. All positions must be filled.
    pub(super) fn finish(mut self) -> CauseRows {
        self.write_pending();
        self.causes
    }

    fn write_pending(&mut self) {
        for (place, start) in self.pending.drain(..) {
            self.causes.starts[place] = start;
        }
    }
}

impl CauseRows {
    /// Appends a row.
    pub fn push(&mut self, mut row: CausesRecord) {
        let place = self.starts.len();
        self.starts.push(self.rows.next_start());
        code(&mut self.rows.write(), place, &mut row);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The row at a position.
    pub fn get(&self, place: usize) -> Option<CausesRecord> {
        let start = *self.starts.get(place)?;
        Some(self.row(place, start))
    }

    /// Reads the row at a position into `row`. A position beyond the last leaves `row` as it is.
    #[inline]
    pub fn read(&self, place: usize, row: &mut CausesRecord) {
        if let Some(start) = self.starts.get(place) {
            *row = NO_ROW;
            code(&mut self.rows.read_from(*start), place, row);
        }
    }

    /// All rows, in the order of their positions.
    pub fn iter(&self) -> impl Iterator<Item = CausesRecord> + '_ {
        let places = self.starts.iter().enumerate();
        places.map(|(place, start)| self.row(place, *start))
    }

    #[inline]
    fn row(&self, place: usize, start: RowStart) -> CausesRecord {
        let mut row = NO_ROW;
        code(&mut self.rows.read_from(start), place, &mut row);
        row
    }
}

impl FromIterator<CausesRecord> for CauseRows {
    fn from_iter<I: IntoIterator<Item = CausesRecord>>(rows: I) -> CauseRows {
        let mut causes = CauseRows::default();
        rows.into_iter().for_each(|row| causes.push(row));
        causes
    }
}

impl PartialEq for CauseRows {
    fn eq(&self, other: &CauseRows) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for CauseRows {}

impl fmt::Debug for CauseRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn rows_filled_in_any_order_are_read_back_in_order() {
        let row = |n: u64| {
            let draw = |of: u64| splitmix64(of, n);
            let mut row = CausesRecord {
                request: if n.is_multiple_of(7) { draw(1) } else { n },
                hop: (draw(2) % 3) as u8,
                ..NO_ROW
            };
            for cause in Cause::ALL {
                let of = cause as u64 * 3 + 10;
                if draw(of) % 3 == 0 {
                    let nanos = draw(of + 1) >> (draw(of + 2) % 64);
                    row.spans[cause] = Duration::from_nanos(nanos);
                }
            }
            row.queue_roots = without_roots(&row.spans);
            if draw(6) % 2 == 0 {
                row.queue_roots[Cause::Loss] = Duration::from_nanos(draw(7));
            }
            row.responsible = (draw(3) % 4 == 0).then(|| PacketRef {
                hop: (draw(8) % 4) as u8,
                direction: Direction::ALL[(draw(4) % 2) as usize],
                index: draw(5),
            });
            row
        };
        let expected: Vec<CausesRecord> = (0..3_000).map(row).collect();
        let mut filling = CauseRowsBuilder::new(expected.len());
        for part in 0..3 {
            for (place, row) in expected.iter().enumerate().skip(part).step_by(3) {
                let mut row = *row;
                filling.put(place, &mut row);
            }
        }
        let mut expected = expected;
        for place in [5, 7] {
            let amend =
                |row: &mut CausesRecord| row.queue_roots[Cause::Tls] = Duration::from_nanos(9);
            filling.amend(place, amend);
            amend(&mut expected[place]);
        }
        let causes = filling.finish();
        let mut read = expected[9];
        causes.read(5, &mut read);
        assert_eq!(read, expected[5]);
        causes.read(3_000, &mut read);
        assert_eq!(read, expected[5]);
        assert!(causes.iter().eq(expected.iter().copied()));
        assert_eq!(causes, expected.iter().copied().collect());
        assert_eq!((causes.len(), causes.get(3_000)), (3_000, None));
    }
}
