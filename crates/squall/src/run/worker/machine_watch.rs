//! Watches, while a trial runs, what its hosts share with all other programs of the machine.
//!
//! Namespaces do not separate the memory of sockets: if other programs hold too much of it, the kernel shrinks the windows
//! of every socket, and one variant may suffer more than another. Facts come from squall-linux (`shared`), `health` judges
//! them. The processors are not watched here: what other programs take of them shows as lag and lateness.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use anyhow::{Context, Result};
use squall_base::record::{MachineHealth, SharedMemory};
use squall_linux::shared::{SharedState, SocketMemory};

/// Each look reads three small files, which takes about 50 us.
const EVERY: StdDuration = StdDuration::from_millis(50);

/// A thread that watches until `finish`.
pub(super) struct MachineWatch {
    stop: Sender<()>,
    thread: JoinHandle<MachineHealth>,
}

impl MachineWatch {
    /// Begins to watch. Call it in the machine's own network namespace.
    pub(super) fn start() -> Result<MachineWatch> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("squall-machine".to_owned())
            .spawn(move || {
                let begun = SharedState::read();
                let mut most = begun;
                let mut last = begun;
                while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    last = SharedState::read();
                    most.tcp_memory = fuller(most.tcp_memory, last.tcp_memory);
                    most.udp_memory = fuller(most.udp_memory, last.udp_memory);
                }
                MachineHealth {
                    tcp_memory: most.tcp_memory.map(shared),
                    udp_memory: most.udp_memory.map(shared),
                    throttled: (last.throttled.zip(begun.throttled))
                        .map(|(until, from)| until - from),
                }
            })
            .context("cannot start the thread that watches the machine")?;
        Ok(MachineWatch { stop, thread })
    }

    /// Ends the watch, and returns the worst that it saw.
    pub(super) fn finish(self) -> MachineHealth {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
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
        pressure_pages: memory.pressure_pages,
    }
}
