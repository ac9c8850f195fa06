//! Super-packets: packets of up to 64 KiB that a device with offloads exchanges with the host in place of wire packets.
//!
//! Pure functions on bytes. `split` turns a super-packet into the packets that the kernel would have sent; `join` combines
//! consecutive packets back into a super-packet. No I/O, no clock, no decision about any packet, and no input can cause a
//! panic. IPv4 only, like all of squall. This file has what both need: the driver's header, the layout of a packet, and
//! checksums. The user is `port`.

pub mod join;
pub mod split;

/// Bytes of `struct virtio_net_hdr`, which precedes each packet of a device with IFF_VNET_HDR.
pub const VIRTIO_HEADER_BYTES: usize = 10;

/// The header's `flags`: the checksum field holds only the sum of the pseudo-header (VIRTIO_NET_HDR_F_NEEDS_CSUM).
const NEEDS_CHECKSUM: u8 = 1;
/// The header's `gso_type`: an ordinary packet.
const GSO_NONE: u8 = 0;
/// A super-packet of TCP over IPv4.
const GSO_TCP: u8 = 1;
/// A super-packet of UDP: many datagrams, not fragments of one (VIRTIO_NET_HDR_GSO_UDP_L4).
const GSO_UDP: u8 = 5;
/// Added to GSO_TCP if the CWR flag is set.
const GSO_ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// `struct virtio_net_hdr` (linux/virtio_net.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// VIRTIO_NET_HDR_F_*.
    pub flags: u8,
    /// VIRTIO_NET_HDR_GSO_*.
    pub gso_type: u8,
    /// Bytes of all headers of the packet.
    pub headers_len: u16,
    /// Bytes of payload in each packet of a super-packet except the last.
    pub gso_size: u16,
    /// Where the checksummed bytes begin.
    pub checksum_start: u16,
    /// Offset of the checksum field from there.
    pub checksum_offset: u16,
}

impl VirtioHeader {
    /// Parses it. Fields are in this machine's byte order, the default of TUN devices.
    pub fn from_bytes(bytes: [u8; VIRTIO_HEADER_BYTES]) -> VirtioHeader {
        let [flags, gso_type, fields @ ..] = bytes;
        let field = |at: usize| u16::from_ne_bytes([fields[at], fields[at + 1]]);
        VirtioHeader {
            flags,
            gso_type,
            headers_len: field(0),
            gso_size: field(2),
            checksum_start: field(4),
            checksum_offset: field(6),
        }
    }

    /// The inverse of `from_bytes`.
    pub fn to_bytes(self) -> [u8; VIRTIO_HEADER_BYTES] {
        let mut bytes = [0; VIRTIO_HEADER_BYTES];
        (bytes[0], bytes[1]) = (self.flags, self.gso_type);
        put(&mut bytes, 2, self.headers_len.to_ne_bytes());
        put(&mut bytes, 4, self.gso_size.to_ne_bytes());
        put(&mut bytes, 6, self.checksum_start.to_ne_bytes());
        put(&mut bytes, 8, self.checksum_offset.to_ne_bytes());
        bytes
    }
}

/// The protocols that have super-packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    fn of(protocol: u8) -> Option<Transport> {
        match protocol {
            6 => Some(Transport::Tcp),
            17 => Some(Transport::Udp),
            _ => None,
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    /// Offset of the checksum in the transport header.
    fn checksum_offset(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }

    fn gso_type(self) -> u8 {
        match self {
            Transport::Tcp => GSO_TCP,
            Transport::Udp => GSO_UDP,
        }
    }
}

/// The layout of an IPv4 packet with complete headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    transport: Transport,
    /// Where the IP header ends and the transport header begins.
    ip_len: usize,
    /// Where the headers end and the payload begins.
    headers_len: usize,
}

impl Layout {
    /// `None` for anything but TCP and UDP over IPv4, for fragments, and for inconsistent lengths.
    fn of(packet: &[u8]) -> Option<Layout> {
        let ip: &[u8; 20] = packet.first_chunk()?;
        let ip_len = usize::from(ip[0] & 0x0f) * 4;
        // "More fragments" is set, or the offset is not 0; the reserved bit and "don't fragment" do not matter.
        let is_fragment = word(ip, 6) & 0x3fff != 0;
        if ip[0] >> 4 != 4 || ip_len < 20 || is_fragment || usize::from(word(ip, 2)) != packet.len()
        {
            return None;
        }
        let transport = Transport::of(ip[9])?;
        let header = packet.get(ip_len..)?;
        let (transport_len, least) = match transport {
            Transport::Tcp => (usize::from(header.get(12)? >> 4) * 4, 20),
            Transport::Udp => (8, 8),
        };
        (transport_len >= least && transport_len <= header.len()).then_some(Layout {
            transport,
            ip_len,
            headers_len: ip_len + transport_len,
        })
    }

    /// Offset of the transport's checksum in the packet.
    fn checksum_at(&self) -> usize {
        self.ip_len + self.transport.checksum_offset()
    }

    /// The sum over the pseudo-header of a packet of `len` bytes with these addresses (RFC 9293, section 3.1).
    fn pseudo_sum(&self, packet: &[u8], len: usize) -> u16 {
        let addresses = u64::from(sum(&packet[12..20]));
        let rest = u64::from(self.transport.protocol()) + (len - self.ip_len) as u64;
        fold(addresses + rest)
    }

    /// Sets the IP header's length and checksum.
    fn seal_ip(&self, packet: &mut [u8], len: usize) {
        put(packet, 2, (len as u16).to_be_bytes());
        put(packet, 10, [0, 0]);
        let checksum = !sum(&packet[..self.ip_len]);
        put(packet, 10, checksum.to_be_bytes());
    }
}

/// The 16 bits at `at`, in network order.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 bits at `at`, in network order.
fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// The ones' complement sum of big-endian 16-bit words, an odd last byte padded with zero (RFC 1071). The sum does not
/// depend on the byte order in which it is computed (section 2 B), so this adds four bytes at a time in the machine's own.
fn sum(bytes: &[u8]) -> u16 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    // At most 2^16 quads are added here, so the sum cannot wrap. Plain addition would be overflow-checked in tests, and
    // slow.
    let total = quads
        .iter()
        .fold(u64::from(u32::from_ne_bytes(last)), |total, quad| {
            total.wrapping_add(u64::from(u32::from_ne_bytes(*quad)))
        });
    u16::from_be(fold(total))
}

/// Folds the carries into 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum for a sum. In UDP, zero would mean "no checksum" (RFC 768); all ones is the same number.
fn checksum_of(sum: u16) -> u16 {
    match !sum {
        0 => 0xffff,
        checksum => checksum,
    }
}
