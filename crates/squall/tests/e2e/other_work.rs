//! What else uses this machine while a test runs: other programs and the hypervisor. Other tests do not count.
//!
//! A test that asserts times asks here before it fails, and says what it did not check. Which tests may run at the same time is
//! in `machine`; which failed tests are run again, in scripts/test.

use std::cell::Cell;
use std::io::{self, Write as _};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use squall_linux::awake::SleepInhibitor;
use squall_linux::other_programs::ProcessorUse;
use squall_linux::shared::SharedCounters;

/// How many processors other work may use on average while real programs of a path are measured.
pub(crate) const OTHERS_AT_MOST: f64 = 0.2;

thread_local! {
    /// Whether squall called a trial of this thread's test disturbed.
    static HAS_DISTURBED_TRIAL: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a trial of this thread's test was disturbed.
pub(crate) fn note_disturbed_trial() {
    HAS_DISTURBED_TRIAL.set(true);
}

/// Whether a trial of this thread's test was disturbed.
pub(crate) fn has_disturbed_trial() -> bool {
    HAS_DISTURBED_TRIAL.get()
}

/// Watches what programs outside of this test process and of what it starts use of the processors, and what the hypervisor
/// takes. Other tests are inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherWork {
    programs: Option<ProcessorUse>,
    shared: SharedCounters,
    since: Instant,
}

impl OtherWork {
    pub(crate) fn watch() -> OtherWork {
        OtherWork {
            programs: ProcessorUse::read(std::process::id()),
            shared: SharedCounters::read(),
            since: Instant::now(),
        }
    }

    /// Whether real programs may have waited for a processor since; false if that is not known.
    pub(crate) fn disturbs(&self) -> bool {
        let now = ProcessorUse::read(std::process::id());
        let programs = now.zip(self.programs);
        let programs = programs.map_or(0.0, |(now, before)| {
            now.of_others_since(before).as_secs_f64()
        });
        let stolen = SharedCounters::read().since(self.shared).stolen;
        let stolen = stolen.map_or(0.0, squall_base::Duration::as_secs_f64);
        (programs + stolen) / self.since.elapsed().as_secs_f64() > OTHERS_AT_MOST
    }

    /// Whether it disturbed the machine, on average or for a second. Waits until the present second has been judged.
    pub(crate) fn disturbs_a_second(&self) -> bool {
        self.disturbs() || has_stolen_second(self.since)
    }
}

/// A hypervisor that stops the processors for a moment hardly changes the average of a minute, but it ruins a measurement.
const SECOND: Duration = Duration::from_secs(1);

/// When the hypervisor took more than [`OTHERS_AT_MOST`] for a second.
static STOLEN_SECONDS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

/// Watches what the hypervisor takes each second, until this process ends. Once it has taken much of one, idle processors are
/// kept awake: on a busy host, a virtual processor that sleeps waits for a real one at each wake-up. On a quiet host they may
/// sleep, because one that never does uses up its share (benches/RESULTS.md, "Processors that sleep").
pub(crate) fn watch_hypervisor() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(|| {
            let mut before = (Instant::now(), SharedCounters::read());
            let mut awake = None;
            loop {
                thread::sleep(SECOND);
                let now = (Instant::now(), SharedCounters::read());
                let stolen = now.1.since(before.1).stolen.unwrap_or_default();
                if stolen.as_secs_f64() > OTHERS_AT_MOST * (now.0 - before.0).as_secs_f64() {
                    let mut seconds = STOLEN_SECONDS
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    seconds.push(now.0);
                    drop(seconds);
                    // Without the right to it, or an idle state that polls, they sleep as before.
                    awake = awake.or_else(|| SleepInhibitor::acquire().ok());
                }
                before = now;
            }
        });
    });
}

fn has_stolen_second(since: Instant) -> bool {
    thread::sleep(SECOND + SECOND / 10);
    let seconds = STOLEN_SECONDS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    seconds.iter().any(|second| *second >= since)
}

/// Says what was not checked, or made again, because other work disturbs this machine. Also if the test succeeds: libtest hides
/// only what the macros print.
pub(crate) fn say_disturbed(what: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or_default();
    let words = format!("{test}: other work disturbs this machine: {what}\n");
    // Without it nothing is wrong but the words.
    let _ = io::stderr().write_all(words.as_bytes());
}
