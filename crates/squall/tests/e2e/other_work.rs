//! What else uses this machine while a test runs: other programs and the hypervisor, but not other tests.
//!
//! A test that asserts times asks here before it fails, and says what it did not check. Which tests may run at the same time is
//! in `machine`; which failed tests are run again, in scripts/test.

use std::cell::Cell;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
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

/// Forgets the disturbed trials so far, before a check is repeated.
pub(crate) fn forget_disturbed_trials() {
    HAS_DISTURBED_TRIAL.set(false);
}

/// Whether a trial of this thread's test was disturbed.
pub(crate) fn has_disturbed_trial() -> bool {
    HAS_DISTURBED_TRIAL.get()
}

/// Watches how much the processors are used by programs other than this test process and what it starts, and how much the
/// hypervisor takes. Other tests belong to this process.
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

    /// Whether real programs may have waited for a processor since the watch began; false if that is not known.
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

    /// Whether other work disturbed the machine, on average or for a second. Waits until the present second has been judged.
    pub(crate) fn disturbs_a_second(&self) -> bool {
        self.disturbs() || has_stolen_second(self.since)
    }
}

/// A hypervisor that stops the processors for a moment hardly changes the average of a minute, but it ruins a measurement.
const SECOND: Duration = Duration::from_secs(1);
const MOMENTS_OF_A_SECOND: u32 = 10;

/// When the hypervisor took more than [`OTHERS_AT_MOST`] for a second.
static STOLEN_SECONDS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());
/// When it did so for a tenth of a second.
static STOLEN_MOMENTS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

/// What the hypervisor has taken until an instant.
#[derive(Clone, Copy)]
struct Taken(Instant, SharedCounters);

impl Taken {
    fn now() -> Taken {
        Taken(Instant::now(), SharedCounters::read())
    }

    /// Whether it has taken too much since `before`.
    fn is_much_since(&self, before: Taken) -> bool {
        let stolen = self.1.since(before.1).stolen.unwrap_or_default();
        stolen.as_secs_f64() > OTHERS_AT_MOST * (self.0 - before.0).as_secs_f64()
    }
}

fn locked(times: &'static Mutex<Vec<Instant>>) -> MutexGuard<'static, Vec<Instant>> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches what the hypervisor takes, until this process ends. Once it has taken much of a second, idle processors are
/// kept awake: on a busy host, a virtual processor that sleeps waits for a real one at each wake-up. On a quiet host they may
/// sleep, because one that never does uses up its share (benches/RESULTS.md, "Processors that sleep").
pub(crate) fn watch_hypervisor() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(|| {
            let mut awake = None;
            let mut last = Taken::now();
            loop {
                let before = last;
                for _ in 0..MOMENTS_OF_A_SECOND {
                    thread::sleep(SECOND / MOMENTS_OF_A_SECOND);
                    let now = Taken::now();
                    if now.is_much_since(last) {
                        locked(&STOLEN_MOMENTS).push(now.0);
                    }
                    last = now;
                }
                if last.is_much_since(before) {
                    locked(&STOLEN_SECONDS).push(last.0);
                    // Without the right to it, or an idle state that polls, they sleep as before.
                    awake = awake.or_else(|| SleepInhibitor::acquire().ok());
                }
            }
        });
    });
}

fn has_stolen_second(since: Instant) -> bool {
    thread::sleep(SECOND + SECOND / 10);
    locked(&STOLEN_SECONDS)
        .iter()
        .any(|second| *second >= since)
}

/// Whether the hypervisor has taken more than [`OTHERS_AT_MOST`] in some tenth of a second since then. That does not excuse a
/// failed check, but scripts/test runs the failed test again.
pub(crate) fn has_stolen_moment(since: Instant) -> bool {
    thread::sleep(2 * SECOND / MOMENTS_OF_A_SECOND);
    locked(&STOLEN_MOMENTS)
        .iter()
        .any(|moment| *moment >= since)
}

/// Reports what was not checked, or was repeated, because other work disturbs this machine. Reports it even if the test
/// succeeds: libtest hides only what the macros print.
pub(crate) fn say_disturbed(what: &str) {
    say(&format!("other work disturbs this machine: {what}"));
}

/// Says that a check failed beside other tests and is repeated alone.
pub(crate) fn say_repeated(failure: &str) {
    say(&format!(
        "failed beside other tests, is repeated alone: {failure}"
    ));
}

fn say(what: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or_default();
    // If this fails, only the notice is lost.
    let _ = io::stderr().write_all(format!("{test}: {what}\n").as_bytes());
}
