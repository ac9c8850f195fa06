//! When the machine let nobody run: a thread on each processor, above all of squall's, that wakes every 500 us and notes how
//! late it is. What keeps it waiting keeps everybody on that processor waiting, and is in no account of the kernel's for
//! them: the work of interrupts (softirq), which counts as the thread's that they interrupt; a long way through a kernel
//! that is not preempted; a virtual machine's processor that was taken away without the kernel's knowing. As cyclictest
//! does (wiki.linuxfoundation.org/realtime). What threads wait for each other is `scheduled`'s.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use squall_linux::scheduling::{self, Scheduling};

/// Above all of squall's threads.
const PRIORITY: i32 = 99;
/// A stop is noted but for so much of it at its beginning: half of what times may be apart. Each wake-up takes 25 us and
/// moves the thread that it interrupts to the other processor; at 200 us that was a quarter of a client's time, and itself
/// made it late.
const STEP_NS: i64 = 500_000;
/// What a wake-up takes is not noted.
const NOTED_NS: i64 = 100_000;

/// The threads; they end with it.
pub(crate) struct Sentinels {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Range<i64>>>>,
}

impl Sentinels {
    /// One on each processor that may be used; `None` without the right to real-time scheduling.
    pub(crate) fn start() -> Option<Sentinels> {
        let over = Arc::new(AtomicBool::new(false));
        let processors = scheduling::usable_processors().expect("the processors are known");
        let (ready, heard) = std::sync::mpsc::channel();
        let watch = |processor: usize| {
            let (over, ready) = (over.clone(), ready.clone());
            thread::spawn(move || {
                scheduling::stay_on(processor).expect("it may be used");
                let is_realtime = scheduling::make_realtime(PRIORITY) == Scheduling::Fifo;
                ready.send(is_realtime).expect("it is waited for");
                match is_realtime {
                    true => note(&over),
                    false => Vec::new(),
                }
            })
        };
        let threads: Vec<_> = processors.into_iter().map(watch).collect();
        let are_realtime = heard
            .iter()
            .take(threads.len())
            .all(|is_realtime| is_realtime);
        let sentinels = Sentinels { over, threads };
        are_realtime.then_some(sentinels)
    }

    /// What nobody could run in, on any processor, by CLOCK_MONOTONIC.
    pub(crate) fn end(mut self) -> Vec<Range<i64>> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self
            .threads
            .drain(..)
            .map(|thread| thread.join().expect("it only sleeps"));
        ended.flatten().collect()
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn note(over: &AtomicBool) -> Vec<Range<i64>> {
    let mut gaps = Vec::new();
    let mut due_ns = now_ns();
    while !over.load(Ordering::Relaxed) {
        due_ns = (due_ns + STEP_NS).max(now_ns());
        let due = TimeSpec::nanoseconds(due_ns);
        let slept = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &due,
        );
        let woken_ns = now_ns();
        if slept.is_ok() && woken_ns - due_ns > NOTED_NS {
            gaps.push(due_ns..woken_ns);
        }
    }
    gaps
}

fn now_ns() -> i64 {
    squall_linux::clock::now().as_nanos() as i64
}

#[test]
fn what_holds_a_processor_without_a_pause_is_noted() {
    let Some(sentinels) = Sentinels::start() else {
        eprintln!("skipped, what keeps a sentinel waiting: no real-time scheduling");
        return;
    };
    let processor = scheduling::usable_processors().expect("the processors are known")[0];
    // As high as a sentinel, so that it may not go on before this has ended.
    let holder = thread::spawn(move || {
        scheduling::stay_on(processor).expect("it may be used");
        scheduling::make_realtime(PRIORITY);
        let begun_ns = now_ns();
        while now_ns() < begun_ns + 20 * STEP_NS {}
        begun_ns..now_ns()
    });
    let held = holder.join().expect("it only waits");
    let gaps = sentinels.end();
    let noted = gaps
        .iter()
        .map(|gap| gap.end.min(held.end) - gap.start.max(held.start));
    let longest_ns = noted.max().unwrap_or(0);
    assert!(longest_ns >= 18 * STEP_NS, "{held:?}: {gaps:?}");
}
