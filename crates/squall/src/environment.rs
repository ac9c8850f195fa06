//! environment.json: the machine on which a run was made, as far as it can matter to its numbers.

use std::fs;

use serde::{Deserialize, Serialize};

/// What stands in environment.json; `None` where the machine does not say.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    squall: String,
    kernel: Option<String>,
    processor: Option<String>,
    processors: usize,
    memory_kib: Option<u64>,
    clock_source: Option<String>,
    congestion_controls_available: Option<String>,
    hypervisor: bool,
}

impl Environment {
    /// Reads it from this machine.
    pub(crate) fn read() -> Environment {
        let line_of = |path: &str| {
            fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Environment {
            squall: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: line_of("/proc/version"),
            processor: field(&cpu, "model name").map(str::to_owned),
            processors: squall_linux::scheduling::processors(),
            memory_kib: field(&memory, "MemTotal")
                .and_then(|value| value.split_whitespace().next()?.parse().ok()),
            clock_source: line_of(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            congestion_controls_available: line_of(
                "/proc/sys/net/ipv4/tcp_available_congestion_control",
            ),
            hypervisor: field(&cpu, "flags")
                .is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
        }
    }
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}
