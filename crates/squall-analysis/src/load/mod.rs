//! The results of a load, while it runs and at its end: sums in constant memory, however long it lasts.
//!
//! This is the one place where latencies are condensed request by request, because a load of hours has no room for its
//! records. Trials keep theirs, and `trial` condenses them exactly. Nothing here reads a clock or writes text for a
//! terminal (squall-report's `load` does). A difference between loads is stated by rounds, never by pooled requests.
//!
//! `latencies` is a histogram and `buckets` prepares one for drawing. `parts` says where the time of a request went,
//! `causes` what connections report about themselves, and `failures` counts failures with their texts. `totals` sums
//! all of it up, `interval` is the last second of it, `timeline` the whole load over time, `health` says what to doubt,
//! and `rounds` compares loads. `picture` has the data for drawing the requests, with those that `kept` chooses as
//! points. `pages` are requests that wait for each other.

mod buckets;
mod causes;
mod failures;
mod health;
mod interval;
mod kept;
mod latencies;
mod pages;
mod parts;
mod picture;
#[cfg(test)]
pub(crate) mod requests;
mod rounds;
mod timeline;
mod totals;

pub use buckets::Bucket;
pub use causes::{BodySendLimits, QuicLosses, SendLimits, TcpSendLimits, TcpTimes};
pub use failures::{FailureKind, Failures};
pub use health::{Doubt, Generator, LongestLag, Punctuality};
pub use interval::{IntervalFigures, IntervalTotals};
pub use kept::KeptRequest;
pub use latencies::Latencies;
pub use pages::PageTotals;
pub use parts::{Part, Parts, parts};
pub use picture::LoadPicture;
pub use rounds::{
    FigureComparison, Order, Round, RoundFigure, RoundsComparison, VariantRounds, compare_rounds,
    spread_over_rounds,
};
pub use timeline::Timeline;
pub use totals::{LoadTotals, MeasuredPhase};
