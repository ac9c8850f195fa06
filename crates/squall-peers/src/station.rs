//! Runs a server or proxy, from its order to its end.
//!
//! `Station` is checked and rendered: its files and arguments can be shown before it is started. Dropping
//! `RunningStation` stops it.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use squall_linux::SetupError;
use squall_linux::host::Host;

use crate::driver::{Driver, Refusal};
use crate::find::InstalledProgram;
use crate::order::{Invocation, Order};
use crate::process::{ExitReport, Launch, PipedStreams, Process, StartError, tail, write_files};
use crate::ready::{ReadinessCheck, ReadinessError};

/// The longest that one readiness attempt may take.
const ATTEMPT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);
/// How much of its log is searched for the text that shows it ready.
const LOG_BYTES: u64 = 1 << 20;

/// A server or proxy that can be started.
#[derive(Clone, Debug)]
pub struct Station {
    order: Order,
    installed: InstalledProgram,
    invocation: Invocation,
    readiness_check: ReadinessCheck,
    processors: Vec<usize>,
}

impl Station {
    /// Applies `order` to this program, or returns why that is impossible.
    pub fn new(
        driver: &dyn Driver,
        installed: &InstalledProgram,
        order: Order,
    ) -> Result<Station, Refusal> {
        Ok(Station {
            invocation: driver.render(&order, &installed.version)?,
            readiness_check: driver.readiness_check(&order),
            installed: installed.clone(),
            order,
            processors: Vec::new(),
        })
    }

    /// Makes the program run on these processors only; on all processors if the list is empty.
    pub fn pinned(mut self, processors: Vec<usize>) -> Station {
        self.processors = processors;
        self
    }

    /// Writes its files and starts it: in `host`, or in this machine's own network without one.
    pub fn start(self, host: Option<&Host>) -> Result<RunningStation, StartError> {
        let Order { name, folder, .. } = &self.order;
        write_files(folder, &self.invocation.files)?;
        let launch = Launch {
            name,
            program: &self.installed.path,
            arguments: &self.invocation.arguments,
            environment: &self.invocation.environment,
            folder,
            host,
            processors: &self.processors,
            piped_streams: PipedStreams::None,
        };
        let process = Process::start(&launch)?;
        Ok(RunningStation {
            process,
            order: self.order,
            readiness_check: self.readiness_check,
        })
    }
}

/// A server or proxy that was started. Dropping it stops it.
#[derive(Debug)]
pub struct RunningStation {
    process: Process,
    order: Order,
    readiness_check: ReadinessCheck,
}

impl RunningStation {
    /// The name that it was ordered with.
    pub fn name(&self) -> &str {
        &self.order.name
    }

    /// Its process id, in this process's PID namespace.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The processors that the threads of its process group may run on, in order.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        self.process.processors()
    }

    /// The file with its output.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Waits until the station is up. `host` is where it was started.
    pub fn wait_ready(&self, host: Option<&Host>, deadline: Instant) -> Result<(), ReadinessError> {
        let began = Instant::now();
        loop {
            let result = self.attempt(host, deadline);
            if let Some(exit) = self.has_ended() {
                return Err(ReadinessError::Ended {
                    name: self.order.name.clone(),
                    exit,
                });
            }
            let Err(last) = result else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(ReadinessError::NotInTime {
                    name: self.order.name.clone(),
                    address: self.order.listen,
                    waited: began.elapsed(),
                    last,
                    words: tail(self.log(), 1_024),
                });
            }
            thread::sleep(PAUSE);
        }
    }

    fn attempt(&self, host: Option<&Host>, deadline: Instant) -> Result<(), String> {
        let rest = deadline.saturating_duration_since(Instant::now());
        let patience = rest.clamp(Duration::from_millis(1), ATTEMPT);
        let printed = match self.readiness_check {
            ReadinessCheck::Output(_) => tail(self.log(), LOG_BYTES),
            _ => String::new(),
        };
        let attempt = || {
            let Order {
                listen,
                server_name,
                ..
            } = &self.order;
            self.readiness_check
                .attempt(*listen, server_name, &printed, patience)
        };
        let result = match host {
            None => Ok(attempt()),
            Some(host) => host.run(|| Ok(attempt())),
        };
        result
            .map_err(|error: SetupError| error.to_string())?
            .map_err(|error| error.to_string())
    }

    /// How the program ended, if it has: "ended with signal 9 (SIGKILL); its last output: ...".
    pub fn has_ended(&self) -> Option<ExitReport> {
        self.process.has_ended()
    }

    /// Stops the program with its process group: SIGTERM, and SIGKILL after two seconds.
    pub fn stop(&mut self) {
        self.process.stop();
    }
}
