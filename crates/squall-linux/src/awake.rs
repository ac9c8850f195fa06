//! Processors that do not fall asleep while something is measured.
//!
//! An idle processor sleeps, and to wake up takes it some 10 us, in a virtual machine up to 50; that is in every time
//! that is measured, and the kernel counts the end of it as work of whom it woke. It does not choose how processors
//! sleep, nor how fast they run: that is the administrator's (`squall doctor` looks at it).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// How long a processor may take to wake up, in microseconds; the strictest of all who have it open counts, and
/// closing it takes the wish back (Documentation/admin-guide/pm/cpuidle.rst, "Power Management Quality of Service").
const LATENCY_WISH: &str = "/dev/cpu_dma_latency";

/// While it lives, idle processors of this machine wait for work without sleeping.
#[derive(Debug)]
pub struct Awake {
    _wish: File,
}

impl Awake {
    /// Keeps all processors awake. Only who may write /dev/cpu_dma_latency can: as a rule, root.
    pub fn keep() -> io::Result<Awake> {
        wish_at(Path::new(LATENCY_WISH))
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
    fn without_the_device_it_is_an_error_that_says_so() {
        let error = wish_at(Path::new("/nonexistent")).expect_err("nothing is there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
