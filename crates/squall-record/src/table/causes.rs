//! The table of causes: causes.parquet.
//!
//! Only maps `CausesRecord` to columns and back, one for each span; docs/RECORD.md defines the columns.

use std::sync::LazyLock;

use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Direction, PacketRecord, PacketRef};

use super::cell::Selection;
use super::columns::{Columns, RequiredColumn};
use super::packing::{CellWriteError, RowGroup};
use super::schema::{Column, Packing, Role};
use super::sealed::Row;
use crate::RecordError;
use crate::error::CellFault;

/// The column of each cause, in the order of `Cause::ALL`.
static SPANS: LazyLock<[&str; Cause::ALL.len()]> = LazyLock::new(|| names_by_cause(""));

/// The columns that split the time in `queue_ns` by what the requests ahead spent it on, in the same order.
static QUEUE_ROOTS: LazyLock<[&str; Cause::ALL.len()]> =
    LazyLock::new(|| names_by_cause("queue_by_"));

/// A name such as `queue_by_tls_ns` for each cause. The names of columns are never freed.
fn names_by_cause(prefix: &str) -> [&'static str; Cause::ALL.len()] {
    Cause::ALL.map(|cause| {
        let name = format!("{prefix}{}_ns", cause.name());
        &*name.leak()
    })
}

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let duration = |name, role| Column::of::<Duration>(name, Packing::Delta, role);
    let spans = [*SPANS, *QUEUE_ROOTS].into_iter().flatten();
    let first = [
        Column::of::<u64>("request", Packing::Delta, Role::Stored),
        Column::of::<u8>("hop", Packing::Delta, Role::Stored),
        duration("total_ns", Role::Derived),
    ];
    let last = [
        Column::of::<Option<String>>("dominant", Packing::Words, Role::Derived),
        Column::of::<Option<u8>>("responsible_hop", Packing::Delta, Role::Added),
        Column::of::<Option<String>>("responsible_direction", Packing::Words, Role::Stored),
        Column::of::<Option<u64>>("responsible_index", Packing::Delta, Role::Stored),
    ];
    let spans = spans.map(|name| duration(name, Role::Stored));
    first.into_iter().chain(spans).chain(last).collect()
});

impl Row for CausesRecord {
    const TABLE: &'static str = "causes";

    fn columns() -> &'static [Column] {
        &COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.numbers(rows, |r| r.request)?;
        group.small(rows, |r| u32::from(r.hop));
        group.numbers(rows, |r| r.spans.total().as_nanos())?;
        for cause in Cause::ALL {
            group.numbers(rows, |r| r.spans[cause].as_nanos())?;
        }
        // Usually no request waited in a queue, so all of these columns are zero.
        if rows.iter().all(|r| r.queue_roots == CauseSpans::NONE) {
            for _ in Cause::ALL {
                group.numbers(rows, |_| 0)?;
            }
        } else {
            for cause in Cause::ALL {
                group.numbers(rows, |r| r.queue_roots[cause].as_nanos())?;
            }
        }
        group.optional_words(
            rows,
            |r| r.spans.dominant(),
            |cause| cause.map(|cause| cause as u8),
            |place| Cause::ALL[usize::from(place)].name(),
        );
        group.optional_numbers(rows, |r| r.responsible.map(|packet| packet.hop.into()))?;
        group.optional_words(
            rows,
            |r| r.responsible.map(|packet| packet.direction),
            |direction| direction.map(|direction| direction as u8),
            |place| Direction::ALL[usize::from(place)].name(),
        );
        group.optional_numbers(rows, |r| r.responsible.map(|packet| packet.index))
    }

    fn rows<'a, S: Selection>(
        columns: &'a Columns<'a>,
    ) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let request = columns.numbers("request")?;
        let hop = columns.numbers("hop")?;
        let [spans, queue_roots] = [*SPANS, *QUEUE_ROOTS].map(|names| span_columns(columns, names));
        let (spans, queue_roots) = (spans?, queue_roots?);
        let on_hop = columns.optional_numbers("responsible_hop")?;
        let direction = columns.texts("responsible_direction")?;
        let index = columns.optional_numbers("responsible_index")?;
        let mut rows: Vec<Self> = Vec::with_capacity(columns.rows());
        for (row, direction) in direction.iter().enumerate() {
            let packet = responsible(columns, row, direction.as_deref(), index.at(row))?;
            rows.push(CausesRecord {
                request: request.at(row),
                hop: hop.at(row),
                spans: spans_at(&spans, row),
                queue_roots: spans_at(&queue_roots, row),
                responsible: packet.map(|packet| PacketRef {
                    hop: on_hop.at(row).unwrap_or(PacketRecord::ONLY_LINK),
                    ..packet
                }),
            });
        }
        Ok(move |i: usize| rows[i])
    }
}

/// The column of each cause.
type SpanColumns<'a> = Vec<RequiredColumn<'a, Duration>>;

fn span_columns<'a>(
    columns: &'a Columns<'a>,
    names: [&'static str; Cause::ALL.len()],
) -> Result<SpanColumns<'a>, RecordError> {
    let names = names.into_iter();
    names.map(|column| columns.numbers(column)).collect()
}

fn spans_at(columns: &SpanColumns<'_>, row: usize) -> CauseSpans {
    let mut spans = CauseSpans::default();
    for (cause, column) in Cause::ALL.into_iter().zip(columns) {
        spans[cause] = column.at(row);
    }
    spans
}

/// The packet responsible, without its hop, from its two cells, which are both set or both null.
fn responsible(
    columns: &Columns<'_>,
    row: usize,
    direction: Option<&str>,
    index: Option<u64>,
) -> Result<Option<PacketRef>, RecordError> {
    match (direction, index) {
        (None, None) => Ok(None),
        (Some(word), Some(index)) => {
            let unknown = || columns.fault("responsible_direction", row, CellFault::UnknownWord);
            let direction = Direction::from_name(word).ok_or_else(unknown)?;
            Ok(Some(PacketRef {
                hop: PacketRecord::ONLY_LINK,
                direction,
                index,
            }))
        }
        (None, Some(_)) => Err(columns.fault("responsible_direction", row, CellFault::Null)),
        (Some(_), None) => Err(columns.fault("responsible_index", row, CellFault::Null)),
    }
}
