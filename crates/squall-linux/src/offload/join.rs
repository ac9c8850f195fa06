//! Joins consecutive wire packets into one super-packet, so that the receiving host takes them in one go.
//!
//! It joins only what the receiver's own receive offload would join: packets of the same flow with the same headers, in
//! sequence, all of one size except the last, and with correct checksums, because the receiver does not verify the
//! checksums of a super-packet. Splitting a joined packet restores the same bytes. It holds no payload: the caller that
//! writes it has the packets.

use super::{
    ACK, CWR, FIN, Layout, NEEDS_CHECKSUM, PSH, RST, SYN, Transport, URG, VirtioHeader, fold, long,
    put, sum, word,
};

/// The maximum length of an IPv4 packet.
const MAX_LEN: usize = 65_535;
/// The maximum number of packets in a super-packet: the kernel's limit for UDP (UDP_MAX_SEGMENTS, include/linux/udp.h), and
/// far below the pieces of one write (IOV_MAX, 1,024). Packets of 1,500 bytes do not reach it.
const MAX_PACKETS: usize = 128;
/// The maximum length of IPv4 and TCP headers with all options.
const MAX_HEADERS_LEN: usize = 120;

/// The headers of a packet.
#[derive(Clone, Copy, Debug)]
struct Headers {
    bytes: [u8; MAX_HEADERS_LEN],
    len: usize,
}

impl Headers {
    fn of(packet: &[u8], layout: Layout) -> Headers {
        let len = layout.headers_len;
        let mut bytes = [0; MAX_HEADERS_LEN];
        bytes[..len].copy_from_slice(&packet[..len]);
        Headers { bytes, len }
    }

