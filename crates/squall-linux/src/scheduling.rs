//! How the threads of a worker are scheduled, and how many files the process may open.
//!
//! Exact wake-ups need a timer slack of 1 ns (ordinary threads have 50 us by default) and, for the link, a real-time
//! priority, so that a busy station cannot delay it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use squall_base::Duration;

use crate::error::SetupError;

squall_base::words! {
    /// The scheduling that a thread got.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheduling {
        /// SCHED_FIFO: runs as soon as it is runnable.
        Fifo = "fifo",
        /// The default policy, because real-time was refused (no CAP_SYS_NICE, RLIMIT_RTPRIO 0).
        Other = "other",
    }
}

/// Requests exact timers for the calling thread.
fn make_punctual() {
    // A refusal leaves the default slack, which shows in the measured lateness.
    let _ = prctl::set_timerslack(1);
}

/// Requests exact timers and real-time scheduling for the calling thread; without the right to the latter, a short slice.
pub fn make_realtime(priority: i32) -> Scheduling {
    make_punctual();
    if set_policy(libc::SCHED_FIFO, priority) {
        return Scheduling::Fifo;
    }
    request_short_slices();
    Scheduling::Other
}

/// Makes the calling thread yield to all others immediately: for writing records while a trial runs. Any other policy would
/// let it finish its slice of some milliseconds first.
pub fn make_background() {
    // A refusal leaves an ordinary thread, which shows in the measured lateness.
    let _ = set_policy(libc::SCHED_IDLE, 0);
}

/// Undoes [`make_background`] for a thread that others wait for: next to programs that use all processors, it would get
/// 0.3 % of one. The kernel refuses this without CAP_SYS_NICE, unless RLIMIT_NICE permits a nice value of 0
/// (user_check_sched_setscheduler, kernel/sched/syscalls.c); then the thread stays as it is.
pub fn make_ordinary<T>(thread: &JoinHandle<T>) {
    let parameters = priority_of(0);
    // SAFETY: the call reads one sched_param, which outlives it; the handle has not been joined, so its thread's number is
    // valid.
    let _ = unsafe {
        libc::pthread_setschedparam(thread.as_pthread_t(), libc::SCHED_OTHER, &parameters)
    };
}

fn priority_of(priority: i32) -> libc::sched_param {
    libc::sched_param {
        sched_priority: priority,
    }
}

fn set_policy(policy: libc::c_int, priority: i32) -> bool {
    let parameters = priority_of(priority);
    // SAFETY: the call reads one sched_param, which outlives it; thread 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) == 0 }
}

/// Requests the shortest slice, 0.1 ms. If a thread wakes up with a shorter slice than the running thread has, it does not wait
/// for the running slice to end (kernel 6.12, sched_setattr's sched_runtime for SCHED_OTHER; PREEMPT_SHORT in
/// kernel/sched/fair.c). Needs no privilege; older kernels ignore it.
fn request_short_slices() {
    const SLICE_NS: u64 = 100_000;
    // SAFETY: sched_attr consists of plain numbers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the call reads `size` bytes of `attributes`, which outlives it; thread 0 is the calling thread.
    // A refusal leaves the usual slice, which shows in the measured lateness.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
}

/// The kernel's count of a thread's run-queue delay: how long it was runnable without a processor.
#[derive(Debug)]
pub struct RunQueueDelay(File);

impl RunQueueDelay {
    /// The count of the calling thread; `None` where the kernel does not keep it (CONFIG_SCHED_INFO) or /proc is missing.
    pub fn of_this_thread() -> Option<RunQueueDelay> {
        let delay = RunQueueDelay(File::open("/proc/thread-self/schedstat").ok()?);
        delay.total().map(|_| delay)
    }

    /// The total run-queue delay so far: the second number of schedstat (Documentation/scheduler/sched-stats.rst). One
    /// system call, about a microsecond.
    pub fn total(&self) -> Option<Duration> {
        // Three numbers of at most 20 digits, and their separators.
        let mut text = [0; 64];
        let count = self.0.read_at(&mut text, 0).ok()?;
        parse_run_queue_delay(std::str::from_utf8(&text[..count]).ok()?)
    }
}

fn parse_run_queue_delay(schedstat: &str) -> Option<Duration> {
    let waited_ns = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(waited_ns))
}

/// Raises the limit of open files to the permitted maximum, because a connection pool needs two per connection. Returns the
/// limit.
pub fn raise_open_files() -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// How many processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The numbers of the processors that the calling thread may run on.
pub fn usable_processors() -> Result<Vec<usize>, SetupError> {
    processors_of(THIS_THREAD).map_err(SetupError::system(
        "ask on which processors a thread may run",
    ))
}

/// The numbers of the processors that `thread` may run on.
pub(crate) fn processors_of(thread: Pid) -> nix::Result<Vec<usize>> {
    let set = sched_getaffinity(thread)?;
    let is_usable = |number: &usize| set.is_set(*number).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(is_usable).collect())
}

/// Pins the calling thread to one processor.
pub fn pin_to(processor: usize) -> Result<(), SetupError> {
    const ACTION: &str = "keep a thread to one processor";
    let mut set = CpuSet::new();
    set.set(processor).map_err(SetupError::system(ACTION))?;
    sched_setaffinity(THIS_THREAD, &set).map_err(SetupError::system(ACTION))
}

/// The scheduler's calls take this for the calling thread.
const THIS_THREAD: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::status_bits;

    #[test]
    fn run_queue_delay_is_the_second_number_of_schedstat() {
        let waited = Duration::from_nanos(5_687_412);
        assert_eq!(parse_run_queue_delay("1203344 5687412 17\n"), Some(waited));
        assert_eq!(parse_run_queue_delay("1203344\n"), None);
        assert_eq!(parse_run_queue_delay("1203344 some 17\n"), None);
    }

    /// Whether this process has CAP_SYS_NICE (linux/capability.h), or may have a nice value of 0.
    fn may_set_priorities() -> bool {
        const CAP_SYS_NICE: u32 = 23;
        let (nice, _) = getrlimit(Resource::RLIMIT_NICE).expect("a limit");
        status_bits("CapEff") & 1 << CAP_SYS_NICE != 0 || nice >= 20
    }

    #[test]
    fn background_thread_becomes_ordinary_where_permitted() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        // SAFETY: the call takes no pointer; thread 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let thread = std::thread::spawn(move || {
            make_background();
            begin.send(policy()).expect("the test waits for it");
            // Ends when the other side is dropped.
            let _ = stopped.recv();
            policy()
        });
        assert_eq!(begun.recv(), Ok(libc::SCHED_IDLE));
        make_ordinary(&thread);
        drop(stop);
        let expected = if may_set_priorities() {
            libc::SCHED_OTHER
        } else {
            libc::SCHED_IDLE
        };
        assert_eq!(thread.join().expect("it ends"), expected);
    }

    #[test]
    fn run_queue_delay_never_decreases() {
        let Some(delay) = RunQueueDelay::of_this_thread() else {
            eprintln!("skipped: this kernel does not count what threads wait in line");
            return;
        };
        let before = delay.total().expect("it was there just now");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(delay.total().expect("it was there just now") >= before);
    }
}
