//! Unwraps a captured frame: finds the innermost IP packet after link-layer headers, labels and tunnel headers.
//!
//! A frame is a chain of headers, each of which tells where the next one begins and what it is. [`Header::next`] reads
//! one of them; `protocols` has the numbers by which headers name the next one. Nothing is verified, reassembled or
//! copied, and transports are not read (squall-observe does that). Every byte is untrusted: a chain that cannot be
//! followed ends at the last IP packet that was found, and no chain has more than [`MAX_HEADERS`] headers.

mod protocols;
#[cfg(test)]
mod tests;

pub use protocols::UnreadProtocol;
use protocols::{of_ether_type, of_ip_protocol, of_ppp, of_udp_port};

/// More headers than any real frame has: VLAN tags and MPLS labels count as well.
const MAX_HEADERS: usize = 32;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A header in front of an IP packet, or the IP header itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Ethernet (IEEE 802.3): two addresses and an EtherType.
    Ethernet,
    /// A VLAN tag after its own EtherType (IEEE 802.1Q).
    Vlan,
    /// An entry of a label stack (RFC 3032).
    Mpls,
    /// PPPoE in its session stage (RFC 2516).
    Pppoe,
    /// IPv4 or IPv6.
    Ip,
    /// GRE (RFC 2784, RFC 2890).
    Gre,
    /// Mirrored Ethernet, types II and III (draft-foschiano-erspan).
    Erspan2,
    Erspan3,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GTP-U (3GPP TS 29.281).
    GtpU,
}

/// What follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This header.
    Header(Header),
    /// A transport, or something that cannot be unwrapped, such as a fragment.
    End,
    /// A protocol that is not read.
    Unread(UnreadProtocol),
}

/// What was found in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unwrapped {
    /// Where the innermost IP packet begins, if there is one.
    pub(super) ip_start: Option<usize>,
    /// The protocol in the frame that is not read, if there is one.
    pub(super) unread: Option<UnreadProtocol>,
}

/// Unwraps a frame from the header at `start` on.
pub(super) fn decapsulate(frame: &[u8], first: Header, start: usize) -> Unwrapped {
    follow(frame, Next::Header(first), start)
}

/// Unwraps the payload at `start`, whose EtherType another header contains.
pub(super) fn decapsulate_typed(frame: &[u8], ether_type: u16, start: usize) -> Unwrapped {
    follow(frame, of_ether_type(ether_type), start)
}

fn follow(frame: &[u8], mut next: Next, mut at: usize) -> Unwrapped {
    let mut found = Unwrapped::default();
    for _ in 0..MAX_HEADERS {
        let header = match next {
            Next::Header(header) => header,
            Next::End => break,
            Next::Unread(protocol) => {
                found.unread = Some(protocol);
                break;
            }
        };
        let rest = frame.get(at..).unwrap_or(&[]);
        if header == Header::Ip && matches!(rest.first().map(|byte| byte >> 4), Some(4 | 6)) {
            found.ip_start = Some(at);
        }
        match header.next(rest) {
            Some((length, after)) => {
                at += length;
                next = after;
            }
            None => {
                // Inside an IP packet, this is a tunnel that could not be read; otherwise the frame is merely damaged.
                let is_tunnelled = found.ip_start.is_some_and(|start| start < at);
                found.unread = is_tunnelled.then(|| UnreadProtocol::Named(header.name()));
                break;
            }
        }
    }
    found
}

/// The 16-bit number at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

impl Header {
    /// Reads this header at the front of `bytes`: its length, and what follows it. `None` if it is truncated or
    /// malformed.
    fn next(self, bytes: &[u8]) -> Option<(usize, Next)> {
        match self {
            Header::Ethernet => Some((14, of_ether_type(word(bytes, 12)?))),
            Header::Vlan => Some((4, of_ether_type(word(bytes, 2)?))),
            Header::Mpls => mpls(bytes),
            Header::Pppoe => pppoe(bytes),
            Header::Ip => match bytes.first()? >> 4 {
                4 => ipv4(bytes),
                6 => ipv6(bytes),
                _ => None,
            },
            Header::Gre => gre(bytes),
            Header::Erspan2 => Some((8, Next::Header(Header::Ethernet))),
            Header::Erspan3 => erspan3(bytes),
            Header::Vxlan => vxlan(bytes),
            Header::Geneve => geneve(bytes),
            Header::GtpU => gtp_u(bytes),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Header::Ethernet => "tunnelled Ethernet",
            Header::Vlan => "VLAN",
            Header::Mpls => "MPLS",
            Header::Pppoe => "PPPoE",
            Header::Ip => "IP in IP",
            Header::Gre => "GRE",
            Header::Erspan2 | Header::Erspan3 => "ERSPAN",
            Header::Vxlan => "VXLAN",
            Header::Geneve => "Geneve",
            Header::GtpU => "GTP-U",
        }
    }
}

/// What follows depends on the label at the bottom of the stack, which only its router knows. IP begins with its version;
/// a pseudowire's control word begins with 0 and precedes Ethernet (RFC 4385, section 3; RFC 4448, section 4.6).
fn mpls(bytes: &[u8]) -> Option<(usize, Next)> {
    let is_bottom = bytes.get(2)? & 1 != 0;
    if !is_bottom {
        return Some((4, Next::Header(Header::Mpls)));
    }
    match bytes.get(4)? >> 4 {
        4 | 6 => Some((4, Next::Header(Header::Ip))),
        0 => Some((8, Next::Header(Header::Ethernet))),
        _ => Some((4, Next::Unread(UnreadProtocol::Named("MPLS")))),
    }
}

