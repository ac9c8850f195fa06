//! The table of frames: frames.parquet.
//!
//! Declares the columns of `FrameRecord`, which docs/RECORD.md defines, and those by which a reader selects frames.

use arrow_schema::DataType;
use squall_base::Time;
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Side, Way, frame_name};

use super::cell::{EncodeResult, WriteCell, table};
use super::columns::{Columns, RequiredColumn, WordColumn};
use super::packing::RowGroup;
use crate::RecordError;

/// The number of a layer's frame types that are found by index. Only one named type is above: `HIGH_NAME`.
const LOW_KINDS: usize = 0x40;
/// The number of names that are found by index.
const LOW_NAMES: usize = FrameLayer::ALL.len() * LOW_KINDS;
/// The only named type above these (RFC 9218, section 7.2).
const HIGH_NAME: (FrameLayer, u64) = (FrameLayer::Http3, 0xf_0700);

/// The names by number: the types of each layer follow those of the layer before.
const NAMES: [Option<&str>; LOW_NAMES + 1] = {
    let mut names = [None; LOW_NAMES + 1];
    let mut number = 0;
    while number < LOW_NAMES {
        let layer = FrameLayer::ALL[number / LOW_KINDS];
        names[number] = frame_name(layer, (number % LOW_KINDS) as u64);
        number += 1;
    }
    names[LOW_NAMES] = frame_name(HIGH_NAME.0, HIGH_NAME.1);
    names
};

/// The number of a frame's name, without comparing texts; `None` if it has no name.
fn number_of_name(&(layer, kind): &(FrameLayer, u64)) -> Option<u8> {
    let number = if kind < LOW_KINDS as u64 {
        layer as usize * LOW_KINDS + kind as usize
    } else if (layer, kind) == HIGH_NAME {
        LOW_NAMES
    } else {
        return None;
    };
    NAMES[number].map(|_| number as u8)
}

fn name_of_number(number: u8) -> &'static str {
    NAMES[usize::from(number)].expect("only names have numbers")
}

/// The name of a frame's type, for people who query the file.
struct FrameName(FrameLayer, u64);

impl WriteCell for FrameName {
    const TYPE: DataType = DataType::Utf8;
    const IS_NULLABLE: bool = true;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        let key = |row: &R| {
            let FrameName(layer, kind) = cell(row);
            (layer, kind)
        };
        group.optional_words(rows, key, number_of_name, name_of_number);
        Ok(())
    }
}

table! {
    "frames" of row: FrameRecord {
        Stored {
            time: Time = row.time, Delta "time_ns";
            hop: u8 = row.hop, Delta "hop";
            side: Side = row.side, Words "side";
            connection: u32 = row.connection, Delta "connection";
            way: Way = row.frame.way, Words "way";
            layer: FrameLayer = row.frame.layer, Words "layer";
            kind: u64 = row.frame.kind, Delta "kind";
        }
        Derived {
            name: FrameName = FrameName(row.frame.layer, row.frame.kind), Words "name";
        }
        Stored {
            flags: u8 = row.frame.flags, Delta "flags";
            stream: Option<u64> = row.frame.stream, Delta "stream";
            offset: Option<u64> = row.frame.offset, Delta "offset";
            length: u64 = row.frame.length, Delta "length_bytes";
            packet: Option<u64> = row.frame.packet, Delta "packet";
            value: Option<u64> = row.frame.value, Delta "value";
            stream_window: Option<i64> = row.frame.stream_window, Delta "stream_window";
            connection_window: Option<i64> = row.frame.connection_window, Delta "connection_window";
        }
    }
    => FrameRecord {
        time, hop, side, connection,
        frame: FrameFacts {
            way, layer, kind, flags, stream, offset, length, packet, value, stream_window, connection_window,
        },
    }
}

/// The columns by which a reader selects frames: direction, layer and type.
pub(super) struct Kinds<'a> {
    way: WordColumn<'a, Way>,
    layer: WordColumn<'a, FrameLayer>,
    kind: RequiredColumn<'a, u64>,
}

impl<'a> Kinds<'a> {
    pub(super) fn of(columns: &Columns<'a>) -> Result<Kinds<'a>, RecordError> {
        Ok(Kinds {
            way: columns.words("way", &Way::ALL, Way::name)?,
            layer: columns.words("layer", &FrameLayer::ALL, FrameLayer::name)?,
            kind: columns.numbers("kind")?,
        })
    }

    /// The three cells of a row.
    #[inline]
    pub(super) fn at(&self, row: usize) -> (Way, FrameLayer, u64) {
        (self.way.at(row), self.layer.at(row), self.kind.at(row))
    }
}
