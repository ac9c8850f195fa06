//! Splits a super-packet into wire packets, as the kernel's own segmentation does (net/ipv4/tcp_offload.c
//! `tcp_gso_segment`, udp_offload.c `__udp_gso_segment`, af_inet.c `inet_gso_segment`).
//!
//! It completes checksums, so that each packet is what the wire would have shown: the receiver notices a flipped bit, and a
//! capture is correct. It trusts nothing: a packet whose headers do not make it a super-packet is `SplitError`.

use thiserror::Error;

use super::{
    CWR, FIN, GSO_ECN, GSO_NONE, GSO_TCP, GSO_UDP, Layout, NEEDS_CHECKSUM, PSH, Transport,
    VirtioHeader, checksum_of, fold, long, put, sum, word,
};

/// Why a packet cannot be split. The kernel never produces such a packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SplitError {
    /// A type of super-packet that was not requested.
    #[error("a super-packet of the unknown type {gso_type}")]
    UnknownType {
        /// The type in the header.
        gso_type: u8,
    },
    /// The packet does not match its type, or its lengths are inconsistent.
    #[error("a super-packet whose headers are not those of its type")]
    Headers,
    /// Its packets would have no payload.
    #[error("a super-packet of packets without payload")]
    NoSize,
    /// The header places the checksum field beyond the end of the packet.
    #[error("a checksum outside of the packet")]
    Checksum,
}

/// The wire packets from one read, to be taken one after the other.
#[derive(Debug)]
pub struct WirePackets<'a> {
    packet: &'a [u8],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A single packet; if its checksum is to be completed, the checksum field and where the covered bytes begin.
    Whole {
        checksum: Option<(usize, usize)>,
    },
    Segments {
        layout: Layout,
        /// Bytes of payload in each packet except the last.
        size: usize,
        /// The index of the next packet.
        next: usize,
    },
    Done,
}

/// Splits what a device returned after `header` into wire packets.
pub fn split(header: VirtioHeader, packet: &[u8]) -> Result<WirePackets<'_>, SplitError> {
    let transport = match header.gso_type & !GSO_ECN {
        GSO_NONE => {
            let checksum = partial_checksum(header, packet)?;
            let kind = Kind::Whole { checksum };
            return Ok(WirePackets { packet, kind });
        }
        GSO_TCP => Transport::Tcp,
        GSO_UDP => Transport::Udp,
        gso_type => return Err(SplitError::UnknownType { gso_type }),
    };
    let layout = Layout::of(packet)
        .filter(|layout| layout.transport == transport)
        .ok_or(SplitError::Headers)?;
    let size = usize::from(header.gso_size);
    if size == 0 {
        return Err(SplitError::NoSize);
    }
    let kind = Kind::Segments {
        layout,
        size,
        next: 0,
    };
    Ok(WirePackets { packet, kind })
}

/// The checksum field, and where the bytes that it covers begin.
fn partial_checksum(
    header: VirtioHeader,
    packet: &[u8],
) -> Result<Option<(usize, usize)>, SplitError> {
    if header.flags & NEEDS_CHECKSUM == 0 {
        return Ok(None);
    }
    let start = usize::from(header.checksum_start);
    let field = start + usize::from(header.checksum_offset);
    if field + 2 <= packet.len() {
        Ok(Some((field, start)))
    } else {
        Err(SplitError::Checksum)
    }
}

impl WirePackets<'_> {
    /// Replaces the content of `into` with the next packet. Returns `false` if there is no further packet.
    pub fn next_into(&mut self, into: &mut Vec<u8>) -> bool {
        match &mut self.kind {
            Kind::Done => return false,
            Kind::Whole { checksum } => {
                into.clear();
                into.extend_from_slice(self.packet);
                if let Some((field, start)) = *checksum {
                    // The field holds the sum of the pseudo-header.
                    let checksum = checksum_of(sum(&into[start..]));
                    put(into, field, checksum.to_be_bytes());
                }
                self.kind = Kind::Done;
            }
            Kind::Segments { layout, size, next } => {
                let (layout, begin) = (*layout, layout.headers_len + *next * *size);
                let end = (begin + *size).min(self.packet.len());
                let position = SegmentPosition {
                    number: *next,
                    offset: begin - layout.headers_len,
                    is_last: end == self.packet.len(),
                };
                into.clear();
                into.extend_from_slice(&self.packet[..layout.headers_len]);
                into.extend_from_slice(&self.packet[begin..end]);
                finish(into, layout, position);
                *next += 1;
                if position.is_last {
                    self.kind = Kind::Done;
                }
            }
        }
        true
    }
}

/// A packet's position in its super-packet.
#[derive(Clone, Copy)]
struct SegmentPosition {
    /// From 0.
    number: usize,
    /// Bytes of payload before it.
    offset: usize,
    is_last: bool,
}

/// Adjusts the super-packet's headers, at the start of `packet`, to this one packet.
fn finish(packet: &mut [u8], layout: Layout, position: SegmentPosition) {
    let (len, ip_len) = (packet.len(), layout.ip_len);
    // A flow's packet identifications wrap at 2^16, whatever the super-packet began with.
    let id = word(packet, 4).wrapping_add(position.number as u16);
    put(packet, 4, id.to_be_bytes());
    layout.seal_ip(packet, len);
    match layout.transport {
        Transport::Udp => put(packet, ip_len + 4, ((len - ip_len) as u16).to_be_bytes()),
        Transport::Tcp => {
            let seq = long(packet, ip_len + 4).wrapping_add(position.offset as u32);
            put(packet, ip_len + 4, seq.to_be_bytes());
            if !position.is_last {
                packet[ip_len + 13] &= !(FIN | PSH);
            }
            if position.number > 0 {
                packet[ip_len + 13] &= !CWR;
            }
        }
    }
    put(packet, layout.checksum_at(), [0, 0]);
    let pseudo = u64::from(layout.pseudo_sum(packet, len));
    let checksum = checksum_of(fold(pseudo + u64::from(sum(&packet[ip_len..]))));
    put(packet, layout.checksum_at(), checksum.to_be_bytes());
}
