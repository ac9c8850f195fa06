//! Records when squall's threads were kept waiting: for a processor, for a timer that the kernel ran late, or on a
//! virtual processor that the hypervisor had preempted, for which the kernel charges them no time
//! (CONFIG_PARAVIRT_TIME_ACCOUNTING). The sources are the events `sched_waking`, `sched_switch`, `sched_stat_runtime`,
//! `hrtimer_start` and `hrtimer_expire_entry` (Documentation/trace/events.rst), in a separate trace instance, by
//! CLOCK_MONOTONIC; `sentinel` covers what these events miss. Needs root and tracefs. `observed` compares records with
//! this schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::gettid;

#[path = "sentinel.rs"]
mod sentinel;

use sentinel::Sentinels;

use crate::other_work::OtherWork;

const TRACING: &str = "/sys/kernel/tracing";
/// Per processor: some 400,000 events of 80 bytes, far more than a test produces.
const BUFFER_KIB: &str = "32768";

/// A running trace of the scheduler's events.
pub(crate) struct Watching {
    folder: PathBuf,
    /// Only descendants of this thread are traced.
    thread: u32,
    sentinels: Option<Arc<Sentinels>>,
    other_work: OtherWork,
}

/// When threads were kept waiting, by thread name.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// When the machine ran nothing on one of its processors.
    gaps: Vec<Range<i64>>,
    waits: BTreeMap<String, Vec<Wait>>,
    /// When they had a processor, or would have had one but for the hypervisor.
    runs: BTreeMap<String, Vec<Range<i64>>>,
    /// All events with their times.
    events: Vec<(i64, String)>,
    /// Since the trace began.
    other_work: Option<OtherWork>,
}

/// The time waited within a span.
#[derive(Debug)]
struct Wait {
    span: Range<i64>,
    waited_ns: i64,
}

/// What is known of threads and timers up to some event.
#[derive(Default)]
struct Reading {
    schedule: Schedule,
    /// The traced threads.
    ours: BTreeSet<u32>,
    /// Since when a runnable thread has waited for a processor; `None` while it has one. A thread that is absent
    /// sleeps.
    awake: BTreeMap<u32, Option<i64>>,
    /// The time up to which a thread's run time has been accounted.
    counted: BTreeMap<u32, i64>,
    /// Each timer's due time and owner.
    timers: BTreeMap<String, (i64, String)>,
}

impl Watching {
    /// Starts tracing what this thread starts from now on. `None`, with a notice, if the kernel does not allow it.
    pub(crate) fn start() -> Option<Watching> {
        let thread = u32::try_from(gettid().as_raw()).expect("a thread's id");
        let folder = Path::new(TRACING).join(format!("instances/squall-{thread}"));
        let mut watching = Watching {
            folder,
            thread,
            sentinels: None,
            other_work: OtherWork::watch(),
        };
        match watching.set_up() {
            Ok(()) => {
                watching.sentinels = Sentinels::shared();
                Some(watching)
            }
            Err(error) => {
                eprintln!("skipped, what kept threads waiting: no events from {TRACING}: {error}");
                None
            }
        }
    }

    fn set_up(&self) -> io::Result<()> {
        remove_orphans()?;
        fs::create_dir(&self.folder)?;
        fs::write(self.folder.join("trace_clock"), "mono")?;
        fs::write(self.folder.join("buffer_size_kb"), BUFFER_KIB)?;
        let ours = r#"~ "squall*""#;
        let switch = format!("prev_comm {ours} || next_comm {ours}");
        for (event, filter) in [
            ("sched/sched_waking", Some(format!("comm {ours}"))),
            ("sched/sched_switch", Some(switch)),
            ("sched/sched_process_fork", None),
            ("sched/sched_stat_runtime", Some(format!("comm {ours}"))),
            ("timer/hrtimer_start", Some(format!("COMM {ours}"))),
            // It runs in the context of whatever it interrupts.
            ("timer/hrtimer_expire_entry", None),
        ] {
            let event = self.folder.join("events").join(event);
            if let Some(filter) = filter {
                fs::write(event.join("filter"), filter)?;
            }
            fs::write(event.join("enable"), "1")?;
        }
        Ok(())
    }

