//! What all network namespaces of a machine share, so that other programs can take it from a trial's hosts: the memory of
//! sockets, open files, and processor time.
//!
//! Facts without a verdict; anything that a machine does not report is `None`. Parsers take text, as in `machine`. A trial's
//! worker judges them, and so does `squall doctor`. Limits that are per namespace or per process, such as
//! net.core.somaxconn and a process's own open files, are read where they apply; `cgroup` has the limits of groups.

use std::fs;

use squall_base::Duration;

use crate::machine::ProcessorTimes;
use crate::{cgroup, sysctl};

/// The memory that one protocol's sockets of all network namespaces hold together, in pages (net/core/sock.c,
/// `__sk_mem_raise_allocated`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMemory {
    /// Pages in use.
    pub in_use_pages: u64,
    /// Once memory pressure has begun at `pressure_pages`, it lasts until no more than this is in use: the first number of
    /// net.ipv4.tcp_mem and net.ipv4.udp_mem.
    pub low_pages: u64,
    /// Above this, the kernel shrinks the receive windows and send buffers of every socket of the protocol: the second
    /// number of net.ipv4.tcp_mem and net.ipv4.udp_mem.
    pub pressure_pages: u64,
}

impl SocketMemory {
    /// Whether the protocol's sockets are under memory pressure now.
    pub fn is_pressed(&self) -> bool {
        self.in_use_pages > self.pressure_pages
    }

    /// `text` is /proc/net/sockstat, `limits` the protocol's three limits.
    fn parse(text: &str, protocol: &str, limits: &str) -> Option<SocketMemory> {
        let fields = text.lines().find_map(|line| line.strip_prefix(protocol))?;
        let mut fields = fields.split_whitespace();
        fields.find(|field| *field == "mem")?;
        let mut limits = limits.split_whitespace();
        Some(SocketMemory {
            in_use_pages: fields.next()?.parse().ok()?,
            low_pages: limits.next()?.parse().ok()?,
            pressure_pages: limits.next()?.parse().ok()?,
        })
    }
}

/// The files that all programs of the machine have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// Open files.
    pub open: u64,
    /// Once this many are open, only root may open more: fs.file-max.
    pub limit: u64,
}

impl OpenFiles {
    /// `text` is fs.file-nr: allocated, free (0 since Linux 2.6), and the limit.
    fn parse(text: &str) -> Option<OpenFiles> {
        let mut fields = text.split_whitespace();
        Some(OpenFiles {
            open: fields.next()?.parse().ok()?,
            limit: fields.nth(1)?.parse().ok()?,
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
    /// Open files.
    pub open_files: Option<OpenFiles>,
}

impl SharedState {
    /// Reads the state in the calling thread's network namespace. The limits are visible only in the machine's own.
    pub fn read() -> SharedState {
        let sockets = fs::read_to_string("/proc/thread-self/net/sockstat").unwrap_or_default();
        let memory = |protocol, limits| {
            let limits = sysctl::read(limits).ok()?;
            SocketMemory::parse(&sockets, protocol, &limits)
        };
        SharedState {
            tcp_memory: memory("TCP:", "net.ipv4.tcp_mem"),
            udp_memory: memory("UDP:", "net.ipv4.udp_mem"),
            open_files: sysctl::read("fs.file-nr")
                .ok()
                .and_then(|text| OpenFiles::parse(&text)),
        }
    }
}

/// A tick of /proc/stat: USER_HZ is 100 on all architectures that squall runs on.
const TICK_MS: u64 = 10;

/// What has been taken from this process's processors and memory, counted since boot or since its cgroup was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounters {
    /// For how long the kernel has stopped this process's cgroup or one above it, because processor time was used up
    /// (cpu.max).
    pub throttled: Option<Duration>,
    /// How long this machine's processors, all together, were ready while the hypervisor ran something else.
    pub stolen: Option<Duration>,
    /// How many times this process's cgroup or one above it reached its memory limit (memory.high, memory.max).
    pub memory_limit_reached: Option<u64>,
}

impl SharedCounters {
    /// Reads the counters.
    pub fn read() -> SharedCounters {
        SharedCounters {
            throttled: cgroup::throttled(),
            stolen: ProcessorTimes::read()
                .map(|times| Duration::from_millis(times.steal.saturating_mul(TICK_MS))),
            memory_limit_reached: cgroup::memory_limit_reached(),
        }
    }

    /// What was added since `earlier`. A counter that went backwards, as on a virtual machine that has moved to another host,
    /// added nothing.
    pub fn since(self, earlier: SharedCounters) -> SharedCounters {
        let time = |now: Option<Duration>, then: Option<Duration>| {
            let nanos = now?.as_nanos().saturating_sub(then?.as_nanos());
            Some(Duration::from_nanos(nanos))
        };
        SharedCounters {
            throttled: time(self.throttled, earlier.throttled),
            stolen: time(self.stolen, earlier.stolen),
            memory_limit_reached: (self.memory_limit_reached)
                .zip(earlier.memory_limit_reached)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }
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
            low_pages: 1_533,
            pressure_pages: 2_044,
        };
        assert_eq!(tcp, Some(expected));
        assert!(expected.is_pressed());
        let udp = SocketMemory::parse(SOCKSTAT, "UDP:", "3066 4088 6132");
        assert!(udp.is_some_and(|memory| memory.in_use_pages == 1 && !memory.is_pressed()));
    }

    #[test]
    fn values_that_are_not_reported_are_unknown() {
        assert_eq!(SocketMemory::parse("", "TCP:", "1 2 3"), None);
        assert_eq!(SocketMemory::parse(SOCKSTAT, "TCP:", "1"), None);
        assert_eq!(SocketMemory::parse("TCP: inuse 1\n", "TCP:", "1 2 3"), None);
        assert_eq!(OpenFiles::parse("555\t0"), None);
    }

    #[test]
    fn open_files_of_all_programs_are_compared_with_their_limit() {
        let expected = OpenFiles {
            open: 555,
            limit: 2_466_183,
        };
        assert_eq!(OpenFiles::parse("555\t0\t2466183\n"), Some(expected));
    }

    #[test]
    fn only_growth_between_two_readings_counts() {
        let at = |throttled, stolen, limit| SharedCounters {
            throttled: Some(Duration::from_millis(throttled)),
            stolen: Some(Duration::from_millis(stolen)),
            memory_limit_reached: limit,
        };
        assert_eq!(
            at(9, 10, Some(7)).since(at(4, 20, Some(7))),
            at(5, 0, Some(0))
        );
        assert_eq!(at(9, 10, Some(7)).since(at(9, 10, None)), at(0, 0, None));
    }
}
