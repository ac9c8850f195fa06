//! Judges processors and time: how many processors there are, how steady they are, what else uses them, and how late a
//! thread wakes up. Each threshold names its source.

use std::io;

use squall_base::record::Lateness;
use squall_linux::SetupError;
use squall_linux::machine::{Frequency, Processor, ProcessorTimes};
use squall_linux::probe::WakeUps;

use super::check::Check;
use crate::awake::STEAL_PERCENT_AT_MOST;
use crate::link::health::LATENESS_P99_AT_MOST;

/// One for the link, one for the stations: on a single processor they would wait for each other.
const PROCESSORS_NEEDED: usize = 2;
/// The share of time in which some task waited. Above 5 %, waiting also shows in the p95 that squall reports.
const PRESSURE_PERCENT_AT_MOST: f64 = 5.0;
/// Reading one of these leaves the vDSO and takes a microsecond or more; squall reads the clock for each packet.
const SLOW_CLOCK_SOURCES: [&str; 5] = ["hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"];

/// The processors that this process may use.
pub(super) fn processors(
    usable: usize,
    processor: &Processor,
    shared_cores: Option<bool>,
) -> Check {
    const NAME: &str = "processors";
    let model = processor.model.as_deref().unwrap_or("unknown model");
    let cores = match shared_cores {
        Some(true) => ", which share cores (SMT on)",
        Some(false) => ", SMT off",
        None => "",
    };
    let found = format!("{usable} usable, {model}{cores}");
    if usable >= PROCESSORS_NEEDED {
        return Check::ok(NAME, found);
    }
    Check::limited(
        NAME,
        found,
        "Give squall 2 or more: `taskset -c 0-1 squall doctor`, in a container --cpus 2, or a virtual machine with \
         2 processors",
    )
}

/// Whether processors keep their frequency. If it changes, the same work takes varying time.
pub(super) fn frequency(
    frequencies: &[Frequency],
    boost: Option<bool>,
    processor: &Processor,
) -> Check {
    const NAME: &str = "frequency";
    let boost = match boost {
        Some(true) => ", boost on",
        Some(false) => ", boost off",
        None => "",
    };
    if frequencies.is_empty() {
        let why = if processor.is_virtual {
            " (the hypervisor decides)"
        } else {
            ""
        };
        return Check::ok(NAME, format!("not visible{why}{boost}"));
    }
    let mut governors: Vec<&str> = frequencies
        .iter()
        .filter_map(|frequency| frequency.governor.as_deref())
        .collect();
    governors.sort_unstable();
    governors.dedup();
    let lowest = frequencies.iter().filter_map(|f| f.min_khz).min();
    let highest = frequencies.iter().filter_map(|f| f.max_khz).max();
    let range = match (lowest, highest) {
        (Some(low), Some(high)) if low == high => format!(", {} fixed", gigahertz(low)),
        (Some(low), Some(high)) => format!(", {} to {}", gigahertz(low), gigahertz(high)),
        _ => ", range not visible".to_owned(),
    };
    let found = format!("governor {}{range}{boost}", governors.join(" and "));
    let is_steady = governors.iter().all(|governor| *governor == "performance");
    if is_steady && lowest == highest {
        return Check::ok(NAME, found);
    }
    let fixed = highest.map_or(String::new(), |khz| format!(" -d {khz} -u {khz}"));
    Check::limited(
        NAME,
        found,
        format!("Set a fixed frequency: `sudo cpupower frequency-set -g performance{fixed}`"),
    )
}

fn gigahertz(khz: u64) -> String {
    format!("{:.2} GHz", khz as f64 / 1e6)
}

/// Which clock source the kernel uses.
pub(super) fn clock_source(current: Option<&str>, available: Option<&str>) -> Check {
    const NAME: &str = "clock source";
    let Some(current) = current else {
        return Check::ok(NAME, "not visible");
    };
    if !SLOW_CLOCK_SOURCES.contains(&current) {
        return Check::ok(NAME, current);
    }
    let fast = available
        .unwrap_or_default()
        .split_whitespace()
        .find(|source| !SLOW_CLOCK_SOURCES.contains(source));
    let advice = match fast {
        Some(fast) => format!(
            "Use {fast}: `echo {fast} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource`"
        ),
        None => "The kernel trusts no faster one here: `sudo dmesg | grep -i clocksource` shows why; if it is wrong, boot with \
                 tsc=reliable"
            .to_owned(),
    };
    Check::limited(NAME, format!("{current}, which is slow to read"), advice)
}

