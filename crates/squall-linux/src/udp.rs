//! UDP sockets for QUIC, built on quinn-udp: non-blocking, several datagrams per system call in both directions
//! (UDP_SEGMENT, UDP_GRO), and never fragmented (IP_PMTUDISC_PROBE).
//!
//! It does not look into datagrams, and it leaves out ECN, which quiche does not support. Datagrams sent together leave the
//! host's stack as one packet; they are split at the device, unless the device takes the packet whole. The plain sockets
//! for measuring a link are in `datagrams`.

use std::array;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{SockType, SockaddrStorage, bind, setsockopt, sockopt};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use squall_base::Bytes;
use squall_base::plan::{Http3Settings, PortRange};

use crate::socket::{self, SocketError};

/// The largest UDP payload over IPv4, which bounds what one system call sends.
const PAYLOAD_BYTES: usize = 65_507;
/// Buffers per system call. With UDP_GRO each of them receives up to 64 datagrams.
const READS_A_CALL: usize = 16;
/// No read is longer: GRO joins datagrams only up to the length of an IP packet.
const READ_BYTES: usize = 65_536;

/// Options of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Whether to pass several datagrams to the kernel in one call (UDP_SEGMENT). Otherwise each gets its own call.
    pub gso: bool,
    /// SO_RCVBUF, which the kernel doubles; `None` keeps the kernel's default.
    pub receive_buffer: Option<Bytes>,
    /// SO_SNDBUF, likewise.
    pub send_buffer: Option<Bytes>,
    /// The local ports that a client's socket may use (IP_LOCAL_PORT_RANGE); `None` means any port.
    pub local_ports: Option<PortRange>,
}

impl From<&Http3Settings> for UdpOptions {
    fn from(settings: &Http3Settings) -> UdpOptions {
        UdpOptions {
            gso: settings.gso,
            receive_buffer: settings.receive_buffer,
            send_buffer: settings.send_buffer,
            local_ports: settings.local_ports,
        }
    }
}

/// Datagrams for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The destination.
    pub to: SocketAddr,
    /// Their payloads, concatenated.
    pub contents: &'a [u8],
    /// The length of each payload except the last, which may be shorter; `None` means a single datagram.
    pub segment_bytes: Option<usize>,
}

/// Where a datagram came from, and which of this socket's addresses it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The sender's address.
    pub from: SocketAddr,
    /// The local address.
    pub to: SocketAddr,
}

/// Buffers for received datagrams: 1 MiB, to be shared by the sockets of a thread.
pub struct ReceiveBuffers(Vec<u8>);

impl ReceiveBuffers {
    /// Buffers for any number of sockets, one after the other.
    pub fn new() -> ReceiveBuffers {
        ReceiveBuffers(vec![0; READS_A_CALL * READ_BYTES])
    }
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        ReceiveBuffers::new()
    }
}

/// A UDP socket. Watch it with `Interest::Reading`; after `send` has returned `WouldBlock`, watch for writing too.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    gso: bool,
}

