//! The table of samples of sockets: sockets.parquet.
//!
//! Only maps `SocketRecord` to columns and back: one column for each field of `TcpInfo::FIELDS`, then those of
//! `QuicPath`. `quic_recv` has a value if and only if the row is a QUIC sample. docs/RECORD.md defines the columns.

use std::sync::LazyLock;

use squall_base::record::{QuicPath, Side, SocketRecord, SocketSample, TcpInfo};
use squall_base::{Duration, Time};

use super::cell::Selection;
use super::columns::{Columns, NullableColumn};
use super::packing::{CellWriteError, RowGroup};
use super::schema::{Column, Packing, Role};
use super::sealed::Row;
use crate::RecordError;
use crate::error::CellFault;

/// A QUIC column: its name and its cell.
type QuicColumn = (&'static str, fn(&QuicPath) -> Option<u64>);

/// The columns of a QUIC sample.
const QUIC: [QuicColumn; 18] = [
    ("quic_recv", |q| Some(q.recv)),
    ("quic_sent", |q| Some(q.sent)),
    ("quic_lost", |q| Some(q.lost)),
    ("quic_retrans", |q| Some(q.retrans)),
    ("quic_ptos", |q| Some(q.ptos)),
    ("quic_rtt_ns", |q| Some(q.rtt.as_nanos())),
    ("quic_min_rtt_ns", |q| q.min_rtt.map(Duration::as_nanos)),
    ("quic_max_rtt_ns", |q| q.max_rtt.map(Duration::as_nanos)),
    ("quic_rttvar_ns", |q| Some(q.rttvar.as_nanos())),
    ("quic_cwnd_bytes", |q| Some(q.cwnd_bytes)),
    ("quic_sent_bytes", |q| Some(q.sent_bytes)),
    ("quic_recv_bytes", |q| Some(q.recv_bytes)),
    ("quic_lost_bytes", |q| Some(q.lost_bytes)),
    ("quic_stream_retrans_bytes", |q| {
        Some(q.stream_retrans_bytes)
    }),
    ("quic_pmtu_bytes", |q| Some(q.pmtu_bytes)),
    ("quic_delivery_rate_bytes_per_s", |q| {
        Some(q.delivery_rate_bytes_per_s)
    }),
    ("quic_max_bandwidth_bytes_per_s", |q| {
        q.max_bandwidth_bytes_per_s
    }),
    ("quic_socket_drops", |q| Some(q.socket_drops)),
];

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let every = [
        Column::of::<Time>("time_ns", Packing::Delta, Role::Stored),
        Column::of::<u8>("hop", Packing::Dictionary, Role::Stored),
        Column::of::<Side>("side", Packing::Words, Role::Stored),
        Column::of::<u32>("connection", Packing::Dictionary, Role::Stored),
        Column::of::<bool>("last", Packing::Dictionary, Role::Stored),
    ];
    let tcp = TcpInfo::FIELDS.map(|field| field.name);
    let samples = tcp.into_iter().chain(QUIC.map(|(name, _)| name));
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
        for (_, cell) in QUIC {
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
    if (0..columns.rows()).all(|row| recv.at(row).is_none()) {
        return Ok(Vec::new());
    }
    // A row with a number of received packets must have these columns too.
    let with_recv = |column| {
        let cells = columns.optional_numbers(column)?;
        let cell = |row| match (recv.at(row), cells.at(row)) {
            (Some(_), None) if columns.has(column) => {
                Err(columns.fault(column, row, CellFault::Null))
            }
            (_, cell) => Ok(cell.unwrap_or(0)),
        };
        (0..columns.rows())
            .map(cell)
            .collect::<Result<Vec<u64>, RecordError>>()
    };
    let sent = with_recv("quic_sent")?;
    let lost = with_recv("quic_lost")?;
    let retrans = with_recv("quic_retrans")?;
    let ptos = with_recv("quic_ptos")?;
    let rtt = with_recv("quic_rtt_ns")?;
    let min_rtt = columns.optional_numbers::<u64>("quic_min_rtt_ns")?;
    let max_rtt = columns.optional_numbers::<u64>("quic_max_rtt_ns")?;
    let rttvar = with_recv("quic_rttvar_ns")?;
    let cwnd_bytes = with_recv("quic_cwnd_bytes")?;
    let sent_bytes = with_recv("quic_sent_bytes")?;
    let recv_bytes = with_recv("quic_recv_bytes")?;
    let lost_bytes = with_recv("quic_lost_bytes")?;
    let stream_retrans_bytes = with_recv("quic_stream_retrans_bytes")?;
    let pmtu_bytes = with_recv("quic_pmtu_bytes")?;
    let delivery_rate = with_recv("quic_delivery_rate_bytes_per_s")?;
    let max_bandwidth = columns.optional_numbers("quic_max_bandwidth_bytes_per_s")?;
    let socket_drops = with_recv("quic_socket_drops")?;
    let path = |i| {
        recv.at(i).map(|recv| QuicPath {
            recv,
            sent: sent[i],
            lost: lost[i],
            retrans: retrans[i],
            ptos: ptos[i],
            rtt: Duration::from_nanos(rtt[i]),
            min_rtt: min_rtt.at(i).map(Duration::from_nanos),
            max_rtt: max_rtt.at(i).map(Duration::from_nanos),
            rttvar: Duration::from_nanos(rttvar[i]),
            cwnd_bytes: cwnd_bytes[i],
            sent_bytes: sent_bytes[i],
            recv_bytes: recv_bytes[i],
            lost_bytes: lost_bytes[i],
            stream_retrans_bytes: stream_retrans_bytes[i],
            pmtu_bytes: pmtu_bytes[i],
            delivery_rate_bytes_per_s: delivery_rate[i],
            max_bandwidth_bytes_per_s: max_bandwidth.at(i),
            socket_drops: socket_drops[i],
        })
    };
    Ok((0..columns.rows()).map(path).collect())
}
