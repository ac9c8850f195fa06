//! What becomes of a link's packets: the totals always, a table and a capture if asked for. One thread, in the
//! background, so that no disk holds up the link.

use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::Time;
use squall_base::record::{Fate, PacketRecord};
use squall_link::LinkSettings;
use squall_link::settings::LaneSettings;
use squall_linux::link_thread::{SeenPacket, Sinks};
use squall_linux::{clock, scheduling};
use squall_record::{Captured, PacketWriter, PcapngFile};

use super::Plan;
use crate::link_totals::LinkTotals;

/// A packet that is longer than this in the link, besides its delays, stands out of order in the capture.
const HELD_AT_MOST: squall_base::Duration = squall_base::Duration::from_secs(10);

/// The threads that write.
pub(super) struct Outputs {
    totals: JoinHandle<Result<LinkTotals>>,
    capture: Option<JoinHandle<Result<()>>>,
}

impl Outputs {
    /// Makes the files and begins to wait for packets. Times of the table count from `epoch`.
    pub(super) fn start(plan: &Plan, epoch: Time) -> Result<(Sinks, Outputs)> {
        let (records, received) = mpsc::channel();
        let table = plan.log.clone().map(PacketWriter::create).transpose()?;
        let totals = in_background("squall-packets", move || total(received, table, epoch))?;
        let (packets, capture) = match &plan.pcap {
            None => (None, None),
            Some(path) => {
                let (packets, received) = mpsc::channel();
                let file = PcapngFile::create(path.clone(), epoch, clock::unix_nanos())?;
                let settings = plan.settings.clone();
                let writer =
                    in_background("squall-capture", move || capture(received, file, &settings))?;
                (Some(packets), Some(writer))
            }
        };
        Ok((Sinks { records, packets }, Outputs { totals, capture }))
    }

    /// Waits for the last packet; the link must have ended.
    pub(super) fn finish(self) -> Result<LinkTotals> {
        let panicked = |_| anyhow!("a thread that writes packets panicked");
        if let Some(capture) = self.capture {
            capture.join().map_err(panicked)??;
        }
        self.totals.join().map_err(panicked)?
    }
}

fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            scheduling::make_background();
            work()
        })
        .context("cannot start a thread that writes packets")
}

fn total(
    chunks: Receiver<Vec<PacketRecord>>,
    mut table: Option<PacketWriter>,
    epoch: Time,
) -> Result<LinkTotals> {
    let mut totals = LinkTotals::new();
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
    chunks: Receiver<Vec<SeenPacket>>,
    mut file: PcapngFile,
    settings: &LinkSettings,
) -> Result<()> {
    let held_at_most = settings.round_trip() + HELD_AT_MOST;
    for chunk in chunks {
        let newest = chunk.iter().map(|seen| seen.record.arrived).max();
        let packets = chunk.into_iter().map(|seen| Captured {
            comment: comment(&seen.record, settings),
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

/// What a reader of the capture should know of a packet; `None` if it was delivered as it came.
fn comment(record: &PacketRecord, settings: &LinkSettings) -> Option<String> {
    let lanes = || {
        settings
            .stretches
            .iter()
            .map(|stretch| stretch.lane(record.direction))
    };
    let of = |what: fn(&LaneSettings) -> Vec<String>| {
        let words: Vec<String> = lanes().flat_map(what).collect();
        match words.is_empty() {
            // A schedule may have set it since.
            true => "as the schedule says".to_owned(),
            false => words.join("; "),
        }
    };
    let mut said = Vec::new();
    match record.fate {
        Fate::LossDrop => said.push(format!("dropped by loss ({})", of(summary_words::loss))),
        Fate::BurstDrop => said.push(format!("dropped in a burst ({})", of(summary_words::loss))),
        Fate::ListDrop => said.push(format!("dropped by name ({})", of(summary_words::drops))),
        Fate::BlackoutDrop => said.push(format!(
            "dropped in a blackout ({})",
            of(summary_words::blackouts)
        )),
        Fate::QueueDrop => said.push(format!(
            "dropped by the queue, which had no room ({}); it held {} bytes",
            of(summary_words::queue),
            record.queue_bytes
        )),
        Fate::EarlyDrop => said.push(format!(
            "dropped early by the queue ({})",
            of(summary_words::queue)
        )),
        Fate::WriteError => {
            said.push("refused by the receiving host: a fault of this machine".to_owned());
        }
        Fate::InFlight => said.push("still in the link when it ended".to_owned()),
        Fate::Delivered => {}
    }
    if record.is_marked {
        said.push(format!(
            "marked by the queue ({})",
            of(summary_words::queue)
        ));
    }
    if record.is_corrupted {
        said.push("a bit was flipped".to_owned());
    }
    if record.is_copy {
        said.push("second copy made by the link".to_owned());
    }
    (!said.is_empty()).then(|| format!("squall: {}", said.join("; ")))
}

/// The settings that a comment names, in the words in which they are written.
mod summary_words {
    use squall_link::settings::{LaneSettings, Loss, Setting};

    pub(super) fn loss(lane: &LaneSettings) -> Vec<String> {
        let is_set = lane.loss != Loss::default();
        is_set
            .then(|| Setting::Loss(lane.loss).to_string())
            .into_iter()
            .collect()
    }

    pub(super) fn drops(lane: &LaneSettings) -> Vec<String> {
        lane.drops
            .iter()
            .map(|rule| Setting::Drop(rule.clone()).to_string())
            .collect()
    }

    pub(super) fn blackouts(lane: &LaneSettings) -> Vec<String> {
        lane.blackouts
            .iter()
            .map(|window| Setting::Blackout(*window).to_string())
            .collect()
    }

    pub(super) fn queue(lane: &LaneSettings) -> Vec<String> {
        vec![Setting::Queue(lane.queue).to_string()]
    }
}
