//! qlog of a trial's connections.

use std::path::Path;

use anyhow::Result;
use squall_base::record::Side;
use squall_record::export::{QlogTrace, write_qlog, write_qlog_sequence};
use squall_record::{read_frames, read_sockets};

use super::arguments::Part;
use super::destination::write_to;
use crate::outcome::BadInput;
use crate::trials::SelectedTrial;

/// Writes all connections of a hop, or those that the flags name, as one JSON text.
pub(super) fn export_all(
    selected: &SelectedTrial,
    part: &Part,
    output: Option<&Path>,
) -> Result<()> {
    let mut traces = traces(selected, part)?;
    let side = part.side.map(Side::from);
    traces.retain(|trace| {
        part.connection
            .is_none_or(|number| number == trace.connection)
            && side.is_none_or(|side| side == trace.side)
    });
    if traces.is_empty() {
        return Err(no_frames(selected).into());
    }
    let record = &selected.record;
    write_to(output, |out| {
        write_qlog(out, record.epoch_unix_ns, &record.trial.folder(), &traces)
    })
}

/// Writes one connection as a sequence of JSON texts.
pub(super) fn export_one(
    selected: &SelectedTrial,
    part: &Part,
    output: Option<&Path>,
) -> Result<()> {
    let traces = traces(selected, part)?;
    let side = part.side.map_or(Side::Client, Side::from);
    let connection = part.connection.unwrap_or(0);
    let mut found = traces.iter();
    let found = found.find(|trace| (trace.connection, trace.side) == (connection, side));
    let trace = found.ok_or_else(|| no_frames(selected))?;
    let record = &selected.record;
    write_to(output, |out| {
        write_qlog_sequence(out, record.epoch_unix_ns, &record.trial.folder(), trace)
    })
}

fn traces(selected: &SelectedTrial, part: &Part) -> Result<Vec<QlogTrace>> {
    let SelectedTrial { folder, record } = selected;
    let frames = folder.read_checked(record, &folder.frames(), read_frames)?;
    let sockets = folder.read_checked(record, &folder.sockets(), read_sockets)?;
    let (link_hop, _) = record.trial.variant.link_hop();
    let hop = part.hop.unwrap_or(link_hop);
    Ok(QlogTrace::of_hop(hop, &frames, &sockets))
}

fn no_frames(selected: &SelectedTrial) -> BadInput {
    BadInput::new(format!(
        "no frames of HTTP/2, HTTP/3 or QUIC are recorded in {} for this hop, connection and side; HTTP/1.1 has none. \
         See frames.parquet, and --hop, --connection and --side",
        selected.folder.root().display()
    ))
}
