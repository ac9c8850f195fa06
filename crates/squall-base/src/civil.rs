//! Civil time in UTC. It knows no time zones and no leap seconds.

/// A second of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// The year.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
    /// The hour, from 0.
    pub hour: u64,
    /// The minute.
    pub minute: u64,
    /// The second.
    pub second: u64,
}

impl CivilTime {
    /// Converts seconds since 1970-01-01 UTC.
    pub const fn from_unix_secs(secs: u64) -> CivilTime {
        const SECS_PER_DAY: u64 = 86_400;
        let (year, month, day) = date(secs / SECS_PER_DAY);
        CivilTime {
            year,
            month,
            day,
            hour: secs % SECS_PER_DAY / 3_600,
            minute: secs % 3_600 / 60,
            second: secs % 60,
        }
    }
}

/// A time in nanoseconds since 1970, in UTC and in the notation of RFC 3339, to the microsecond.
pub fn rfc3339(unix_ns: u64) -> String {
    let at = CivilTime::from_unix_secs(unix_ns / 1_000_000_000);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        at.year,
        at.month,
        at.day,
        at.hour,
        at.minute,
        at.second,
        unix_ns % 1_000_000_000 / 1_000
    )
}

/// Year, month and day of a number of days since 1970-01-01, after Howard Hinnant's `civil_from_days`
/// ("chrono-Compatible Low-Level Date Algorithms"): years begin in March, so that the leap day is the last one, and
/// eras are 400 years long.
const fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        let at = |secs| {
            let CivilTime {
                year,
                month,
                day,
                hour,
                minute,
                second,
            } = CivilTime::from_unix_secs(secs);
            [year, month, day, hour, minute, second]
        };
        assert_eq!(at(0), [1970, 1, 1, 0, 0, 0]);
        assert_eq!(at(951_782_399), [2000, 2, 28, 23, 59, 59]);
        assert_eq!(at(951_782_400), [2000, 2, 29, 0, 0, 0]);
        assert_eq!(at(1_763_760_301), [2025, 11, 21, 21, 25, 1]);
    }
}
