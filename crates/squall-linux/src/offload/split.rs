//! A super-packet into wire packets, as the kernel's own segmentation does it (net/ipv4/tcp_offload.c `tcp_gso_segment`,
//! udp_offload.c `__udp_gso_segment`, af_inet.c `inet_gso_segment`).
//!
//! Checksums are completed, so that each packet is what the wire would have shown: a flipped bit is noticed by its
//! receiver, and a capture is right. It trusts nothing: what is no super-packet by its own headers is `Malformed`.

use thiserror::Error;

use super::{
    CWR, FIN, GSO_ECN, GSO_NONE, GSO_TCP, GSO_UDP, Layout, NEEDS_CHECKSUM, PSH, Transport,
    VirtioHeader, checksum_of, fold, long, put, sum, word,
};

/// Why there is nothing to split. The kernel hands over no such thing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// A kind of super-packet that was not asked for.
    #[error("a super-packet of the unknown type {gso_type}")]
    UnknownType {
        /// The header's.
        gso_type: u8,
    },
    /// It is not what its type says, or its lengths do not hold.
    #[error("a super-packet whose headers are not those of its type")]
    Headers,
    /// Its packets would have no payload.
    #[error("a super-packet of packets without payload")]
    NoSize,
    /// The checksum to be completed is not in the packet.
    #[error("a checksum outside of the packet")]
    Checksum,
}

/// The wire packets of one read, to be taken one after the other.
#[derive(Debug)]
pub struct Split<'a> {
    packet: &'a [u8],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// One packet; where its checksum's field is and what it covers, if it is to be completed.
    Whole {
        checksum: Option<(usize, usize)>,
    },
    Segments {
        layout: Layout,
        /// Bytes of payload in each but the last.
        size: usize,
        /// Which one is next.
        next: usize,
    },
    Done,
}

/// Finds the wire packets in what a device gave with `header` before it.
pub fn split(header: VirtioHeader, packet: &[u8]) -> Result<Split<'_>, Malformed> {
    let transport = match header.gso_type & !GSO_ECN {
        GSO_NONE => {
            let checksum = partial_checksum(header, packet)?;
            let kind = Kind::Whole { checksum };
            return Ok(Split { packet, kind });
        }
        GSO_TCP => Transport::Tcp,
        GSO_UDP => Transport::Udp,
        gso_type => return Err(Malformed::UnknownType { gso_type }),
    };
    let layout = Layout::of(packet)
        .filter(|layout| layout.transport == transport)
        .ok_or(Malformed::Headers)?;
    let size = usize::from(header.gso_size);
    if size == 0 {
        return Err(Malformed::NoSize);
    }
    let kind = Kind::Segments {
        layout,
        size,
        next: 0,
    };
    Ok(Split { packet, kind })
}

/// The checksum's field and where the bytes that it covers begin.
fn partial_checksum(
    header: VirtioHeader,
    packet: &[u8],
) -> Result<Option<(usize, usize)>, Malformed> {
    if header.flags & NEEDS_CHECKSUM == 0 {
        return Ok(None);
    }
    let start = usize::from(header.checksum_start);
    let field = start + usize::from(header.checksum_offset);
    match field + 2 <= packet.len() {
        true => Ok(Some((field, start))),
        false => Err(Malformed::Checksum),
    }
}

impl Split<'_> {
    /// Puts the next packet into `into`, whatever was there. `false` if there is none.
    pub fn next_into(&mut self, into: &mut Vec<u8>) -> bool {
        match &mut self.kind {
            Kind::Done => return false,
            Kind::Whole { checksum } => {
                into.clear();
                into.extend_from_slice(self.packet);
                if let Some((field, start)) = *checksum {
                    // The field holds the sum over the pseudo-header.
                    let checksum = checksum_of(sum(&into[start..]));
                    put(into, field, checksum.to_be_bytes());
                }
                self.kind = Kind::Done;
            }
            Kind::Segments { layout, size, next } => {
                let (layout, begin) = (*layout, layout.headers_len + *next * *size);
                let end = (begin + *size).min(self.packet.len());
                let place = Place {
                    number: *next,
                    offset: begin - layout.headers_len,
                    is_last: end == self.packet.len(),
                };
                into.clear();
                into.extend_from_slice(&self.packet[..layout.headers_len]);
                into.extend_from_slice(&self.packet[begin..end]);
                finish(into, layout, place);
                *next += 1;
                if place.is_last {
                    self.kind = Kind::Done;
                }
            }
        }
        true
    }
}

/// Where a packet stands in its super-packet.
#[derive(Clone, Copy)]
struct Place {
    /// From 0.
    number: usize,
    /// Bytes of payload before it.
    offset: usize,
    is_last: bool,
}

/// Makes the headers of the super-packet those of the one packet that stands in `packet`.
fn finish(packet: &mut [u8], layout: Layout, place: Place) {
    let (len, ip_len) = (packet.len(), layout.ip_len);
    // Numbers of a flow's packets go round at 2^16, whatever the super-packet began with.
    let id = word(packet, 4).wrapping_add(place.number as u16);
    put(packet, 4, id.to_be_bytes());
    layout.seal_ip(packet, len);
    match layout.transport {
        Transport::Udp => put(packet, ip_len + 4, ((len - ip_len) as u16).to_be_bytes()),
        Transport::Tcp => {
            let seq = long(packet, ip_len + 4).wrapping_add(place.offset as u32);
            put(packet, ip_len + 4, seq.to_be_bytes());
            if !place.is_last {
                packet[ip_len + 13] &= !(FIN | PSH);
            }
            if place.number > 0 {
                packet[ip_len + 13] &= !CWR;
            }
        }
    }
    put(packet, layout.checksum_at(), [0, 0]);
    let pseudo = u64::from(layout.pseudo_sum(packet, len));
    let checksum = checksum_of(fold(pseudo + u64::from(sum(&packet[ip_len..]))));
    put(packet, layout.checksum_at(), checksum.to_be_bytes());
}
