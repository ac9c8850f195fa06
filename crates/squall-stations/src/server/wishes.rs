//! What a request asks for in its query, as in `/?size=1MiB&delay=2s&status=404`.
//!
//! Only texts to values: what is answered is in `site`. `fuzz/src/drive_query.rs` says what holds of any query.

use std::str::FromStr;

use squall_base::{Bytes, Duration, ParseQuantityError};
use thiserror::Error;

/// What a query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The size of the body.
    pub size: Option<Bytes>,
    /// How long to wait before the answer.
    pub delay: Duration,
    /// The status, 200 to 599.
    pub status: Option<u16>,
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
                "delay" => wishes.delay = value.parse().map_err(WishesError::Delay)?,
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
        assert_eq!(
            (found.delay, found.status),
            (Duration::from_secs(2), Some(404))
        );
        assert_eq!("".parse(), Ok(Wishes::default()));
        for bad in ["size=x", "delay=2", "status=99", "status="] {
            assert!(bad.parse::<Wishes>().is_err(), "{bad}");
        }
    }
}
