//! A trial's own tables, read when they are complete, and the causes of its latencies.
//!
//! What a cause is, and how it is found, is squall-analysis'. Paths of several hops and of real programs have no causes:
//! nobody could say what happened on the sides that are not recorded. Only the columns that attribution takes are read:
//! what is wrong in a trial (`findings`) is found from others, after its memory is free again.

use std::path::PathBuf;

use anyhow::Result;
use squall_analysis::causes::{Attribution, Inputs, attribute};
use squall_base::plan::{Runs, Side, Trial};
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
const EXCHANGES: [&str; 19] = [
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
const FRAMES: [&str; 14] = [
    "time_ns",
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
const SOCKETS: [&str; 6] = [
    "time_ns",
    "side",
    "connection",
    "tcpi_rto",
    "quic_recv",
    "quic_cwnd_bytes",
];

/// Attributes a trial's response times from its tables, and writes causes.parquet and drops.parquet, if they can be known.
pub(super) fn attribute_trial(
    partial: &PartialTrial,
    trial: &Trial,
) -> Result<Option<Attribution>> {
    match begin(trial) {
        Some(inputs) => write(partial, read(partial, inputs)?).map(Some),
        None => Ok(None),
    }
}

/// Reads every table row by row.
fn read(partial: &PartialTrial, mut inputs: Inputs) -> Result<Inputs, RecordError> {
    each(partial.requests(), &REQUESTS, |row: &RequestRecord| {
        inputs.add_request(row);
    })?;
    each(partial.packets(), &PACKETS, |row: &PacketRecord| {
        inputs.add_packet(row);
    })?;
    each(partial.exchanges(), &EXCHANGES, |row: &ExchangeRecord| {
        inputs.add_exchange(row);
    })?;
    each(partial.frames(), &FRAMES, |row: &FrameRecord| {
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

/// What attribution begins with, if both sides of the only hop are recorded.
fn begin(trial: &Trial) -> Option<Inputs> {
    let variant = &trial.variant;
    let [hop] = variant.hops.as_slice() else {
        return None;
    };
    if variant.stations.iter().any(|it| it.runs != Runs::Embedded) {
        return None;
    }
    let mut inputs = Inputs::new();
    for (sender, receiver) in [(Side::Client, &hop.server), (Side::Server, &hop.client)] {
        let windows = &receiver.http3;
        inputs.begin_quic_windows(
            sender,
            windows.stream_window.get(),
            windows.connection_window.get(),
        );
    }
    Some(inputs)
}

fn write(partial: &PartialTrial, inputs: Inputs) -> Result<Attribution> {
    let attribution = attribute(inputs);
    let mut table = CausesWriter::create(partial.causes())?;
    table.append(&attribution.causes)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&attribution.drops)?;
    table.finish()?;
    Ok(attribution)
}
