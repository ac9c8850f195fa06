//! Reads captures made by other programs: their IP packets with times, and TLS secrets embedded in them.
//!
//! Supported are pcap (the format of libpcap, draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng) of either
//! byte order, with Ethernet, bare IP, Linux's cooked captures (SLL, SLL2) and BSD's loopback. Packets in tunnels are
//! unwrapped. A capture is read as a stream, block by block; transports are not interpreted (squall-observe does that).
//! Every byte is untrusted: the outcome is an entry or a [`CaptureError`] that says where the fault is, and memory never
//! exceeds one block of 64 MiB. `blocks` reads pcapng, `records` pcap, `link_layer` turns frames into entries,
//! `decapsulation` finds the IP packet in each.

mod blocks;
mod bytes;
mod decapsulation;
mod error;
mod link_layer;
mod notes;
mod records;

use std::io::Read;

use blocks::Blocks;
use bytes::Input;
pub use decapsulation::UnreadProtocol;
pub use error::{CaptureError, CaptureFault};
pub use notes::CaptureNotes;
use records::Records;

/// The longest block or record that is read: far more than any packet, and than the key logs that people embed.
pub const MAX_BLOCK_BYTES: u32 = 64 << 20;

/// An entry of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureEntry {
    /// An IP packet; in a tunnel, the innermost one.
    Packet {
        /// When it was captured, in nanoseconds since 1970-01-01 00:00 UTC.
        time_unix_ns: u64,
        /// The packet, from the first byte of its IP header, as far as it was captured.
        bytes: Vec<u8>,
    },
    /// TLS secrets: lines of a key log in NSS format.
    Secrets(String),
    /// A frame without IP, such as ARP, or one without a timestamp.
    Other,
}

/// Reads a capture.
///
/// ```
/// use squall_record::capture::{CaptureEntry, CaptureReader};
///
/// // pcap, little-endian, microseconds, bare IP; one packet of one byte.
/// let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
/// file.extend([7, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0x45]);
/// let mut capture = CaptureReader::new(&file[..])?;
/// let packet = CaptureEntry::Packet { time_unix_ns: 7_000_005_000, bytes: vec![0x45] };
/// assert_eq!(capture.next_entry()?, Some(packet));
/// assert_eq!(capture.next_entry()?, None);
/// # Ok::<(), squall_record::capture::CaptureError>(())
/// ```
pub struct CaptureReader<R> {
    input: Input<R>,
    format: Format,
    notes: CaptureNotes,
}

enum Format {
    Pcap(Records),
    Pcapng(Blocks),
}

impl<R: Read> CaptureReader<R> {
    /// Reads the head of a capture; `from` should be buffered.
    ///
    /// # Errors
    /// It is not a capture, or cannot be read.
    pub fn new(from: R) -> Result<CaptureReader<R>, CaptureError> {
        let mut input = Input::new(from);
        let magic = input
            .array::<4>()?
            .ok_or_else(|| input.fault(CaptureFault::NoCapture))?;
        let format = if magic == blocks::MAGIC {
            Format::Pcapng(Blocks::begin(&mut input)?)
        } else {
            Format::Pcap(Records::begin(magic, &mut input)?)
        };
        Ok(CaptureReader {
            input,
            format,
            notes: CaptureNotes::default(),
        })
    }

    /// The next entry; `None` at the end. A truncated capture ends before the incomplete packet.
    ///
    /// # Errors
    /// The next bytes are malformed, have an unknown link type, or cannot be read. Nothing can be read after that.
    pub fn next_entry(&mut self) -> Result<Option<CaptureEntry>, CaptureError> {
        match &mut self.format {
            Format::Pcap(records) => records.next_entry(&mut self.input, &mut self.notes),
            Format::Pcapng(blocks) => blocks.next_entry(&mut self.input, &mut self.notes),
        }
    }

    /// What the entries so far do not show.
    pub fn notes(&self) -> &CaptureNotes {
        &self.notes
    }

    /// Whether the capture ended within a packet or block, as when the program that wrote it was killed.
    pub fn is_truncated(&self) -> bool {
        self.input.is_truncated()
    }
}
