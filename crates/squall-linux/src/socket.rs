//! TCP sockets as the stations use them: non-blocking, with congestion control set and read back.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockopt, listen,
    setsockopt, socket, sockopt,
};
use thiserror::Error;

/// Connections that may wait to be accepted; the kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// A socket that could not be made as asked.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The kernel does not have, or does not allow, this congestion control.
    #[error(
        "cannot use TCP congestion control {name}: {source}. See what there is with \
         `sysctl net.ipv4.tcp_available_congestion_control`; load more with `sudo modprobe tcp_{name}`"
    )]
    CongestionControl {
        /// The name asked for.
        name: String,
        /// What the kernel said.
        source: Errno,
    },
    /// A system call failed.
    #[error("cannot {action} {address}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// To which address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Starts to connect to `address`. The socket is writable when the handshake is done or has failed: see
/// `TcpStream::take_error`.
pub fn start_connect(
    address: SocketAddrV4,
    congestion_control: &str,
) -> Result<TcpStream, SocketError> {
    let failed = |errno: Errno| SocketError::System {
        action: "connect to",
        address: address.into(),
        source: errno.into(),
    };
    let fd = tcp_socket(congestion_control, failed)?;
    match connect(fd.as_raw_fd(), &SockaddrIn::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(fd)),
        Err(errno) => Err(failed(errno)),
    }
}

/// Listens on `address`; accepted sockets inherit the congestion control.
pub fn start_listening(
    address: SocketAddrV4,
    congestion_control: &str,
) -> Result<TcpListener, SocketError> {
    let failed = |errno: Errno| SocketError::System {
        action: "listen on",
        address: address.into(),
        source: errno.into(),
    };
    let fd = tcp_socket(congestion_control, failed)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(failed)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(address)).map_err(failed)?;
    listen(&fd, Backlog::new(BACKLOG).expect("the backlog is positive")).map_err(failed)?;
    Ok(TcpListener::from(fd))
}

/// Accepts one connection, non-blocking and without Nagle's algorithm. `None` if there is none.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some(stream))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The congestion control that this socket really uses.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name = getsockopt(&socket, sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// Closes with a reset instead of a FIN: nothing of the connection stays in the kernel, and nothing of it
/// is sent again later.
pub fn close_abruptly(stream: TcpStream) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // If it is refused, the kernel closes in its usual, slower way.
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
    drop(stream);
}

fn tcp_socket(
    congestion_control: &str,
    failed: impl Fn(Errno) -> SocketError,
) -> Result<OwnedFd, SocketError> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).map_err(&failed)?;
    setsockopt(&fd, sockopt::TcpNoDelay, &true).map_err(&failed)?;
    setsockopt(&fd, sockopt::TcpCongestion, &congestion_control.into()).map_err(|source| {
        SocketError::CongestionControl {
            name: congestion_control.to_owned(),
            source,
        }
    })?;
    Ok(fd)
}
