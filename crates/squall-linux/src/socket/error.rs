//! Why a socket could not be made as requested, and what to try.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nix::errno::Errno;
use squall_base::Bytes;
use squall_base::plan::PortRange;
use thiserror::Error;

/// A socket could not be made as requested.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The kernel does not have, or does not allow, this congestion control.
    #[error("cannot use TCP congestion control {name}: {source}. {}", congestion_control_advice(name, choices, *source))]
    CongestionControl {
        /// The requested name.
        name: String,
        /// The alternatives, separated by spaces: those that every user may set if the reason is a lack of rights,
        /// otherwise those that the kernel has. Empty if the kernel does not say.
        choices: String,
        /// The error from the kernel.
        source: Errno,
    },
    /// The kernel refused an option.
    #[error("cannot set {option} to {value}: {source}. {advice}")]
    Option {
        /// Its name, as in tcp(7) and socket(7).
        option: &'static str,
        /// The requested value, in the option's own unit.
        value: u64,
        /// Which values are valid.
        advice: &'static str,
        /// The error from the kernel.
        source: Errno,
    },
    /// The kernel grants a smaller buffer than requested, and this user may not exceed its limit.
    #[error(
        "cannot set {option} to {asked}: this machine allows {allowed}. Request less, or allow more with \
         `sudo sysctl -w {limit}={}`",
        asked.get()
    )]
    Buffer {
        /// SO_SNDBUF or SO_RCVBUF.
        option: &'static str,
        /// The requested size, before the kernel doubles it.
        asked: Bytes,
        /// The size that the kernel would grant, before it doubles it.
        allowed: Bytes,
        /// The sysctl that limits it.
        limit: &'static str,
    },
    /// The kernel has no free local port for another connection to this address, or no local address to make it from
    /// (EADDRNOTAVAIL of connect(2), EADDRINUSE of bind(2) to any port).
    #[error(
        "cannot {action} {address}: no local port is free, or no local address leads there: {source}"
    )]
    NoLocalPort {
        /// What was being done.
        action: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error from the kernel.
        source: io::Error,
    },
    /// Connections cannot be confined to these local ports.
    #[error("cannot begin from the ports {ports}: {reason}. {advice}")]
    LocalPorts {
        /// The requested ports.
        ports: PortRange,
        /// The kernel's error, or what it did instead.
        reason: String,
        /// What to try.
        advice: &'static str,
    },
    /// Connecting to a UNIX socket failed.
    #[error("cannot connect to the UNIX socket {}: {source}", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// The error from the kernel; EAGAIN if the server's backlog is full.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {action} {address}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error from the kernel.
        source: io::Error,
    },
}

impl SocketError {
    /// What to try, for errors whose text does not say so itself because it may be printed for each request.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            SocketError::NoLocalPort { .. } => Some(
                "Open fewer connections at once, use each for more requests, or allow more ports with \
                 `sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`",
            ),
            _ => None,
        }
    }

    /// Whether the cause was a lack of local ports.
    pub fn lacks_port(&self) -> bool {
        matches!(self, SocketError::NoLocalPort { .. })
    }

    /// Whether the cause was a lack of file descriptors or of kernel memory.
    pub fn lacks_resources(&self) -> bool {
        let (SocketError::System { source, .. } | SocketError::UnixSocket { source, .. }) = self
        else {
            return false;
        };
        matches!(
            source.raw_os_error().map(Errno::from_raw),
            Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
        )
    }

    /// Wraps the kernel's error from connecting to `address` from any local port.
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

    /// Wraps the kernel's error from doing `action` to `address`.
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

/// A user without CAP_NET_ADMIN in the socket's namespace may use only the allowed ones (tcp(7)).
fn congestion_control_advice(name: &str, choices: &str, refusal: Errno) -> String {
    match refusal {
        // The list's present entries are unknown, and a command that writes the list without them would forbid them.
        Errno::EPERM if choices.is_empty() => format!(
            "Run as root, or add {name} to the list of `sysctl net.ipv4.tcp_allowed_congestion_control`"
        ),
        Errno::EPERM => format!(
            "Every user may set: {choices}. Request one of these or none (the kernel's default), or allow this one \
             with `sudo sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{choices} {name}\"`"
        ),
        _ if choices.is_empty() => format!(
            "List the available ones with `sysctl net.ipv4.tcp_available_congestion_control`; load more with \
             `sudo modprobe tcp_{name}`"
        ),
        _ => format!(
            "The kernel has: {choices} (`sysctl net.ipv4.tcp_available_congestion_control`). Load more with \
             `sudo modprobe tcp_{name}`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_file_descriptors_or_memory_is_distinguished_from_other_errors() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let lacks = |errno: Errno| {
            let error = SocketError::connecting("connect to", address)(errno);
            error.lacks_resources()
        };
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            assert!(lacks(errno), "{errno}");
        }
        for errno in [Errno::ECONNREFUSED, Errno::EACCES, Errno::EADDRNOTAVAIL] {
            assert!(!lacks(errno), "{errno}");
        }
    }

    #[test]
    fn refused_congestion_control_lists_alternatives_and_how_to_allow_it() {
        let refused = |choices: &str, source| {
            let error = SocketError::CongestionControl {
                name: "cubic".to_owned(),
                choices: choices.to_owned(),
                source,
            };
            error.to_string()
        };
        let forbidden = refused("reno bbr", Errno::EPERM);
        for part in [
            "Every user may set: reno bbr. ",
            "`sudo sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno bbr cubic\"`",
        ] {
            assert!(forbidden.contains(part), "{forbidden}");
        }
        let missing = refused("reno bbr", Errno::ENOENT);
        for part in ["The kernel has: reno bbr (", "`sudo modprobe tcp_cubic`"] {
            assert!(missing.contains(part), "{missing}");
        }
        let unlisted = refused("", Errno::EPERM);
        assert!(unlisted.contains("add cubic to the list"), "{unlisted}");
        let unknown = refused("", Errno::ENOENT);
        assert!(unknown.contains("List the available ones"), "{unknown}");
    }
}
