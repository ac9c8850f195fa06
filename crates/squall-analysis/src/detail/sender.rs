//! What is kept of a sender's records: its windows and samples of its transport.
//!
//! Data only: `rows` and `life` choose what is kept.

use squall_base::{Duration, Time};

use crate::thinned::Thinned;

/// How much flow control let a sender send: HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLevel {
    /// From when.
    pub at: Time,
    /// The stream; `None` for the connection.
    pub stream: Option<u64>,
    /// What was left. It can be negative, after SETTINGS has made a window smaller.
    pub bytes: i64,
}

/// A sample of a sender's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSample {
    /// When it was taken.
    pub at: Time,
    /// The congestion window; of TCP, its segments times the size of a segment.
    pub cwnd_bytes: Option<u64>,
    /// The smoothed round-trip time.
    pub rtt: Option<Duration>,
}

/// What the records of a window's sides add to one of its directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderRows {
    /// The windows of the connection and of the window's own requests, as their sender saw them.
    pub levels: Thinned<WindowLevel>,
    /// Samples of the sender.
    pub samples: Thinned<SenderSample>,
}
