//! TCP sockets as the stations use them: non-blocking, with every option of `TcpSettings` set and read back.
//!
//! The options, and the values the kernel really uses, are in `options`; UDP for QUIC is in `udp`. Settings for a whole
//! host rather than a socket are set by `Host::configure_tcp`.

mod error;
mod options;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, UnixAddr, bind, connect,
    getsockopt, listen, setsockopt, socket, sockopt,
};
use rustix::net::{RecvFlags, SendFlags};
use squall_base::plan::TcpSettings;

use crate::sys::read_option;

pub use error::SocketError;
pub use options::{TcpOptions, read_back};
pub(crate) use options::{
    ask_for_large_receive_buffer, check_local_port, set_buffers, set_local_ports,
};

/// The accept backlog; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Datagrams that a socket has dropped since it was made, because its receive buffer was full or their checksums were wrong
/// (SK_MEMINFO_DROPS, include/uapi/linux/sock_diag.h; udp_recvmsg, net/ipv4/udp.c).
pub(crate) fn receive_drops(socket: &impl AsFd) -> io::Result<u64> {
    const DROPS: usize = 8;
    let mut words = [[0; 4]; DROPS + 1];
    let bytes = words.as_flattened_mut();
    read_option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, bytes)?;
    Ok(u32::from_ne_bytes(words[DROPS]).into())
}

/// Starts connecting to `address`, IPv4 or IPv6. The socket becomes writable when the handshake has succeeded or failed:
/// see `TcpStream::take_error`.
pub fn start_connect(
    address: SocketAddr,
    settings: &TcpSettings,
) -> Result<TcpStream, SocketError> {
    let failed = SocketError::connecting("connect to", address);
    let fd = open(address, SockType::Stream).map_err(failed)?;
    // Before the handshake, because the buffer size determines the window scaling (RFC 7323, section 2).
    options::set(&fd, settings)?;
    if let Some(ports) = settings.local_ports {
        set_local_ports(&fd, ports)?;
    }
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let stream = TcpStream::from(fd);
    if let Some(ports) = settings.local_ports {
        let local = stream
            .local_addr()
            .map_err(SocketError::system("connect to", address))?;
        check_local_port(local.port(), ports)?;
    }
    Ok(stream)
}

/// Connects to the UNIX socket at `path`, without a handshake: it is connected at once. The result is a `TcpStream`
/// because stations only read, write and close it; it has neither addresses nor options of TCP.
///
/// # Errors
/// [`SocketError::UnixSocket`].
pub fn connect_unix(path: &Path) -> Result<TcpStream, SocketError> {
    let failed = |errno: Errno| SocketError::UnixSocket {
        path: path.to_owned(),
        source: errno.into(),
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
    let address = UnixAddr::new(path).map_err(failed)?;
    connect(fd.as_raw_fd(), &address).map_err(failed)?;
    Ok(TcpStream::from(fd))
}

/// Listens on `address`, IPv4 or IPv6. Accepted sockets inherit all of `settings`, with one exception: a congestion control
/// set on a route (`Tun::use_congestion_control`) overrides theirs.
pub fn start_listening(
    address: SocketAddr,
    settings: &TcpSettings,
) -> Result<TcpListener, SocketError> {
    let failed = SocketError::system("listen on", address);
    let fd = open(address, SockType::Stream).map_err(failed)?;
    // Before listening, because the kernel answers SYNs according to the listener's buffer.
    options::set(&fd, settings)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(failed)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address)).map_err(failed)?;
    listen(&fd, Backlog::new(BACKLOG).expect("the backlog is positive")).map_err(failed)?;
    Ok(TcpListener::from(fd))
}

/// Accepts one connection, non-blocking, with the listener's options. `None` if no connection is waiting.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            Ok(Some(stream))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the received bytes that fit into `buffer`; 0 means the end of the stream. It bypasses the C library, for the
/// reason given in `reactor`.
pub fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(stream, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Writes what the socket has room for. If the peer is gone, this returns an error and raises no signal.
pub fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)?)
}

/// The congestion control that this socket actually uses.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name = getsockopt(&socket, sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// Closes with a reset instead of a FIN, so that no state remains in the kernel and nothing is retransmitted later.
pub fn close_abruptly(stream: TcpStream) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // If the option is refused, the kernel closes in its usual, slower way.
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
    drop(stream);
}

/// A non-blocking socket of the address's family. An IPv6 socket accepts IPv6 only, whatever net.ipv6.bindv6only is.
pub(crate) fn open(address: SocketAddr, kind: SockType) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, kind, flags, None)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
    }
    Ok(fd)
}
