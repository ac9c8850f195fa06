//! The table of samples of sockets: sockets.parquet.
//!
//! Only maps `SocketRecord` to columns and back: one column for each field of `TcpInfo::FIELDS`, then those of
//! `QuicPath`. `quic_recv` has a value if and only if the row is a QUIC sample. docs/RECORD.md defines the columns.

use std::sync::LazyLock;

use squall_base::record::{QuicPath, Side, SocketRecord, SocketSample, TcpInfo};
use squall_base::{Duration, Time};

use super::cell::Selection;
use super::columns::{Columns, NullableColumn, Number};
use super::packing::{CellWriteError, RowGroup};
use super::schema::{Column, Packing, Role};
use super::sealed::Row;
use crate::RecordError;
use crate::error::CellFault;

struct QuicColumn {
    name: &'static str,
    /// Its cell for a sample, if it has one.
    cell: fn(&QuicPath) -> Option<u64>,
    /// Sets a sample's field from its cell.
    set: fn(&mut QuicPath, u64),
}

/// Declares columns by the field that each stores, the type of its number and the column's name.
macro_rules! quic_columns {
    ($($field:ident: $T:ty = $name:literal;)+) => {
        &[$(QuicColumn {
            name: $name,
            cell: |path| Option::<$T>::from(path.$field).map(<$T>::to_bits),
            set: |path, cell| path.$field = <$T>::from_stored(cell.cast_signed()).into(),
        }),+]
    };
}

const QUIC: &[QuicColumn] = quic_columns! {
    recv: u64 = "quic_recv";
    sent: u64 = "quic_sent";
    lost: u64 = "quic_lost";
    retrans: u64 = "quic_retrans";
    ptos: u64 = "quic_ptos";
    rtt: Duration = "quic_rtt_ns";
    min_rtt: Duration = "quic_min_rtt_ns";
    max_rtt: Duration = "quic_max_rtt_ns";
    rttvar: Duration = "quic_rttvar_ns";
    cwnd_bytes: u64 = "quic_cwnd_bytes";
    sent_bytes: u64 = "quic_sent_bytes";
    recv_bytes: u64 = "quic_recv_bytes";
    lost_bytes: u64 = "quic_lost_bytes";
    stream_retrans_bytes: u64 = "quic_stream_retrans_bytes";
    pmtu_bytes: u64 = "quic_pmtu_bytes";
    delivery_rate_bytes_per_s: u64 = "quic_delivery_rate_bytes_per_s";
    max_bandwidth_bytes_per_s: u64 = "quic_max_bandwidth_bytes_per_s";
    socket_drops: u64 = "quic_socket_drops";
};

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let every = [
        Column::of::<Time>("time_ns", Packing::Delta, Role::Stored),
        Column::of::<u8>("hop", Packing::Dictionary, Role::Stored),
        Column::of::<Side>("side", Packing::Words, Role::Stored),
        Column::of::<u32>("connection", Packing::Dictionary, Role::Stored),
        Column::of::<bool>("last", Packing::Dictionary, Role::Stored),
    ];
    let tcp = TcpInfo::FIELDS.map(|field| field.name);
    let samples = tcp.into_iter().chain(QUIC.iter().map(|column| column.name));
    let samples = samples.map(|name| Column::of::<Option<u64>>(name, Packing::Delta, Role::Stored));
    every.into_iter().chain(samples).collect()
});

impl Row for SocketRecord {
    const TABLE: &'static str = "sockets";

    fn columns() -> &'static [Column] {
        &COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.numbers(rows, |r| r.time.as_nanos())?;
        group.small(rows, |r| u32::from(r.hop));
        group.words(rows, &Side::ALL.map(Side::name), |r| r.side as usize);
        group.small(rows, |r| r.connection);
        group.flags(rows, |r| r.is_last);
        for place in 0..TcpInfo::FIELDS.len() {
            group.optional_numbers(rows, |row| match &row.sample {
                SocketSample::Tcp(info) => info.value(place),
                SocketSample::Quic(_) => None,
            })?;
        }
        for QuicColumn { cell, .. } in QUIC {
            group.optional_numbers(rows, |row| match &row.sample {
                SocketSample::Tcp(_) => None,
                SocketSample::Quic(path) => cell(path),
            })?;
        }
        Ok(())
    }

    fn rows<'a, S: Selection>(
        columns: &'a Columns<'a>,
    ) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let time = columns.numbers("time_ns")?;
        let hop = columns.numbers("hop")?;
        let side = columns.words("side", &Side::ALL, Side::name)?;
        let connection = columns.numbers("connection")?;
        let is_last = columns.flags("last")?;
        let mut tcp: Vec<(usize, NullableColumn<'_, u64>)> = Vec::new();
        for (place, field) in TcpInfo::FIELDS.iter().enumerate() {
            let cells = columns.optional_numbers(field.name)?;
            if !cells.is_empty() {
                tcp.push((place, cells));
            }
        }
        let info = move |row| {
            let mut info = TcpInfo::UNKNOWN;
            for (place, cells) in &tcp {
                info.set(*place, cells.at(row));
            }
            info
        };
        let quic = quic_paths(columns)?;
        let quic = move |row: usize| quic.get(row).copied().flatten();
        Ok(move |i| SocketRecord {
            time: time.at(i),
            hop: hop.at(i),
            side: side.at(i),
            connection: connection.at(i),
            is_last: is_last.at(i),
            sample: match quic(i) {
                Some(path) => SocketSample::Quic(path),
                None => SocketSample::Tcp(info(i)),
            },
        })
    }
}

/// The QUIC samples, with `None` for TCP rows; empty if all rows are TCP.
fn quic_paths(columns: &Columns<'_>) -> Result<Vec<Option<QuicPath>>, RecordError> {
    let recv = columns.optional_numbers::<u64>("quic_recv")?;
    let path = |row| recv.at(row).map(|_| QuicPath::default());
    let mut paths: Vec<Option<QuicPath>> = (0..columns.rows()).map(path).collect();
    if paths.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    for QuicColumn { name, cell, set } in QUIC {
        let cells = columns.optional_numbers::<u64>(name)?;
        // A row with a number of received packets must have all fields that are not optional.
        let is_required = cell(&QuicPath::default()).is_some() && columns.has(name);
        for (row, path) in paths.iter_mut().enumerate() {
            match (path, cells.at(row)) {
                (Some(path), Some(cell)) => set(path, cell),
                (Some(_), None) if is_required => {
                    return Err(columns.fault(name, row, CellFault::Null));
                }
                _ => {}
            }
        }
    }
    Ok(paths)
}
