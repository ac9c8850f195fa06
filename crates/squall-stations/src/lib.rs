//! The stations on a path: an embedded client, server and proxy, each one thread that connects squall-linux's reactor
//! to squall-http's sans-IO connections.
//!
//! squall-http provides the protocols; squall-load decides the schedule and the choice of a connection. This crate
//! moves bytes and takes the times. Hosts, links and records belong to the caller. Start at [`client::Client`],
//! [`server::Server`] and [`proxy::Proxy`].

mod accept;
mod buffers;
pub mod client;
mod dial;
mod error;
mod exchange;
mod held;
mod log;
mod memory;
pub mod proxy;
mod quiet;
mod request_head;
pub mod rows;
pub mod server;
#[cfg(test)]
mod visitor;

use buffers::Buffers;
pub use error::StationError;
pub use log::LogSinks;
use squall_base::Duration;

/// Real-time priority of the stations' threads, below the link's: other programs on the machine must not show in the
/// latencies, and a busy station must not delay the link.
const STATION_PRIORITY: i32 = 1;

/// How long a load waits for connections that its client and the proxies open in advance. A SYN is retransmitted after
/// 1, 2, 3, 4, 6 and 10 s (tcp_syn_linear_timeouts 4): at 3 % loss each way, one in 10^8 connections needs longer. The
/// load then begins without the missing connections.
const CONNECT_AT_MOST: Duration = Duration::from_secs(15);
