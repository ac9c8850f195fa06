//! What is kept of a sender's records: its windows and samples of its transport.
//!
//! Data only: `rows` and `life` choose what is kept.

use squall_base::{Duration, Time};

use crate::thinned::Thinned;

/// How much HTTP/2's flow control let a sender send.
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

/// What the sides' records add to one direction of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderRows {
    /// The flow-control windows of the connection and of this window's requests, as their sender saw them.
    pub levels: Thinned<WindowLevel>,
    /// Samples of the sender.
    pub samples: Thinned<SenderSample>,
}
