//! A trial's own tables, read when they are complete, and the causes of its latencies.
//!
//! What a cause is, and how it is found on paths of one hop and of several, is squall-analysis'. Only the columns that
//! attribution takes are read: what is wrong in a trial (`findings`) is found from others, after its memory is free again.

use std::path::PathBuf;

use anyhow::Result;
use squall_analysis::causes::{Attribution, PathInputs, PathShape, attribute_path};
use squall_base::plan::Trial;
use squall_base::record::{ExchangeRecord, FrameRecord, PacketRecord, RequestRecord, SocketRecord};
use squall_record::{CausesWriter, DropWriter, PartialTrial, RecordError, Rows, TableRow};

/// The columns that `Inputs` takes, by table.
const REQUESTS: [&str; 12] = [
    "request",
    "intended_ns",
    "taken_up_ns",
    "slot_ns",
    "connected_ns",
    "secured_ns",
    "written_first_ns",
    "written_last_ns",
    "end_ns",
    "connection",
    "stream",
    "outcome",
];
const PACKETS: [&str; 17] = [
    "index",
    "direction",
    "flow",
    "length_bytes",
    "protocol",
    "seq",
    "ack",
    "payload_bytes",
    "tcp_flags",
    "arrived_ns",
    "queueing_ns",
    "served_ns",
    "planned_ns",
    "released_ns",
    "fate",
    "corrupted",
    "copy",
];
const EXCHANGES: [&str; 20] = [
    "hop",
    "side",
    "connection",
    "stream",
    "request",
    "request_last_ns",
    "response_first_ns",
    "response_last_ns",
    "request_start",
    "request_end",
    "request_wire_start",
    "request_wire_end",
    "request_record_first",
    "request_record_last",
    "response_start",
    "response_end",
    "response_wire_start",
    "response_wire_end",
    "response_record_first",
    "response_record_last",
];
const FRAMES: [&str; 15] = [
    "time_ns",
    "hop",
    "side",
    "connection",
    "way",
    "layer",
    "kind",
    "flags",
    "stream",
    "offset",
    "length_bytes",
    "packet",
    "value",
    "stream_window",
    "connection_window",
];
const SOCKETS: [&str; 8] = [
    "time_ns",
    "hop",
    "side",
    "connection",
    "tcpi_rto",
    "tcpi_total_rto",
    "quic_recv",
    "quic_cwnd_bytes",
];

/// Of exchanges besides, on a path of several hops.
const OF_SEVERAL: [&str; 6] = [
    "offered_ns",
    "slot_ns",
    "opened_ns",
    "connected_ns",
    "secured_ns",
    "request_first_ns",
];

/// Attributes a trial's response times from its tables, and writes causes.parquet and drops.parquet.
pub(super) fn attribute_trial(partial: &PartialTrial, trial: &Trial) -> Result<Attribution> {
    write(partial, read(partial, PathShape::of(&trial.variant))?)
}

/// Reads every table row by row.
fn read(partial: &PartialTrial, shape: PathShape) -> Result<PathInputs, RecordError> {
    let mut of_exchanges = EXCHANGES.to_vec();
    if shape.hops() > 1 {
        of_exchanges.extend(OF_SEVERAL);
    }
    let mut inputs = PathInputs::new(shape);
    each(partial.requests(), &REQUESTS, |row: &RequestRecord| {
        inputs.add_request(row);
    })?;
    each(partial.packets(), &PACKETS, |row: &PacketRecord| {
        inputs.add_packet(row);
    })?;
    each(
        partial.exchanges(),
        &of_exchanges,
        |row: &ExchangeRecord| {
            inputs.add_exchange(row);
        },
    )?;
    let wanted = inputs.wanted_frames();
    Rows::open_columns(partial.frames(), &FRAMES)?.each_wanted(wanted, |row: &FrameRecord| {
        inputs.add_frame(row);
    })?;
    each(partial.sockets(), &SOCKETS, |row: &SocketRecord| {
        inputs.add_socket(row);
    })?;
    Ok(inputs)
}

/// Hands every row of a table to `take`, with these columns.
fn each<R: TableRow>(
    path: PathBuf,
    columns: &[&str],
    take: impl FnMut(&R),
) -> Result<(), RecordError> {
    Rows::open_columns(path, columns)?.each(take)
}

fn write(partial: &PartialTrial, inputs: PathInputs) -> Result<Attribution> {
    let attribution = attribute_path(inputs);
    let mut table = CausesWriter::create(partial.causes())?;
    table.append(&attribution.causes)?;
    table.append(&attribution.hops)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&attribution.drops)?;
    table.finish()?;
    Ok(attribution)
}
