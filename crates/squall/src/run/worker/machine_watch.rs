//! Watches, while a trial runs, what its hosts share with all other programs of the machine.
//!
//! Namespaces do not separate the memory of sockets: if other programs hold too much of it, the kernel shrinks the windows of
//! every socket, and one variant may suffer more than another. Facts come from squall-linux (`shared`, `counters`),
//! `machine_health` judges them; docs/RECORD.md lists what is watched and what is not. What other programs take of the
//! processors shows as lag and lateness where it delays squall, which has priority; what a hypervisor or a cgroup's limit
//! takes is read here, as its cause. Real programs have no priority and wait unnoticed, so `ProcessorWatch` counts what others
//! use.

use std::os::unix::process::parent_id;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use anyhow::{Context, Result};
use squall_base::Time;
use squall_base::record::{MachineHealth, OpenFiles, OtherPrograms, SharedMemory, TcpShortage};
use squall_linux::clock;
use squall_linux::counters::ProtocolCounters;
use squall_linux::other_programs::ProcessorUse;
use squall_linux::shared::{SharedCounters, SharedState, SocketMemory};

use super::place::Hosts;

/// How often to look. Each look reads four small files.
const EVERY: StdDuration = StdDuration::from_millis(50);

/// A thread that watches until `finish`.
pub(super) struct MachineWatch {
    /// What the hosts' kernel had counted at the beginning.
    hosts_before: TcpShortage,
    stop: Sender<()>,
    thread: JoinHandle<MachineHealth>,
}

impl MachineWatch {
    /// Begins to watch. Call it in the machine's own network namespace.
    pub(super) fn start(hosts: &Hosts) -> Result<MachineWatch> {
        let hosts_before = shortage_of(hosts)?;
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("squall-machine".to_owned())
            .spawn(move || {
                let (begun, shortage) = (SharedCounters::read(), shortage_here());
                let mut most = SharedState::read();
                while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    most = worse(most, SharedState::read());
                }
                let taken = SharedCounters::read().since(begun);
                let shortage = shortage_here().since(shortage);
                MachineHealth {
                    tcp_memory: most.tcp_memory.map(shared),
                    udp_memory: most.udp_memory.map(shared),
                    // The trial does not depend on the queues of other programs.
                    tcp_shortage: Some(TcpShortage {
                        pruned: 0,
                        collapsed: 0,
                        ..shortage
                    }),
                    open_files: most.open_files.map(|files| OpenFiles {
                        most: files.open,
                        limit: files.limit,
                    }),
                    throttled: taken.throttled,
                    stolen: taken.stolen,
                    // `ProcessorWatch` measures it, over the time of the load.
                    other_programs: None,
                    memory_limit_reached: taken.memory_limit_reached,
                }
            })
            .context("cannot start the thread that watches the machine")?;
        Ok(MachineWatch {
            hosts_before,
            stop,
            thread,
        })
    }

    /// Ends the watch, and returns the worst that it saw.
    pub(super) fn finish(self, hosts: &Hosts) -> Result<MachineHealth> {
        drop(self.stop);
        let mut machine = self.thread.join().unwrap_or_default();
        let in_hosts = shortage_of(hosts)?.since(self.hosts_before);
        machine.tcp_shortage = Some(machine.tcp_shortage.unwrap_or_default().plus(in_hosts));
        Ok(machine)
    }
}

/// Counts what programs outside of the run use of the processors.
pub(super) struct ProcessorWatch {
    begun: Option<(ProcessorUse, Time)>,
}

impl ProcessorWatch {
    /// Begins to count.
    pub(super) fn start() -> ProcessorWatch {
        ProcessorWatch {
            begun: processor_use(),
        }
    }

    /// What other programs have used since the beginning; `None` if that is not visible.
    pub(super) fn finish(self) -> Option<OtherPrograms> {
        let (before, begun) = self.begun?;
        let (now, ended) = processor_use()?;
        Some(OtherPrograms {
            used: now.of_others_since(before),
            during: ended.since(begun),
            processors: now.processors(),
        })
    }
}

/// What the machine and the run have used by now. The run is the process that started this worker, with all below it:
/// nothing leaves that tree, because it inherits its orphans.
fn processor_use() -> Option<(ProcessorUse, Time)> {
    Some((ProcessorUse::read(parent_id())?, clock::now()))
}

/// What the hosts' kernel counted, all together.
fn shortage_of(hosts: &Hosts) -> Result<TcpShortage> {
    let mut sum = TcpShortage::default();
    for host in hosts.all() {
        sum = sum.plus(shortage(&host.protocol_counters()?));
    }
    Ok(sum)
}

/// What the kernel counted in this thread's network namespace; zero if that cannot be read.
fn shortage_here() -> TcpShortage {
    ProtocolCounters::read().map_or_else(|_| TcpShortage::default(), |it| shortage(&it))
}

fn shortage(counters: &ProtocolCounters) -> TcpShortage {
    TcpShortage {
        pressures: counters.count("TcpExtTCPMemoryPressures"),
        pressed_ms: counters.count("TcpExtTCPMemoryPressuresChrono"),
        pruned: counters.count("TcpExtPruneCalled"),
        collapsed: counters.count("TcpExtTCPRcvCollapsed"),
    }
}

/// Combines two looks: of each resource, the state in which more of it was in use.
fn worse(a: SharedState, b: SharedState) -> SharedState {
    let files = a.open_files.into_iter().chain(b.open_files);
    SharedState {
        tcp_memory: fuller(a.tcp_memory, b.tcp_memory),
        udp_memory: fuller(a.udp_memory, b.udp_memory),
        open_files: files.max_by_key(|files| files.open),
    }
}

/// The one of two looks that found more memory in use.
fn fuller(a: Option<SocketMemory>, b: Option<SocketMemory>) -> Option<SocketMemory> {
    a.into_iter()
        .chain(b)
        .max_by_key(|memory| memory.in_use_pages)
}

const fn shared(memory: SocketMemory) -> SharedMemory {
    SharedMemory {
        most_pages: memory.in_use_pages,
        low_pages: memory.low_pages,
        pressure_pages: memory.pressure_pages,
    }
}