fn pppoe(bytes: &[u8]) -> Option<(usize, Next)> {
    let is_session = bytes.starts_with(&[0x11, 0]);
    is_session.then_some((8, of_ppp(word(bytes, 6)?)))
}

fn ipv4(bytes: &[u8]) -> Option<(usize, Next)> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let length = usize::from(header[0] & 0x0f) * 4;
    if length < 20 {
        return None;
    }
    // The More Fragments flag, or an offset: a fragment is not unwrapped.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Some((length, Next::End));
    }
    payload(bytes, length, header[9])
}

fn ipv6(bytes: &[u8]) -> Option<(usize, Next)> {
    let mut protocol = *bytes.get(6)?;
    let mut length = 40;
    // Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4). Each has at least 8 bytes, so the
    // loop ends.
    loop {
        let extension = match protocol {
            0 | 43 | 60 => 8 * (usize::from(*bytes.get(length + 1)?) + 1),
            44 if word(bytes, length + 2)? & 0xfff9 != 0 => return Some((length, Next::End)),
            44 => 8,
            _ => return payload(bytes, length, protocol),
        };
        protocol = *bytes.get(length)?;
        length += extension;
    }
}

/// What follows an IP header of `length` bytes. If a tunnel follows, the UDP header counts as part of the IP header.
fn payload(bytes: &[u8], length: usize, protocol: u8) -> Option<(usize, Next)> {
    match protocol {
        TCP => Some((length, Next::End)),
        UDP => match word(bytes, length + 2).map(of_udp_port) {
            Some(next) => Some((length + 8, next)),
            None => Some((length, Next::End)),
        },
        other => Some((length, of_ip_protocol(other))),
    }
}

/// Version 1 belongs to PPTP (RFC 2637), which numbers and acknowledges packets of PPP.
fn gre(bytes: &[u8]) -> Option<(usize, Next)> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 0x0007;
    const ERSPAN_1_OR_2: u16 = 0x88BE;
    const ERSPAN_3: u16 = 0x22EB;
    let (flags, protocol) = (word(bytes, 0)?, word(bytes, 2)?);
    if flags & VERSION == 1 {
        return Some((4, Next::Unread(UnreadProtocol::Named("PPTP"))));
    }
    if flags & (VERSION | ROUTING) != 0 {
        return None;
    }
    let fields = [CHECKSUM, KEY, SEQUENCE];
    let optional = fields.iter().filter(|flag| flags & **flag != 0).count();
    let next = match protocol {
        // Type I has no header of its own, and no sequence number in its GRE header.
        ERSPAN_1_OR_2 if flags & SEQUENCE == 0 => Next::Header(Header::Ethernet),
        ERSPAN_1_OR_2 => Next::Header(Header::Erspan2),
        ERSPAN_3 => Next::Header(Header::Erspan3),
        other => of_ether_type(other),
    };
    Some((4 + 4 * optional, next))
}

/// The type of frame is in bits 2 to 6 of byte 10, and the lowest bit of byte 11 announces another 8 bytes.
fn erspan3(bytes: &[u8]) -> Option<(usize, Next)> {
    let length = if bytes.get(11)? & 1 == 0 { 12 } else { 20 };
    match (bytes.get(10)? >> 2) & 0x1f {
        0 => Some((length, Next::Header(Header::Ethernet))),
        2 => Some((length, Next::Header(Header::Ip))),
        _ => None,
    }
}

/// The flag for a valid network identifier must be set. Of the other flags, only the one for a group policy is known
/// (draft-smith-vxlan-group-policy).
fn vxlan(bytes: &[u8]) -> Option<(usize, Next)> {
    const VALID: u8 = 0x08;
    const POLICY: u8 = 0x80;
    let is_valid = bytes.first()? & !POLICY == VALID && *bytes.get(7)? == 0;
    is_valid.then_some((8, Next::Header(Header::Ethernet)))
}

/// The lower six bits of the first byte are the length of the options, in units of 4 bytes; the upper two the version.
fn geneve(bytes: &[u8]) -> Option<(usize, Next)> {
    let first = *bytes.first()?;
    let is_version_0 = first >> 6 == 0;
    let length = 8 + 4 * usize::from(first);
    is_version_0.then_some((length, of_ether_type(word(bytes, 2)?)))
}

/// A user's packet has message type 255. Flags announce four more bytes, the last of which is the type of the first
/// extension header (sections 5.1 and 5.2).
fn gtp_u(bytes: &[u8]) -> Option<(usize, Next)> {
    const VERSION_AND_TYPE: u8 = 0xf0;
    const GTP_1: u8 = 0x30;
    const EXTENDED: u8 = 0x04;
    const MORE_FIELDS: u8 = 0x07;
    const USER_PACKET: u8 = 255;
    let flags = *bytes.first()?;
    if flags & VERSION_AND_TYPE != GTP_1 || *bytes.get(1)? != USER_PACKET {
        return None;
    }
    let mut length = 8;
    if flags & MORE_FIELDS != 0 {
        length = 12;
        // The lengths of extension headers are in units of 4 bytes; their last byte is the type of the next one.
        while flags & EXTENDED != 0 && *bytes.get(length - 1)? != 0 {
            let extension = 4 * usize::from(*bytes.get(length)?);
            if extension == 0 {
                return None;
            }
            length += extension;
        }
    }
    match bytes.get(length)? >> 4 {
        4 | 6 => Some((length, Next::Header(Header::Ip))),
        _ => None,
    }
}
