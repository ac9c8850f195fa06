//! A tap on a host's loopback device: every packet that its programs send each other, for those who read what they say.
//!
//! One AF_PACKET socket (packet(7)), which sees what arrives; what leaves is the same on loopback and is passed over. It
//! decodes nothing. Packets are as long as the kernel joins them (64 KiB), checksums may not be filled in, and the time is
//! when the socket was read: close enough to join records, not to measure a program that answers in microseconds. How
//! many packets found its buffer full is counted and told.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use squall_base::Time;

use crate::clock;
use crate::error::SetupError;
use crate::host::Host;

/// What the kernel keeps until it is read: 4,000 full packets. SO_RCVBUFFORCE needs CAP_NET_ADMIN, which a host's owner
/// has.
const BUFFER_BYTES: libc::c_int = 32 << 20;
/// The loopback device is the first of each namespace (net/core/dev.c).
const LOOPBACK_INDEX: libc::c_int = 1;
/// IP packets are no longer.
pub const PACKET_BYTES: usize = 65_536;

/// A tap that is open.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
}

impl Tap {
    /// Opens a tap on the loopback device of `host`. What is sent from now on is seen.
    pub fn on_loopback(host: &Host) -> Result<Tap, SetupError> {
        let open = || {
            open().map_err(|source| SetupError::System {
                action: "open a tap on a host's loopback device",
                source,
            })
        };
        host.run(open).map(|socket| Tap { socket })
    }

    /// The next packet, from the first byte of its IP header, and when it was read; `None` if there is none now.
    /// `buffer` has room for [`PACKET_BYTES`].
    pub fn next<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<(Time, &'b [u8])>> {
        loop {
            let (length, is_outgoing) = match receive(&self.socket, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?,
            };
            if !is_outgoing {
                return Ok(Some((clock::now(), &buffer[..length.min(buffer.len())])));
            }
        }
    }

    /// Packets that found the buffer full since this was last asked.
    pub fn missed(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the call writes at most `length` bytes to `statistics`, which has that many; both outlive it.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &mut length,
            )
        };
        checked(result).map(|()| statistics.tp_drops.into())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    // Until it is bound with a protocol it receives nothing, and so nothing of other devices.
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    checked(fd)?;
    // SAFETY: the descriptor was just made, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let bytes = BUFFER_BYTES;
    // SAFETY: the call reads one int, from `bytes`, which outlives it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    checked(result)?;
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = LOOPBACK_INDEX;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the call reads `length` bytes of `address`, which has that many.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(result)?;
    Ok(socket)
}

/// The length of a packet, and whether it is on its way out.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    // SAFETY: all-zero bytes are a valid address.
    let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut from_length = size_of_val(&from) as libc::socklen_t;
    // SAFETY: the call writes at most `buffer.len()` bytes to `buffer` and `from_length` to `from`, which have that many;
    // all outlive it.
    let length = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut from).cast(),
            &mut from_length,
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok((length, from.sll_pkttype == libc::PACKET_OUTGOING))
}

fn checked(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn each_packet_of_the_host_is_seen_once_and_others_are_not() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let tap = Tap::on_loopback(&host).unwrap();
        // Outside of the host.
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(TcpStream::connect(outside.local_addr().unwrap()).unwrap());
        let talk = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut server = listener.accept().unwrap().0;
            client.write_all(b"whoever listens").unwrap();
            server.read_exact(&mut [0; 15]).unwrap();
            Ok(())
        };
        host.run(talk).unwrap();
        let mut buffer = vec![0; PACKET_BYTES];
        let (mut packets, mut with_text) = (0, 0);
        let mut last = Time::ZERO;
        while let Some((time, packet)) = tap.next(&mut buffer).unwrap() {
            assert_eq!(packet[0], 0x45, "an IPv4 header without options");
            assert!(time >= last);
            last = time;
            packets += 1;
            with_text += usize::from(packet.ends_with(b"whoever listens"));
        }
        // SYN, SYN-ACK, ACK, the text, its ACK, and both FINs with their ACKs, some of them together.
        assert!((7..=10).contains(&packets), "{packets}");
        assert_eq!(with_text, 1);
        assert_eq!(tap.missed().unwrap(), 0);
    }
}
