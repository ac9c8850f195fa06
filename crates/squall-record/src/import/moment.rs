//! Parses a timestamp in RFC 3339 notation, exact to the nanosecond. It supports no other notation, no leap seconds and
//! no time before 1970.

/// Nanoseconds since 1970-01-01 UTC; `None` if `text` is not a valid timestamp. Digits after the ninth of a fraction
/// are ignored.
pub(super) fn unix_ns(text: &str) -> Option<u128> {
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

/// Days since 1970-01-01. Follows Howard Hinnant's `days_from_civil` ("chrono-Compatible Low-Level Date Algorithms"),
/// the inverse of the function in squall-base: years begin in March, so that the leap day is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use squall_base::civil::CivilTime;

    use super::*;

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
            assert_eq!(unix_ns(text), Some(nanos), "{text}");
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
            assert_eq!(unix_ns(text), None, "{text}");
        }
    }

    #[test]
    fn days_agree_with_squall_base() {
        for day in (0..100_000).step_by(13) {
            let CivilTime {
                year,
                month,
                day: of_month,
                ..
            } = CivilTime::from_unix_secs(day * 86_400);
            let text = format!("{year:04}-{month:02}-{of_month:02}T00:00:00Z");
            assert_eq!(
                unix_ns(&text),
                Some(u128::from(day) * 86_400_000_000_000),
                "{text}"
            );
        }
    }
}
