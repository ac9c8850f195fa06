//! How much memory the machine has left. Readers ask before they allocate as much as a file claims to need.
//!
//! It allocates nothing and frees nothing.

use std::fs;

/// What can be allocated without swapping, as the kernel estimates it; `None` if it does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        let text = "MemTotal:       16309384 kB\nMemAvailable:    8154692 kB\n";
        assert_eq!(available(text), Some(8_154_692 * 1024));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }
}
