//! The capture of a link: each packet once, at the time when it entered the link, in that order. A copy that the link
//! made is an additional packet.
//!
//! A packet is passed in when its fate is final, which for a delayed one is long after it entered the link. Packets are
//! therefore held back until no earlier one can follow, which needs as much memory as the packets in the link itself.
//! Release times are not here but in packets.parquet. `writer` writes the blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use squall_base::Time;
use squall_base::record::{Direction, PacketRecord};

use super::{CaptureDirection, PcapngWriter};
use crate::RecordError;

/// Size of the write buffer: some 40 full packets.
const BUFFER_BYTES: usize = 64 * 1024;

/// The interfaces, in the order of their numbers.
const INTERFACES: [(&str, &str); 2] = [
    ("up", "client to server, at the time of entering the link"),
    ("down", "server to client, at the time of entering the link"),
];

/// MAC addresses for readers that want Ethernet; locally administered, so that they cannot belong to a real device.
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A packet to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Its record, of which only the direction, the arrival time and the index are used.
    pub record: PacketRecord,
    /// The IP packet; if the link altered it, the altered one.
    pub bytes: Vec<u8>,
    /// A comment for the reader, e.g. "squall: dropped by loss (loss 3%)".
    pub comment: Option<String>,
}

/// Writes a pcapng file with the interfaces "up" and "down".
///
/// Packets from the client are marked as outbound, packets to it as inbound.
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
    waiting: BTreeMap<PacketOrder, CapturedPacket>,
    /// The number of packets so far.
    appended: u64,
    /// Scratch buffer for the current frame.
    frame: Vec<u8>,
}

/// The position of a packet in the file: by arrival, then direction and index, then the order of `append`.
type PacketOrder = (Time, Direction, u64, u64);

impl PcapngFile {
    /// Creates the file `path`, replacing an existing one. `epoch` is an instant on the clock of the packets' times,
    /// and `epoch_unix_ns` the same instant in nanoseconds since 1970-01-01 00:00 UTC.
    pub fn create(path: PathBuf, epoch: Time, epoch_unix_ns: u64) -> Result<Self, RecordError> {
        let file = File::create(&path).map_err(RecordError::create(&path))?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let application = concat!("squall ", env!("CARGO_PKG_VERSION"));
        match PcapngWriter::new(out, application, &INTERFACES) {
            Ok(writer) => Ok(PcapngFile {
                path,
                writer,
                epoch,
                epoch_unix_ns,
                waiting: BTreeMap::new(),
                appended: 0,
                frame: Vec::new(),
            }),
            Err(source) => Err(RecordError::Write(path, source)),
        }
    }

    /// Takes `packets`, in any order, and writes all packets so far that arrived before `complete_until`. The caller
    /// guarantees that no more of those will follow; one that does is still written, out of order. After an error the
    /// file is unusable.
    pub fn append(
        &mut self,
        packets: Vec<CapturedPacket>,
        complete_until: Time,
    ) -> Result<(), RecordError> {
        for packet in packets {
            let record = &packet.record;
            let order = (
                record.arrived,
                record.direction,
                record.index,
                self.appended,
            );
            self.waiting.insert(order, packet);
            self.appended += 1;
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

    /// Passes what has been written to the kernel, so that it survives this process. The file is then a complete capture,
    /// except for the packets that are held back.
    pub fn save(&mut self) -> Result<(), RecordError> {
        let flushed = self.writer.flush();
        flushed.map_err(|source| RecordError::Write(self.path.clone(), source))
    }

    /// Writes the remaining packets and syncs the file to disk. Returns the number of packets in the file.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        for packet in std::mem::take(&mut self.waiting).into_values() {
            self.write(&packet)?;
        }
        let PcapngFile {
            path,
            writer,
            appended,
            ..
        } = self;
        writer
            .finish()
            .and_then(|out| out.into_inner().map_err(io::Error::from))
            .and_then(|file| file.sync_all())
            .map_err(|source| RecordError::Write(path, source))?;
        Ok(appended)
    }

    fn write(&mut self, packet: &CapturedPacket) -> Result<(), RecordError> {
        let (interface, direction) = match packet.record.direction {
            Direction::Up => (0, CaptureDirection::Outbound),
            Direction::Down => (1, CaptureDirection::Inbound),
        };
        frame_of(packet, &mut self.frame);
        let time = self.unix_ns(packet.record.arrived);
        let comment = packet.comment.as_deref();
        self.writer
            .packet(interface, time, Some(direction), &self.frame, comment)
            .map_err(RecordError::write(&self.path))
    }

    /// The wall-clock time of `at`, which may be before the epoch: one of the two differences is zero.
    fn unix_ns(&self, at: Time) -> u64 {
        self.epoch_unix_ns
            .saturating_add(at.since(self.epoch).as_nanos())
            .saturating_sub(self.epoch.since(at).as_nanos())
    }
}

/// Writes the packet as an Ethernet frame into `frame`.
fn frame_of(packet: &CapturedPacket, frame: &mut Vec<u8>) {
    match packet.record.direction {
        Direction::Up => client_frame(&packet.bytes, frame),
        Direction::Down => server_frame(&packet.bytes, frame),
    }
}

/// Writes an IP packet of the client as an Ethernet frame into `frame`.
pub(super) fn client_frame(packet: &[u8], frame: &mut Vec<u8>) {
    ethernet_frame((SERVER_MAC, CLIENT_MAC), packet, frame);
}

/// Writes an IP packet of the server as an Ethernet frame into `frame`.
pub(super) fn server_frame(packet: &[u8], frame: &mut Vec<u8>) {
    ethernet_frame((CLIENT_MAC, SERVER_MAC), packet, frame);
}

fn ethernet_frame((to, from): ([u8; 6], [u8; 6]), packet: &[u8], frame: &mut Vec<u8>) {
    // The IP version is in the packet's first four bits. Anything else, for example a corrupted packet, gets the
    // EtherType for local experiments (IEEE 802), for which readers show the bytes.
    let ether_type: u16 = match packet.first().map(|byte| byte >> 4) {
        Some(4) => 0x0800,
        Some(6) => 0x86DD,
        _ => 0x88B5,
    };
    frame.clear();
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_distance_from_the_epoch_before_and_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.pcapng");
        let capture = PcapngFile::create(path, Time::from_nanos(100), 1_000).unwrap();
        assert_eq!(capture.unix_ns(Time::from_nanos(107)), 1_007);
        assert_eq!(capture.unix_ns(Time::from_nanos(93)), 993);
        assert_eq!(capture.unix_ns(Time::from_nanos(u64::MAX)), u64::MAX);
    }
}
