//! Wire packets that follow each other into one super-packet, so that the receiving host takes them in one go.
//!
//! Only what the receiver's own receive offload would join: the same flow and headers, one right behind the other, all
//! of one size but the last, and with right checksums, because the receiver does not look at the checksums of a
//! super-packet. Splitting a joined packet gives the same bytes again. It holds no payload: who writes it has the packets.

use super::{
    ACK, CWR, FIN, Layout, NEEDS_CHECKSUM, PSH, RST, SYN, Transport, URG, VirtioHeader, fold, long,
    put, sum, word,
};

/// The most bytes of an IPv4 packet.
const LEN_AT_MOST: usize = 65_535;
/// The most packets of a super-packet: what the kernel takes of UDP (UDP_MAX_SEGMENTS, include/linux/udp.h), and far below
/// the pieces of one write (IOV_MAX, 1,024). Packets of 1,500 bytes do not get there.
const PACKETS_AT_MOST: usize = 128;
/// The most bytes of the headers of IPv4 and TCP, with all options.
const HEADERS_AT_MOST: usize = 120;

/// The headers of a packet.
#[derive(Clone, Copy, Debug)]
struct Headers {
    bytes: [u8; HEADERS_AT_MOST],
    len: usize,
}

impl Headers {
    fn of(packet: &[u8], layout: Layout) -> Headers {
        let len = layout.headers_len;
        let mut bytes = [0; HEADERS_AT_MOST];
        bytes[..len].copy_from_slice(&packet[..len]);
        Headers { bytes, len }
    }

    /// Without what differs from packet to packet of a run: lengths, identification, checksums, sequence number, and
    /// the flags that only the last one has.
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

/// Packets that are to be one super-packet.
#[derive(Debug)]
pub struct Run {
    layout: Layout,
    /// The first packet's.
    headers: Headers,
    common: Headers,
    /// Bytes of payload in each packet but the last.
    size: usize,
    /// Bytes of the super-packet.
    len: usize,
    packets: usize,
    next_id: u16,
    /// For TCP only.
    next_seq: u32,
    /// FIN and PSH, which only the last packet has.
    last_flags: u8,
    is_full: bool,
}

impl Run {
    /// A run of this packet alone. `None` if it cannot be in one.
    pub fn begin(packet: &[u8]) -> Option<Run> {
        let layout = Layout::of(packet)?;
        if !may_join(packet, layout) || !has_right_checksums(packet, layout) {
            return None;
        }
        let headers = Headers::of(packet, layout);
        let mut run = Run {
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

    /// Takes one more packet, if it is the next. If not, nothing changes.
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
            && self.len + payload_len <= LEN_AT_MOST
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
            payload_len < self.size || self.last_flags != 0 || self.packets == PACKETS_AT_MOST;
    }

    /// Bytes of headers at the start of each packet, which the super-packet has once.
    pub fn headers_len(&self) -> usize {
        self.headers.len
    }

    /// The driver's header and the super-packet's, to stand before the payloads of all packets. Its checksum is left to
    /// the receiver's kernel, which knows by that that it need not look.
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
        // None of these exceeds the 65,535 bytes of an IP packet.
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

/// Whether a packet of this kind can be in a super-packet at all.
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

/// A sum over right bytes and their checksum is all ones (RFC 1071). Zero can be written in two ways; only the one that
/// `split` writes is right here, so that a datagram without a checksum does not get one.
fn has_right_checksums(packet: &[u8], layout: Layout) -> bool {
    if word(packet, 10) == 0xffff || word(packet, layout.checksum_at()) == 0 {
        return false;
    }
    let pseudo = u64::from(layout.pseudo_sum(packet, packet.len()));
    let whole = fold(pseudo + u64::from(sum(&packet[layout.ip_len..])));
    sum(&packet[..layout.ip_len]) == 0xffff && whole == 0xffff
}