    /// Stops the trace and returns the schedule. `None`, with a notice, if the kernel has lost some events.
    pub(crate) fn end(mut self) -> Option<Schedule> {
        fs::write(self.folder.join("tracing_on"), "0").expect("it was on");
        let gaps = self.sentinels.take().map(|sentinels| sentinels.gaps());
        for stats in fs::read_dir(self.folder.join("per_cpu")).expect("processors") {
            let stats = stats.expect("it can be listed").path().join("stats");
            let stats = fs::read_to_string(stats).expect("what became of the events");
            if !stats.contains("overrun: 0\n") || !stats.contains("dropped events: 0\n") {
                eprintln!("skipped, what kept threads waiting: events were lost: {stats}");
                return None;
            }
        }
        let trace = fs::read(self.folder.join("trace")).expect("the events");
        let mut schedule = Schedule::read(&String::from_utf8_lossy(&trace), self.thread);
        schedule.gaps = gaps.unwrap_or_default();
        schedule.other_work = Some(self.other_work);
        Some(schedule)
    }
}

/// Ends the traces of tests that were killed: each would slow down this machine until it restarts.
fn remove_orphans() -> io::Result<()> {
    for instance in fs::read_dir(Path::new(TRACING).join("instances"))? {
        let instance = instance?;
        let name = instance.file_name().into_string().unwrap_or_default();
        let thread = name.strip_prefix("squall-");
        if thread.is_some_and(|thread| !Path::new("/proc").join(thread).exists()) {
            // Another test may have removed it.
            let _ = fs::remove_dir(instance.path());
        }
    }
    Ok(())
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may never have been created.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Schedule {
    /// How long within a span of CLOCK_MONOTONIC any of the threads with these names was kept waiting.
    pub(crate) fn waited_ns(&self, threads: &[&str], span: &Range<i64>) -> i64 {
        self.covered_ns(threads, &[], span)
    }

    /// Like [`Schedule::waited_ns`], and also counts the time that the first of them ran.
    pub(crate) fn waited_or_ran_ns(&self, threads: &[&str], span: &Range<i64>) -> i64 {
        self.covered_ns(threads, &threads[..1], span)
    }

    /// The time of a span covered by waits and runs; overlaps count once.
    fn covered_ns(&self, waiting: &[&str], running: &[&str], span: &Range<i64>) -> i64 {
        let waits = || waiting.iter().filter_map(|name| self.waits.get(*name));
        let runs = running.iter().filter_map(|name| self.runs.get(*name));
        let is_whole = |wait: &&Wait| wait.waited_ns == wait.span.end - wait.span.start;
        let whole = waits().flatten().filter(is_whole).map(|wait| &wait.span);
        let spans = whole.chain(runs.flatten()).chain(&self.gaps);
        // Few of a trace's 100,000 spans are near, so that sorting them takes no time.
        let mut spans: Vec<_> = spans
            .filter(|part| part.start < span.end && part.end > span.start)
            .collect();
        spans.sort_unstable_by_key(|span| span.start);
        let (mut covered_ns, mut up_to) = (0, span.start);
        for part in spans {
            let (start, end) = (part.start.max(up_to), part.end.min(span.end));
            covered_ns += (end - start).max(0);
            up_to = up_to.max(end);
        }
        let parts = waits().flatten().filter(|wait| !is_whole(wait));
        let overlap = |wait: &Wait| wait.span.end.min(span.end) - wait.span.start.max(span.start);
        let parts_ns: i64 = parts
            .map(|wait| overlap(wait).clamp(0, wait.waited_ns))
            .sum();
        (covered_ns + parts_ns).min(span.end - span.start)
    }

    /// Whether other programs or the hypervisor disturbed the machine since the trace began.
    pub(crate) fn is_beside_other_work(&self) -> bool {
        (self.other_work.as_ref()).is_some_and(OtherWork::disturbs_a_second)
    }

    /// The events of a span, one per line.
    pub(crate) fn tell(&self, span: &Range<i64>) -> String {
        let inside = self.events.iter().filter(|(time, _)| span.contains(time));
        inside.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// Parses a trace, for descendants of this thread.
    fn read(trace: &str, thread: u32) -> Schedule {
        let mut reading = Reading {
            ours: [thread].into(),
            ..Reading::default()
        };
        for line in trace.lines().filter(|line| !line.starts_with('#')) {
            let event = Event::read(line).unwrap_or_else(|| panic!("another form: {line}"));
            reading.take(&event);
            let event = (event.time_ns, line.to_owned());
            reading.schedule.events.push(event);
        }
        reading.schedule
    }

    fn add(&mut self, thread: &str, span: Range<i64>, waited_ns: i64) {
        if waited_ns > 0 {
            let waits = self.waits.entry(thread.to_owned()).or_default();
            waits.push(Wait { span, waited_ns });
        }
    }
}

impl Reading {
    fn take(&mut self, event: &Event<'_>) {
        let number = |name| event.field(name).parse::<i64>().expect("a number");
        let id = |name| u32::try_from(number(name)).expect("a thread's id");
        match event.name {
            "sched_process_fork" if self.ours.contains(&id("pid")) => {
                self.ours.insert(id("child_pid"));
            }
            // A thread that runs or waits is not asleep.
            "sched_waking" if self.ours.contains(&id("pid")) => {
                self.awake.entry(id("pid")).or_insert(Some(event.time_ns));
            }
            "sched_switch" => {
                if self.ours.contains(&id("prev_pid")) {
                    let before = id("prev_pid");
                    if event.field("prev_state").starts_with('R') {
                        self.awake.insert(before, Some(event.time_ns))
                    } else {
                        self.awake.remove(&before)
                    };
                }
                if self.ours.contains(&id("next_pid")) {
                    self.begin(id("next_pid"), event.field("next_comm"), event.time_ns);
                }
            }
            "sched_stat_runtime" if self.ours.contains(&id("pid")) => {
                // Some switches are missing from the trace; a thread with run time had a processor.
                if self.awake.get(&id("pid")) != Some(&None) {
                    let begun_ns = event.time_ns - number("runtime");
                    self.begin(id("pid"), event.field("comm"), begun_ns);
                }
                let since = self.counted.insert(id("pid"), event.time_ns);
                let span = since.unwrap_or(event.time_ns)..event.time_ns;
                let taken_ns = span.end - span.start - number("runtime");
                let (thread, schedule) = (event.field("comm"), &mut self.schedule);
                let runs = schedule.runs.entry(thread.to_owned()).or_default();
                runs.push(span.clone());
                schedule.add(thread, span, taken_ns);
            }
            // Timers of a sleep or a timerfd. A thread's other timers, such as those of its sockets, wake no thread.
            "hrtimer_start"
                if ["hrtimer_wakeup", "timerfd_tmrproc"].contains(&event.field("function"))
                    && self.ours.contains(&event.id) =>
            {
                let timer = (number("expires"), event.thread.to_owned());
                self.timers.insert(event.field("hrtimer").to_owned(), timer);
            }
            "hrtimer_expire_entry" => {
                if let Some((due, thread)) = self.timers.remove(event.field("hrtimer")) {
                    let now = number("now");
                    self.schedule.add(&thread, due..now, now - due);
                }
            }
            _ => {}
        }
    }

    /// Marks a thread as running.
    fn begin(&mut self, thread: u32, name: &str, now_ns: i64) {
        self.counted.insert(thread, now_ns);
        if let Some(since) = self.awake.insert(thread, None).flatten() {
            self.schedule.add(name, since..now_ns, now_ns - since);
        }
    }
}

/// A line such as `squall-link-12 [001] d..2. 1234.567890: sched_switch: prev_comm=squall-link prev_pid=12 ==> ...`.
struct Event<'a> {
    /// The thread that ran.
    thread: &'a str,
    id: u32,
    time_ns: i64,
    name: &'a str,
    fields: &'a str,
}

impl<'a> Event<'a> {
    fn read(line: &'a str) -> Option<Event<'a>> {
        let (head, rest) = line.split_once(" [")?;
        let (thread, id) = head.trim().rsplit_once('-')?;
        let mut parts = rest.splitn(3, ": ");
        let (seconds, micros) = parts.next()?.split_whitespace().last()?.split_once('.')?;
        let (seconds, micros): (i64, i64) = (seconds.parse().ok()?, micros.parse().ok()?);
        Some(Event {
            thread,
            id: id.trim().parse().ok()?,
            time_ns: seconds * 1_000_000_000 + micros * 1_000,
            name: parts.next()?,
            fields: parts.next()?,
        })
    }

    /// The value of the field with this name. Searches for the name, because splitting the fields of hundreds of thousands of
    /// events would take seconds.
    fn field(&self, name: &str) -> &'a str {
        let value = self.fields.match_indices(name).find_map(|(start, _)| {
            let (before, after) = (&self.fields[..start], &self.fields[start + name.len()..]);
            let is_whole = before.is_empty() || before.ends_with(' ');
            let value = after.strip_prefix('=').filter(|_| is_whole)?;
            value.split(' ').next()
        });
        value.unwrap_or_else(|| panic!("no {name} in {}", self.fields))
    }
}

#[test]
fn thread_waits_are_computed_from_trace_events() {
    let trace = "\
# tracer: nop
             e2e-1       [001] d..2.     5.000001: sched_process_fork: comm=e2e pid=1 child_comm=e2e child_pid=7
 squall-client-7       [001] d..2.     5.000010: hrtimer_start: hrtimer=000000001 function=hrtimer_wakeup expires=5000080000 softexpires=5000060000 mode=ABS
    <idle>-0       [001] dN.2.     5.000100: hrtimer_expire_entry: hrtimer=000000001 function=hrtimer_wakeup now=5000090000
    <idle>-0       [001] dN.2.     5.000100: hrtimer_expire_entry: hrtimer=000000002 function=tick_nohz_handler now=5000090000
    <idle>-0       [001] dN.2.     5.000100: sched_waking: comm=squall-client pid=7 prio=98 target_cpu=001
    <idle>-0       [001] d..2.     5.000150: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=squall-client next_pid=7 next_prio=98
 squall-client-7       [001] d..2.     5.000400: sched_stat_runtime: comm=squall-client pid=7 runtime=200000 [ns]
 squall-client-7       [001] d..2.     5.000400: sched_switch: prev_comm=squall-client prev_pid=7 prev_prio=98 prev_state=R+ ==> next_comm=squall-link next_pid=8 next_prio=97
   squall-link-8       [001] d..2.     5.000900: sched_switch: prev_comm=squall-link prev_pid=8 prev_prio=97 prev_state=S ==> next_comm=squall-client next_pid=7 next_prio=98
 squall-client-7       [001] d..2.     5.000990: hrtimer_start: hrtimer=000000003 function=timerfd_tmrproc expires=5001100000 softexpires=5001100000 mode=ABS was_armed=0
 squall-client-7       [001] d..2.     5.001000: sched_switch: prev_comm=squall-client prev_pid=7 prev_prio=98 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
    <idle>-0       [001] d.h..     5.001300: hrtimer_expire_entry: hrtimer=000000003 function=timerfd_tmrproc now=5001300000
    <idle>-0       [001] dN.2.     5.001310: sched_waking: comm=squall-client pid=7 prio=98 target_cpu=001
 squall-client-7       [001] d..2.     5.001500: sched_stat_runtime: comm=squall-client pid=7 runtime=100000 [ns]
 squall-client-7       [001] d..2.     5.001500: sched_switch: prev_comm=squall-client prev_pid=7 prev_prio=98 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    let schedule = Schedule::read(trace, 1);
    let at = |micros: i64| 5_000_000_000 + micros * 1_000;
    let client = |from, to| schedule.waited_ns(&["squall-client"], &(at(from)..at(to)));
    // The timer was 10 us late, then the wait for the processor took 50. Of the next 250 us the client ran 200, then
    // another thread ran for 500. The timerfd was 200 us late, and then the client ran for 100 after waiting 90 for the
    // processor.
    assert_eq!(client(0, 1_050), 610_000);
    assert_eq!(client(0, 1_305), 810_000);
    assert_eq!(client(0, 2_000), 900_000);
    assert_eq!(client(120, 140), 20_000);
    assert_eq!(client(120, 500), 180_000);
    let awake = schedule.waited_or_ran_ns(&["squall-client"], &(at(100)..at(1_000)));
    assert_eq!(awake, 850_000);
    // It is not a descendant of thread 1.
    assert!(!schedule.waits.contains_key("squall-link"));
}
