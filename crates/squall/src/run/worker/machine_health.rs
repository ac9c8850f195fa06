//! Limits on what other programs of the machine may take from a trial's hosts; beyond them the trial does not count as
//! evidence.
//!
//! `machine_watch` has the facts. docs/METHOD.md explains each limit, docs/RECORD.md lists what a machine's programs share.

use squall_base::Duration;
use squall_base::plan::Variant;
use squall_base::record::MachineHealth;

/// What else matters about a trial.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// Whether the recipe sets the size of a TCP socket's receive buffer.
    pub(super) has_own_buffers: bool,
    /// Whether squall's own lateness changed no response times.
    pub(super) is_slightly_late: bool,
    /// Whether idle processors are kept awake.
    pub(super) has_awake_processors: bool,
}

/// Whether the recipe sets the size of a TCP socket's receive buffer in this variant.
pub(super) fn has_own_buffers(variant: &Variant) -> bool {
    let mut sides = variant
        .hops
        .iter()
        .flat_map(|hop| [&hop.client, &hop.server]);
    sides.any(|side| side.tcp.receive_buffer.is_some())
}

/// What other programs take from the hosts must not change how the variant behaves.
pub(super) fn judge_shared(
    machine: &MachineHealth,
    circumstances: Circumstances,
    reasons: &mut Vec<String>,
) {
    judge_memory(machine, reasons);
    judge_tcp_counters(machine, circumstances.has_own_buffers, reasons);
    if let Some(files) = machine.open_files
        && files.most >= files.limit
    {
        reasons.push(format!(
            "all programs of this machine had {} files open, and {} are allowed: close what holds them, or raise fs.file-max",
            files.most, files.limit
        ));
    }
    if !circumstances.is_slightly_late {
        judge_taken(machine, circumstances.has_awake_processors, reasons);
    }
}

fn judge_memory(machine: &MachineHealth, reasons: &mut Vec<String>) {
    for (protocol, memory, setting) in [
        ("TCP", machine.tcp_memory, "net.ipv4.tcp_mem"),
        ("UDP", machine.udp_memory, "net.ipv4.udp_mem"),
    ] {
        if let Some(memory) = memory
            && memory.most_pages > memory.pressure_pages
        {
            reasons.push(format!(
                "all {protocol} sockets of this machine held {} pages of memory; above {}, the kernel shrinks the windows \
                 of every socket. Close what holds them, or raise {setting}",
                memory.most_pages, memory.pressure_pages
            ));
        }
    }
}

/// The counters show what happened between two samples, even where the limits are not visible, as in a container.
fn judge_tcp_counters(machine: &MachineHealth, has_own_buffers: bool, reasons: &mut Vec<String>) {
    let shortage = machine.tcp_shortage.unwrap_or_default();
    let mut counted = Vec::new();
    if shortage.pressures > 0 {
        counted.push(format!("TCPMemoryPressures {}", shortage.pressures));
    }
    if shortage.pressed_ms > 0 {
        counted.push(format!("TCPMemoryPressuresChrono {}", shortage.pressed_ms));
    }
    if !counted.is_empty() {
        reasons.push(format!(
            "the kernel saved memory of all TCP sockets, which shrinks their windows (TcpExt: {}). Close what holds the \
             memory, or raise net.ipv4.tcp_mem",
            counted.join(", ")
        ));
    }
    let queues = [
        ("PruneCalled", shortage.pruned),
        ("TCPRcvCollapsed", shortage.collapsed),
    ];
    let queues: Vec<String> = (queues.iter().filter(|(_, times)| *times > 0))
        .map(|(name, times)| format!("{name} {times}"))
        .collect();
    if !queues.is_empty() && may_lack_memory(machine, has_own_buffers) {
        reasons.push(format!(
            "the kernel freed memory in the receive queues of the hosts' sockets (TcpExt: {}): memory for sockets was \
             scarce. Close what holds it, or raise net.ipv4.tcp_mem or the cgroup's memory.high and memory.max",
            queues.join(", ")
        ));
    }
}

