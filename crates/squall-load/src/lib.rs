//! When requests are due, and which connection each of them gets: pure, so that a schedule is exact and a
//! policy can be tested without a socket.
//!
//! It sends nothing and reads no clock; squall-stations' client drives it. Workloads other than constant
//! arrivals are not here.

mod pool;
mod schedule;

pub use pool::{Choice, ConnectionId, Pool};
pub use schedule::{Arrival, Schedule};
