//! Civil time in UTC, and the notation of RFC 3339. Leap seconds are not supported, and time
//! zones only as offsets in parsed text.

/// A calendar date and time of day, to the second.
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

/// Parses a time in the notation of RFC 3339, from 1970 on, into nanoseconds since 1970-01-01 UTC; `None` if `text` is not
/// such a time. Digits after the ninth of a fraction are ignored.
pub fn parse_rfc3339(text: &str) -> Option<u128> {
    let (date, rest) = text.trim().split_at_checked(10)?;
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = clock.split_at_checked(8)?;
    let (fraction_ns, zone) = fraction(rest)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let is_real = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && (hour, minute, second) <= (23, 59, 60)
        && minute <= 59
        && second <= 60;
    if !is_real {
        return None;
    }
    let secs = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let secs = u128::try_from(secs - offset_s(zone)?).ok()?;
    Some(secs * 1_000_000_000 + fraction_ns)
}

/// Parses the fraction into nanoseconds. Also returns the text after it.
fn fraction(text: &str) -> Option<(u128, &str)> {
    let Some(digits) = text.strip_prefix(['.', ',']) else {
        return Some((0, text));
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let mut nanos = 0;
    let mut unit = 100_000_000;
    for digit in digits.bytes().take(9) {
        nanos += u128::from(digit - b'0') * unit;
        unit /= 10;
    }
    (!digits.is_empty()).then_some((nanos, rest))
}

/// How many seconds a time zone is ahead of UTC. The colon may be missing, because some exporters omit it.
fn offset_s(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits = zone[1..].replacen(':', "", 1);
    let (hours, minutes) = digits.split_at_checked(2)?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut next = |digits| number(parts.next()?, digits);
    let numbers = [next(digits[0])?, next(digits[1])?, next(digits[2])?];
    parts.next().is_none().then_some(numbers)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_plain = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01: `days_from_civil`, the inverse of `date`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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

    #[test]
    fn timestamps_are_exact_and_respect_their_time_zone() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00.000Z", 951_782_400_000_000_000),
            ("2025-11-21T22:25:01.5+01:00", 1_763_760_301_500_000_000),
            (
                "2025-11-21t16:55:01.000000001-04:30",
                1_763_760_301_000_000_001,
            ),
            (
                "2025-11-21 21:25:01.1234567899999z",
                1_763_760_301_123_456_789,
            ),
            ("2025-11-21T22:25:01+0100", 1_763_760_301_000_000_000),
        ] {
            assert_eq!(parse_rfc3339(text), Some(nanos), "{text}");
        }
        for text in [
            "",
            "2025-11-21",
            "2025-11-21T21:25:01",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-11-21T24:00:00Z",
            "2025-11-21T21:25:01.Z",
            "2025-11-21T21:25:01+1",
            "2025-11-21T21:25:01+é1:00",
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00+01:00",
            "+025-11-21T21:25:01Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn conversions_between_dates_and_days_since_1970_are_inverse() {
        for day in (0..100_000).step_by(13) {
            let CivilTime {
                year,
                month,
                day: of_month,
                ..
            } = CivilTime::from_unix_secs(day * 86_400);
            let text = format!("{year:04}-{month:02}-{of_month:02}T00:00:00Z");
            assert_eq!(
                parse_rfc3339(&text),
                Some(u128::from(day) * 86_400_000_000_000),
                "{text}"
            );
        }
    }
}
