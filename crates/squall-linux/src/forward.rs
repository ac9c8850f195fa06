//! A port of this machine that answers in a host: connections and datagrams to it are carried over to a service that
//! listens on this machine's loopback, so that it can be tried behind a link unchanged.
//!
//! TCP ends in the host and begins again on loopback, so the link's conditions hold between the programs in the other
//! host and here, and loopback adds what it adds (some 50 us a round trip). Everything runs on threads of its own until
//! the process ends; what is copied is not looked at.

use std::collections::BTreeMap;
use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream,
    UdpSocket,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::SetupError;
use crate::host::Host;
use crate::socket;

/// Where the service may listen on this machine, in the order of trying.
const LOOPBACKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// A datagram's sender that has been quiet for so long is forgotten, as most NATs do.
const QUIET: Duration = Duration::from_secs(60);
/// The largest UDP payload.
const DATAGRAM_BYTES: usize = 65_507;

/// Lets `port` of this machine, TCP and UDP, answer at `address` in `host`.
pub fn start(host: &Host, address: Ipv4Addr, port: u16) -> Result<(), SetupError> {
    let at = SocketAddrV4::new(address, port);
    let (listener, datagrams) = host.run(|| {
        let failed = |source| SetupError::System {
            action: "listen on the forwarded port",
            source,
        };
        let listener = TcpListener::bind(at).map_err(failed)?;
        let datagrams = UdpSocket::bind(at).map_err(failed)?;
        Ok((listener, datagrams))
    })?;
    spawn(move || accept(&listener, port))?;
    spawn(move || receive(&Arc::new(datagrams), port))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), SetupError> {
    thread::Builder::new()
        .name("squall-forward".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|source| SetupError::System {
            action: "start a thread that forwards",
            source,
        })
}

fn accept(listener: &TcpListener, port: u16) {
    loop {
        let Ok((near, _)) = listener.accept() else {
            // Out of files, most likely: others may close theirs.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        // A connection for which there is no thread is closed, as one that nobody accepts.
        let _ = spawn(move || carry(near, port));
    }
}

/// Carries one connection. A service that is not there looks as it does on this machine: a reset.
fn carry(near: TcpStream, port: u16) {
    let service = LOOPBACKS
        .into_iter()
        .find_map(|loopback| TcpStream::connect(SocketAddr::new(loopback, port)).ok());
    let Some(service) = service else {
        return socket::close_abruptly(near);
    };
    // A refusal costs delay, not bytes.
    let _ = near
        .set_nodelay(true)
        .and_then(|()| service.set_nodelay(true));
    thread::scope(|scope| {
        scope.spawn(|| copy(&near, &service));
        copy(&service, &near);
    });
}

/// Copies one direction to its end, and passes the end on.
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

/// Sockets towards the service, one for each sender in the host.
type Senders = Arc<Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>>;

fn receive(near: &Arc<UdpSocket>, port: u16) {
    let senders = Senders::default();
    let mut datagram = [0; DATAGRAM_BYTES];
    loop {
        let Ok((length, sender)) = near.recv_from(&mut datagram) else {
            continue;
        };
        if let Ok(service) = towards_service(near, &senders, sender, port) {
            // A datagram that the service does not take is lost, as datagrams may be.
            let _ = service.send(&datagram[..length]);
        }
    }
}

fn towards_service(
    near: &Arc<UdpSocket>,
    senders: &Senders,
    sender: SocketAddr,
    port: u16,
) -> io::Result<Arc<UdpSocket>> {
    let mut known = senders.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = known.get(&sender) {
        return Ok(service.clone());
    }
    let service = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    service.connect((Ipv4Addr::LOCALHOST, port))?;
    service.set_read_timeout(Some(QUIET))?;
    let service = Arc::new(service);
    known.insert(sender, service.clone());
    let (near, senders, answers) = (near.clone(), senders.clone(), service.clone());
    thread::Builder::new()
        .name("squall-forward".to_owned())
        .spawn(move || answer(&near, &senders, &answers, sender))?;
    Ok(service)
}

/// Carries the service's answers back, until it has been quiet for long.
fn answer(near: &UdpSocket, senders: &Senders, service: &UdpSocket, sender: SocketAddr) {
    let mut datagram = [0; DATAGRAM_BYTES];
    loop {
        match service.recv(&mut datagram) {
            Ok(length) => {
                let _ = near.send_to(&datagram[..length], sender);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // "Connection refused" says that nobody listened a moment ago.
            Err(_) => {}
        }
    }
    let mut known = senders.lock().unwrap_or_else(PoisonError::into_inner);
    known.remove(&sender);
}
