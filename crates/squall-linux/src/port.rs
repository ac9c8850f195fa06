//! A TUN device as the link's driver uses it: wire packets come out of one host, wire packets go into another.
//!
//! Without offloads each packet is one read and one write. With them a read may return a super-packet, which is split here
//! before the link sees it. Packets that leave the link together are rejoined if they are still consecutive (`offload`). The
//! link therefore decides about each packet as it would be on the wire. Nothing is decided here.

use std::io::{self, IoSlice};

use squall_base::record::Fate;
use squall_link::Departure;

use crate::clock;
use crate::offload::join::PacketRun;
use crate::offload::split::split;
use crate::offload::{VIRTIO_HEADER_BYTES, VirtioHeader};
use crate::tun::{MTU_BYTES, Offload, Tun};

/// The largest IP packet plus the driver's header.
const MAX_READ_BYTES: usize = 65_535 + VIRTIO_HEADER_BYTES;

/// A device, and the packets about to be written to it.
pub(crate) struct Port {
    device: Tun,
    scratch: Vec<u8>,
    reads: u64,
    writes: u64,
    /// Packets of the current run, held back for further ones to join. Always empty without offloads.
    held: Vec<Departure>,
    /// `Some` while packets are held.
    run: Option<PacketRun>,
}

impl Port {
    pub(crate) fn new(device: Tun) -> Port {
        Port {
            device,
            scratch: vec![0; MAX_READ_BYTES],
            reads: 0,
            writes: 0,
            held: Vec::new(),
            run: None,
        }
    }

    /// The number of reads, each a packet or super-packet from the host.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// The number of writes that the host accepted.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    pub(crate) fn into_device(self) -> Tun {
        self.device
    }

    /// Reads once and appends the resulting wire packets to `packets`, reusing `buffers` as far as they go. `WouldBlock` if
    /// there is nothing to read.
    pub(crate) fn read(
        &mut self,
        buffers: &mut Vec<Vec<u8>>,
        packets: &mut Vec<Vec<u8>>,
    ) -> io::Result<()> {
        let len = self.device.read(&mut self.scratch)?;
        self.reads += 1;
        let read = &self.scratch[..len];
        match self.device.offload() {
            Offload::None => packets.push(copy(read, buffers)),
            Offload::Segments => {
                let Some((header, packet)) = read.split_first_chunk() else {
                    // The driver never returns less than its header.
                    return Ok(());
                };
                let Ok(mut wire_packets) = split(VirtioHeader::from_bytes(*header), packet) else {
                    // The kernel never sends this. The packet goes through the link unchanged, so that the record shows it;
                    // `write_alone` refuses it if the wire could not carry it.
                    packets.push(copy(packet, buffers));
                    return Ok(());
                };
                let mut next = buffers.pop().unwrap_or_default();
                while wire_packets.next_into(&mut next) {
                    packets.push(std::mem::replace(
                        &mut next,
                        buffers.pop().unwrap_or_default(),
                    ));
                }
                buffers.push(next);
            }
        }
        Ok(())
    }

    /// Takes a packet that leaves the link. Packets actually written by this call, which may or may not include this one,
    /// go to `written` with their time and fate.
    pub(crate) fn write(&mut self, departure: Departure, written: &mut Vec<Departure>) {
        if self.device.offload() == Offload::None {
            return self.write_alone(departure, written);
        }
        // A packet that the link has changed is never joined.
        let is_changed = departure.record.is_marked || departure.record.is_corrupted;
        if let Some(run) = &mut self.run
            && !is_changed
            && run.add(&departure.packet)
        {
            return self.held.push(departure);
        }
        self.write_held(written);
        self.run = if is_changed {
            None
        } else {
            PacketRun::begin(&departure.packet)
        };
        match self.run {
            Some(_) => self.held.push(departure),
            None => self.write_alone(departure, written),
        }
    }

    /// Writes the packets held back for joining.
    pub(crate) fn write_held(&mut self, written: &mut Vec<Departure>) {
        let Some(run) = self.run.take() else {
            return;
        };
        if self.held.len() == 1
            && let Some(alone) = self.held.pop()
        {
            return self.write_alone(alone, written);
        }
        let (header, headers) = run.headers();
        let header = header.to_bytes();
        let payloads = self
            .held
            .iter()
            .map(|departure| IoSlice::new(&departure.packet[run.headers_len()..]));
        let pieces: Vec<IoSlice<'_>> = [IoSlice::new(&header), IoSlice::new(headers.as_ref())]
            .into_iter()
            .chain(payloads)
            .collect();
        let released = clock::now();
        let fate = fate_of(&self.device.write_pieces(&pieces), &mut self.writes);
        for mut departure in self.held.drain(..) {
            departure.record.released = Some(released);
            departure.record.fate = fate;
            written.push(departure);
        }
    }

    fn write_alone(&mut self, mut departure: Departure, written: &mut Vec<Departure>) {
        departure.record.released = Some(clock::now());
        let packet = &departure.packet;
        let result = match self.device.offload() {
            Offload::None => self.device.write(packet),
            Offload::Segments if packet.len() > MTU_BYTES as usize => {
                Err(io::ErrorKind::InvalidData.into())
            }
            Offload::Segments => {
                // An empty header, so that the host verifies the packet's own checksums.
                let header = VirtioHeader::default().to_bytes();
                let pieces = [IoSlice::new(&header), IoSlice::new(packet)];
                self.device.write_pieces(&pieces)
            }
        };
        departure.record.fate = fate_of(&result, &mut self.writes);
        written.push(departure);
    }
}

fn copy(packet: &[u8], buffers: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut copy = buffers.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(packet);
    copy
}

/// The fate of packets whose write had this result.
fn fate_of(result: &io::Result<()>, writes: &mut u64) -> Fate {
    match result {
        Ok(()) => {
            *writes += 1;
            Fate::Delivered
        }
        Err(_) => Fate::WriteError,
    }
}
