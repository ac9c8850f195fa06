//! The packets of a trial: as a capture, and one connection's data as a time-sequence graph.
//!
//! If the trial has a capture, it is copied, because it already contains the comments on its packets and the TLS secrets.
//! Otherwise, a capture of headers is made from packets.parquet.

use std::path::Path;

use anyhow::{Context, Result};
use squall_base::record::{PacketRecord, Side};
use squall_record::export::{TimeSequence, write_packet_headers, write_time_sequence};
use squall_record::{copy_private, read_packets};

use super::arguments::Part;
use super::destination::{in_place_of, write_to};
use super::rows::drops_of;
use crate::outcome::BadInput;
use crate::output::eprint;
use crate::trials::SelectedTrial;

/// Writes the packets of a link as pcapng.
pub(super) fn export_capture(
    selected: &SelectedTrial,
    part: &Part,
    output: Option<&Path>,
) -> Result<()> {
    let Some(output) = output else {
        return Err(BadInput::new("a capture is binary: name a file with -o").into());
    };
    let hop = link_hop(selected, part)?;
    let variant = &selected.record.trial.variant;
    let link = variant.links_before(usize::from(hop) - 1);
    let capture = selected.folder.capture_of(link);
    if capture.is_file() {
        // It may contain secrets, and in any case it contains everything that was sent.
        return in_place_of(output, |draft| {
            copy_private(&capture, draft).with_context(|| {
                format!("cannot copy {} to {}", capture.display(), output.display())
            })
        });
    }
    let packets = packets_of(selected, hop)?;
    let drops = drops_of(selected)?;
    eprint(format_args!(
        "{} has no capture (squall run --pcap makes one): the file has headers from packets.parquet, without content\n",
        selected.folder.root().display()
    ));
    let epoch = selected.record.epoch_unix_ns;
    write_to(Some(output), |out| {
        write_packet_headers(out, epoch, packets.as_slice(), drops.as_slice(), hop)
    })
}

/// Writes the time-sequence graph of one connection.
pub(super) fn export_time_sequence(
    selected: &SelectedTrial,
    part: &Part,
    output: Option<&Path>,
) -> Result<()> {
    let hop = link_hop(selected, part)?;
    let packets = packets_of(selected, hop)?;
    let flow = part.connection.unwrap_or(0);
    let sender = part.side.map_or(Side::Server, Side::from);
    let direction = sender.sends();
    let has_data = |row: &PacketRecord| {
        row.flow == flow && row.hop == hop && row.direction == direction && row.payload_len > 0
    };
    if !packets.iter().any(has_data) {
        return Err(BadInput::new(format!(
            "the {} sent no TCP data in flow {flow} of hop {hop} in {}; --connection takes `flow` of packets.parquet, --side \
             the sender",
            sender.name(),
            selected.folder.root().display()
        ))
        .into());
    }
    let trial = selected.record.trial.folder();
    let title = format!("{trial}, flow {flow}, sent by the {}", sender.name());
    let graph = TimeSequence {
        hop,
        flow,
        direction,
        title: &title,
    };
    let epoch = selected.record.epoch_unix_ns;
    write_to(output, |out| {
        write_time_sequence(out, epoch, &packets, &graph)
    })
}

/// The hop that the flags name, which must cross a link.
fn link_hop(selected: &SelectedTrial, part: &Part) -> Result<u8, BadInput> {
    let variant = &selected.record.trial.variant;
    let (first, _) = variant.link_hop();
    let hop = part.hop.unwrap_or(first);
    if variant.link_hops().any(|(number, _)| number == hop) {
        return Ok(hop);
    }
    Err(BadInput::new(format!(
        "hop {hop} of {} crosses no link, so it has no packets",
        variant.path
    )))
}

/// The packets of a trial. In tables from before paths had several links, they get the number of their hop.
fn packets_of(selected: &SelectedTrial, hop: u8) -> Result<Vec<PacketRecord>> {
    let SelectedTrial { folder, record } = selected;
    let mut packets = folder.read_checked(record, &folder.packets(), read_packets)?;
    for row in &mut packets {
        if row.hop == PacketRecord::ONLY_LINK {
            row.hop = hop;
        }
    }
    Ok(packets)
}
