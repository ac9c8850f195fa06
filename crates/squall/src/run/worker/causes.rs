//! Reads a trial's complete tables and attributes its latencies to causes.
//!
//! squall-analysis defines causes and how they are found on paths of one hop and of several. Only the columns that
//! attribution needs are read; `findings` reads the others later, after this memory is free again.

use anyhow::Result;
use squall_analysis::causes::{
    Attribution, ExchangeCells, PacketCells, PathInputs, PathShape, RequestCells, SocketCells,
    attribute_path,
};
use squall_base::plan::{Trial, Variant};
use squall_record::{CausesWriter, DropWriter, PartialTrial, RecordError, Rows, each_projected};

/// Attributes a trial's response times from its tables, and writes causes.parquet and drops.parquet.
pub(super) fn attribute_trial(partial: &PartialTrial, trial: &Trial) -> Result<Attribution> {
    write(partial, read(partial, &trial.variant)?)
}

/// Reads every table row by row, with only the columns that attribution declares.
fn read(partial: &PartialTrial, variant: &Variant) -> Result<PathInputs, RecordError> {
    let mut inputs = PathInputs::new(PathShape::of(variant));
    each_projected(partial.requests(), |row: RequestCells| {
        inputs.add_request(row);
    })?;
    each_projected(partial.packets(), |row: PacketCells| inputs.add_packet(row))?;
    each_projected(partial.exchanges(), |row: ExchangeCells| {
        inputs.add_exchange(row);
    })?;
    let wanted = inputs.wanted_frames();
    Rows::open(partial.frames())?.each_wanted(wanted, |row| inputs.add_frame(row))?;
    each_projected(partial.sockets(), |row: SocketCells| inputs.add_socket(row))?;
    Ok(inputs)
}

fn write(partial: &PartialTrial, inputs: PathInputs) -> Result<Attribution> {
    let attribution = attribute_path(inputs);
    let mut table = CausesWriter::create(partial.causes())?;
    let causes = &attribution.causes;
    if let Some(first) = causes.get(0) {
        table.append_made(causes.len(), first, |place, row| causes.read(place, row))?;
    }
    table.append(&attribution.hops)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&attribution.drops)?;
    table.finish()?;
    Ok(attribution)
}
