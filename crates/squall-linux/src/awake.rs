//! Processors that do not fall asleep while something is measured.
//!
//! An idle processor sleeps, and what it takes to wake up is in every time that is measured; the kernel counts the end of
//! it as work of whom it woke (docs/METHOD.md has figures). It does not choose how processors sleep, nor how fast they
//! run: that is the administrator's (`squall doctor` looks at it).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// How long a processor may take to wake up, in microseconds; the strictest of all who have it open counts, and
/// closing it takes the wish back (Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service").
const LATENCY_WISH: &str = "/dev/cpu_dma_latency";

/// The first of the ways in which an idle processor may wait. `POLL` is the only one without sleep, and without it, or
/// without a driver that chooses between several, the kernel does not heed the wish.
const FIRST_STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";
const WITHOUT_SLEEP: &str = "POLL";

/// While it lives, idle processors of this machine wait for work without sleeping.
#[derive(Debug)]
pub struct Awake {
    _wish: File,
}

impl Awake {
    /// Keeps all processors awake. Only who may write /dev/cpu_dma_latency can: as a rule, root. `Unsupported` if this
    /// kernel knows no idleness without sleep.
    pub fn keep() -> io::Result<Awake> {
        can_be_without_sleep(Path::new(FIRST_STATE))?;
        wish_at(Path::new(LATENCY_WISH))
    }
}

fn can_be_without_sleep(first_state: &Path) -> io::Result<()> {
    let name = fs::read_to_string(first_state).unwrap_or_default();
    match name.trim_end() == WITHOUT_SLEEP {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{} does not say {WITHOUT_SLEEP}", first_state.display()),
        )),
    }
}

fn wish_at(device: &Path) -> io::Result<Awake> {
    let mut wish = OpenOptions::new().write(true).open(device)?;
    wish.write_all(&0_i32.to_ne_bytes())?;
    Ok(Awake { _wish: wish })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_wish_is_four_bytes_of_nought() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let device = format!("/proc/self/fd/{}", writer.as_raw_fd());
        drop(wish_at(Path::new(&device)).expect("it can be written"));
        drop(writer);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).expect("it can be read");
        assert_eq!(written, [0; 4]);
    }

    #[test]
    fn a_processor_that_must_sleep_cannot_be_kept_awake() {
        let state = |name: &str| {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            writer.write_all(name.as_bytes()).expect("room");
            drop(writer);
            let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
            can_be_without_sleep(Path::new(&path))
        };
        state("POLL\n").expect("this one need not sleep");
        for name in ["WFI\n", ""] {
            let error = state(name).expect_err("it sleeps");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        assert!(can_be_without_sleep(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn without_the_device_it_is_an_error_that_says_so() {
        let error = wish_at(Path::new("/nonexistent")).expect_err("nothing is there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
