//! What is recorded of a link's packets: always totals, and a table and a capture if requested. Background threads write, so
//! that a slow disk does not hold up the link. They save every few seconds, in case the link is killed.
//!
//! `squall_linux::link_thread` decides what a link's thread hands over, and when.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
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
use crate::save_pace::SavePace;

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
        let log = plan.log.as_ref();
        let table = log.map(PacketWriter::create_in_parts).transpose()?;
        let totals = background::start("squall-packets", move || total(&received, table, epoch))?;
        let (packets, capture) = match &plan.pcap {
            None => (None, None),
            Some(path) => {
                let (packets, received) = mpsc::channel();
                let file = PcapngFile::create(path.clone(), epoch, clock::unix_nanos())?;
                let settings = plan.settings.clone();
                let writer = background::start("squall-capture", move || {
                    capture(&received, file, &settings, epoch)
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

    /// Waits until the last packet is written, and adds the TLS secrets to the capture; the link must have ended.
    pub(super) fn finish(self, plan: &Plan) -> Result<LinkTotals> {
        let panicked = |_| anyhow!("a thread that writes packets panicked");
        if let Some(capture) = self.capture {
            background::join(capture).map_err(panicked)??;
        }
        if let (Some(capture), Some(key_log)) = (&plan.pcap, &plan.key_log) {
            add_key_log(capture, key_log)?;
        }
        background::join(self.totals).map_err(panicked)?
    }
}

/// Adds the TLS secrets that programs wrote to the capture.
fn add_key_log(capture: &Path, key_log: &Path) -> Result<()> {
    let lines = read_text_at_most(key_log, limits::KEY_LOG)
        .with_context(|| format!("cannot read {}", key_log.display()))?;
    if lines.is_empty() {
        eprint(format_args!(
            "squall: {} has no TLS secrets: no program made a TLS connection, or none supports SSLKEYLOGFILE\n",
            key_log.display()
        ));
        return Ok(());
    }
    Ok(add_secrets(capture, &lines)?)
}

/// Sums up the packets, and writes them to the table.
fn total(
    chunks: &Receiver<Vec<PacketRecord>>,
    mut table: Option<PacketWriter>,
    epoch: Time,
) -> Result<LinkTotals> {
    let mut totals = LinkTotals::default();
    let append = |table: &mut Option<PacketWriter>, mut chunk: Vec<PacketRecord>| -> Result<()> {
        chunk.iter().for_each(|packet| totals.add(packet));
        if let Some(table) = table {
            chunk.iter_mut().for_each(|packet| packet.count_from(epoch));
            table.append(&chunk)?;
        }
        Ok(())
    };
    let save = |table: &mut Option<PacketWriter>| -> Result<()> {
        if let Some(table) = table {
            table.save()?;
        }
        Ok(())
    };
    write_chunks(chunks, &mut table, append, save)?;
    if let Some(table) = table {
        table.finish()?;
    }
    Ok(totals)
}

/// Writes the packets to the capture.
fn capture(
    chunks: &Receiver<Vec<RecordedPacket>>,
    mut file: PcapngFile,
    settings: &LinkSettings,
    epoch: Time,
) -> Result<()> {
    let held_at_most = settings.round_trip() + HELD_AT_MOST;
    let append = |file: &mut PcapngFile, chunk: Vec<RecordedPacket>| -> Result<()> {
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
        Ok(file.append(packets.collect(), Time::from_nanos(complete_until))?)
    };
    write_chunks(chunks, &mut file, append, |file| Ok(file.save()?))?;
    file.finish()?;
    Ok(())
}

/// Has `writer` append chunks as they arrive, and save every few seconds, until the link has ended.
fn write_chunks<W, T>(
    chunks: &Receiver<Vec<T>>,
    writer: &mut W,
    mut append: impl FnMut(&mut W, Vec<T>) -> Result<()>,
    save: impl Fn(&mut W) -> Result<()>,
) -> Result<()> {
    let mut pace = SavePace::new(clock::now());
    loop {
        let now = clock::now();
        let pause = pace.wait(now);
        if pause.is_zero() {
            save(writer)?;
            pace.saved(now, clock::now());
            continue;
        }
        match chunks.recv_timeout(pause.into()) {
            Ok(chunk) => append(writer, chunk)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn chunks_are_saved_every_second_and_none_is_lost_at_the_end() {
        let (sender, chunks) = channel();
        let (saved, saves) = channel();
        let writing = std::thread::spawn(move || {
            let mut rows = Vec::new();
            let append = |rows: &mut Vec<u32>, chunk: Vec<u32>| -> Result<()> {
                rows.extend(chunk);
                Ok(())
            };
            let save = |rows: &mut Vec<u32>| -> Result<()> { Ok(saved.send(rows.len())?) };
            write_chunks(&chunks, &mut rows, append, save).map(|()| rows)
        });
        sender.send(vec![1, 2]).unwrap();
        // The writer saves both rows without waiting for another chunk.
        while saves.recv().unwrap() < 2 {}
        sender.send(vec![3]).unwrap();
        drop(sender);
        assert_eq!(writing.join().unwrap().unwrap(), [1, 2, 3]);
    }
}
