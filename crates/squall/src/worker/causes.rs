//! A trial's own tables, read once when they are complete, and the causes of its latencies.
//!
//! What a cause is, and how it is found, is squall-analysis'. Paths of several hops and of real programs have no causes:
//! nobody could say what happened on the sides that are not recorded. What is wrong in a trial (`findings`) is found from
//! the same rows.

use std::path::PathBuf;

use anyhow::Result;
use squall_analysis::causes::{Attribution, Inputs, attribute};
use squall_analysis::findings::Records;
use squall_base::plan::{Runs, Side, Trial};
use squall_base::record::{ExchangeRecord, FrameRecord, PacketRecord, RequestRecord, SocketRecord};
use squall_record::{CausesWriter, DropWriter, PartialTrial, RecordError, Rows, TableRow};

/// Reads every table row by row: for attribution, if causes can be known, and for findings.
pub(super) fn read(partial: &PartialTrial, trial: &Trial) -> Result<(Option<Inputs>, Records)> {
    let mut inputs = begin(trial);
    let mut records = Records::new();
    each(partial.requests(), |row: &RequestRecord| {
        records.add_request(row);
        inputs.iter_mut().for_each(|inputs| inputs.add_request(row));
    })?;
    each(partial.packets(), |row: &PacketRecord| {
        records.add_packet(row);
        inputs.iter_mut().for_each(|inputs| inputs.add_packet(row));
    })?;
    each(partial.exchanges(), |row: &ExchangeRecord| {
        records.add_exchange(row);
        inputs
            .iter_mut()
            .for_each(|inputs| inputs.add_exchange(row));
    })?;
    each(partial.frames(), |row: &FrameRecord| {
        records.add_frame(row);
        inputs.iter_mut().for_each(|inputs| inputs.add_frame(row));
    })?;
    each(partial.sockets(), |row: &SocketRecord| {
        records.add_socket(row);
        inputs.iter_mut().for_each(|inputs| inputs.add_socket(row));
    })?;
    Ok((inputs, records))
}

/// Hands every row of a table to `take`.
fn each<R: TableRow>(path: PathBuf, mut take: impl FnMut(&R)) -> Result<(), RecordError> {
    for row in Rows::open(path)? {
        take(&row?);
    }
    Ok(())
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

/// Writes causes.parquet and drops.parquet, if they can be known.
pub(super) fn write(partial: &PartialTrial, inputs: Option<Inputs>) -> Result<Option<Attribution>> {
    let Some(inputs) = inputs else {
        return Ok(None);
    };
    let attribution = attribute(inputs);
    let mut table = CausesWriter::create(partial.causes())?;
    table.append(&attribution.causes)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&attribution.drops)?;
    table.finish()?;
    Ok(Some(attribution))
}
