//! A tap on a host's loopback device: captures every IPv4 packet to and from one port, for code that reads the traffic of
//! programs there.
//!
//! It is one AF_PACKET socket (packet(7)) that sees incoming packets before TCP does. Outgoing packets are ignored: on
//! loopback they are the same packets. It decodes nothing. Packets are as long as the kernel joins them (up to 64 KiB), and
//! their checksums may not be filled in. Timestamps are the kernel's (SO_TIMESTAMPNS), taken when it passed the packet to
//! the receiving stack, so reading late does not change them. Packets lost to a full buffer are counted ([`Tap::missed`]).

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use squall_base::{Duration, Time};

use crate::clock;
use crate::error::SetupError;
use crate::host::Host;
use crate::packet_socket;
use crate::sys::read_option;

/// The loopback device is the first of each namespace (net/core/dev.c).
const LOOPBACK_INDEX: libc::c_int = 1;
/// The longest IP packet.
pub const PACKET_BYTES: usize = 65_536;
/// From include/uapi/linux/if_packet.h, since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// How long the kernel may take to start timestamping packets: usually some milliseconds, more on a busy machine.
const TIMESTAMPS_WITHIN: Duration = Duration::from_secs(5);
/// The delay between sending a probe packet and reading it. Without timestamping, its timestamp would be the time of the read.
const READ_AFTER: Duration = Duration::from_millis(1);
/// Two clocks read within this span count as read at the same moment: it is the time of a few readings.
const SAME_MOMENT: Duration = Duration::from_micros(2);
/// How many times to try to read both clocks at the same moment. A thread that is interrupted every time uses the best try.
const READINGS: usize = 20;

/// An open tap.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
}

impl Tap {
    /// Opens a tap on the loopback device of `host`, for TCP and UDP packets with this port at either end. It sees packets
    /// sent from now on.
    pub fn on_loopback(host: &Host, port: u16) -> Result<Tap, SetupError> {
        let open = || {
            let socket = open(port).and_then(|socket| wait_for_timestamps().map(|()| socket));
            socket.map_err(SetupError::system("open a tap on a host's loopback device"))
        };
        host.run(open).map(|socket| Tap { socket })
    }

    /// The next packet, from the first byte of its IP header, and its arrival time; `None` if no packet is waiting. `buffer`
    /// must have room for [`PACKET_BYTES`].
    pub fn next<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<(Time, &'b [u8])>> {
        let (length, arrived) = loop {
            match receive(&self.socket, buffer) {
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                received => break received?,
            }
        };
        Ok(Some((arrived, &buffer[..length.min(buffer.len())])))
    }

    /// Packets dropped at a full buffer since the last call.
    pub fn missed(&self) -> io::Result<u64> {
        // struct tpacket_stats: the numbers of packets and of drops.
        let mut counts = [[0; 4]; 2];
        let bytes = counts.as_flattened_mut();
        read_option(self, libc::SOL_PACKET, libc::PACKET_STATISTICS, bytes)?;
        Ok(u32::from_ne_bytes(counts[1]).into())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(port: u16) -> io::Result<OwnedFd> {
    let socket = packet_socket::open()?;
    let yes: libc::c_int = 1;
    packet_socket::set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes)?;
    packet_socket::filter(&socket, &mut filter(port))?;
    packet_socket::bind(&socket, LOOPBACK_INDEX)?;
    Ok(socket)
}

/// Waits until the kernel timestamps packets on arrival. It starts to do so some time after the machine's first socket has
/// asked for it (net_enable_timestamp in net/core/dev.c, which defers it to a work queue). Until then a packet gets the
/// time at which it is read.
fn wait_for_timestamps() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(TIMESTAMPS_WITHIN.into()))?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    let give_up = clock::now() + TIMESTAMPS_WITHIN;
    while clock::now() < give_up {
        socket.send(&[0])?;
        let sent = clock::now();
        thread::sleep(READ_AFTER.into());
        let (_, arrived) = receive(&socket, &mut [0])?;
        if arrived < sent + READ_AFTER {
            return Ok(());
        }
    }
    let said = "the kernel does not give packets the times of their arrival";
    Err(io::Error::new(io::ErrorKind::TimedOut, said))
}

