//! Forwards a port of a host to this machine: connections and datagrams to it reach a service that listens on this
//! machine's loopback. That service can then be tried behind a link, unchanged.
//!
//! TCP connections end in the host, and a second connection runs over loopback. The link's conditions therefore hold
//! between the programs in the other host and this machine, and loopback adds its own delay (some 50 us a round trip).
//! Everything runs on its own threads until the process ends. It does not look at the bytes it copies.

use std::collections::BTreeMap;
use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream,
    UdpSocket,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::SetupError;
use crate::host::Host;
use crate::socket;

/// Where the service may listen on this machine, in the order to try.
const LOOPBACKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// A datagram sender that is silent for this long is forgotten, as in most NATs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest UDP payload.
const DATAGRAM_BYTES: usize = 65_507;

/// A port that is forwarded until the process ends.
#[derive(Debug)]
pub struct Forwarder(Arc<Datagrams>);

impl Forwarder {
    /// Makes `port` of this machine, TCP and UDP, reachable at `address` in `host`.
    pub fn start(host: &Host, address: Ipv4Addr, port: u16) -> Result<Forwarder, SetupError> {
        let at = SocketAddrV4::new(address, port);
        let (listener, near) = host.run(|| {
            let failed = SetupError::system("listen on the forwarded port");
            let listener = TcpListener::bind(at).map_err(failed)?;
            let near = datagram_socket(at).map_err(failed)?;
            Ok((listener, near))
        })?;
        let datagrams = Arc::new(Datagrams::new(near, port));
        let receiving = datagrams.clone();
        spawn(move || accept(&listener, port))?;
        spawn(move || receiving.receive())?;
        Ok(Forwarder(datagrams))
    }