/// Whether idle processors can be kept awake; `refused` is the reason if not.
pub(super) fn sleep(refused: Option<&io::Error>) -> Check {
    const NAME: &str = "sleep of processors";
    let Some(refused) = refused else {
        return Check::ok(NAME, "idle ones can be kept awake (--idle-processors)");
    };
    let advice = match refused.kind() {
        io::ErrorKind::PermissionDenied => {
            "Allow yourself to write to it: `sudo setfacl -m u:$USER:w /dev/cpu_dma_latency` (until the next boot), run squall \
             as root, or give its container `--device /dev/cpu_dma_latency`"
        }
        io::ErrorKind::NotFound => {
            "Give its container `--device /dev/cpu_dma_latency`; a kernel without CONFIG_PM does not have it"
        }
        _ => {
            "In a virtual machine, `idle=poll` on the kernel command line keeps them awake permanently"
        }
    };
    let found = format!("idle ones sleep, and wake up late: /dev/cpu_dma_latency: {refused}");
    Check::limited(NAME, found, advice)
}

/// How late a thread like the link's wakes up.
pub(super) fn wake_ups(measured: Result<WakeUps, SetupError>) -> Check {
    const NAME: &str = "wake-ups";
    match measured {
        Ok(measured) => judge_lateness(NAME, &measured.lateness),
        Err(error) => Check::limited(NAME, error.to_string(), "Try again: `squall doctor`"),
    }
}

fn judge_lateness(name: &'static str, late: &Lateness) -> Check {
    let micros = |duration: squall_base::Duration| duration.as_nanos() / 1_000;
    let found = format!(
        "{} sleeps of 1 ms ended late by p50 {} us, p99 {} us",
        late.count,
        micros(late.p50),
        micros(late.p99)
    );
    if late.p99 <= LATENESS_P99_AT_MOST {
        return Check::ok(name, found);
    }
    Check::limited(
        name,
        found,
        "End other work (`ps -eo pid,pcpu,comm --sort=-pcpu | head`), allow real-time scheduling, fix the frequency, \
         and try again: `squall doctor`",
    )
}

/// How much time the hypervisor gave to others while processors of this machine had work.
pub(super) fn steal(
    watched: Option<ProcessorTimes>,
    since_start: Option<ProcessorTimes>,
    processor: &Processor,
) -> Check {
    const NAME: &str = "steal time";
    let machine = if processor.is_virtual {
        "virtual machine"
    } else {
        "no hypervisor seen"
    };
    let (Some(watched), Some(since_start)) = (watched, since_start) else {
        return Check::ok(NAME, format!("{machine}; not visible"));
    };
    // As a share of all time, because the machine may have had almost no work just now. A single tick is too little to
    // judge by.
    let now = percent(watched.steal, watched.busy + watched.idle + watched.steal);
    let before = percent(since_start.steal, since_start.busy + since_start.steal);
    let found = format!(
        "{machine}; stolen {now:.1} % of the time just now, {before:.1} % of the busy time since it started"
    );
    let is_disturbed = now > STEAL_PERCENT_AT_MOST && watched.steal > 1;
    if !is_disturbed && before <= STEAL_PERCENT_AT_MOST {
        return Check::ok(NAME, found);
    }
    Check::limited(
        NAME,
        found,
        "Only the host can fix this, by giving this machine dedicated processors (`virsh vcpupin`, or an instance type that \
         has them). On a busy host, squall keeps processors awake while it measures, if permitted, so that fewer trials are \
         disturbed. Watch it with `vmstat 1` (st)",
    )
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// The load that other programs put on the processors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Other tasks that are running or runnable.
    pub(super) runnable_others: Option<u64>,
    /// The share of the last 10 s in which some task waited for a processor.
    pub(super) pressure_percent: Option<f64>,
}

