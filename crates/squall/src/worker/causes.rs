//! The causes of a trial's latencies, from its own tables once they are complete.
//!
//! What a cause is, and how it is found, is squall-analysis'. Paths of several hops and of real programs are left out:
//! nobody could say what happened on the sides that are not recorded.

use anyhow::Result;
use squall_analysis::causes::{Attribution, Inputs, attribute};
use squall_base::plan::{Runs, Side, Trial};
use squall_record::{
    CausesWriter, DropWriter, PartialTrial, read_exchanges, read_frames, read_packets,
    read_requests, read_sockets,
};

/// Writes causes.parquet and drops.parquet, if they can be known.
pub(super) fn write(partial: &PartialTrial, trial: &Trial) -> Result<()> {
    let variant = &trial.variant;
    let [hop] = variant.hops.as_slice() else {
        return Ok(());
    };
    if variant.stations.iter().any(|it| it.runs != Runs::Embedded) {
        return Ok(());
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
    read_requests(partial.requests())?
        .iter()
        .for_each(|row| inputs.add_request(row));
    read_packets(partial.packets())?
        .iter()
        .for_each(|row| inputs.add_packet(row));
    read_exchanges(partial.exchanges())?
        .iter()
        .for_each(|row| inputs.add_exchange(row));
    read_frames(partial.frames())?
        .iter()
        .for_each(|row| inputs.add_frame(row));
    read_sockets(partial.sockets())?
        .iter()
        .for_each(|row| inputs.add_socket(row));
    let Attribution { causes, drops } = attribute(inputs);
    let mut table = CausesWriter::create(partial.causes())?;
    table.append(&causes)?;
    table.finish()?;
    let mut table = DropWriter::create(partial.drops())?;
    table.append(&drops)?;
    table.finish()?;
    Ok(())
}
