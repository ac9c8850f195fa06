//! The capture of a link: each packet once, at the time at which it entered the link, in that order; a copy that the link
//! made is one more.
//!
//! Packets come when their fate is final, which for a delayed one is long after it entered, so they are held
//! back until no earlier one can follow. The memory is that of the packets that the link itself holds. Times
//! of release are not here: they are in packets.parquet. The blocks themselves are `writer`'s.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use squall_base::Time;
use squall_base::record::{Direction, PacketRecord};

use super::{Heading, PcapngWriter};
use crate::RecordError;

/// Bytes that are written at once: some 40 full packets.
const BUFFER_BYTES: usize = 64 * 1024;

/// The interfaces, in the order of their numbers.
const INTERFACES: [(&str, &str); 2] = [
    ("up", "client to server, at the time of entering the link"),
    ("down", "server to client, at the time of entering the link"),
];

/// Addresses for readers that want Ethernet: locally administered, so that they are nobody's.
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// One packet to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its record; only the direction, the time of arrival and the number are used.
    pub record: PacketRecord,
    /// The IP packet; one that the link altered, as it left.
    pub bytes: Vec<u8>,
    /// What a reader should be told about it, e.g. "squall: dropped by loss (loss 3%)".
    pub comment: Option<String>,
}

/// Writes a pcapng file with the interfaces "up" and "down".
///
/// A packet from the client is marked as outbound, one to it as inbound.
///
/// ```
/// use squall_base::Time;
/// use squall_record::PcapngFile;
///
/// let folder = tempfile::tempdir()?;
/// let epoch = Time::from_nanos(5_000_000_000);
/// let path = folder.path().join("packets.pcapng");
/// let mut capture = PcapngFile::create(path, epoch, 1_700_000_000_000_000_000)?;
/// capture.append(Vec::new(), epoch)?;
/// assert_eq!(capture.finish()?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PcapngFile {
    path: PathBuf,
    writer: PcapngWriter<BufWriter<File>>,
    epoch: Time,
    epoch_unix_ns: u64,
    waiting: BTreeMap<Place, Captured>,
    /// Packets taken so far.
    taken: u64,
    /// The frame being made; kept for its memory.
    frame: Vec<u8>,
}

/// Where a packet stands in the file: by arrival, then direction and number, then as it came.
type Place = (Time, Direction, u64, u64);

impl PcapngFile {
    /// Makes the file `path`, in place of what is there. `epoch` is an instant on the clock of the packets'
    /// times, and `epoch_unix_ns` the same instant in nanoseconds since 1970-01-01 00:00 UTC.
    pub fn create(path: PathBuf, epoch: Time, epoch_unix_ns: u64) -> Result<Self, RecordError> {
        let file = File::create(&path).map_err(|source| RecordError::Create {
            path: path.clone(),
            source,
        })?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let application = concat!("squall ", env!("CARGO_PKG_VERSION"));
        match PcapngWriter::new(out, application, &INTERFACES) {
            Ok(writer) => Ok(PcapngFile {
                path,
                writer,
                epoch,
                epoch_unix_ns,
                waiting: BTreeMap::new(),
                taken: 0,
                frame: Vec::new(),
            }),
            Err(source) => Err(RecordError::Write { path, source }),
        }
    }

    /// Takes `packets`, in any order, and writes all taken so far that arrived before `complete_until`: the
    /// caller's word that no packet which arrived before it will follow. One that does is written all the
    /// same, out of order. After an error the file is of no use.
    pub fn append(
        &mut self,
        packets: Vec<Captured>,
        complete_until: Time,
    ) -> Result<(), RecordError> {
        for packet in packets {
            let record = &packet.record;
            let place = (record.arrived, record.direction, record.index, self.taken);
            self.waiting.insert(place, packet);
            self.taken += 1;
        }
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 >= complete_until {
                break;
            }
            let packet = first.remove();
            self.write(&packet)?;
        }
        Ok(())
    }

    /// Writes the packets that are left, and waits until the disk has them. Gives the number of packets in
    /// the file.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        for packet in std::mem::take(&mut self.waiting).into_values() {
            self.write(&packet)?;
        }
        let PcapngFile {
            path,
            writer,
            taken,
            ..
        } = self;
        writer
            .finish()
            .and_then(|out| out.into_inner().map_err(io::Error::from))
            .and_then(|file| file.sync_all())
            .map_err(|source| RecordError::Write { path, source })?;
        Ok(taken)
    }

    fn write(&mut self, packet: &Captured) -> Result<(), RecordError> {
        let (interface, heading) = match packet.record.direction {
            Direction::Up => (0, Heading::Outbound),
            Direction::Down => (1, Heading::Inbound),
        };
        frame_of(packet, &mut self.frame);
        let time = self.unix_ns(packet.record.arrived);
        let comment = packet.comment.as_deref();
        self.writer
            .packet(interface, time, Some(heading), &self.frame, comment)
            .map_err(|source| RecordError::Write {
                path: self.path.clone(),
                source,
            })
    }

    /// The wall clock's time at `at`, which may be before the epoch: one of the two spans is zero.
    fn unix_ns(&self, at: Time) -> u64 {
        self.epoch_unix_ns
            .saturating_add(at.since(self.epoch).as_nanos())
            .saturating_sub(self.epoch.since(at).as_nanos())
    }
}

/// Puts the packet, in Ethernet, into `frame`.
fn frame_of(packet: &Captured, frame: &mut Vec<u8>) {
    let (to, from) = match packet.record.direction {
        Direction::Up => (SERVER_MAC, CLIENT_MAC),
        Direction::Down => (CLIENT_MAC, SERVER_MAC),
    };
    // The IP version is the packet's first four bits. What is neither, a corrupted packet for one, has the
    // EtherType for local experiments (IEEE 802), of which readers show the bytes.
    let ether_type: u16 = match packet.bytes.first().map(|byte| byte >> 4) {
        Some(4) => 0x0800,
        Some(6) => 0x86DD,
        _ => 0x88B5,
    };
    frame.clear();
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(&packet.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch_keep_their_distance() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.pcapng");
        let capture = PcapngFile::create(path, Time::from_nanos(100), 1_000).unwrap();
        assert_eq!(capture.unix_ns(Time::from_nanos(107)), 1_007);
        assert_eq!(capture.unix_ns(Time::from_nanos(93)), 993);
        assert_eq!(capture.unix_ns(Time::from_nanos(u64::MAX)), u64::MAX);
    }
}
