//! What a request asks for in its query, as in `/?size=1MiB&delay=0.5s..2s&status=404`.
//!
//! Only parses; `site` decides on the response. `fuzz/src/drive_query.rs` states what holds for any query.

use std::fmt;
use std::str::FromStr;

use squall_base::{Bytes, Duration, ParseQuantityError};
use thiserror::Error;

/// What a query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// The size of the body.
    pub size: Option<Bytes>,
    /// How long to delay the response.
    pub delay: Delay,
    /// The status, 200 to 599.
    pub status: Option<u16>,
}

/// A delay: any time between two, all equally likely. Written `2s`, or `0.5s..2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest delay.
    pub from: Duration,
    /// The longest delay, which is not less than `from`.
    pub to: Duration,
}

impl Delay {
    /// Maps a number, any of 64 bits, to a delay.
    pub(super) fn sample(self, random: u64) -> Duration {
        let times = u128::from((self.to - self.from).as_nanos()) + 1;
        let extra_ns = (times * u128::from(random)) >> 64;
        self.from + Duration::from_nanos(extra_ns as u64)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            self.to.fmt(f)
        } else {
            write!(f, "{}..{}", self.from, self.to)
        }
    }
}

impl FromStr for Delay {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Delay, QueryError> {
        let time = |text: &str| text.parse().map_err(QueryError::Delay);
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (time(from)?, time(to)?),
            None => (time(text)?, time(text)?),
        };
        if from <= to {
            Ok(Delay { from, to })
        } else {
            Err(QueryError::DelayOrder)
        }
    }
}

/// A query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The size is invalid.
    #[error("size: {0}")]
    Size(ParseQuantityError),
    /// The time is invalid.
    #[error("delay: {0}")]
    Delay(ParseQuantityError),
    /// Two times in the wrong order.
    #[error("delay: expected the shorter of two times first, such as 0.5s..2s")]
    DelayOrder,
    /// Not a status that can be sent.
    #[error("status: expected 200 to 599")]
    Status,
}

impl FromStr for QueryOptions {
    type Err = QueryError;

    /// Parses `size=1MiB&delay=2s&status=404`; ignores other names.
    fn from_str(query: &str) -> Result<QueryOptions, QueryError> {
        let mut options = QueryOptions::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "size" => options.size = Some(value.parse().map_err(QueryError::Size)?),
                "delay" => options.delay = value.parse()?,
                "status" => options.status = Some(status(value).ok_or(QueryError::Status)?),
                _ => {}
            }
        }
        Ok(options)
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
        let found: QueryOptions = "a=b&size=1MiB&delay=2s&status=404".parse().unwrap();
        assert_eq!(found.size, Some(Bytes::new(1 << 20)));
        assert_eq!(found.status, Some(404));
        let two = Duration::from_secs(2);
        assert_eq!(found.delay, Delay { from: two, to: two });
        assert_eq!("".parse(), Ok(QueryOptions::default()));
        let bad = [
            "size=x",
            "delay=2",
            "delay=2s..1s",
            "delay=1s..",
            "status=99",
            "status=",
        ];
        for bad in bad {
            assert!(bad.parse::<QueryOptions>().is_err(), "{bad}");
        }
    }

    #[test]
    fn delay_is_drawn_between_its_ends() {
        let delay: Delay = "500ms..2s".parse().unwrap();
        assert_eq!(delay.to_string().parse(), Ok(delay));
        assert_eq!(delay.sample(0), delay.from);
        assert_eq!(delay.sample(u64::MAX), delay.to);
        assert_eq!(delay.sample(1 << 63), Duration::from_micros(1_250_000));
        let always: Delay = "10ms".parse().unwrap();
        assert_eq!(always.sample(u64::MAX), Duration::from_millis(10));
        // The longest delay that can be written.
        let long = Delay {
            from: Duration::ZERO,
            to: Duration::from_nanos(u64::MAX),
        };
        assert_eq!(long.sample(u64::MAX), long.to);
    }
}
