//! Reads pcapng: sections of blocks. Section numbers are those of draft-ietf-opsawg-pcapng. Blocks of other types are
//! skipped; `link_layer` finds the IP packets.

use std::io::Read;

use super::bytes::{ByteOrder, Input};
use super::error::{CaptureError, CaptureFault};
use super::link_layer::LinkLayer;
use super::{CaptureEntry, CaptureNotes, MAX_BLOCK_BYTES};

/// The type of a section header, which reads the same in either byte order (section 4.1).
pub(super) const MAGIC: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];

const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Block types (section 4).
const INTERFACE_DESCRIPTION: u32 = 1;
const OLD_PACKET: u32 = 2;
const ENHANCED_PACKET: u32 = 6;
const SIMPLE_PACKET: u32 = 3;
const DECRYPTION_SECRETS: u32 = 10;

/// Options of an interface description (section 4.2).
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// "TLSK": the secrets are an NSS key log.
const TLS_KEY_LOG: u32 = 0x544C_534B;

/// More interfaces than any real capture has.
const MAX_INTERFACES: usize = 1 << 16;

/// Type and length before a block's body, and the length after it.
const FRAME_BYTES: u32 = 12;

/// The state of the current section.
pub(super) struct Blocks {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

/// The part of an interface description that its packets need.
#[derive(Clone, Copy)]
struct Interface {
    link_layer: LinkLayer,
    /// Time units per second.
    units: u128,
    /// Seconds to add to its times.
    offset_s: i64,
}

impl Interface {
    fn unix_ns(&self, high: u32, low: u32) -> u64 {
        let units = u128::from(high) << 32 | u128::from(low);
        let ns = units * 1_000_000_000 / self.units;
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl Blocks {
    /// Reads the first section header after its type.
    pub(super) fn begin<R: Read>(input: &mut Input<R>) -> Result<Blocks, CaptureError> {
        let mut blocks = Blocks {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
        };
        match blocks.section(input)? {
            Some(()) => Ok(blocks),
            None => Err(input.fault(CaptureFault::NoCapture)),
        }
    }

    /// Reads a section header. A section has its own byte order, and starts without interfaces.
    fn section<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<()>, CaptureError> {
        let Some(head) = input.array::<8>()? else {
            return Ok(None);
        };
        self.order = match (
            ByteOrder::Little.u32(&head, 4),
            ByteOrder::Big.u32(&head, 4),
        ) {
            (BYTE_ORDER_MAGIC, _) => ByteOrder::Little,
            (_, BYTE_ORDER_MAGIC) => ByteOrder::Big,
            _ => return Err(input.fault(CaptureFault::ByteOrder)),
        };
        self.interfaces.clear();
        let length = self.order.u32(&head, 0);
        // Type, length and byte order have been read.
        check_length(length, FRAME_BYTES + 4, input)?;
        Ok(input.rest(length - 12)?.map(|_| ()))
    }

    pub(super) fn next_entry<R: Read>(
        &mut self,
        input: &mut Input<R>,
        notes: &mut CaptureNotes,
    ) -> Result<Option<CaptureEntry>, CaptureError> {
        loop {
            let Some(kind) = input.array::<4>()? else {
                return Ok(None);
            };
            if kind == MAGIC {
                if self.section(input)?.is_none() {
                    return Ok(None);
                }
                continue;
            }
            let Some(length) = input.array::<4>()? else {
                return Ok(None);
            };
            let length = self.order.u32(&length, 0);
            check_length(length, FRAME_BYTES, input)?;
            let Some(mut body) = input.rest(length - 8)? else {
                return Ok(None);
            };
            body.truncate(body.len().saturating_sub(4));
            let entry = self.block(self.order.u32(&kind, 0), &body, notes);
            if let Some(entry) = entry.map_err(|fault| input.fault(fault))? {
                return Ok(Some(entry));
            }
        }
    }

    /// The entry in a block, if it contains one.
    fn block(
        &mut self,
        kind: u32,
        body: &[u8],
        notes: &mut CaptureNotes,
    ) -> Result<Option<CaptureEntry>, CaptureFault> {
        let order = self.order;
        Ok(match kind {
            INTERFACE_DESCRIPTION => {
                if self.interfaces.len() >= MAX_INTERFACES {
                    return Err(CaptureFault::Interface(MAX_INTERFACES as u32));
                }
                self.interfaces.push(self.interface(body));
                None
            }
            ENHANCED_PACKET => Some(self.packet(order.u32(body, 0), body, notes)?),
            OLD_PACKET => Some(self.packet(u32::from(order.u16(body, 0)), body, notes)?),
            // A simple packet has no timestamp.
            SIMPLE_PACKET => {
                notes.unreadable += 1;
                Some(CaptureEntry::Other)
            }
            DECRYPTION_SECRETS if order.u32(body, 0) == TLS_KEY_LOG => {
                let length = order.u32(body, 4) as usize;
                let secrets = body.get(8..).unwrap_or(&[]);
                let secrets = &secrets[..secrets.len().min(length)];
                Some(CaptureEntry::Secrets(
                    String::from_utf8_lossy(secrets).into_owned(),
                ))
            }
            _ => None,
        })
    }

    fn interface(&self, body: &[u8]) -> Interface {
        let order = self.order;
        let mut interface = Interface {
            link_layer: LinkLayer::of(u32::from(order.u16(body, 0))),
            units: 1_000_000,
            offset_s: 0,
        };
        let mut options = body.get(8..).unwrap_or(&[]);
        while options.len() >= 4 {
            let (code, length) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
            let value = options.get(4..4 + length).unwrap_or(&[]);
            match (code, value) {
                (IF_TSRESOL, [resolution]) => interface.units = units(*resolution),
                (IF_TSOFFSET, value) if value.len() == 8 => {
                    let (first, second) = (order.u32(value, 0), order.u32(value, 4));
                    let (low, high) = match order {
                        ByteOrder::Little => (first, second),
                        ByteOrder::Big => (second, first),
                    };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        interface
    }

    /// The packet of a block. Both kinds of block have the same fields after the interface.
    fn packet(
        &self,
        interface: u32,
        body: &[u8],
        notes: &mut CaptureNotes,
    ) -> Result<CaptureEntry, CaptureFault> {
        let interface = self
            .interfaces
            .get(interface as usize)
            .ok_or(CaptureFault::Interface(interface))?;
        let order = self.order;
        let time_unix_ns = interface.unix_ns(order.u32(body, 4), order.u32(body, 8));
        let (captured, original_bytes) = (order.u32(body, 12) as usize, order.u32(body, 16));
        let frame = body.get(20..).unwrap_or(&[]);
        let frame = frame[..frame.len().min(captured)].to_vec();
        interface
            .link_layer
            .entry(time_unix_ns, frame, original_bytes, notes)
    }
}

/// Units per second: a power of ten, or of two if the highest bit is set (section 4.2, if_tsresol).
fn units(resolution: u8) -> u128 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    // Times have 64 bits, so a finer resolution makes every time 0.
    base.checked_pow(exponent).unwrap_or(u128::MAX)
}

fn check_length<R: Read>(length: u32, least: u32, input: &Input<R>) -> Result<(), CaptureError> {
    if length < least || length > MAX_BLOCK_BYTES || !length.is_multiple_of(4) {
        return Err(input.fault(CaptureFault::Length(length)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_every_resolution_become_nanoseconds() {
        let at = |resolution: u8, offset_s: i64, units_since: u64| {
            let interface = Interface {
                link_layer: LinkLayer::Raw,
                units: units(resolution),
                offset_s,
            };
            interface.unix_ns((units_since >> 32) as u32, units_since as u32)
        };
        assert_eq!(at(6, 0, 5_000_001), 5_000_001_000);
        assert_eq!(at(9, 0, 5_000_000_001), 5_000_000_001);
        assert_eq!(at(9, -2, 5_000_000_001), 3_000_000_001);
        assert_eq!(at(0x80 | 10, 0, 1536), 1_500_000_000);
        assert_eq!(at(0, 0, 3), 3_000_000_000);
        assert_eq!(at(12, 0, 1_999), 1);
        assert_eq!(at(0xff, 0, u64::MAX), 0);
        assert_eq!(at(0, i64::MIN, 3), 0);
    }
}
