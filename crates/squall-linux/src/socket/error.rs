//! Why a socket could not be made as asked, with what to try.

use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;
use squall_base::Bytes;
use squall_base::plan::PortRange;
use thiserror::Error;

/// A socket that could not be made as asked.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The kernel does not have, or does not allow, this congestion control.
    #[error("cannot use TCP congestion control {name}: {source}. {}", congestion_control_advice(name, *source))]
    CongestionControl {
        /// The name asked for.
        name: String,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel refused an option.
    #[error("cannot set {option} to {value}: {source}. {advice}")]
    Option {
        /// Its name, as in tcp(7) and socket(7).
        option: &'static str,
        /// The value asked for, in the option's own unit.
        value: u64,
        /// Which values there are.
        advice: &'static str,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel gives a smaller buffer than was asked for, and this user may not exceed its limit.
    #[error(
        "cannot set {option} to {asked}: this machine allows {allowed}. Ask for less, or allow more with \
         `sudo sysctl -w {limit}={}`",
        asked.get()
    )]
    Buffer {
        /// SO_SNDBUF or SO_RCVBUF.
        option: &'static str,
        /// The size asked for, before the kernel doubles it.
        asked: Bytes,
        /// The size that there would be, before the kernel doubles it.
        allowed: Bytes,
        /// The sysctl that limits it.
        limit: &'static str,
    },
    /// The kernel has no local port left for another connection to this address, or no local address at all from which
    /// it could be made (EADDRNOTAVAIL of connect(2), EADDRINUSE of bind(2) to any port).
    #[error(
        "cannot {action} {address}: no local port is free, or no local address leads there: {source}"
    )]
    NoLocalPort {
        /// What was being done.
        action: &'static str,
        /// To which address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Connections cannot be confined to these local ports.
    #[error("cannot begin from the ports {ports}: {reason}. {advice}")]
    LocalPorts {
        /// The ports that were asked for.
        ports: PortRange,
        /// What the kernel said or did.
        reason: String,
        /// What to try.
        advice: &'static str,
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

impl SocketError {
    /// What to try, where the text of the error, which may be told of each request, does not say it itself.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            SocketError::NoLocalPort { .. } => Some(
                "Have fewer connections at once, use each for more requests, or allow more ports with \
                 `sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`",
            ),
            _ => None,
        }
    }

    /// Whether it was for want of a local port.
    pub fn lacks_port(&self) -> bool {
        matches!(self, SocketError::NoLocalPort { .. })
    }

    /// Wraps what the kernel said while a connection to `address` was begun from any local port.
    pub(crate) fn connecting<E: Into<io::Error>>(
        action: &'static str,
        address: SocketAddr,
    ) -> impl Fn(E) -> SocketError + Copy {
        move |source| {
            let source = source.into();
            match source.kind() {
                io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => {
                    SocketError::NoLocalPort {
                        action,
                        address,
                        source,
                    }
                }
                _ => SocketError::system(action, address)(source),
            }
        }
    }

    /// Wraps what the kernel said while `action` was being done to `address`.
    pub(crate) fn system<E: Into<io::Error>>(
        action: &'static str,
        address: SocketAddr,
    ) -> impl Fn(E) -> SocketError + Copy {
        move |source| SocketError::System {
            action,
            address,
            source: source.into(),
        }
    }
}

/// A user without CAP_NET_ADMIN in the socket's namespace may use the allowed ones only (tcp(7)).
fn congestion_control_advice(name: &str, refusal: Errno) -> String {
    match refusal {
        Errno::EPERM => format!(
            "Run as root, or allow it to everybody: add {name} to the list of \
             `sysctl net.ipv4.tcp_allowed_congestion_control`"
        ),
        _ => format!(
            "See what there is with `sysctl net.ipv4.tcp_available_congestion_control`; load more with \
             `sudo modprobe tcp_{name}`"
        ),
    }
}
