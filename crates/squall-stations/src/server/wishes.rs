//! What a request asks for in its query, as in `/?size=1MiB&delay=0.5s..2s&status=404`.
//!
//! Only texts to values: what is answered is in `site`. `fuzz/src/drive_query.rs` says what holds of any query.

use std::fmt;
use std::str::FromStr;

use squall_base::{Bytes, Duration, ParseQuantityError};
use thiserror::Error;

/// What a query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The size of the body.
    pub size: Option<Bytes>,
    /// How long to wait before the answer.
    pub delay: Delay,
    /// The status, 200 to 599.
    pub status: Option<u16>,
}

/// How long to wait: any time between two, each as likely. Written `2s`, or `0.5s..2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub from: Duration,
    /// The longest, which is not less.
    pub to: Duration,
}

impl Delay {
    /// The time that this number, any of 64 bits, stands for.
    pub(super) fn drawn(self, luck: u64) -> Duration {
        let times = u128::from((self.to - self.from).as_nanos()) + 1;
        let beyond = (times * u128::from(luck)) >> 64;
        self.from + Duration::from_nanos(beyond as u64)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.to {
            true => self.to.fmt(f),
            false => write!(f, "{}..{}", self.from, self.to),
        }
    }
}

impl FromStr for Delay {
    type Err = WishesError;

    fn from_str(text: &str) -> Result<Delay, WishesError> {
        let time = |text: &str| text.parse().map_err(WishesError::Delay);
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (time(from)?, time(to)?),
            None => (time(text)?, time(text)?),
        };
        match from <= to {
            true => Ok(Delay { from, to }),
            false => Err(WishesError::DelayOrder),
        }
    }
}

/// A query that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WishesError {
    /// No size.
    #[error("size: {0}")]
    Size(ParseQuantityError),
    /// No time.
    #[error("delay: {0}")]
    Delay(ParseQuantityError),
    /// Two times in the wrong order.
    #[error("delay: expected the shorter of two times first, such as 0.5s..2s")]
    DelayOrder,
    /// No status that can be answered.
    #[error("status: expected 200 to 599")]
    Status,
}

impl FromStr for Wishes {
    type Err = WishesError;

    /// Reads `size=1MiB&delay=2s&status=404`; other words are other people's.
    fn from_str(query: &str) -> Result<Wishes, WishesError> {
        let mut wishes = Wishes::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "size" => wishes.size = Some(value.parse().map_err(WishesError::Size)?),
                "delay" => wishes.delay = value.parse()?,
                "status" => wishes.status = Some(status(value).ok_or(WishesError::Status)?),
                _ => {}
            }
        }
        Ok(wishes)
    }
}

fn status(value: &str) -> Option<u16> {
    let status = value.parse().ok()?;
    (200..=599).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_ask_for_sizes_delays_and_statuses() {
        let found: Wishes = "a=b&size=1MiB&delay=2s&status=404".parse().unwrap();
        assert_eq!(found.size, Some(Bytes::new(1 << 20)));
        assert_eq!(found.status, Some(404));
        let two = Duration::from_secs(2);
        assert_eq!(found.delay, Delay { from: two, to: two });
        assert_eq!("".parse(), Ok(Wishes::default()));
        let bad = [
            "size=x",
            "delay=2",
            "delay=2s..1s",
            "delay=1s..",
            "status=99",
            "status=",
        ];
        for bad in bad {
            assert!(bad.parse::<Wishes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_delay_is_any_time_between_its_ends() {
        let delay: Delay = "500ms..2s".parse().unwrap();
        assert_eq!(delay.to_string().parse(), Ok(delay));
        assert_eq!(delay.drawn(0), delay.from);
        assert_eq!(delay.drawn(u64::MAX), delay.to);
        assert_eq!(delay.drawn(1 << 63), Duration::from_micros(1_250_000));
        let always: Delay = "10ms".parse().unwrap();
        assert_eq!(always.drawn(u64::MAX), Duration::from_millis(10));
        // The longest that can be written.
        let long = Delay {
            from: Duration::ZERO,
            to: Duration::from_nanos(u64::MAX),
        };
        assert_eq!(long.drawn(u64::MAX), long.to);
    }
}
