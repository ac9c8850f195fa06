//! When requests are due, and which connection each of them gets: pure, so that a schedule is exact and a
//! policy can be tested without a socket.
//!
//! It sends nothing and reads no clock; squall-stations' client drives it. `schedule` is the open loop, whose requests
//! come at their times whatever becomes of earlier ones; `closed` the closed one.

mod closed;
mod pool;
mod schedule;

pub use closed::{ClosedLoop, ClosedSettings};
pub use pool::{Choice, ConnectionId, Pool};
pub use schedule::{Arrival, Schedule};
