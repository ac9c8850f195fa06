//! A tap on this machine's own flows: captures the packets of TCP and UDP to and from some ports, on every device, for a
//! client that shows what it sent and received.
//!
//! It is one AF_PACKET socket (packet(7)); only opening it needs CAP_NET_RAW. [`ends_of`] reads the ports and addresses of
//! a packet, and the caller decides which flows are its own. The kernel may have joined packets (up to 64 KiB), and may
//! not have filled in the checksums of sent ones. On loopback each packet is seen once, as it arrives. IPv6 packets with
//! extension headers are not seen. `tap` taps the loopback device of a host instead.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;

use crate::clock;
use crate::packet_socket;
use crate::sys::read_option;

/// The loopback device is the first of each namespace (net/core/dev.c).
const LOOPBACK: usize = 1;
/// All devices.
const ANY_DEVICE: libc::c_int = 0;
/// The maximum number of ports in a filter: its jump offsets have one byte.
const PORTS_AT_MOST: usize = 64;
/// Bytes that hold the headers of TCP over IP: of IPv6 40, of TCP at most 60.
const HEADERS: u32 = 128;
/// IPv6's header (RFC 8200, section 3).
const IPV6_HEADER: usize = 40;

/// An open tap.
#[derive(Debug)]
pub struct FlowTap {
    socket: OwnedFd,
    /// The bytes of each packet that it keeps.
    bytes: u32,
}

/// A packet that a tap has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TappedPacket<'b> {
    /// When, in nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// The device, by its index.
    pub device: usize,
    /// Whether this machine sent it. On loopback always false.
    pub is_outgoing: bool,
    /// The packet, beginning with its IP header.
    pub bytes: &'b [u8],
}

/// The ends of a packet of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketEnds {
    /// Whether it is TCP; otherwise UDP.
    pub is_tcp: bool,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
}

impl FlowTap {
    /// Opens a tap that sees nothing until [`FlowTap::watch`].
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; other errors of the operating system.
    pub fn open() -> io::Result<FlowTap> {
        FlowTap::keeping(u32::MAX)
    }

    /// Opens a tap that keeps only the first 128 bytes of each packet: the headers.
    ///
    /// # Errors
    /// As [`FlowTap::open`].
    pub fn open_for_headers() -> io::Result<FlowTap> {
        FlowTap::keeping(HEADERS)
    }

    fn keeping(bytes: u32) -> io::Result<FlowTap> {
        let socket = packet_socket::open()?;
        Ok(FlowTap { socket, bytes })
    }

    /// From now on, captures the packets with one of these ports at either end, instead of those of an earlier call. Only
    /// the first 64 ports count.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn watch(&self, ports: &[u16]) -> io::Result<()> {
        let ports = &ports[..ports.len().min(PORTS_AT_MOST)];
        packet_socket::filter(&self.socket, &mut filter(ports, self.bytes))?;
        packet_socket::bind(&self.socket, ANY_DEVICE)
    }

    /// The next packet, or `None` if no packet is waiting. `buffer` must have room for [`crate::tap::PACKET_BYTES`].
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn next<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<TappedPacket<'b>>> {
        let (length, unix_ns, device, is_outgoing) = loop {
            match receive(&self.socket, buffer) {
                Err(Errno::EAGAIN) => return Ok(None),
                // A device that went away is reported once.
                Err(Errno::EINTR | Errno::ENETDOWN) => {}
                Err(error) => return Err(error.into()),
                // Skipped, because on loopback the same packet also arrives.
                Ok((_, _, LOOPBACK, true)) => {}
                Ok(received) => break received,
            }
        };
        Ok(Some(TappedPacket {
            unix_ns,
            device,
            is_outgoing,
            bytes: &buffer[..length.min(buffer.len())],
        }))
    }

    /// Packets dropped at a full buffer since the last call.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn missed(&self) -> io::Result<u64> {
        // struct tpacket_stats: the numbers of packets and of drops.
        let mut counts = [[0; 4]; 2];
        let bytes = counts.as_flattened_mut();
        read_option(self, libc::SOL_PACKET, libc::PACKET_STATISTICS, bytes)?;
        Ok(u32::from_ne_bytes(counts[1]).into())
    }
}

