//! Reads pcap: a header, then records (draft-ietf-opsawg-pcap). `link_layer` finds the IP packet in each.

use std::io::Read;

use super::bytes::{ByteOrder, Input};
use super::error::{CaptureError, CaptureFault};
use super::link_layer::LinkLayer;
use super::{CaptureEntry, CaptureNotes, MAX_BLOCK_BYTES};

/// The magic numbers: times in microseconds, and in nanoseconds.
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;

/// The header of a pcap file.
pub(super) struct Records {
    order: ByteOrder,
    /// Nanoseconds per unit of a timestamp's fraction.
    unit_ns: u64,
    link_layer: LinkLayer,
}

impl Records {
    /// Reads the header after its magic number.
    pub(super) fn begin<R: Read>(
        magic: [u8; 4],
        input: &mut Input<R>,
    ) -> Result<Records, CaptureError> {
        let little = u32::from_le_bytes(magic);
        let big = u32::from_be_bytes(magic);
        let (order, unit_ns) = match (little, big) {
            (MICROSECONDS, _) => (ByteOrder::Little, 1_000),
            (NANOSECONDS, _) => (ByteOrder::Little, 1),
            (_, MICROSECONDS) => (ByteOrder::Big, 1_000),
            (_, NANOSECONDS) => (ByteOrder::Big, 1),
            _ => return Err(input.fault(CaptureFault::NoCapture)),
        };
        let header = input
            .array::<20>()?
            .ok_or_else(|| input.fault(CaptureFault::NoCapture))?;
        // The upper bits describe checksums after each frame; IP's own length field excludes those.
        let number = order.u32(&header, 16) & 0xffff;
        Ok(Records {
            order,
            unit_ns,
            link_layer: LinkLayer::of(number),
        })
    }

    pub(super) fn next_entry<R: Read>(
        &self,
        input: &mut Input<R>,
        notes: &mut CaptureNotes,
    ) -> Result<Option<CaptureEntry>, CaptureError> {
        let Some(header) = input.array::<16>()? else {
            return Ok(None);
        };
        let number = |at| self.order.u32(&header, at);
        let length = number(8);
        if length > MAX_BLOCK_BYTES {
            return Err(input.fault(CaptureFault::Length(length)));
        }
        let time_unix_ns =
            u64::from(number(0)) * 1_000_000_000 + u64::from(number(4)) * self.unit_ns;
        let Some(frame) = input.rest(length)? else {
            return Ok(None);
        };
        self.link_layer
            .entry(time_unix_ns, frame, number(12), notes)
            .map(Some)
            .map_err(|fault| input.fault(fault))
    }
}
