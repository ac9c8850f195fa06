//! What is recorded of a link's packets: always totals, and a table and a capture if requested. Background threads
//! write, so that a slow disk does not hold up the link.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use squall_base::Time;
use squall_base::record::PacketRecord;
use squall_link::LinkSettings;
use squall_linux::clock;
use squall_linux::link_thread::{RecordedPacket, Sinks};
use squall_record::{
    CapturedPacket, PacketWriter, PcapngFile, add_secrets, append_private, read_text_at_most,
};

use super::comment;
use super::plan::Plan;
use super::totals::LinkTotals;
use crate::background;
use crate::limits;
use crate::output::eprint;

/// A packet that stays in the link for longer than this plus its delays is out of order in the capture.
const HELD_AT_MOST: squall_base::Duration = squall_base::Duration::from_secs(10);

/// The writing threads.
pub(super) struct Outputs {
    totals: JoinHandle<Result<LinkTotals>>,
    capture: Option<JoinHandle<Result<()>>>,
}

impl Outputs {
    /// Creates the files and starts the writing threads. Times of the table count from `epoch`.
    pub(super) fn start(plan: &Plan, epoch: Time) -> Result<(Sinks, Outputs)> {
        if let Some(path) = &plan.key_log {
            // A program would create it readable for everyone.
            append_private(path)
                .with_context(|| format!("cannot write the key log {}", path.display()))?;
        }
        let (records, received) = mpsc::channel();
        let table = plan.log.clone().map(PacketWriter::create).transpose()?;
        let totals = background::start("squall-packets", move || total(received, table, epoch))?;
        let (packets, capture) = match &plan.pcap {
            None => (None, None),
            Some(path) => {
                let (packets, received) = mpsc::channel();
                let file = PcapngFile::create(path.clone(), epoch, clock::unix_nanos())?;
                let settings = plan.settings.clone();
                let writer = background::start("squall-capture", move || {
                    capture(received, file, &settings, epoch)
                })?;
                (Some(packets), Some(writer))
            }
        };
        let sinks = Sinks {
            hop: 1,
            records,
            packets,
        };
        Ok((sinks, Outputs { totals, capture }))
    }

    /// Waits for the last packet; the link must have ended.
    pub(super) fn finish(self, plan: &Plan) -> Result<LinkTotals> {
        let panicked = |_| anyhow!("a thread that writes packets panicked");
        if let Some(capture) = self.capture {
            capture.join().map_err(panicked)??;
        }
        if let (Some(capture), Some(key_log)) = (&plan.pcap, &plan.key_log) {
            add_key_log(capture, key_log)?;
        }
        self.totals.join().map_err(panicked)?
    }
}

/// Adds the TLS secrets that programs wrote to the capture.
fn add_key_log(capture: &Path, key_log: &Path) -> Result<()> {
    let lines = read_text_at_most(key_log, limits::KEY_LOG)
        .with_context(|| format!("cannot read {}", key_log.display()))?;
    if lines.is_empty() {
        eprint(format_args!(
            "squall: no program wrote TLS secrets to {}: it may have made no connection, or not know SSLKEYLOGFILE\n",
            key_log.display()
        ));
        return Ok(());
    }
    Ok(add_secrets(capture, &lines)?)
}

fn total(
    chunks: Receiver<Vec<PacketRecord>>,
    mut table: Option<PacketWriter>,
    epoch: Time,
) -> Result<LinkTotals> {
    let mut totals = LinkTotals::default();
    for mut chunk in chunks {
        chunk.iter().for_each(|packet| totals.add(packet));
        if let Some(table) = &mut table {
            chunk.iter_mut().for_each(|packet| packet.count_from(epoch));
            table.append(&chunk)?;
        }
    }
    if let Some(table) = table {
        table.finish()?;
    }
    Ok(totals)
}

fn capture(
    chunks: Receiver<Vec<RecordedPacket>>,
    mut file: PcapngFile,
    settings: &LinkSettings,
    epoch: Time,
) -> Result<()> {
    let held_at_most = settings.round_trip() + HELD_AT_MOST;
    for chunk in chunks {
        let newest = chunk.iter().map(|seen| seen.record.arrived).max();
        let packets = chunk.into_iter().map(|seen| CapturedPacket {
            comment: comment::of(&seen.record, settings, Some(epoch)),
            record: seen.record,
            bytes: seen.bytes,
        });
        let complete_until = newest
            .unwrap_or(Time::ZERO)
            .as_nanos()
            .saturating_sub(held_at_most.as_nanos());
        file.append(packets.collect(), Time::from_nanos(complete_until))?;
    }
    file.finish()?;
    Ok(())
}