impl AsFd for FlowTap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Receives one packet: its length, its time, its device, and whether this machine sent it.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<(usize, u64, usize, bool)> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut room = [IoSliceMut::new(buffer)];
    let message = recvmsg::<LinkAddr>(
        socket.as_raw_fd(),
        &mut room,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
        _ => None,
    });
    let unix_ns = stamp.map_or_else(clock::unix_nanos, clock::nanos_of);
    let address = message.address.as_ref();
    let device = address.map_or(0, LinkAddr::ifindex);
    let is_outgoing = address.is_some_and(|it| it.pkttype() == libc::PACKET_OUTGOING);
    Ok((message.bytes, unix_ns, device, is_outgoing))
}

/// The ends of a packet; `None` if it is not TCP or UDP over IP, or too short.
pub fn ends_of(packet: &[u8]) -> Option<PacketEnds> {
    let (protocol, from, to, header): (u8, IpAddr, IpAddr, usize) = match packet.first()? >> 4 {
        4 => {
            let from: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            (
                packet[9],
                Ipv4Addr::from(from).into(),
                Ipv4Addr::from(to).into(),
                usize::from(packet[0] & 0x0f) * 4,
            )
        }
        6 => {
            let from: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (
                packet[6],
                Ipv6Addr::from(from).into(),
                Ipv6Addr::from(to).into(),
                IPV6_HEADER,
            )
        }
        _ => return None,
    };
    let port = |at: usize| -> Option<u16> {
        let bytes = packet.get(at..at + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    };
    let is_tcp = match libc::c_int::from(protocol) {
        libc::IPPROTO_TCP => true,
        libc::IPPROTO_UDP => false,
        _ => return None,
    };
    Some(PacketEnds {
        is_tcp,
        from: SocketAddr::new(from, port(header)?),
        to: SocketAddr::new(to, port(header + 2)?),
    })
}

/// A program that passes the first `bytes` of TCP and UDP packets whose source or destination port is one of `ports`. It
/// reads from the IP header on.
fn filter(ports: &[u16], bytes: u32) -> Vec<libc::sock_filter> {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_INDIRECT_HALF: u16 = 0x48;
    const AND: u16 = 0x54;
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
    const LOAD_INDEX: u16 = 0x01;
    const JUMP: u16 = 0x05;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |k, jt, jf| libc::sock_filter {
        code: JUMP_IF_EQUAL,
        jt,
        jf,
        k,
    };
    let tcp = libc::IPPROTO_TCP as u32;
    let udp = libc::IPPROTO_UDP as u32;
    let mut program = vec![
        step(LOAD_BYTE, 0),
        step(AND, 0xf0),
        // 2: IPv4, or else to 8. Anything but TCP and UDP goes to 14.
        jump(0x40, 0, 5),
        step(LOAD_BYTE, 9),
        jump(tcp, 1, 0),
        jump(udp, 0, 8),
        step(LOAD_HEADER_LENGTH, 0),
        step(JUMP, 7),
        // 8: IPv6.
        jump(0x60, 0, 5),
        step(LOAD_BYTE, 6),
        jump(tcp, 1, 0),
        jump(udp, 0, 2),
        step(LOAD_INDEX, IPV6_HEADER as u32),
        step(JUMP, 1),
        step(RETURN, 0),
    ];
    // 15: the index is the length of the IP header. A port that matches jumps to the last instruction, which passes.
    let count = ports.len();
    program.push(step(LOAD_INDIRECT_HALF, 0));
    for (place, port) in ports.iter().enumerate() {
        program.push(jump((*port).into(), (1 + 2 * count - place) as u8, 0));
    }
    program.push(step(LOAD_INDIRECT_HALF, 2));
    for (place, port) in ports.iter().enumerate() {
        program.push(jump((*port).into(), (count - place) as u8, 0));
    }
    program.push(step(RETURN, 0));
    program.push(step(RETURN, bytes));
    program
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::host::Host;
    use crate::tap::PACKET_BYTES;

    /// Whether a packet passes, as the kernel would decide it. Knows only the instructions that `filter` uses.
    fn passes(program: &[libc::sock_filter], packet: &[u8]) -> bool {
        let (mut at, mut value, mut index) = (0, 0_u32, 0_usize);
        loop {
            let it = program[at];
            let place = it.k as usize;
            at += 1;
            match it.code {
                0x30 => value = packet[place].into(),
                0x54 => value &= it.k,
                0x48 => {
                    let half = &packet[index + place..index + place + 2];
                    value = u16::from_be_bytes(half.try_into().unwrap()).into();
                }
                0xb1 => index = usize::from(packet[place] & 0x0f) * 4,
                0x01 => index = place,
                0x05 => at += place,
                0x15 if value == it.k => at += usize::from(it.jt),
                0x15 => at += usize::from(it.jf),
                0x06 => return it.k > 0,
                other => panic!("{other:#x}"),
            }
        }
    }

    fn ipv4(protocol: u8, from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&[192, 0, 2, 1]);
        packet[16..20].copy_from_slice(&[192, 0, 2, 2]);
        packet[20..22].copy_from_slice(&from.to_be_bytes());
        packet[22..24].copy_from_slice(&to.to_be_bytes());
        packet
    }

    fn ipv6(protocol: u8, from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[0] = 0x60;
        packet[6] = protocol;
        packet[23] = 1;
        packet[39] = 2;
        packet[40..42].copy_from_slice(&from.to_be_bytes());
        packet[42..44].copy_from_slice(&to.to_be_bytes());
        packet
    }

    #[test]
    fn filter_passes_the_ports_in_both_directions_and_nothing_else() {
        let program = filter(&[443, 8443], u32::MAX);
        for made in [ipv4, ipv6] {
            for protocol in [6, 17] {
                for port in [443, 8443] {
                    assert!(passes(&program, &made(protocol, port, 50_000)));
                    assert!(passes(&program, &made(protocol, 50_000, port)));
                }
                assert!(!passes(&program, &made(protocol, 50_000, 80)));
            }
            assert!(!passes(&program, &made(1, 443, 443)));
        }
        assert!(!passes(&program, &[0; 40]));
        assert!(!passes(&filter(&[], u32::MAX), &ipv4(6, 443, 443)));
        let many: Vec<u16> = (1..=64).collect();
        let program = filter(&many, HEADERS);
        assert!(passes(&program, &ipv4(6, 1, 50_000)));
        assert!(passes(&program, &ipv6(17, 50_000, 64)));
    }

    #[test]
    fn ends_are_read_from_both_versions_of_ip() {
        let ends = ends_of(&ipv4(6, 443, 50_000)).unwrap();
        assert!(ends.is_tcp);
        assert_eq!(ends.from, "192.0.2.1:443".parse().unwrap());
        assert_eq!(ends.to, "192.0.2.2:50000".parse().unwrap());
        let ends = ends_of(&ipv6(17, 443, 50_000)).unwrap();
        assert!(!ends.is_tcp);
        assert_eq!(ends.from, "[::1]:443".parse().unwrap());
        assert_eq!(ends.to, "[::2]:50000".parse().unwrap());
        for other in [&ipv4(1, 0, 0)[..], &ipv4(6, 1, 1)[..22], &[], &[0x45]] {
            assert_eq!(ends_of(other), None);
        }
    }

    #[test]
    fn each_packet_on_loopback_is_seen_once_and_other_ports_are_not() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let seen = host.run(|| {
            let text = [7; 1_000];
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let other = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = listener.local_addr().unwrap();
            let tap = FlowTap::open().unwrap();
            tap.watch(&[server.port()]).unwrap();
            let headers = FlowTap::open_for_headers().unwrap();
            headers.watch(&[server.port()]).unwrap();
            for place in [server, other.local_addr().unwrap()] {
                let mut client = TcpStream::connect(place).unwrap();
                let chosen = if place == server { &listener } else { &other };
                let mut accepted = chosen.accept().unwrap().0;
                client.write_all(&text).unwrap();
                accepted.read_exact(&mut [0; 1_000]).unwrap();
            }
            let mut buffer = vec![0; PACKET_BYTES];
            let mut texts = 0;
            while let Some(packet) = tap.next(&mut buffer).unwrap() {
                let ends = ends_of(packet.bytes).unwrap();
                assert!(ends.from == server || ends.to == server, "{ends:?}");
                assert_eq!(packet.device, LOOPBACK);
                texts += usize::from(packet.bytes.ends_with(&text));
            }
            while let Some(packet) = headers.next(&mut buffer).unwrap() {
                assert!(packet.bytes.len() <= HEADERS as usize);
                assert!(ends_of(packet.bytes).is_some());
            }
            assert_eq!(tap.missed().unwrap(), 0);
            Ok::<usize, crate::SetupError>(texts)
        });
        assert_eq!(seen.unwrap(), 1);
    }
}
