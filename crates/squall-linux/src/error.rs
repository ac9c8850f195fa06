//! Why a host, a device or a link could not be set up, and what to try.

use std::io;

use nix::errno::Errno;
use thiserror::Error;

/// A failure while setting up hosts and links. The cause is always the machine or its configuration.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The kernel refused a user namespace.
    #[error("cannot make a user namespace (to work without root): {source}. {advice}")]
    UserNamespace {
        /// Which setting to change.
        advice: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The kernel refused a network namespace.
    #[error("cannot make a network namespace for a host: {source}. {advice}")]
    NetworkNamespace {
        /// Which setting to change.
        advice: String,
        /// The error from the kernel.
        source: Errno,
    },
    /// A thread could not move into a host.
    #[error("cannot enter a host's network namespace: {source}")]
    EnterHost {
        /// The error from the kernel.
        source: Errno,
    },
    /// The TUN driver is missing or not accessible to this user.
    #[error("cannot open /dev/net/tun: {source}. {advice}")]
    TunDriver {
        /// What to change.
        advice: &'static str,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The TUN driver refused a device.
    #[error("cannot make the TUN device {device}: {source}")]
    TunDevice {
        /// The device's name.
        device: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// A netlink request failed.
    #[error("cannot {action} of {device}: {source}")]
    Netlink {
        /// What was being done.
        action: &'static str,
        /// The device's name.
        device: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The kernel does not have this congestion control, or this user may not use it.
    #[error(
        "cannot make {name} the TCP congestion control of a host: {source}. List the available ones with \
         `sysctl net.ipv4.tcp_available_congestion_control`; load more with `sudo modprobe tcp_{name}`"
    )]
    CongestionControl {
        /// Its name.
        name: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// A sysctl could not be read or written.
    #[error("cannot {action} sysctl {name}: {source}{}", sysctl_advice(source))]
    Sysctl {
        /// `read` or `write`.
        action: &'static str,
        /// Its name with dots.
        name: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The kernel's counters could not be read or understood.
    #[error("cannot read the kernel's counters from {file}: {problem}")]
    Counters {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A thread, timer or other small part could not be created or used.
    #[error("cannot {action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// The error from the kernel.
        source: io::Error,
    },
}

impl SetupError {
    /// What to try, if there is specific advice. The error's text ends with it too.
    pub fn advice(&self) -> Option<&str> {
        match self {
            SetupError::UserNamespace { advice, .. }
            | SetupError::NetworkNamespace { advice, .. } => Some(advice),
            SetupError::TunDriver { advice, .. } => Some(advice),
            SetupError::Sysctl { source, .. } => sysctl_advice(source).strip_prefix(". "),
            _ => None,
        }
    }

    /// Wraps the kernel's error from a small request.
    pub fn system<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> SetupError + Copy {
        move |source| SetupError::System {
            action,
            source: source.into(),
        }
    }

    /// Wraps the kernel's error from a request about `device`.
    pub(crate) fn netlink<E: Into<io::Error>>(
        action: &'static str,
        device: &str,
    ) -> impl Fn(E) -> SetupError {
        move |source| SetupError::Netlink {
            action,
            device: device.to_owned(),
            source: source.into(),
        }
    }
}

/// In a container, /proc/sys is often mounted read-only.
fn sysctl_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            ". In a container, add --security-opt systempaths=unconfined --security-opt \
             apparmor=unconfined, or run it with --privileged"
        }
        _ => "",
    }
}