impl UdpSocket {
    /// A socket for datagrams from any peer, bound to `address`; port 0 is any free one. Give a server a specific address
    /// rather than the unspecified one, so that responses leave from the address the request was sent to.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> Result<UdpSocket, SocketError> {
        let failed = SocketError::system("take datagrams at", address);
        let socket = bound(address, options, &failed)?;
        UdpSocket::from_bound(socket, options).map_err(failed)
    }

    /// A socket for one peer, at a free port of the local address from which the peer is reached. A missing peer shows as
    /// `ConnectionRefused` in a later `send` or `receive`.
    pub fn connect(peer: SocketAddr, options: &UdpOptions) -> Result<UdpSocket, SocketError> {
        let failed = SocketError::connecting("send datagrams to", peer);
        let anywhere = match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = bound((anywhere, 0).into(), options, &failed)?;
        socket.connect(peer).map_err(failed)?;
        let socket = UdpSocket::from_bound(socket, options).map_err(failed)?;
        match options.local_ports {
            Some(ports) => socket::check_local_port(socket.local.port(), ports).map(|()| socket),
            None => Ok(socket),
        }
    }

    fn from_bound(socket: std::net::UdpSocket, options: &UdpOptions) -> io::Result<UdpSocket> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // quinn-udp asks the kernel for a timestamp on each packet, which this code does not use.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &false)?;
        let local = socket.local_addr()?;
        Ok(UdpSocket {
            socket,
            state,
            local,
            gso: options.gso,
        })
    }

    /// Sends a batch. Returns how many bytes were sent, always whole datagrams. If an error interrupts the batch, that is
    /// fewer than it holds, and the next call reports the error. `WouldBlock` means that nothing was sent, because there is
    /// no room now. Other errors concern the first unsent datagram, such as EMSGSIZE for one too large for the device.
    pub fn send(&self, batch: &Batch<'_>) -> io::Result<usize> {
        let all = batch.contents;
        let segment_bytes = batch.segment_bytes.unwrap_or(all.len()).max(1);
        let mut sent = 0;
        while sent < all.len() {
            let at_once = self.datagrams_at_once(segment_bytes);
            let end = all.len().min(sent + at_once * segment_bytes);
            match self.transmit(batch.to, &all[sent..end], segment_bytes) {
                Ok(()) => sent = end,
                // quinn-udp has noted that the device refuses GSO: from now on, send one by one.
                Err(_) if at_once > 1 && self.datagrams_at_once(segment_bytes) == 1 => {}
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn datagrams_at_once(&self, segment_bytes: usize) -> usize {
        if self.uses_gso() {
            let fit = PAYLOAD_BYTES / segment_bytes;
            self.state.max_gso_segments().min(fit).max(1)
        } else {
            1
        }
    }

    fn transmit(&self, to: SocketAddr, contents: &[u8], segment_bytes: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents,
            segment_size: Some(segment_bytes),
            src_ip: None,
        };
        self.state
            .try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// Reads datagrams and passes each to `take`, in order of arrival. Returns the number of datagrams; call it until
    /// `WouldBlock`. Empty datagrams, which QUIC does not use, are skipped.
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(Arrival, &mut [u8]),
    ) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); READS_A_CALL];
        let mut free = buffers.0.chunks_exact_mut(READ_BYTES);
        let mut slices: [IoSliceMut<'_>; READS_A_CALL] =
            array::from_fn(|_| IoSliceMut::new(free.next().unwrap_or_default()));
        let reads = self
            .state
            .recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)?;
        let mut count = 0;
        for (read, meta) in slices.iter_mut().zip(&metas).take(reads) {
            let arrival = Arrival {
                from: meta.addr,
                to: SocketAddr::new(meta.dst_ip.unwrap_or(self.local.ip()), self.local.port()),
            };
            for datagram in read[..meta.len].chunks_mut(meta.stride.max(1)) {
                take(arrival, datagram);
                count += 1;
            }
        }
        Ok(count)
    }

    /// The local address. Its port is never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether several datagrams go to the kernel in one call: as configured, until the kernel or a device refuses it.
    pub fn uses_gso(&self) -> bool {
        self.gso && self.state.max_gso_segments() > 1
    }

    /// Datagrams dropped since the socket was made, because its receive buffer was full or their checksums were wrong.
    pub fn receive_drops(&self) -> io::Result<u64> {
        socket::receive_drops(self)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket bound to `address`; with port 0, to one of the requested local ports.
fn bound(
    address: SocketAddr,
    options: &UdpOptions,
    failed: &impl Fn(io::Error) -> SocketError,
) -> Result<std::net::UdpSocket, SocketError> {
    let fd = socket::open(address, SockType::Datagram).map_err(|errno| failed(errno.into()))?;
    socket::set_buffers(&fd, options.send_buffer, options.receive_buffer)?;
    if let Some(ports) = options.local_ports.filter(|_| address.port() == 0) {
        socket::set_local_ports(&fd, ports)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address)).map_err(|errno| failed(errno.into()))?;
    Ok(fd.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::host::Host;
    use crate::reactor::{Interest, Reactor};
    use crate::tun::{Offload, Tun};
    use nix::sys::socket::getsockopt;
    use squall_base::{Duration, Time};

    const SEGMENT_BYTES: usize = 1_200;
    const DATAGRAMS: usize = 100;

    fn options(gso: bool) -> UdpOptions {
        UdpOptions {
            gso,
            receive_buffer: Some(Bytes::new(4 << 20)),
            send_buffer: Some(Bytes::new(1 << 20)),
            local_ports: None,
        }
    }

    fn localhost() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// 100 datagrams: 99 of one length and a shorter one, each filled with its number.
    fn payloads() -> Vec<u8> {
        let numbered = |n: usize| {
            let length = if n + 1 == DATAGRAMS {
                700
            } else {
                SEGMENT_BYTES
            };
            vec![n as u8; length]
        };
        (0..DATAGRAMS).flat_map(numbered).collect()
    }

    /// Waits for `count` datagrams with the reactor, as a station does.
    fn receive_all(socket: &UdpSocket, count: usize) -> Vec<(Arrival, Vec<u8>)> {
        let mut reactor = Reactor::new().unwrap();
        reactor.add(socket, 7).unwrap();
        let mut buffers = ReceiveBuffers::new();
        let mut found = Vec::new();
        let patience = clock::now() + Duration::from_secs(5);
        while found.len() < count && clock::now() < patience {
            let ready = reactor.wait(clock::now(), Some(patience)).unwrap().to_vec();
            if !ready.iter().any(|ready| ready.token == 7 && ready.readable) {
                continue;
            }
            let mut take = |arrival, datagram: &mut [u8]| found.push((arrival, datagram.to_vec()));
            while socket.receive(&mut buffers, &mut take).is_ok() {}
        }
        found
    }

    /// Loopback delivers at once, unless the machine is busy.
    fn soon<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let patience = clock::now() + Duration::from_secs(5);
        loop {
            match attempt() {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && clock::now() < patience =>
                {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    fn datagrams_keep_their_boundaries(address: SocketAddr, gso: bool) {
        let server = UdpSocket::bind(address, &options(gso)).unwrap();
        let client = UdpSocket::connect(server.local_addr(), &options(gso)).unwrap();
        let contents = payloads();
        let batch = Batch {
            to: server.local_addr(),
            contents: &contents,
            segment_bytes: Some(SEGMENT_BYTES),
        };
        assert_eq!(client.send(&batch).unwrap(), contents.len());
        let found = receive_all(&server, DATAGRAMS);
        assert_eq!(found.len(), DATAGRAMS);
        let arrival = Arrival {
            from: client.local_addr(),
            to: server.local_addr(),
        };
        for ((from_to, datagram), expected) in found.iter().zip(contents.chunks(SEGMENT_BYTES)) {
            assert_eq!(*from_to, arrival);
            assert_eq!(datagram, expected);
        }
        assert!(gso || !client.uses_gso());
    }

    #[test]
    fn a_hundred_datagrams_arrive_with_gso() {
        datagrams_keep_their_boundaries(localhost(), true);
    }

    #[test]
    fn a_hundred_datagrams_arrive_without_gso() {
        datagrams_keep_their_boundaries(localhost(), false);
    }

    #[test]
    fn datagrams_keep_their_boundaries_over_ipv6() {
        let address = (Ipv6Addr::LOCALHOST, 0).into();
        if let Err(error) = UdpSocket::bind(address, &options(true)) {
            println!("skipped: this machine has no IPv6: {error}");
            return;
        }
        datagrams_keep_their_boundaries(address, true);
        datagrams_keep_their_boundaries(address, false);
    }

    #[test]
    fn empty_datagrams_are_skipped_and_single_ones_are_sent() {
        let server = UdpSocket::bind(localhost(), &options(true)).unwrap();
        let client = std::net::UdpSocket::bind(localhost()).unwrap();
        client.send_to(&[], server.local_addr()).unwrap();
        let mut buffers = ReceiveBuffers::new();
        let count = soon(|| server.receive(&mut buffers, |_, _| panic!())).unwrap();
        assert_eq!(count, 0);
        let nothing = server.receive(&mut buffers, |_, _| panic!()).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let mut batch = Batch {
            to: client.local_addr().unwrap(),
            contents: b"hello",
            segment_bytes: None,
        };
        assert_eq!(server.send(&batch).unwrap(), 5);
        let mut buffer = [0; 16];
        assert_eq!(client.recv(&mut buffer).unwrap(), 5);
        batch.contents = &[];
        assert_eq!(server.send(&batch).unwrap(), 0);
    }

    #[test]
    fn a_datagram_that_does_not_fit_is_refused_not_cut() {
        let socket = UdpSocket::bind(localhost(), &options(true)).unwrap();
        let batch = Batch {
            to: socket.local_addr(),
            contents: &[0; 70_000],
            segment_bytes: None,
        };
        let error = socket.send(&batch).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert!(socket.uses_gso());
    }

    #[test]
    fn after_a_gso_refusal_datagrams_are_sent_one_by_one() {
        let server = UdpSocket::bind(localhost(), &options(true)).unwrap();
        let client = UdpSocket::bind(localhost(), &options(true)).unwrap();
        let contents = payloads();
        let mut batch = Batch {
            // Port 0 is never in use: EINVAL, as from a device that cannot split packets.
            to: localhost(),
            contents: &contents,
            segment_bytes: Some(SEGMENT_BYTES),
        };
        let error = client.send(&batch).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert!(!client.uses_gso(), "it is remembered");
        batch.to = server.local_addr();
        assert_eq!(client.send(&batch).unwrap(), contents.len());
        assert_eq!(receive_all(&server, DATAGRAMS).len(), DATAGRAMS);
    }

    #[test]
    fn a_link_receives_single_packets_with_and_without_gso() {
        let at = |last| Ipv4Addr::new(192, 0, 2, last);
        let link = |host: &Host| host.run(|| Tun::create("squall-udp", at(1), 24, Offload::None));
        let (host, tun) = match Host::create().and_then(|host| Ok((link(&host)?, host))) {
            Ok((tun, host)) => (host, tun),
            Err(error) => return println!("skipped: {error}"),
        };
        let peer = SocketAddr::from((at(2), 443));
        for gso in [true, false] {
            let socket = host
                .run(|| Ok(UdpSocket::connect(peer, &options(gso))))
                .unwrap();
            let contents = payloads();
            let batch = Batch {
                to: peer,
                contents: &contents,
                segment_bytes: Some(SEGMENT_BYTES),
            };
            assert_eq!(socket.unwrap().send(&batch).unwrap(), contents.len());
            let mut packet = [0; READ_BYTES];
            for payload in contents.chunks(SEGMENT_BYTES) {
                let length = tun.read(&mut packet).unwrap();
                // An IPv4 and a UDP header, and "don't fragment" (RFC 791, section 3.1).
                assert_eq!(&packet[28..length], payload);
                assert_eq!(packet[6] & 0x40, 0x40);
            }
            assert!(tun.read(&mut packet).is_err(), "there is no other");
        }
    }

    #[test]
    fn a_missing_peer_is_reported_as_connection_refused() {
        let gone = UdpSocket::bind(localhost(), &options(false))
            .unwrap()
            .local_addr();
        let client = UdpSocket::connect(gone, &options(false)).unwrap();
        let batch = Batch {
            to: gone,
            contents: b"hello",
            segment_bytes: None,
        };
        client.send(&batch).unwrap();
        let mut buffers = ReceiveBuffers::new();
        let error = soon(|| client.receive(&mut buffers, |_, _| panic!())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_reader_is_not_woken_by_its_own_datagrams() {
        let server = UdpSocket::bind(localhost(), &options(false)).unwrap();
        let client = UdpSocket::connect(server.local_addr(), &options(false)).unwrap();
        let mut reactor = Reactor::new().unwrap();
        reactor.add_for(Interest::Reading, &client, 1).unwrap();
        let batch = Batch {
            to: server.local_addr(),
            contents: b"hello",
            segment_bytes: None,
        };
        let mut buffers = ReceiveBuffers::new();
        let mut ready = || {
            reactor
                .wait(clock::now(), Some(Time::ZERO))
                .unwrap()
                .to_vec()
        };
        for _ in 0..10 {
            client.send(&batch).unwrap();
            soon(|| server.receive(&mut buffers, |_, _| ())).unwrap();
            assert_eq!(ready(), []);
        }
        reactor
            .change(Interest::ReadingAndWriting, &client, 1)
            .unwrap();
        let ready = reactor.wait(clock::now(), Some(Time::ZERO)).unwrap();
        assert!(ready[0].writable && !ready[0].readable);
    }

    #[test]
    fn sockets_use_the_requested_ports_until_none_is_left() {
        let server = UdpSocket::bind(localhost(), &options(false)).unwrap();
        let few = UdpOptions {
            local_ports: PortRange::new(41_010, 41_011),
            ..options(false)
        };
        let connect = || UdpSocket::connect(server.local_addr(), &few);
        let first = match connect() {
            Ok(socket) => socket,
            Err(error @ SocketError::LocalPorts { .. }) => return println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let second = connect().unwrap();
        let mut ports = [first.local_addr().port(), second.local_addr().port()];
        ports.sort_unstable();
        assert_eq!(ports, [41_010, 41_011]);
        let none = connect().unwrap_err();
        assert!(none.lacks_port(), "{none}");
    }

    #[test]
    fn a_small_receive_buffer_is_honoured() {
        let small = UdpOptions {
            receive_buffer: Some(Bytes::new(8_192)),
            ..options(false)
        };
        let socket = UdpSocket::bind(localhost(), &small).unwrap();
        let granted = getsockopt(&socket, sockopt::RcvBuf).unwrap();
        assert_eq!(granted, 16_384, "the kernel doubles it");
    }

    #[test]
    fn datagrams_dropped_at_a_full_buffer_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(false)).unwrap();
        assert_eq!(receiver.receive_drops().unwrap(), 0);
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = 20_000;
        for _ in 0..sent {
            sender.send_to(&[0; 1_200], receiver.local_addr()).unwrap();
        }
        let dropped = receiver.receive_drops().unwrap();
        let mut received = 0;
        let mut buffers = ReceiveBuffers::new();
        while let Ok(count) = receiver.receive(&mut buffers, |_, _| {}) {
            received += count as u64;
        }
        assert!(dropped > 0);
        assert_eq!(received + dropped, sent);
    }
}
