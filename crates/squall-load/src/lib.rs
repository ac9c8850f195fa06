//! When requests are due, and which connection each of them gets. Nothing here does I/O, so a schedule is exact and a
//! policy can be tested without a socket.
//!
//! It sends nothing and reads no clock; squall-stations' client drives it. `arrivals` has every kind of load behind one
//! contract, `pool` chooses connections.

mod arrivals;
mod pool;
mod ranks;

pub use arrivals::{Arrival, Arrivals, PageEnd, RequestEnd, Share};
pub use pool::{Choice, ConnectionId, Pool};
