//! Keeps processors awake while something is measured.
//!
//! An idle processor sleeps, and its wake-up time is part of every measured time; the kernel counts the end of the wake-up as
//! work of the woken thread (benches/RESULTS.md has figures). This module chooses neither how processors sleep nor how fast
//! they run: that is up to the administrator (`squall doctor` checks it).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The longest permitted wake-up time, in microseconds. The strictest request of all openers counts, and closing the file
/// withdraws the request (Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service").
const LATENCY_REQUEST: &str = "/dev/cpu_dma_latency";

/// The first idle state. `POLL` is the only one without sleep. Without it, or without a driver that chooses between several
/// states, the kernel ignores the request.
const FIRST_STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";
const WITHOUT_SLEEP: &str = "POLL";

/// While it exists, idle processors of this machine wait for work without sleeping.
#[derive(Debug)]
pub struct SleepInhibitor {
    _request: File,
}

impl SleepInhibitor {
    /// Keeps all processors awake. The caller must be able to write /dev/cpu_dma_latency, which usually takes root. Returns
    /// `Unsupported` if this kernel has no idle state without sleep.
    pub fn acquire() -> io::Result<SleepInhibitor> {
        check_polling_state(Path::new(FIRST_STATE))?;
        request_at(Path::new(LATENCY_REQUEST))
    }
}

fn check_polling_state(first_state: &Path) -> io::Result<()> {
    let name = fs::read_to_string(first_state).unwrap_or_default();
    if name.trim_end() == WITHOUT_SLEEP {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{} does not say {WITHOUT_SLEEP}", first_state.display()),
        ))
    }
}

fn request_at(device: &Path) -> io::Result<SleepInhibitor> {
    let mut request = OpenOptions::new().write(true).open(device)?;
    request.write_all(&0_i32.to_ne_bytes())?;
    Ok(SleepInhibitor { _request: request })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_latency_request_is_a_four_byte_zero() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let device = format!("/proc/self/fd/{}", writer.as_raw_fd());
        drop(request_at(Path::new(&device)).expect("it can be written"));
        drop(writer);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).expect("it can be read");
        assert_eq!(written, [0; 4]);
    }

    #[test]
    fn without_a_polling_idle_state_processors_cannot_be_kept_awake() {
        let state = |name: &str| {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            writer.write_all(name.as_bytes()).expect("room");
            drop(writer);
            let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
            check_polling_state(Path::new(&path))
        };
        state("POLL\n").expect("this one need not sleep");
        for name in ["WFI\n", ""] {
            let error = state(name).expect_err("it sleeps");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        assert!(check_polling_state(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_missing_device_is_reported_as_not_found() {
        let error = request_at(Path::new("/nonexistent")).expect_err("nothing is there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
