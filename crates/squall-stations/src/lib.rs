//! The programs on a path: an embedded client, server and proxy, each one thread on the reactor of
//! squall-linux around the sans-IO connections of squall-http.
//!
//! The protocol is squall-http's, the schedule and the choice of a connection are squall-load's; what is
//! here moves bytes and takes the times. Hosts, links and records are the caller's. Start at
//! [`client::Client`], [`server::Server`] and [`proxy::Proxy`].

mod buffers;
pub mod client;
mod error;
mod exchange;
mod held;
mod log;
pub mod proxy;
mod quic;
pub mod rows;
pub mod server;
#[cfg(test)]
mod visitor;

use buffers::Buffers;
pub use error::StationError;
pub use log::LogSinks;
use squall_base::Duration;

/// Real-time priority of the stations' threads, below the link's: other programs of the machine shall not
/// show in the latencies, and a busy station shall not hold up the link.
const STATION_PRIORITY: i32 = 1;

/// How long a load waits for connections that are opened in advance, its client's and those of proxies. A SYN is sent again
/// after 1, 2, 3, 4, 6 and 10 s (tcp_syn_linear_timeouts 4): at 3 % loss each way, one in 10^8 connections needs longer. The
/// load then begins without those that are missing.
const CONNECT_AT_MOST: Duration = Duration::from_secs(15);
