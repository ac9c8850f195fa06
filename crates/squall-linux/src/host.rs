//! A host: a network namespace, held open only by a file descriptor.
//!
//! It has no name in the file system: when the process dies, however it dies, the kernel removes the namespace and its
//! devices. Threads enter a host; the process as a whole never does.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use squall_base::plan::TcpSettings;

use crate::counters::{HostCounters, ProtocolCounters};
use crate::error::SetupError;
use crate::sys::returned;
use crate::{netlink, sysctl, user_namespace};

/// Sysctls that every host gets, so that trials do not depend on the machine or on each other.
const FIXED_SYSCTLS: [(&str, &str); 4] = [
    // Without these, stray ICMPv6 packets shift the numbers of packets.
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    // Without this, one connection's cwnd and RTT leak into the next.
    (NO_METRICS_SAVE, "1"),
    // All unprivileged ports: thousands of connections must not run out of ports.
    ("net.ipv4.ip_local_port_range", "1024 65535"),
];

/// Whether the cache of TCP metrics stays unchanged when a connection ends.
pub(crate) const NO_METRICS_SAVE: &str = "net.ipv4.tcp_no_metrics_save";

/// Whether TCP restarts from slow start after being idle for one retransmission timeout (RFC 5681, section 4.1).
pub const SLOW_START_AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

/// Sizes of receive buffers: minimum, initial and maximum; the same for send buffers.
const RECEIVE_BUFFERS: &str = "net.ipv4.tcp_rmem";
const SEND_BUFFERS: &str = "net.ipv4.tcp_wmem";

/// The groups that may open ICMP sockets for echo requests.
const PING_GROUPS: &str = "net.ipv4.ping_group_range";

/// Sysctls that shape TCP's behaviour and are recorded with each trial.
pub const RECORDED_SYSCTLS: [&str; 15] = [
    "net.ipv4.ip_local_port_range",
    "net.core.somaxconn",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fin_timeout",
    NO_METRICS_SAVE,
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_recovery",
    RECEIVE_BUFFERS,
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_sack",
    SLOW_START_AFTER_IDLE,
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.ipv4.tcp_timestamps",
    SEND_BUFFERS,
];

/// A network namespace.
#[derive(Debug)]
pub struct Host {
    namespace: File,
}

