//! Which tests may run at the same time: some need the machine, some need it quiet, and most can run beside any others.
//!
//! libtest decides when a test begins, by its name and the number of threads; here a test waits until it may go on. Whether
//! a trial was disturbed after all is squall's own judgement (`support::FinishedRun::has_disturbed_trials`); what programs
//! outside of the tests do is in `other_work`.

use std::fs;
use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::other_work::{
    OtherWork, forget_disturbed_trials, has_disturbed_trial, has_stolen_moment, watch_hypervisor,
};

/// Tests that need a quiet machine use a sixth of two processors each, so three of them leave half of it idle.
const QUIET_SEATS: usize = 3;

/// The number of other tests that run at a time: as many as libtest has threads by default. scripts/test gives it more threads,
/// because a test that waits for the whole machine occupies one.
fn shared_seats() -> usize {
    let from_environment = std::env::var("RUST_TEST_THREADS").ok();
    let seats = from_environment.and_then(|seats| seats.parse().ok());
    seats.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// What a test needs of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing else runs.
    Alone,
    /// Only tests run that hardly use the processors.
    Quiet,
    /// Anything that is not alone or quiet may run.
    Shared,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Need::Alone => "alone",
            Need::Quiet => "quiet",
            Need::Shared => "shared",
        }
    }
}

/// The numbers of tests that run and that wait, by need.
#[derive(Debug, Default)]
struct Tests {
    running: [usize; 3],
    waiting: [usize; 3],
}

impl Tests {
    /// Whether a test may begin. Quiet tests go first: if every test that runs alone interrupted them, most of their seats
    /// would stay empty until their last one had ended. Tests that run alone go before the shared ones, which then need not
    /// stop for them later.
    fn admit(&self, need: Need, shared_seats: usize) -> bool {
        let [alone, quiet, shared] = self.running;
        let [alone_waiting, quiet_waiting, _] = self.waiting;
        match need {
            Need::Alone => alone + quiet + shared + quiet_waiting == 0,
            Need::Quiet => alone + shared == 0 && quiet < QUIET_SEATS,
            Need::Shared => {
                alone + quiet + alone_waiting + quiet_waiting == 0 && shared < shared_seats
            }
        }
    }
}

static TESTS: Mutex<Tests> = Mutex::new(Tests {
    running: [0; 3],
    waiting: [0; 3],
});
static CHANGED: Condvar = Condvar::new();

// Poisoning is ignored: a test that fails while it uses the machine leaves nothing behind that could harm the next.
fn tests() -> MutexGuard<'static, Tests> {
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a line of the file of times ends with if the test failed and other work disturbed it: scripts/test runs it again.
const FAILED_BESIDE_OTHER_WORK: &str = " failed beside other work";

/// A test's use of the machine. When it ends, the test's time is added to the file that `SQUALL_TEST_TIMES` names, so that
/// CI can print the slowest.
#[derive(Debug)]
pub(crate) struct MachineUse {
    since: Instant,
    need: Need,
    other_work: OtherWork,
}

impl MachineUse {
    /// Waits until the machine is as the test needs it.
    fn begin(need: Need) -> MachineUse {
        let shared_seats = shared_seats();
        let mut tests = tests();
        tests.waiting[need as usize] += 1;
        let admitted = CHANGED.wait_while(tests, |tests| !tests.admit(need, shared_seats));
        let mut tests = admitted.unwrap_or_else(PoisonError::into_inner);
        tests.waiting[need as usize] -= 1;
        tests.running[need as usize] += 1;
        drop(tests);
        forget_disturbed_trials();
        // Wakes the tests that waited for this one to begin.
        CHANGED.notify_all();
        watch_hypervisor();
        MachineUse {
            since: Instant::now(),
            need,
            other_work: OtherWork::watch(),
        }
    }
}

impl Drop for MachineUse {
    fn drop(&mut self) {
        tests().running[self.need as usize] -= 1;
        CHANGED.notify_all();
        let Some(file) = std::env::var_os("SQUALL_TEST_TIMES") else {
            return;
        };
        let seconds = self.since.elapsed().as_secs_f64();
        let test = thread::current();
        let test = test.name().unwrap_or("");
        let is_disturbed = || {
            has_disturbed_trial()
                || has_stolen_moment(self.since)
                || self.other_work.disturbs_a_second()
        };
        let end = if thread::panicking() && is_disturbed() {
            FAILED_BESIDE_OTHER_WORK
        } else {
            ""
        };
        let line = format!("{seconds:.1} s {} {test}{end}\n", self.need.name());
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        // Without the file only the list of slow tests is incomplete.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The whole machine: for tests that load the processors on purpose, and assert how much they can do.
pub(crate) fn bench() -> MachineUse {
    MachineUse::begin(Need::Alone)
}

/// A quiet machine, next to two other tests that need one: for tests that assert differences of a millisecond or less, rates
/// that a window limits, or that a trial is valid, and hardly use the processors.
pub(crate) fn quiet_seat() -> MachineUse {
    MachineUse::begin(Need::Quiet)
}

/// A seat next to other tests ([`shared_seats`]): for tests that mostly wait, and assert counts, sums, messages, lower bounds
/// and link times of tens of milliseconds.
pub(crate) fn seat() -> MachineUse {
    MachineUse::begin(Need::Shared)
}

#[test]
fn quiet_tests_go_first_and_shared_ones_last() {
    const SHARED_SEATS: usize = 4;
    let admits = |running, waiting, need| Tests { running, waiting }.admit(need, SHARED_SEATS);
    let all = [Need::Alone, Need::Quiet, Need::Shared];
    assert_eq!(all.map(|need| admits([0; 3], [0; 3], need)), [true; 3]);
    let is_quiet = |need| admits([0, QUIET_SEATS - 1, 0], [0; 3], need);
    assert!(is_quiet(Need::Quiet) && !is_quiet(Need::Alone) && !is_quiet(Need::Shared));
    assert!(!admits([0, QUIET_SEATS, 0], [0; 3], Need::Quiet));
    let is_awaited = |need| admits([0, 1, 0], [1, 0, 0], need);
    assert!(is_awaited(Need::Quiet) && !is_awaited(Need::Shared));
    let both_wait = |need| admits([0; 3], [1, 1, 0], need);
    assert!(both_wait(Need::Quiet) && !both_wait(Need::Alone));
    assert!(admits([0; 3], [1, 0, 1], Need::Alone));
    let is_shared = |need| admits([0, 0, SHARED_SEATS - 1], [0; 3], need);
    assert_eq!(all.map(is_shared), [false, false, true]);
    assert!(!admits([0, 0, SHARED_SEATS], [0; 3], Need::Shared));
    assert!(!admits([0, 0, 3], [0, 1, 0], Need::Shared));
}
