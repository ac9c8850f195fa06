//! The date format of all reports: `2025-11-21 21:25 UTC`. This module reads no clock.

use squall_base::civil::CivilTime;

/// Writes a wall-clock time, given in nanoseconds since 1970-01-01 UTC.
pub(crate) fn utc(unix_ns: u64) -> String {
    let at = CivilTime::from_unix_secs(unix_ns / 1_000_000_000);
    format!(
        "{}-{:02}-{:02} {:02}:{:02} UTC",
        at.year, at.month, at.day, at.hour, at.minute
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_to_the_minute() {
        assert_eq!(utc(1_763_760_301_000_000_000), "2025-11-21 21:25 UTC");
    }
}