impl Host {
    /// Makes a host with loopback up, IPv6 off and the fixed sysctls. The calling thread stays where it is.
    pub fn create() -> Result<Host, SetupError> {
        on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|source| SetupError::NetworkNamespace {
                advice: user_namespace::advice(),
                source,
            })?;
            // thread-self, because /proc/self would be the main thread's namespace.
            let namespace = File::open("/proc/thread-self/ns/net")
                .map_err(SetupError::system("open /proc/thread-self/ns/net"))?;
            netlink::bring_loopback_up().map_err(SetupError::netlink("set the state", "lo"))?;
            FIXED_SYSCTLS
                .iter()
                .try_for_each(|(name, value)| fix_sysctl(name, value))?;
            allow_ping();
            Ok(Host { namespace })
        })
    }

    /// Moves the calling thread into this host for good.
    pub fn enter(&self) -> Result<(), SetupError> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|source| SetupError::EnterHost { source })
    }

    /// Runs `work` inside this host on a new thread, and waits for it.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, SetupError> + Send,
    ) -> Result<T, SetupError> {
        on_own_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Applies the host-wide part of `settings`: `slow_start_after_idle`. The rest is set on each of our own sockets.
    pub fn configure_tcp(&self, settings: &TcpSettings) -> Result<(), SetupError> {
        let Some(slow_start) = settings.slow_start_after_idle else {
            return Ok(());
        };
        let value = if slow_start { "1" } else { "0" };
        self.run(|| sysctl::write(SLOW_START_AFTER_IDLE, value))
    }

    /// Applies the buffer sizes of `settings` to all sockets here that set none themselves, that is, to those of programs.
    /// The sizes are doubled as with SO_RCVBUF and SO_SNDBUF, and are not tuned automatically.
    pub fn configure_program_buffers(&self, settings: &TcpSettings) -> Result<(), SetupError> {
        for (name, asked) in [
            (RECEIVE_BUFFERS, settings.receive_buffer),
            (SEND_BUFFERS, settings.send_buffer),
        ] {
            let Some(bytes) = asked else { continue };
            let size = bytes.get().saturating_mul(2);
            self.run(|| sysctl::write(name, &format!("{size} {size} {size}")))?;
        }
        Ok(())
    }

    /// The kernel's counters for this host's device `device` and for its IP layer.
    pub fn counters(&self, device: &str) -> Result<HostCounters, SetupError> {
        self.run(|| HostCounters::read(device))
    }

    /// All protocol counters of this host.
    pub fn protocol_counters(&self) -> Result<ProtocolCounters, SetupError> {
        self.run(ProtocolCounters::read)
    }

    /// The values of `RECORDED_SYSCTLS` in this host, without those that this kernel lacks.
    pub fn sysctls(&self) -> Result<Vec<(String, String)>, SetupError> {
        self.run(|| {
            let read = |name: &str| {
                sysctl::read(name)
                    .ok()
                    .map(|value| (name.to_owned(), value))
            };
            Ok(RECORDED_SYSCTLS.into_iter().filter_map(read).collect())
        })
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

/// Sets a sysctl of the calling thread's host. A kernel without IPv6 lacks all of its settings, so those may be missing.
fn fix_sysctl(name: &str, value: &str) -> Result<(), SetupError> {
    match sysctl::write(name, value) {
        Err(SetupError::Sysctl { source, .. })
            if source.kind() == io::ErrorKind::NotFound && name.starts_with("net.ipv6.") =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Lets programs without rights open ICMP sockets for echo requests, as `ping` does (icmp(7)). In a user namespace the only
/// group is the caller's own, mapped to 0, and the kernel refuses a range with others. Where it refuses both, programs
/// need rights of their own, as without squall.
fn allow_ping() {
    let _ =
        sysctl::write(PING_GROUPS, "0 2147483647").or_else(|_| sysctl::write(PING_GROUPS, "0 0"));
}

/// Runs `work` on a new thread and waits for it, so that changes to the thread's state end with it.
pub(crate) fn on_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, SetupError> + Send,
) -> Result<T, SetupError> {
    thread::scope(|scope| returned(scope.spawn(work).join()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use nix::sys::socket::{getsockopt, sockopt};
    use squall_base::Bytes;

    use super::*;

    #[test]
    fn slow_start_after_idle_is_set_per_host() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let read = |host: &Host| host.run(|| sysctl::read(SLOW_START_AFTER_IDLE)).unwrap();
        let machine = sysctl::read(SLOW_START_AFTER_IDLE).unwrap();
        for (asked, value) in [(true, "1"), (false, "0")] {
            let settings = TcpSettings {
                slow_start_after_idle: Some(asked),
                ..TcpSettings::default()
            };
            host.configure_tcp(&settings).unwrap();
            assert_eq!(read(&host), value);
        }
        host.configure_tcp(&TcpSettings::default()).unwrap();
        assert_eq!(read(&host), "0", "not requested, so unchanged");
        assert_eq!(sysctl::read(SLOW_START_AFTER_IDLE).unwrap(), machine);
    }

    #[test]
    fn program_buffers_are_set_per_host_at_a_fixed_size() {
        let host = match Host::create() {
            Ok(host) => host,
            Err(error) => return println!("skipped: {error}"),
        };
        let read = |name: &'static str| host.run(|| sysctl::read(name)).unwrap();
        let usual = read(SEND_BUFFERS);
        let settings = TcpSettings {
            receive_buffer: Some(Bytes::new(5_000)),
            ..TcpSettings::default()
        };
        host.configure_program_buffers(&settings).unwrap();
        assert_eq!(read(RECEIVE_BUFFERS), "10000 10000 10000");
        assert_eq!(read(SEND_BUFFERS), usual, "not requested, so unchanged");
        let listener = host
            .run(|| {
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(SetupError::system("listen"))
            })
            .unwrap();
        let has = getsockopt(&listener, sockopt::RcvBuf).unwrap();
        assert_eq!(has, 10_000);
    }
}
