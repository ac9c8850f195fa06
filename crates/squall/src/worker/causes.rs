//! A trial's own tables, read when they are complete, and the causes of its latencies.
//!
//! What a cause is, and how it is found on paths of one hop and of several, is squall-analysis'. Only the columns that
//! attribution takes are read: what is wrong in a trial (`findings`) is found from others, after its memory is free again.

use std::path::PathBuf;

use anyhow::Result;
use squall_analysis::causes::{Attribution, PathInputs, PathShape, attribute_path};
use squall_base::plan::{Protocol, Trial, Variant};
use squall_base::record::{ExchangeRecord, FrameRecord, PacketRecord, RequestRecord, SocketRecord};
use squall_record::{CausesWriter, DropWriter, PartialTrial, RecordError, Rows, TableRow};

/// The columns that `Inputs` takes on every path, by table.
const REQUESTS: [&str; 11] = [
    "request",
    "intended_ns",
    "taken_up_ns",
    "slot_ns",
    "connected_ns",
    "written_first_ns",
    "written_last_ns",
    "end_ns",
    "connection",
    "stream",
    "outcome",
];
const PACKETS: [&str; 16] = [
    "index",
    "direction",
    "flow",
    "protocol",
    "seq",
    "ack",
    "payload_bytes",
    "tcp_flags",
    "window_bytes",
    "arrived_ns",
    "queueing_ns",
    "served_ns",
    "planned_ns",
    "released_ns",
    "fate",
    "corrupted",
];
const EXCHANGES: [&str; 16] = [
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
    "response_start",
    "response_end",
    "response_wire_start",
    "response_wire_end",
];
const FRAMES: [&str; 14] = [
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
    "value",
    "stream_window",
    "connection_window",
];
const SOCKETS: [&str; 11] = [
    "time_ns",
    "hop",
    "side",
    "connection",
    "tcpi_rto",
    "tcpi_total_rto",
    "tcpi_snd_cwnd",
    "tcpi_notsent_bytes",
    "tcpi_sndbuf_limited",
    "tcpi_pacing_rate",
    "tcpi_max_pacing_rate",
];

/// Of requests besides, where a hop is encrypted.
const REQUESTS_SECURED: [&str; 1] = ["secured_ns"];
/// Of exchanges besides, where a hop is encrypted.
const EXCHANGES_SECURED: [&str; 4] = [
    "request_record_first",
    "request_record_last",
    "response_record_first",
    "response_record_last",
];
/// Of packets besides, where a hop is of QUIC: it is joined with them by their lengths.
const PACKETS_OF_QUIC: [&str; 2] = ["length_bytes", "copy"];
/// Of frames besides, where a hop is of QUIC.
const FRAMES_OF_QUIC: [&str; 1] = ["packet"];
/// Of sockets besides, where a hop is of QUIC.
const SOCKETS_OF_QUIC: [&str; 2] = ["quic_recv", "quic_cwnd_bytes"];
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
    write(partial, read(partial, &trial.variant)?)
}

/// Reads every table row by row, and of each the columns that tell something on this path.
fn read(partial: &PartialTrial, variant: &Variant) -> Result<PathInputs, RecordError> {
    let shape = PathShape::of(variant);
    let has = |of: fn(Protocol) -> bool| variant.hops.iter().any(|hop| of(hop.protocol));
    let is_secured = has(Protocol::is_secure);
    let is_quic = has(|protocol| protocol == Protocol::H3);
    let is_several = shape.hops() > 1;
    let mut inputs = PathInputs::new(shape);
    let columns = chosen(&[(true, &REQUESTS), (is_secured, &REQUESTS_SECURED)]);
    each(partial.requests(), &columns, |row: &RequestRecord| {
        inputs.add_request(row);
    })?;
    let columns = chosen(&[(true, &PACKETS), (is_quic, &PACKETS_OF_QUIC)]);
    each(partial.packets(), &columns, |row: &PacketRecord| {
        inputs.add_packet(row);
    })?;
    let columns = chosen(&[
        (true, &EXCHANGES),
        (is_secured, &EXCHANGES_SECURED),
        (is_several, &OF_SEVERAL),
    ]);
    each(partial.exchanges(), &columns, |row: &ExchangeRecord| {
        inputs.add_exchange(row);
    })?;
    let wanted = inputs.wanted_frames();
    let columns = chosen(&[(true, &FRAMES), (is_quic, &FRAMES_OF_QUIC)]);
    Rows::open_columns(partial.frames(), &columns)?.each_wanted(wanted, |row: &FrameRecord| {
        inputs.add_frame(row);
    })?;
    let columns = chosen(&[(true, &SOCKETS), (is_quic, &SOCKETS_OF_QUIC)]);
    each(partial.sockets(), &columns, |row: &SocketRecord| {
        inputs.add_socket(row);
    })?;
    Ok(inputs)
}

/// The columns of those lists that are wanted.
fn chosen(lists: &[(bool, &[&'static str])]) -> Vec<&'static str> {
    let wanted = lists.iter().filter(|(is_wanted, _)| *is_wanted);
    wanted
        .flat_map(|(_, columns)| columns.iter().copied())
        .collect()
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
    table.append_each(attribution.causes.iter())?;
    table.append(&attribution.hops)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&attribution.drops)?;
    table.finish()?;
    Ok(attribution)
}