    /// How many datagrams were dropped, because they came faster than they were forwarded or their checksums were wrong.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

/// A socket with a large receive buffer: the kernel's usual one of 208 KiB overflows in a burst if this machine is busy
/// for a millisecond, and that looks like loss on the link.
fn datagram_socket(at: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket::ask_for_large_receive_buffer(&socket);
    Ok(socket)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), SetupError> {
    thread::Builder::new()
        .name("squall-forward".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(SetupError::system("start a thread that forwards"))
}

fn accept(listener: &TcpListener, port: u16) {
    loop {
        let Ok((near, _)) = listener.accept() else {
            // Most likely out of file descriptors; other connections may close theirs.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        // A connection that gets no thread is closed.
        let _ = spawn(move || relay(near, port));
    }
}

/// Carries one connection. A missing service looks as it does on this machine: a reset.
fn relay(near: TcpStream, port: u16) {
    let service = LOOPBACKS
        .into_iter()
        .find_map(|loopback| TcpStream::connect(SocketAddr::new(loopback, port)).ok());
    let Some(service) = service else {
        return socket::close_abruptly(near);
    };
    // If this fails, it costs delay, not bytes.
    let _ = near
        .set_nodelay(true)
        .and_then(|()| service.set_nodelay(true));
    thread::scope(|scope| {
        scope.spawn(|| copy(&near, &service));
        copy(&service, &near);
    });
}

/// Copies one direction until it ends, and passes the end on.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    // An error on either side ends the connection on both.
    let how = match io::copy(&mut from, &mut to) {
        Ok(_) => Shutdown::Write,
        Err(_) => Shutdown::Both,
    };
    let _ = to.shutdown(how);
    if how == Shutdown::Both {
        let _ = from.shutdown(how);
    }
}

/// The datagrams of a forwarded port.
#[derive(Debug)]
struct Datagrams {
    /// In the host.
    near: UdpSocket,
    port: u16,
    services: Mutex<Services>,
}

/// Sockets to the service.
#[derive(Debug, Default)]
struct Services {
    /// One for each sender in the host.
    by_sender: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    /// Datagrams dropped by sockets that are closed by now.
    dropped_earlier: u64,
}

impl Datagrams {
    fn new(near: UdpSocket, port: u16) -> Datagrams {
        Datagrams {
            near,
            port,
            services: Mutex::default(),
        }
    }

    fn services(&self) -> MutexGuard<'_, Services> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> u64 {
        let services = self.services();
        let open = services.by_sender.values().map(AsRef::as_ref);
        let sockets = open.chain([&self.near]);
        services.dropped_earlier + sockets.map(dropped_by).sum::<u64>()
    }

    fn receive(self: &Arc<Self>) {
        let mut datagram = [0; DATAGRAM_BYTES];
        loop {
            let Ok((length, sender)) = self.near.recv_from(&mut datagram) else {
                continue;
            };
            if let Ok(service) = self.service_socket(sender) {
                // A datagram that the service does not accept is lost, as datagrams may be.
                let _ = service.send(&datagram[..length]);
            }
        }
    }

    fn service_socket(self: &Arc<Self>, sender: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        let mut services = self.services();
        if let Some(service) = services.by_sender.get(&sender) {
            return Ok(service.clone());
        }
        let service = datagram_socket(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        service.connect((Ipv4Addr::LOCALHOST, self.port))?;
        service.set_read_timeout(Some(IDLE_TIMEOUT))?;
        let service = Arc::new(service);
        services.by_sender.insert(sender, service.clone());
        let (datagrams, reply_socket) = (self.clone(), service.clone());
        thread::Builder::new()
            .name("squall-forward".to_owned())
            .spawn(move || datagrams.relay_replies(&reply_socket, sender))?;
        Ok(service)
    }

    /// Carries the service's datagrams back, until it has been silent for too long.
    fn relay_replies(&self, service: &UdpSocket, sender: SocketAddr) {
        let mut datagram = [0; DATAGRAM_BYTES];
        loop {
            match service.recv(&mut datagram) {
                Ok(length) => {
                    let _ = self.near.send_to(&datagram[..length], sender);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // "Connection refused" means that the service was not listening a moment ago.
                Err(_) => {}
            }
        }
        let mut services = self.services();
        services.by_sender.remove(&sender);
        services.dropped_earlier += dropped_by(service);
    }
}

/// How many datagrams a socket has dropped; 0 if the kernel does not say.
fn dropped_by(socket: &UdpSocket) -> u64 {
    socket::receive_drops(socket).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{getsockopt, setsockopt, sockopt};

    use super::*;

    const ANYWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    const DATAGRAM: [u8; 1_200] = [7; 1_200];
    const BURST: usize = 2_000;
    /// How much memory the kernel accounts for each datagram.
    const KERNEL_BYTES: usize = 2_304;

    /// How many datagrams arrive before none has arrived for a second.
    fn received(socket: &UdpSocket) -> usize {
        socket
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let mut datagram = [0; DATAGRAM_BYTES];
        std::iter::from_fn(|| socket.recv(&mut datagram).ok()).count()
    }

    /// Sends a burst, and starts to forward it only afterwards. Returns its sender and the forwarder.
    fn forward_burst(near: UdpSocket, service: &UdpSocket) -> (UdpSocket, Arc<Datagrams>) {
        let client = datagram_socket(ANYWHERE).unwrap();
        client.connect(near.local_addr().unwrap()).unwrap();
        for _ in 0..BURST {
            client.send(&DATAGRAM).unwrap();
        }
        let port = service.local_addr().unwrap().port();
        let datagrams = Arc::new(Datagrams::new(near, port));
        let receiving = datagrams.clone();
        spawn(move || receiving.receive()).unwrap();
        (client, datagrams)
    }

    #[test]
    fn whole_bursts_are_forwarded_in_both_directions_however_late() {
        let near = datagram_socket(ANYWHERE).unwrap();
        if getsockopt(&near, sockopt::RcvBuf).unwrap() < BURST * KERNEL_BYTES {
            eprintln!("skipped: only root may exceed net.core.rmem_max");
            return;
        }
        let service = datagram_socket(ANYWHERE).unwrap();
        let (client, datagrams) = forward_burst(near, &service);
        let forwarder = service.peek_from(&mut [0; 1]).unwrap().1;
        assert_eq!(received(&service), BURST);
        for _ in 0..BURST {
            service.send_to(&DATAGRAM, forwarder).unwrap();
        }
        assert_eq!(received(&client), BURST);
        assert_eq!(datagrams.dropped(), 0);
    }

    #[test]
    fn datagrams_dropped_in_a_burst_are_counted() {
        let near = UdpSocket::bind(ANYWHERE).unwrap();
        setsockopt(&near, sockopt::RcvBuf, &(BURST * KERNEL_BYTES / 20)).unwrap();
        let service = datagram_socket(ANYWHERE).unwrap();
        let (_, datagrams) = forward_burst(near, &service);
        service.peek_from(&mut [0; 1]).unwrap();
        let forwarded = received(&service);
        assert!(forwarded < BURST, "the buffer has room for all");
        assert_eq!(forwarded as u64 + datagrams.dropped(), BURST as u64);
    }
}
