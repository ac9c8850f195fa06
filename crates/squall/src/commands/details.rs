//! The details of chosen requests for a report: reads the tables of the trials that have chosen requests.
//!
//! squall-analysis chooses and explains them (`detail`). Rows go straight into its packed inputs; frames and sockets are read
//! a second time, for the requests' connections. One trial is in memory at a time, because `report` has its details drawn
//! before it reads the next one.

use anyhow::Result;
use squall_analysis::causes::{ExchangeCells, PacketCells, PathInputs, PathShape, SocketCells};
use squall_analysis::detail::{ChosenRequests, DetailBuilder, TrialDetail};
use squall_base::record::{FrameRecord, RequestRecord, SocketRecord, TrialRecord};
use squall_record::{RecordError, Rows, TrialFolder, each_projected, read_requests};

/// Reads the details of a trial; `None` if it lacks a table, or its causes are not known.
pub(crate) fn read_details(
    trial: &TrialFolder,
    record: &TrialRecord,
    chosen: &ChosenRequests,
) -> Result<Option<TrialDetail>> {
    let tables = [
        trial.packets(),
        trial.exchanges(),
        trial.frames(),
        trial.sockets(),
    ];
    if !trial.has(record, &trial.causes()) || !tables.iter().all(|table| table.is_file()) {
        return Ok(None);
    }
    let requests = trial.read_checked(record, &trial.requests(), read_requests)?;
    let inputs = read_inputs(trial, record, &requests)?;
    let mut builder = DetailBuilder::new(record, &requests, inputs, chosen);
    Rows::<FrameRecord>::open(trial.frames())?.each(|row| builder.add_frame(row))?;
    Rows::<SocketRecord>::open(trial.sockets())?.each(|row| builder.add_socket(row))?;
    Ok(Some(builder.finish()))
}

/// Reads every table row by row, with only the columns that attribution declares.
fn read_inputs(
    trial: &TrialFolder,
    record: &TrialRecord,
    requests: &[RequestRecord],
) -> Result<PathInputs, RecordError> {
    let mut inputs = PathInputs::new(PathShape::of(&record.trial.variant));
    requests.iter().for_each(|row| inputs.add_request(row));
    trial.read_checked(record, &trial.packets(), |path| {
        each_projected(path, |row: PacketCells| inputs.add_packet(row))
    })?;
    trial.read_checked(record, &trial.exchanges(), |path| {
        each_projected(path, |row: ExchangeCells| inputs.add_exchange(row))
    })?;
    let wanted = inputs.wanted_frames();
    trial.read_checked(record, &trial.frames(), |path| {
        Rows::open(path)?.each_wanted(wanted, |row| inputs.add_frame(row))
    })?;
    trial.read_checked(record, &trial.sockets(), |path| {
        each_projected(path, |row: SocketCells| inputs.add_socket(row))
    })?;
    Ok(inputs)
}