/// Whether a receive queue may have been pruned for lack of the machine's memory. A queue is also pruned when it outgrows its
/// own buffer: that is the variant's own doing if it sets a small buffer, or if sockets had all the memory that they wanted.
fn may_lack_memory(machine: &MachineHealth, has_own_buffers: bool) -> bool {
    let in_group = machine.memory_limit_reached.is_some_and(|times| times > 0);
    let in_machine = match machine.tcp_memory {
        // Pressure that began before the trial lasts until no more than the lower limit is in use.
        Some(memory) => memory.most_pages > memory.low_pages,
        None => !has_own_buffers,
    };
    in_group || in_machine
}

/// Processor time and memory that other programs took show up as lateness; these are the causes of it.
fn judge_taken(machine: &MachineHealth, has_awake_processors: bool, reasons: &mut Vec<String>) {
    let throttled = machine.throttled.unwrap_or_default();
    if throttled > Duration::ZERO {
        reasons.push(format!(
            "the cgroup's limit of processor time stopped squall for {:.3} ms: raise cpu.max",
            throttled.as_millis_f64()
        ));
    }
    let stolen = machine.stolen.unwrap_or_default();
    if stolen > Duration::ZERO {
        let or = if has_awake_processors {
            ""
        } else {
            ", or try --idle-processors awake"
        };
        reasons.push(format!(
            "the hypervisor took {:.0} ms of processor time from this machine: use a machine with dedicated processors{or}",
            stolen.as_millis_f64()
        ));
    }
    let times = machine.memory_limit_reached.unwrap_or_default();
    if times > 0 {
        reasons.push(format!(
            "the cgroup reached its limit of memory {times} times: raise memory.high or memory.max"
        ));
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::{OpenFiles, OtherPrograms, SharedMemory, TcpShortage};

    use super::*;

    const LATE: Circumstances = Circumstances {
        has_own_buffers: false,
        is_slightly_late: false,
        has_awake_processors: false,
    };
    const IN_TIME: Circumstances = Circumstances {
        has_own_buffers: false,
        is_slightly_late: true,
        has_awake_processors: false,
    };
    const OWN_BUFFERS: Circumstances = Circumstances {
        has_own_buffers: true,
        is_slightly_late: true,
        has_awake_processors: false,
    };

    fn said(machine: MachineHealth, circumstances: Circumstances) -> Vec<String> {
        let mut reasons = Vec::new();
        judge_shared(&machine, circumstances, &mut reasons);
        reasons
    }

    fn memory(most_pages: u64) -> Option<SharedMemory> {
        Some(SharedMemory {
            most_pages,
            low_pages: 75,
            pressure_pages: 100,
        })
    }

    #[test]
    fn pressure_on_the_memory_of_all_sockets_makes_a_trial_invalid() {
        let tcp = |pages| MachineHealth {
            tcp_memory: memory(pages),
            ..MachineHealth::default()
        };
        assert_eq!(said(tcp(100), LATE), [""; 0]);
        let pressed = said(tcp(101), IN_TIME);
        assert!(pressed[0].contains("TCP") && pressed[0].contains("held 101 pages"));
        assert!(pressed[0].contains("net.ipv4.tcp_mem"));
        let udp = |pages| MachineHealth {
            udp_memory: memory(pages),
            ..MachineHealth::default()
        };
        assert_eq!(said(udp(100), LATE), [""; 0]);
        assert!(said(udp(101), IN_TIME)[0].contains("net.ipv4.udp_mem"));
    }

    #[test]
    fn each_counter_of_scarce_memory_makes_a_trial_invalid() {
        let none = TcpShortage::default();
        for (shortage, name) in [
            (
                TcpShortage {
                    pressures: 2,
                    ..none
                },
                "TCPMemoryPressures 2",
            ),
            (
                TcpShortage {
                    pressed_ms: 7,
                    ..none
                },
                "TCPMemoryPressuresChrono 7",
            ),
            (TcpShortage { pruned: 3, ..none }, "PruneCalled 3"),
            (
                TcpShortage {
                    collapsed: 5,
                    ..none
                },
                "TCPRcvCollapsed 5",
            ),
        ] {
            let machine = MachineHealth {
                tcp_shortage: Some(shortage),
                ..MachineHealth::default()
            };
            let reasons = said(machine, IN_TIME);
            assert_eq!(reasons.len(), 1, "{name}");
            assert!(reasons[0].contains(name), "{reasons:?}");
        }
        let machine = MachineHealth {
            tcp_shortage: Some(none),
            ..MachineHealth::default()
        };
        assert_eq!(said(machine, LATE), [""; 0]);
    }

    #[test]
    fn pruned_queue_counts_only_if_memory_may_have_been_scarce() {
        let pruned = |tcp_memory, limit| MachineHealth {
            tcp_memory,
            tcp_shortage: Some(TcpShortage {
                pruned: 1,
                ..TcpShortage::default()
            }),
            memory_limit_reached: limit,
            ..MachineHealth::default()
        };
        assert_eq!(said(pruned(None, None), OWN_BUFFERS), [""; 0]);
        assert_eq!(said(pruned(memory(75), Some(0)), IN_TIME), [""; 0]);
        assert_eq!(said(pruned(memory(76), None), OWN_BUFFERS).len(), 1);
        assert_eq!(said(pruned(memory(1), Some(1)), OWN_BUFFERS).len(), 1);
    }

    #[test]
    fn other_programs_on_the_processors_leave_a_trial_valid() {
        let machine = MachineHealth {
            other_programs: Some(OtherPrograms {
                used: Duration::from_secs(2),
                during: Duration::from_secs(2),
                processors: 2,
            }),
            ..MachineHealth::default()
        };
        assert_eq!(said(machine, LATE), [""; 0]);
    }

    #[test]
    fn full_table_of_open_files_makes_a_trial_invalid() {
        let files = |most| MachineHealth {
            open_files: Some(OpenFiles { most, limit: 1_000 }),
            ..MachineHealth::default()
        };
        assert_eq!(said(files(999), LATE), [""; 0]);
        assert!(said(files(1_000), IN_TIME)[0].contains("fs.file-max"));
    }

    #[test]
    fn throttling_steal_and_the_memory_limit_count_only_if_they_delayed_requests() {
        let throttled = MachineHealth {
            throttled: Some(Duration::from_millis(30)),
            ..MachineHealth::default()
        };
        let stolen = MachineHealth {
            stolen: Some(Duration::from_millis(40)),
            ..MachineHealth::default()
        };
        let at_limit = MachineHealth {
            memory_limit_reached: Some(6),
            ..MachineHealth::default()
        };
        for (machine, expected) in [
            (throttled, "for 30.000 ms: raise cpu.max"),
            (stolen, "took 40 ms of processor time"),
            (at_limit, "its limit of memory 6 times"),
        ] {
            assert_eq!(said(machine, IN_TIME), [""; 0]);
            let reasons = said(machine, LATE);
            assert!(reasons[0].contains(expected), "{reasons:?}");
        }
    }

    #[test]
    fn keeping_processors_awake_is_not_suggested_if_they_are_awake() {
        const AWAKE: Circumstances = Circumstances {
            has_awake_processors: true,
            ..LATE
        };
        let stolen = MachineHealth {
            stolen: Some(Duration::from_millis(40)),
            ..MachineHealth::default()
        };
        for (circumstances, is_suggested) in [(LATE, true), (AWAKE, false)] {
            let reasons = said(stolen, circumstances);
            assert_eq!(reasons[0].contains("--idle-processors"), is_suggested);
        }
    }
}
