//! Detects when the machine ran nothing: a thread on each processor, with a priority above all of squall's threads,
//! wakes every 500 us and notes how late it is. Whatever delays it delays every thread on that processor, and the
//! kernel's accounting does not show it for those threads: softirq work, which is charged to the interrupted thread; a
//! long path through a non-preemptible kernel; a virtual processor that the hypervisor preempted without the kernel's
//! knowledge. cyclictest works the same way (wiki.linuxfoundation.org/realtime). `scheduled` covers the time that
//! threads wait for each other.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use squall_linux::scheduling::{self, Scheduling};

use crate::support::{bench, wait_for};

/// Above all of squall's threads.
const PRIORITY: i32 = 99;
/// A stall is recorded except for up to this much of its beginning: half of the permitted difference between times.
/// Each wake-up takes 25 us and moves the thread that it interrupts to the other processor. At a period of 200 us this
/// took a quarter of a client's time and itself made the client late.
const STEP_NS: i64 = 500_000;
/// Delays up to this length, such as a wake-up's own, are not recorded.
const NOTED_NS: i64 = 100_000;

/// When some processor ran nothing, by CLOCK_MONOTONIC.
type Gaps = Mutex<Vec<Range<i64>>>;

/// The sentinel threads of this process, one on each usable processor. All tests share them: with threads of their own, three
/// tests at a time would interrupt each processor every 167 us. They end when the last test drops this.
pub(crate) struct Sentinels {
    is_over: Arc<AtomicBool>,
    gaps: Arc<Gaps>,
}

static RUNNING: Mutex<Weak<Sentinels>> = Mutex::new(Weak::new());

// Poisoning is ignored: a value is complete whenever a thread may panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sentinels {
    /// The sentinels that run already; starts them if there are none. `None` without the right to real-time scheduling.
    pub(crate) fn shared() -> Option<Arc<Sentinels>> {
        let mut running = locked(&RUNNING);
        if let Some(sentinels) = running.upgrade() {
            return Some(sentinels);
        }
        let sentinels = Arc::new(Sentinels::start()?);
        *running = Arc::downgrade(&sentinels);
        Some(sentinels)
    }

    fn start() -> Option<Sentinels> {
        let sentinels = Sentinels {
            is_over: Arc::default(),
            gaps: Arc::default(),
        };
        let processors = scheduling::usable_processors().expect("the processors are known");
        let (ready, heard) = std::sync::mpsc::channel();
        let count = processors.len();
        for processor in processors {
            let (is_over, gaps) = (sentinels.is_over.clone(), sentinels.gaps.clone());
            let ready = ready.clone();
            let watch = move || {
                scheduling::pin_to(processor).expect("it may be used");
                let is_realtime = scheduling::make_realtime(PRIORITY) == Scheduling::Fifo;
                ready.send(is_realtime).expect("it is waited for");
                if is_realtime {
                    note(&is_over, &gaps);
                }
            };
            let thread = thread::Builder::new().name("sentinel".to_owned());
            thread.spawn(watch).expect("a thread");
        }
        let are_realtime = heard.iter().take(count).all(|is_realtime| is_realtime);
        are_realtime.then_some(sentinels)
    }

    /// The spans so far in which some processor ran nothing.
    pub(crate) fn gaps(&self) -> Vec<Range<i64>> {
        locked(&self.gaps).clone()
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn note(is_over: &AtomicBool, gaps: &Gaps) {
    let mut due_ns = now_ns();
    while !is_over.load(Ordering::Relaxed) {
        due_ns = (due_ns + STEP_NS).max(now_ns());
        let due = TimeSpec::nanoseconds(due_ns);
        let slept = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &due,
        );
        let woken_ns = now_ns();
        if slept.is_ok() && woken_ns - due_ns > NOTED_NS {
            locked(gaps).push(due_ns..woken_ns);
        }
    }
}

fn now_ns() -> i64 {
    squall_linux::clock::now().as_nanos() as i64
}

#[test]
fn stall_of_a_processor_is_recorded() {
    let Some(sentinels) = Sentinels::shared() else {
        eprintln!("skipped, what keeps a sentinel waiting: no real-time scheduling");
        return;
    };
    // This test holds a processor at the highest priority.
    let _alone = bench();
    let processor = scheduling::usable_processors().expect("the processors are known")[0];
    // At a sentinel's priority, so the sentinel cannot run before this has ended.
    let holder = thread::spawn(move || {
        scheduling::pin_to(processor).expect("it may be used");
        scheduling::make_realtime(PRIORITY);
        let begun_ns = now_ns();
        while now_ns() < begun_ns + 20 * STEP_NS {}
        begun_ns..now_ns()
    });
    let held = holder.join().expect("it only waits");
    // The sentinels note the stall once they run again.
    wait_for(&format!("{held:?} among the gaps"), || {
        let gaps = sentinels.gaps();
        let noted = gaps
            .iter()
            .map(|gap| gap.end.min(held.end) - gap.start.max(held.start));
        (noted.max()? >= 18 * STEP_NS).then_some(())
    });
}
