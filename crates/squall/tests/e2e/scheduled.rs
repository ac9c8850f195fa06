//! When squall's threads had a processor, and when they were kept waiting: for a processor, or for a timer that the kernel
//! ran late, as on a virtual machine whose own processor was taken away. The kernel says so in `sched_waking`,
//! `sched_switch`, `hrtimer_start` and `hrtimer_expire_entry` (Documentation/trace/events.rst), in a trace of its own
//! beside any other, by CLOCK_MONOTONIC. It needs root and tracefs. What is held against it is `observed`'s. The test
//! program of the peers includes this file too.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const TRACING: &str = "/sys/kernel/tracing";
/// Of each processor: some 400,000 events of 80 bytes, far more than a test makes.
const BUFFER_KIB: &str = "32768";

/// The scheduler's events are being written down.
pub(crate) struct Watching {
    folder: PathBuf,
}

/// When threads were kept waiting, by their names.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    waits: BTreeMap<String, Vec<Range<i64>>>,
}

/// What is known of threads and timers up to an event.
#[derive(Default)]
struct Reading {
    schedule: Schedule,
    /// Since when a thread wants a processor and has none; `None` while it has one. Who is not here sleeps.
    awake: BTreeMap<u32, Option<i64>>,
    /// When a timer is due, and whose it is.
    timers: BTreeMap<String, (i64, String)>,
}

impl Watching {
    /// From now on; `None`, said loudly, where the kernel does not show it, and a failure where every test must run.
    pub(crate) fn start() -> Option<Watching> {
        let folder = Path::new(TRACING).join(format!("instances/squall-{}", std::process::id()));
        let watching = Watching { folder };
        match watching.set_up() {
            Ok(()) => Some(watching),
            Err(error) => {
                let said = format!("the scheduler's events cannot be had from {TRACING}: {error}");
                assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
                eprintln!("{said}");
                None
            }
        }
    }

