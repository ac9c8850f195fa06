//! What this machine is and how busy it is, as /proc and /sys report it: facts without a verdict.
//!
//! Anything a machine does not report is `None`: containers and virtual machines hide much of it. Parsers take text, so
//! that text from other machines can be tested. What the kernel *permits* a process cannot be read, only tried: see
//! `probe`. What all of this means for squall is up to `squall doctor`.

use std::fs;

use crate::scheduling::usable_processors;

/// The kernel's release, such as `6.12.0-1-amd64`.
pub fn kernel_release() -> Option<String> {
    line_of("/proc/sys/kernel/osrelease")
}

/// The kernel's release with its build: /proc/version.
pub fn kernel_version() -> Option<String> {
    line_of("/proc/version")
}

/// The kernel's current clock source.
pub fn clock_source() -> Option<String> {
    line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The clock sources that it could use, separated by spaces.
pub fn clock_sources_available() -> Option<String> {
    line_of("/sys/devices/system/clocksource/clocksource0/available_clocksource")
}

/// The TCP congestion controls that are compiled in or loaded, separated by spaces.
pub fn congestion_controls_available() -> Option<String> {
    line_of("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// The first processor in /proc/cpuinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Its name; not reported on Arm.
    pub model: Option<String>,
    /// Whether it reports being virtual (x86 only).
    pub is_virtual: bool,
}

impl Processor {
    /// Reads /proc/cpuinfo.
    pub fn read() -> Processor {
        Processor::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// Parses the text of /proc/cpuinfo.
    pub fn parse(cpuinfo: &str) -> Processor {
        Processor {
            model: field(cpuinfo, "model name").map(str::to_owned),
            is_virtual: field(cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

/// The machine's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Total memory, in KiB.
    pub total_kib: Option<u64>,
    /// Memory available to programs without swapping, in KiB.
    pub available_kib: Option<u64>,
}

impl Memory {
    /// Reads /proc/meminfo.
    pub fn read() -> Memory {
        Memory::parse(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    /// Parses the text of /proc/meminfo.
    pub fn parse(meminfo: &str) -> Memory {
        let kib = |name| {
            field(meminfo, name).and_then(|value| value.split_whitespace().next()?.parse().ok())
        };
        Memory {
            total_kib: kib("MemTotal"),
            available_kib: kib("MemAvailable"),
        }
    }
}

/// How all processors together spent their time, in ticks (10 ms on most machines).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// Working, which includes running guests of this machine.
    pub busy: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// Ready to work while the hypervisor ran something else.
    pub steal: u64,
}

impl ProcessorTimes {
    /// The times since boot.
    pub fn read() -> Option<ProcessorTimes> {
        ProcessorTimes::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the text of /proc/stat. Its line `cpu` is: user, nice, system, idle, iowait, irq, softirq, steal. Guest times
    /// follow; user and nice already include them (proc(5)).
    pub fn parse(stat: &str) -> Option<ProcessorTimes> {
        let ticks = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = ticks
            .split_whitespace()
            .map(|count| count.parse().ok())
            .collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
            return None;
        };
        Some(ProcessorTimes {
            busy: user + nice + system + irq + softirq,
            idle: idle + iowait,
            steal,
        })
    }

    /// The time spent since `earlier`.
    pub fn since(self, earlier: ProcessorTimes) -> ProcessorTimes {
        // A virtual machine that has migrated to another host may count backwards.
        ProcessorTimes {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// Runnable tasks on the whole machine, the caller included: /proc/loadavg.
pub fn runnable_tasks() -> Option<u64> {
    parse_runnable_tasks(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_runnable_tasks(loadavg: &str) -> Option<u64> {
    let (runnable, _) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

/// The load averages of the last minute, five minutes and fifteen minutes, as in `0.06 0.16 0.29`: /proc/loadavg.
pub fn load_averages() -> Option<String> {
    parse_load_averages(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_load_averages(loadavg: &str) -> Option<String> {
    let fields: Vec<&str> = loadavg.split_whitespace().collect();
    Some(fields.get(..3)?.join(" "))
}

/// The percentage of the last 10 s in which some task waited for a processor: /proc/pressure/cpu.
pub fn processor_pressure_percent() -> Option<f64> {
    parse_pressure(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse_pressure(pressure: &str) -> Option<f64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace()
        .find_map(|part| part.strip_prefix("avg10="))?
        .parse()
        .ok()
}

/// How a processor's frequency is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequency {
    /// The governor, such as `performance` or `schedutil`.
    pub governor: Option<String>,
    /// The lowest frequency that it may choose, in kHz.
    pub min_khz: Option<u64>,
    /// The highest frequency that it may choose, in kHz.
    pub max_khz: Option<u64>,
}

/// The frequency settings of the processors that this process may use, in order. Empty where the machine hides them, as
/// virtual machines do.
pub fn frequencies() -> Vec<Frequency> {
    let frequency = |processor: usize| {
        let value = |name: &str| {
            line_of(&format!(
                "/sys/devices/system/cpu/cpu{processor}/cpufreq/{name}"
            ))
        };
        let khz = |name| value(name).and_then(|text| text.parse().ok());
        Frequency {
            governor: value("scaling_governor"),
            min_khz: khz("scaling_min_freq"),
            max_khz: khz("scaling_max_freq"),
        }
    };
    let processors = usable_processors().unwrap_or_default().into_iter();
    processors
        .map(frequency)
        .filter(|found| *found != Frequency::default())
        .collect()
}

/// Whether processors may run faster than their nominal frequency while heat and power allow it.
pub fn boost() -> Option<bool> {
    let no_turbo = line_of("/sys/devices/system/cpu/intel_pstate/no_turbo");
    let boost = line_of("/sys/devices/system/cpu/cpufreq/boost");
    match (no_turbo, boost) {
        (Some(no_turbo), _) => Some(no_turbo == "0"),
        (None, boost) => boost.map(|boost| boost == "1"),
    }
}

/// Whether processors share cores (SMT, "hyper-threading").
pub fn shared_cores() -> Option<bool> {
    line_of("/sys/devices/system/cpu/smt/active").map(|active| active == "1")
}

/// The content of a one-line file, without the line end.
fn line_of(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// The value of the first line `name: value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_with_and_without_a_hypervisor() {
        let virtual_one = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor lahf_lm\n\n\
                           processor\t: 1\nmodel name\t: other\n";
        assert_eq!(
            Processor::parse(virtual_one),
            Processor {
                model: Some("AMD EPYC".to_owned()),
                is_virtual: true
            }
        );
        let arm = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n";
        assert_eq!(Processor::parse(arm), Processor::default());
    }

    #[test]
    fn memory_is_read() {
        let meminfo = "MemTotal:        8129204 kB\nMemFree:  1 kB\nMemAvailable:    7012345 kB\n";
        let memory = Memory::parse(meminfo);
        assert_eq!(memory.total_kib, Some(8_129_204));
        assert_eq!(memory.available_kib, Some(7_012_345));
        assert_eq!(Memory::parse("MemTotal: much\n"), Memory::default());
    }

    #[test]
    fn guest_time_is_not_counted_twice() {
        let stat = "cpu  56881 7 11049 190901 1053 3 112 58 40 2\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let times = ProcessorTimes::parse(stat).expect("a line of processor times");
        assert_eq!(times.busy, 56_881 + 7 + 11_049 + 3 + 112);
        assert_eq!((times.idle, times.steal), (191_954, 58));
        let none = times.since(times);
        assert_eq!((none.busy, none.idle, none.steal), (0, 0, 0));
        for broken in ["", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 x\n", "cpu0 1 2\n"] {
            assert_eq!(ProcessorTimes::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn runnable_tasks_load_averages_and_pressure_are_read() {
        assert_eq!(parse_runnable_tasks("0.06 0.16 0.29 3/85 13902\n"), Some(3));
        assert_eq!(parse_runnable_tasks("0.06 0.16\n"), None);
        let averages = parse_load_averages("0.06 0.16 0.29 3/85 13902\n");
        assert_eq!(averages.as_deref(), Some("0.06 0.16 0.29"));
        assert_eq!(parse_load_averages("0.06 0.16\n"), None);
        let pressure =
            "some avg10=1.25 avg60=0.53 avg300=0.66 total=32611975\nfull avg10=0.00 avg60=0.00\n";
        assert_eq!(parse_pressure(pressure), Some(1.25));
        assert_eq!(parse_pressure("full avg10=0.00\n"), None);
    }

    #[test]
    fn this_machine_has_a_kernel_a_processor_and_times() {
        assert!(kernel_release().is_some_and(|release| release.contains('.')));
        assert!(usable_processors().is_ok_and(|usable| !usable.is_empty()));
        assert!(ProcessorTimes::read().is_some_and(|times| times.busy > 0));
    }
}
