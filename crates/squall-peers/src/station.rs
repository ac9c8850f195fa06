//! A server or proxy from its order to its end.
//!
//! `Station` is checked and rendered: what it takes can be shown before it is started. `Running` ends it when dropped.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use squall_linux::SetupError;
use squall_linux::host::Host;

use crate::driver::{Driver, Refusal};
use crate::find::Found;
use crate::order::{Order, Rendered};
use crate::process::{Exit, Launch, Process, Speech, StartError, tail, write_files};
use crate::ready::{NotReady, Ready};

/// The longest that one attempt to find it ready may take.
const ATTEMPT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);
/// How much of its log is looked through for what shows it ready.
const LOG_BYTES: u64 = 1 << 20;

/// A server or proxy that can be started.
#[derive(Clone, Debug)]
pub struct Station {
    order: Order,
    found: Found,
    rendered: Rendered,
    ready: Ready,
    processors: Vec<usize>,
}

impl Station {
    /// What `order` makes of this program, or why it cannot be.
    pub fn new(driver: &dyn Driver, found: &Found, order: Order) -> Result<Station, Refusal> {
        Ok(Station {
            rendered: driver.render(&order, &found.version)?,
            ready: driver.ready(&order),
            found: found.clone(),
            order,
            processors: Vec::new(),
        })
    }

    /// Runs it on these processors only; on all if there are none.
    pub fn pinned(mut self, processors: Vec<usize>) -> Station {
        self.processors = processors;
        self
    }

    /// Its files, arguments and environment, and what a person should know.
    pub fn rendered(&self) -> &Rendered {
        &self.rendered
    }

    /// Writes its files and starts it: in `host`, or in this machine's own network if there is none.
    pub fn start(self, host: Option<&Host>) -> Result<Running, StartError> {
        let Order { name, folder, .. } = &self.order;
        write_files(folder, &self.rendered.files)?;
        let launch = Launch {
            name,
            program: &self.found.path,
            arguments: &self.rendered.arguments,
            environment: &self.rendered.environment,
            folder,
            host,
            processors: &self.processors,
            speech: Speech::None,
        };
        let process = Process::start(&launch)?;
        Ok(Running {
            process,
            order: self.order,
            ready: self.ready,
        })
    }
}

/// A server or proxy that was started. Dropped, it is stopped.
#[derive(Debug)]
pub struct Running {
    process: Process,
    order: Order,
    ready: Ready,
}

impl Running {
    /// The name that it was ordered with.
    pub fn name(&self) -> &str {
        &self.order.name
    }

    /// Its process id, as this process sees it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The processors that the threads of its process group may run on, all together and in order.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn processors(&self) -> io::Result<Vec<usize>> {
        self.process.processors()
    }

    /// What it prints.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Waits until it answers. `host` is where it was started.
    pub fn wait_ready(&self, host: Option<&Host>, deadline: Instant) -> Result<(), NotReady> {
        let began = Instant::now();
        loop {
            let result = self.attempt(host, deadline);
            if let Some(exit) = self.has_ended() {
                return Err(NotReady::Ended {
                    name: self.order.name.clone(),
                    exit,
                });
            }
            let Err(last) = result else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(NotReady::NotInTime {
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
        let printed = match self.ready {
            Ready::Output(_) => tail(self.log(), LOG_BYTES),
            _ => String::new(),
        };
        let attempt = || {
            let Order {
                listen,
                server_name,
                ..
            } = &self.order;
            self.ready.attempt(*listen, server_name, &printed, patience)
        };
        let result = match host {
            None => Ok(attempt()),
            Some(host) => host.run(|| Ok(attempt())),
        };
        result
            .map_err(|error: SetupError| error.to_string())?
            .map_err(|error| error.to_string())
    }

    /// How it ended, if it has: "ended with signal 9 (SIGKILL); its last words: ...".
    pub fn has_ended(&self) -> Option<Exit> {
        self.process.has_ended()
    }

    /// Ends it with its process group: SIGTERM, and after two seconds SIGKILL.
    pub fn stop(&mut self) {
        self.process.stop();
    }
}