    /// The headers without the fields that differ within a run: lengths, identification, checksums, sequence number, and
    /// the flags that only the last packet has.
    fn common(mut self, layout: Layout) -> Headers {
        let ip_len = layout.ip_len;
        put(&mut self.bytes, 2, [0; 4]);
        put(&mut self.bytes, 10, [0; 2]);
        put(&mut self.bytes, layout.checksum_at(), [0; 2]);
        put(&mut self.bytes, ip_len + 4, [0; 2]);
        if layout.transport == Transport::Tcp {
            put(&mut self.bytes, ip_len + 6, [0; 2]);
            self.bytes[ip_len + 13] &= !(FIN | PSH);
        }
        self
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Consecutive packets to be joined into one super-packet.
#[derive(Debug)]
pub struct PacketRun {
    layout: Layout,
    /// The first packet's headers.
    headers: Headers,
    common: Headers,
    /// Bytes of payload in each packet except the last.
    size: usize,
    /// Length of the super-packet.
    len: usize,
    packets: usize,
    next_id: u16,
    /// For TCP only.
    next_seq: u32,
    /// FIN and PSH, which only the last packet has.
    last_flags: u8,
    is_full: bool,
}

impl PacketRun {
    /// Starts a run with this packet. `None` if the packet cannot be joined.
    pub fn begin(packet: &[u8]) -> Option<PacketRun> {
        let layout = Layout::of(packet)?;
        if !may_join(packet, layout) || !has_right_checksums(packet, layout) {
            return None;
        }
        let headers = Headers::of(packet, layout);
        let mut run = PacketRun {
            layout,
            headers,
            common: headers.common(layout),
            size: packet.len() - layout.headers_len,
            len: layout.headers_len,
            packets: 0,
            next_id: 0,
            next_seq: 0,
            last_flags: 0,
            is_full: false,
        };
        run.append(packet);
        Some(run)
    }

    /// Adds a packet if it is the next in sequence; otherwise nothing changes.
    pub fn add(&mut self, packet: &[u8]) -> bool {
        let is_next = !self.is_full
            && Layout::of(packet) == Some(self.layout)
            && self.is_next(packet)
            && may_join(packet, self.layout)
            && has_right_checksums(packet, self.layout);
        if is_next {
            self.append(packet);
        }
        is_next
    }

    fn is_next(&self, packet: &[u8]) -> bool {
        let payload_len = packet.len() - self.layout.headers_len;
        let is_next_by_seq = match self.layout.transport {
            Transport::Tcp => long(packet, self.layout.ip_len + 4) == self.next_seq,
            Transport::Udp => true,
        };
        payload_len <= self.size
            && self.len + payload_len <= MAX_LEN
            && word(packet, 4) == self.next_id
            && is_next_by_seq
            && Headers::of(packet, self.layout)
                .common(self.layout)
                .as_slice()
                == self.common.as_slice()
    }

    fn append(&mut self, packet: &[u8]) {
        let payload_len = packet.len() - self.layout.headers_len;
        self.len += payload_len;
        self.packets += 1;
        self.next_id = word(packet, 4).wrapping_add(1);
        if self.layout.transport == Transport::Tcp {
            let ip_len = self.layout.ip_len;
            self.next_seq = long(packet, ip_len + 4).wrapping_add(payload_len as u32);
            self.last_flags = packet[ip_len + 13] & (FIN | PSH);
        }
        self.is_full =
            payload_len < self.size || self.last_flags != 0 || self.packets == MAX_PACKETS;
    }

    /// Bytes of headers at the start of each packet; the super-packet has them once.
    pub fn headers_len(&self) -> usize {
        self.headers.len
    }

    /// The driver's header and the super-packet's headers, to be written before the payloads of all packets. The checksum
    /// is left incomplete; the driver's header says so, and the receiver's kernel does not verify it.
    pub fn headers(&self) -> (VirtioHeader, impl AsRef<[u8]> + use<>) {
        let (layout, len) = (self.layout, self.len);
        let mut headers = self.headers;
        let bytes = &mut headers.bytes[..];
        layout.seal_ip(bytes, len);
        match layout.transport {
            Transport::Tcp => bytes[layout.ip_len + 13] |= self.last_flags,
            Transport::Udp => {
                let udp_len = (len - layout.ip_len) as u16;
                put(bytes, layout.ip_len + 4, udp_len.to_be_bytes());
            }
        }
        let pseudo = layout.pseudo_sum(bytes, len);
        put(bytes, layout.checksum_at(), pseudo.to_be_bytes());
        // Each of these lengths fits: none exceeds the 65,535 bytes of an IP packet.
        let virtio = VirtioHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: layout.transport.gso_type(),
            headers_len: headers.len as u16,
            gso_size: self.size as u16,
            checksum_start: layout.ip_len as u16,
            checksum_offset: layout.transport.checksum_offset() as u16,
        };
        (virtio, headers)
    }
}

impl AsRef<[u8]> for Headers {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Whether this kind of packet can be in a super-packet at all.
fn may_join(packet: &[u8], layout: Layout) -> bool {
    let transport = &packet[layout.ip_len..];
    let has_payload = packet.len() > layout.headers_len;
    has_payload
        && match layout.transport {
            Transport::Tcp => {
                let flags = transport[13];
                flags & ACK != 0 && flags & (SYN | RST | URG | CWR) == 0
            }
            Transport::Udp => usize::from(word(transport, 4)) == transport.len(),
        }
}

/// The sum over intact bytes and their checksum is all ones (RFC 1071). Zero can be written in two ways. Only the one that
/// `split` writes counts as correct here, so that a datagram without a checksum does not acquire one.
fn has_right_checksums(packet: &[u8], layout: Layout) -> bool {
    if word(packet, 10) == 0xffff || word(packet, layout.checksum_at()) == 0 {
        return false;
    }
    let pseudo = u64::from(layout.pseudo_sum(packet, packet.len()));
    let whole = fold(pseudo + u64::from(sum(&packet[layout.ip_len..])));
    sum(&packet[..layout.ip_len]) == 0xffff && whole == 0xffff
}