/// A classic BPF program (Documentation/networking/filter.rst) that passes TCP and UDP packets over IPv4 whose source or
/// destination port is `port`. It reads from the IP header on.
fn filter(port: u16) -> [libc::sock_filter; 13] {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_INDIRECT_HALF: u16 = 0x48;
    const AND: u16 = 0x54;
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
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
    [
        step(LOAD_BYTE, 0),
        step(AND, 0xf0),
        jump(0x40, 0, 8),
        step(LOAD_BYTE, 9),
        jump(libc::IPPROTO_TCP as u32, 1, 0),
        jump(libc::IPPROTO_UDP as u32, 0, 5),
        step(LOAD_HEADER_LENGTH, 0),
        step(LOAD_INDIRECT_HALF, 0),
        jump(port.into(), 3, 0),
        step(LOAD_INDIRECT_HALF, 2),
        jump(port.into(), 1, 0),
        step(RETURN, 0),
        step(RETURN, u32::MAX),
    ]
}

/// Receives one packet: its length and arrival time.
fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> nix::Result<(usize, Time)> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut room = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut room,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
        _ => None,
    });
    // The timestamp is wall-clock time, and the wall clock may have been set in between. A packet is never from the future.
    let (now, wall_ns) = both_clocks();
    let age_ns = stamp.map_or(0, |stamp| wall_ns.saturating_sub(clock::nanos_of(stamp)));
    let arrived = Time::from_nanos(now.as_nanos().saturating_sub(age_ns));
    Ok((message.bytes, arrived))
}

/// The same moment on the monotonic clock and on the wall clock. Reads again if the thread was interrupted between the two.
fn both_clocks() -> (Time, u64) {
    let read = || {
        let before = clock::now();
        let wall_ns = clock::unix_nanos();
        (clock::now().since(before), before, wall_ns)
    };
    let mut best = read();
    for _ in 1..READINGS {
        if best.0 <= SAME_MOMENT {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A listener, after a connection to it has sent `text`.
    fn talk(text: &[u8]) -> std::result::Result<TcpListener, SetupError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        say(&listener, text);
        Ok(listener)
    }

    fn say(listener: &TcpListener, text: &[u8]) {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(text).unwrap();
        server.read_exact(&mut vec![0; text.len()]).unwrap();
    }

    /// Takes CAP_NET_ADMIN away from the calling thread (capset(2)).
    fn drop_net_admin() {
        const VERSION_3: u32 = 0x2008_0522;
        const CAP_NET_ADMIN: u32 = 12;
        let mut header = [VERSION_3, 0];
        // The effective, permitted and inheritable sets, first of the lower 32 capabilities, then of the others.
        let mut sets = [0_u32; 6];
        // SAFETY: the call reads and writes `header`, two words, and writes `sets`, six words; both outlive it.
        let read =
            unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
        assert_eq!(read, 0);
        sets[0] &= !(1 << CAP_NET_ADMIN);
        // SAFETY: as above; the call writes at most to `header`.
        let written =
            unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) };
        assert_eq!(written, 0);
    }

    #[test]
    fn tap_opens_without_the_right_to_exceed_the_buffer_limit() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let opened = host.run(|| {
            drop_net_admin();
            Ok(open(80).map(drop))
        });
        opened.unwrap().unwrap();
    }

    #[test]
    fn each_packet_of_the_port_is_seen_once_and_others_are_not() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let listener = host.run(|| talk(b"too early")).unwrap();
        let tap = Tap::on_loopback(&host, listener.local_addr().unwrap().port()).unwrap();
        // Outside the host, and inside it at another port.
        talk(b"somewhere else").unwrap();
        host.run(|| talk(b"to somebody else")).unwrap();
        let before = clock::now();
        host.run(|| {
            say(&listener, b"whoever listens");
            Ok(())
        })
        .unwrap();
        // The kernel may deliver the last packets a little later.
        std::thread::sleep(Duration::from_millis(200).into());
        let after = clock::now();
        // Timestamps must not be the times of the reads.
        std::thread::sleep(Duration::from_millis(20).into());
        let mut buffer = vec![0; PACKET_BYTES];
        let (mut packets, mut texts) = (0, Vec::new());
        while let Some((time, packet)) = tap.next(&mut buffer).unwrap() {
            assert_eq!(packet[0], 0x45, "an IPv4 header without options");
            assert!(time >= before && time <= after, "{time:?}");
            packets += 1;
            if packet[packet.len() - 1].is_ascii_alphabetic() && packet.len() > 60 {
                texts.push(String::from_utf8_lossy(&packet[52..]).into_owned());
            }
        }
        // SYN, SYN-ACK, ACK, the text, its ACK, and both FINs with their ACKs, some of them together.
        assert!((7..=10).contains(&packets), "{packets}");
        assert_eq!(texts, ["whoever listens"]);
        assert_eq!(tap.missed().unwrap(), 0);
    }
}
