//! What all network namespaces of a machine share, so that other programs can take it from a trial's hosts: the memory of
//! sockets, and the processor time that the own cgroup may use.
//!
//! Facts without a verdict; anything that a machine does not report is `None`. Parsers take text, as in `machine`. A trial's
//! worker judges them, and so does `squall doctor`. Limits that are per namespace or per process, such as
//! net.core.somaxconn and open files, are read where they apply.

use std::fs;

use squall_base::Duration;

use crate::sysctl;

/// The memory that one protocol's sockets of all network namespaces hold together, in pages (net/core/sock.c,
/// `__sk_mem_raise_allocated`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMemory {
    /// Pages in use.
    pub in_use_pages: u64,
    /// Above this, the kernel shrinks the receive windows and send buffers of every socket of the protocol: the second
    /// number of net.ipv4.tcp_mem and net.ipv4.udp_mem.
    pub pressure_pages: u64,
}

impl SocketMemory {
    /// Whether the kernel saves memory.
    pub fn is_pressed(&self) -> bool {
        self.in_use_pages > self.pressure_pages
    }

    /// `text` is /proc/net/sockstat, `limits` the protocol's three limits.
    fn parse(text: &str, protocol: &str, limits: &str) -> Option<SocketMemory> {
        let fields = text.lines().find_map(|line| line.strip_prefix(protocol))?;
        let mut fields = fields.split_whitespace();
        fields.find(|field| *field == "mem")?;
        Some(SocketMemory {
            in_use_pages: fields.next()?.parse().ok()?,
            pressure_pages: limits.split_whitespace().nth(1)?.parse().ok()?,
        })
    }
}

/// What is shared, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedState {
    /// The memory of TCP sockets.
    pub tcp_memory: Option<SocketMemory>,
    /// The memory of UDP sockets.
    pub udp_memory: Option<SocketMemory>,
    /// For how long the kernel has stopped this process's cgroup, because it had used up its processor time (cpu.max).
    pub throttled: Option<Duration>,
}

impl SharedState {
    /// Reads it in the calling thread's network namespace. The limits are visible only in the machine's own.
    pub fn read() -> SharedState {
        let sockets = fs::read_to_string("/proc/thread-self/net/sockstat").unwrap_or_default();
        let memory = |protocol, limits| {
            let limits = sysctl::read(limits).ok()?;
            SocketMemory::parse(&sockets, protocol, &limits)
        };
        SharedState {
            tcp_memory: memory("TCP:", "net.ipv4.tcp_mem"),
            udp_memory: memory("UDP:", "net.ipv4.udp_mem"),
            throttled: throttled(),
        }
    }
}

fn throttled() -> Option<Duration> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let folder = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let stat = fs::read_to_string(format!("/sys/fs/cgroup{folder}/cpu.stat")).ok()?;
    parse_throttled(&stat)
}

fn parse_throttled(stat: &str) -> Option<Duration> {
    let mut lines = stat.lines();
    let micros = lines.find_map(|line| line.strip_prefix("throttled_usec "))?;
    Some(Duration::from_micros(micros.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKSTAT: &str = "sockets: used 290\nTCP: inuse 12 orphan 0 tw 4 alloc 18 mem 2391\n\
                            UDP: inuse 3 mem 1\nUDPLITE: inuse 0\n";

    #[test]
    fn memory_of_each_protocol_is_compared_with_its_limit() {
        let tcp = SocketMemory::parse(SOCKSTAT, "TCP:", "1533\t2044\t3066");
        let expected = SocketMemory {
            in_use_pages: 2_391,
            pressure_pages: 2_044,
        };
        assert_eq!(tcp, Some(expected));
        assert!(expected.is_pressed());
        let udp = SocketMemory::parse(SOCKSTAT, "UDP:", "3066 4088 6132");
        assert!(udp.is_some_and(|memory| memory.in_use_pages == 1 && !memory.is_pressed()));
    }

    #[test]
    fn what_a_machine_does_not_report_is_unknown() {
        assert_eq!(SocketMemory::parse("", "TCP:", "1 2 3"), None);
        assert_eq!(SocketMemory::parse(SOCKSTAT, "TCP:", "1"), None);
        assert_eq!(SocketMemory::parse("TCP: inuse 1\n", "TCP:", "1 2 3"), None);
        assert_eq!(parse_throttled("usage_usec 10\n"), None);
    }

    #[test]
    fn time_of_a_stopped_cgroup_is_read() {
        let stat = "usage_usec 10\nnr_throttled 2\nthrottled_usec 61234\n";
        assert_eq!(parse_throttled(stat), Some(Duration::from_micros(61_234)));
    }
}