/// Whether other programs leave a processor free.
pub(super) fn load(load: &Load, processors: usize) -> Check {
    const NAME: &str = "load by others";
    let runnable = load.runnable_others;
    let tasks = runnable.map_or("runnable tasks not visible".to_owned(), |tasks| {
        format!("{tasks} other tasks are running or runnable")
    });
    let waited = load
        .pressure_percent
        .map_or("waiting not visible".to_owned(), |share| {
            format!("some task waited for a processor in {share:.1} % of the last 10 s")
        });
    let found = format!("{tasks}; {waited}");
    let is_full = runnable.is_some_and(|tasks| tasks >= processors as u64);
    let is_waiting = load
        .pressure_percent
        .is_some_and(|share| share > PRESSURE_PERCENT_AT_MOST);
    if !is_full && !is_waiting {
        return Check::ok(NAME, found);
    }
    Check::limited(
        NAME,
        found,
        "End the other work, or wait for it; see it with `ps -eo pid,pcpu,comm --sort=-pcpu | head`",
    )
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;

    use super::super::check::State;
    use super::*;

    const VIRTUAL: Processor = Processor {
        model: None,
        is_virtual: true,
    };

    fn scaled(governor: &str, min_khz: u64, max_khz: u64) -> Frequency {
        Frequency {
            governor: Some(governor.to_owned()),
            min_khz: Some(min_khz),
            max_khz: Some(max_khz),
        }
    }

    #[test]
    fn single_processor_is_a_limit() {
        assert_eq!(processors(2, &VIRTUAL, Some(false)).state, State::Ok);
        let alone = processors(1, &VIRTUAL, None);
        assert_eq!(alone.state, State::Limited);
        assert!(alone.found.starts_with("1 usable"), "{}", alone.found);
    }

    #[test]
    fn only_a_fixed_frequency_is_steady() {
        let judge = |frequencies: &[Frequency]| frequency(frequencies, Some(true), &VIRTUAL);
        assert_eq!(judge(&[]).state, State::Ok);
        assert!(judge(&[]).found.contains("not visible"));
        let fixed = scaled("performance", 3_600_000, 3_600_000);
        let steady = judge(&[fixed.clone(), fixed.clone()]);
        assert_eq!(steady.state, State::Ok);
        assert_eq!(
            steady.found,
            "governor performance, 3.60 GHz fixed, boost on"
        );
        for unsteady in [
            scaled("powersave", 3_600_000, 3_600_000),
            scaled("schedutil", 800_000, 3_600_000),
            scaled("performance", 800_000, 3_600_000),
        ] {
            let check = judge(&[fixed.clone(), unsteady]);
            assert_eq!(check.state, State::Limited, "{}", check.found);
            let advice = check.advice.unwrap_or_default();
            assert!(
                advice.contains("cpupower frequency-set -g performance -d 3600000"),
                "{advice}"
            );
        }
    }

    #[test]
    fn slow_clock_sources_are_a_limit() {
        for fast in ["tsc", "kvm-clock", "arch_sys_counter"] {
            assert_eq!(clock_source(Some(fast), None).state, State::Ok);
        }
        let slow = clock_source(Some("hpet"), Some("hpet acpi_pm"));
        assert_eq!(slow.state, State::Limited);
        let mendable = clock_source(Some("acpi_pm"), Some("acpi_pm tsc"));
        assert!(
            mendable
                .advice
                .is_some_and(|advice| advice.contains("echo tsc"))
        );
        assert_eq!(clock_source(None, None).state, State::Ok);
    }

    #[test]
    fn processors_that_may_sleep_are_a_limit() {
        assert_eq!(sleep(None).state, State::Ok);
        for (kind, word) in [
            (io::ErrorKind::PermissionDenied, "setfacl"),
            (io::ErrorKind::NotFound, "--device"),
            (io::ErrorKind::Unsupported, "idle=poll"),
        ] {
            let limited = sleep(Some(&io::Error::from(kind)));
            assert_eq!(limited.state, State::Limited);
            let advice = limited.advice.unwrap_or_default();
            assert!(advice.contains(word), "{advice}");
        }
    }

    #[test]
    fn late_wake_ups_are_a_limit() {
        let late = |p99| Lateness {
            count: 200,
            p50: Duration::from_micros(60),
            p99: Duration::from_micros(p99),
            ..Lateness::default()
        };
        let good = judge_lateness("wake-ups", &late(200));
        assert_eq!(good.state, State::Ok);
        assert!(
            good.found.ends_with("p50 60 us, p99 200 us"),
            "{}",
            good.found
        );
        assert_eq!(judge_lateness("wake-ups", &late(201)).state, State::Limited);
    }

    #[test]
    fn recent_and_earlier_steal_time_are_limits() {
        let times = |busy, idle, steal| Some(ProcessorTimes { busy, idle, steal });
        let state = |watched, since_start| steal(watched, since_start, &VIRTUAL).state;
        assert_eq!(state(times(10, 90, 0), times(1_000, 9_000, 10)), State::Ok);
        // A single counted tick may stand for only a fraction of 10 ms.
        assert_eq!(state(times(1, 48, 1), times(1_000, 9_000, 0)), State::Ok);
        assert_eq!(
            state(times(10, 88, 2), times(1_000, 9_000, 0)),
            State::Limited
        );
        assert_eq!(
            state(times(10, 90, 0), times(1_000, 9_000, 20)),
            State::Limited
        );
        assert_eq!(state(times(0, 0, 0), times(0, 0, 0)), State::Ok);
        assert_eq!(state(None, None), State::Ok);
    }

    #[test]
    fn processors_filled_by_other_programs_are_a_limit() {
        let state = |runnable_others, pressure_percent| {
            let found = Load {
                runnable_others,
                pressure_percent,
            };
            load(&found, 2).state
        };
        assert_eq!(state(Some(1), Some(5.0)), State::Ok);
        assert_eq!(state(Some(2), Some(0.0)), State::Limited);
        assert_eq!(state(Some(0), Some(5.1)), State::Limited);
        assert_eq!(state(None, None), State::Ok);
    }
}