    fn set_up(&self) -> io::Result<()> {
        fs::create_dir(&self.folder)?;
        fs::write(self.folder.join("trace_clock"), "mono")?;
        fs::write(self.folder.join("buffer_size_kb"), BUFFER_KIB)?;
        let ours = r#"~ "squall*""#;
        let switch = format!("prev_comm {ours} || next_comm {ours}");
        for (event, filter) in [
            ("sched/sched_waking", Some(format!("comm {ours}"))),
            ("sched/sched_switch", Some(switch)),
            ("timer/hrtimer_start", Some(format!("COMM {ours}"))),
            // It runs in whatever it interrupts.
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

    /// What there was.
    pub(crate) fn end(self) -> Schedule {
        fs::write(self.folder.join("tracing_on"), "0").expect("it was on");
        for stats in fs::read_dir(self.folder.join("per_cpu")).expect("processors") {
            let stats = stats.expect("it can be listed").path().join("stats");
            let stats = fs::read_to_string(stats).expect("what became of the events");
            assert!(
                stats.contains("overrun: 0\n") && stats.contains("dropped events: 0\n"),
                "{stats}"
            );
        }
        let trace = fs::read(self.folder.join("trace")).expect("the events");
        Schedule::read(&String::from_utf8_lossy(&trace))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Schedule {
    /// How long, of a span of CLOCK_MONOTONIC, a thread of this name was kept waiting.
    pub(crate) fn waited_ns(&self, thread: &str, span: &Range<i64>) -> i64 {
        let waits = self.waits.get(thread).into_iter().flatten();
        waits
            .map(|wait| (wait.end.min(span.end) - wait.start.max(span.start)).max(0))
            .sum()
    }

    fn read(trace: &str) -> Schedule {
        let mut reading = Reading::default();
        for line in trace.lines().filter(|line| !line.starts_with('#')) {
            let event = Event::read(line).unwrap_or_else(|| panic!("another form: {line}"));
            reading.take(&event);
        }
        reading.schedule
    }

    fn add(&mut self, thread: &str, wait: Range<i64>) {
        let waits = self.waits.entry(thread.to_owned()).or_default();
        // A thread can wait for a processor while its timer is late.
        let start = waits
            .last()
            .map_or(wait.start, |last| wait.start.max(last.end));
        if start < wait.end {
            waits.push(start..wait.end);
        }
    }
}

impl Reading {
    fn take(&mut self, event: &Event<'_>) {
        let number = |name| event.field(name).parse::<i64>().expect("a number");
        let id = |name| u32::try_from(number(name)).expect("a thread's id");
        match event.name {
            // Who runs or waits is not asleep.
            "sched_waking" => {
                self.awake.entry(id("pid")).or_insert(Some(event.time_ns));
            }
            "sched_switch" => {
                let before = id("prev_pid");
                match event.field("prev_state").starts_with('R') {
                    true => self.awake.insert(before, Some(event.time_ns)),
                    false => self.awake.remove(&before),
                };
                let since = self.awake.insert(id("next_pid"), None).flatten();
                if let Some(since) = since {
                    let thread = event.field("next_comm");
                    self.schedule.add(thread, since..event.time_ns);
                }
            }
            // Other timers of a thread wake nobody, such as those of its sockets.
            "hrtimer_start" if event.field("function") == "hrtimer_wakeup" => {
                let timer = (number("expires"), event.thread.to_owned());
                self.timers.insert(event.field("hrtimer").to_owned(), timer);
            }
            "hrtimer_start" => {}
            _ => {
                if let Some((due, thread)) = self.timers.remove(event.field("hrtimer")) {
                    self.schedule.add(&thread, due..number("now"));
                }
            }
        }
    }
}

/// A line such as `squall-link-12 [001] d..2. 1234.567890: sched_switch: prev_comm=squall-link prev_pid=12 ==> ...`.
struct Event<'a> {
    /// Who ran.
    thread: &'a str,
    time_ns: i64,
    name: &'a str,
    fields: &'a str,
}

impl<'a> Event<'a> {
    fn read(line: &'a str) -> Option<Event<'a>> {
        let (head, rest) = line.split_once(" [")?;
        let (thread, _) = head.trim().rsplit_once('-')?;
        let mut parts = rest.splitn(3, ": ");
        let (seconds, micros) = parts.next()?.split_whitespace().last()?.split_once('.')?;
        let (seconds, micros): (i64, i64) = (seconds.parse().ok()?, micros.parse().ok()?);
        Some(Event {
            thread,
            time_ns: seconds * 1_000_000_000 + micros * 1_000,
            name: parts.next()?,
            fields: parts.next()?,
        })
    }

    fn field(&self, name: &str) -> &'a str {
        let mut fields = self.fields.split_whitespace();
        let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.fields))
    }
}

#[test]
fn waits_of_threads_are_read_from_events() {
    let trace = "\
# tracer: nop
 squall-client-7       [001] d..2.     5.000010: hrtimer_start: hrtimer=000000001 function=hrtimer_wakeup expires=5000080000 softexpires=5000060000 mode=ABS
    <idle>-0       [001] dN.2.     5.000100: hrtimer_expire_entry: hrtimer=000000001 function=hrtimer_wakeup now=5000090000
    <idle>-0       [001] dN.2.     5.000100: hrtimer_expire_entry: hrtimer=000000002 function=tick_nohz_handler now=5000090000
    <idle>-0       [001] dN.2.     5.000100: sched_waking: comm=squall-client pid=7 prio=98 target_cpu=001
    <idle>-0       [001] d..2.     5.000150: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=squall-client next_pid=7 next_prio=98
 squall-client-7       [001] d..2.     5.000400: sched_switch: prev_comm=squall-client prev_pid=7 prev_prio=98 prev_state=R+ ==> next_comm=squall-link next_pid=8 next_prio=97
   squall-link-8       [001] d..2.     5.000900: sched_switch: prev_comm=squall-link prev_pid=8 prev_prio=97 prev_state=S ==> next_comm=squall-client next_pid=7 next_prio=98
 squall-client-7       [001] d..2.     5.001000: sched_switch: prev_comm=squall-client prev_pid=7 prev_prio=98 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    let schedule = Schedule::read(trace);
    let at = |micros: i64| 5_000_000_000 + micros * 1_000;
    let client = |from, to| schedule.waited_ns("squall-client", &(at(from)..at(to)));
    // The timer was 30 us late, the processor then 50; later another thread had it for 500.
    assert_eq!(client(0, 2_000), 580_000);
    assert_eq!(client(120, 500), 130_000);
    assert_eq!(schedule.waited_ns("squall-link", &(at(0)..at(2_000))), 0);
}
