//! The rows of causes that attribution has found, packed: there is one for every request.
//!
//! They are found by connection and wanted in the order of the requests, so each is found again by its place. What they
//! say is `timeline`'s.

use std::fmt;

use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Direction, PacketRef};

use super::packed::{Coder, Mark, Packed};

/// Rows of causes.parquet in few bytes each; most have few causes.
#[derive(Clone, Default)]
pub struct Causes {
    rows: Packed,
    /// Where each is.
    marks: Vec<Mark>,
}

/// Bits of the mask: which spans are not empty, whether a packet is responsible and which way it went, whether a queue has
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

/// The roots of a queue of which nothing is known.
pub(super) fn without_roots(spans: &CauseSpans) -> CauseSpans {
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

/// Codes the spans that have their bit in `left`.
fn code_spans(coder: &mut impl Coder, mut left: u64, spans: &mut CauseSpans) {
    while left != 0 {
        let span = &mut spans[Cause::ALL[left.trailing_zeros() as usize]];
        let mut nanos = span.as_nanos();
        coder.plain(&mut nanos);
        *span = Duration::from_nanos(nanos);
        left &= left - 1;
    }
}

/// Codes the row of a place.
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
        let mut index = row.responsible.map_or(0, |packet| packet.index);
        coder.plain(&mut index);
        let direction = Direction::ALL[(mask >> DIRECTION & 1) as usize];
        row.responsible = Some(PacketRef { direction, index });
    }
}

fn mask_of_row(row: &CausesRecord) -> u64 {
    // Mostly a queue is too short to have roots, and takes no number for them.
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

/// Rows whose places are filled in any order.
pub(super) struct Filling {
    causes: Causes,
    /// Marks on their way to their places, which are far from each other: the processor waits for each that is written
    /// by itself, while many in a row are on their way at once.
    waiting: Vec<(usize, Mark)>,
}

/// So many marks are written in a row.
const AT_ONCE: usize = 1024;

impl Filling {
    /// For so many places.
    pub(super) fn new(places: usize) -> Filling {
        Filling {
            causes: Causes {
                rows: Packed::default(),
                marks: vec![Mark::default(); places],
            },
            waiting: Vec::with_capacity(AT_ONCE),
        }
    }

    /// Fills a place.
    pub(super) fn put(&mut self, place: usize, row: &mut CausesRecord) {
        if self.waiting.len() == AT_ONCE {
            self.settle();
        }
        let rows = &mut self.causes.rows;
        self.waiting.push((place, rows.mark()));
        code(&mut rows.write(), place, row);
    }

    /// Changes the row of a place that is filled.
    pub(super) fn amend(&mut self, place: usize, change: impl FnOnce(&mut CausesRecord)) {
        self.settle();
        if let Some(mut row) = self.causes.get(place) {
            change(&mut row);
            self.put(place, &mut row);
        }
    }

    /// The rows. All places must be filled.
    pub(super) fn finish(mut self) -> Causes {
        self.settle();
        self.causes
    }

    fn settle(&mut self) {
        for (place, mark) in self.waiting.drain(..) {
            self.causes.marks[place] = mark;
        }
    }
}

impl Causes {
    /// Appends a row.
    pub fn push(&mut self, mut row: CausesRecord) {
        let place = self.marks.len();
        self.marks.push(self.rows.mark());
        code(&mut self.rows.write(), place, &mut row);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The row of a place.
    pub fn get(&self, place: usize) -> Option<CausesRecord> {
        let mark = *self.marks.get(place)?;
        Some(self.row(place, mark))
    }

    /// Reads the row of a place into `row`. A place beyond the last leaves it as it is.
    #[inline]
    pub fn read(&self, place: usize, row: &mut CausesRecord) {
        if let Some(mark) = self.marks.get(place) {
            *row = NO_ROW;
            code(&mut self.rows.read_from(*mark), place, row);
        }
    }

    /// All rows, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = CausesRecord> + '_ {
        let places = self.marks.iter().enumerate();
        places.map(|(place, mark)| self.row(place, *mark))
    }

    #[inline]
    fn row(&self, place: usize, mark: Mark) -> CausesRecord {
        let mut row = NO_ROW;
        code(&mut self.rows.read_from(mark), place, &mut row);
        row
    }
}

impl FromIterator<CausesRecord> for Causes {
    fn from_iter<I: IntoIterator<Item = CausesRecord>>(rows: I) -> Causes {
        let mut causes = Causes::default();
        rows.into_iter().for_each(|row| causes.push(row));
        causes
    }
}

impl PartialEq for Causes {
    fn eq(&self, other: &Causes) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Causes {}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn rows_come_back_in_any_order() {
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
                direction: Direction::ALL[(draw(4) % 2) as usize],
                index: draw(5),
            });
            row
        };
        let expected: Vec<CausesRecord> = (0..3_000).map(row).collect();
        let mut filling = Filling::new(expected.len());
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
