//! HTTP/3 (RFC 9114) over QUIC (RFC 9000): datagrams in, datagrams out, events.
//!
//! QUIC is quiche's. HTTP/3's frames are our own: quiche's module for them tells neither where in its stream a frame
//! stands nor how long a message is there, and every offset here is exact. Header sections go through quiche's QPACK.
//! Left out: server push, priorities, the dynamic table, DATAGRAM, 0-RTT, Retry, migration and path MTU discovery.
//!
//! Time: quiche reads the clock itself, in whatever is called. So this is the one engine that cannot run on virtual
//! time; `now` is an argument where its owner needs delays relative to it. An end of a connection is
//! [`Client`] or one of [`Server`]'s, of which one serves a whole UDP socket.
//!
//! Windows do not grow by themselves, and a connection without packets ends after [`IDLE_TIMEOUT`]. Of quiche's own
//! ways (0.30): only its BBR2 paces, for CUBIC and NewReno `pacer` does; a packet holds STREAM data of one
//! stream only; and as nothing is given to quiche that cannot leave, it rarely says DATA_BLOCKED.
//!
//! Where to go next: `connection` for what both sides share, `pieces` for how the marks of sent bytes are found,
//! `qlog` for the frames of QUIC, `security` for certificates and settings, [`code`] for error codes.

mod accepted;
mod announced;
mod batch;
mod client;
mod closing;
pub mod code;
mod connection;
mod control;
mod head;
mod inbound;
mod instructions;
mod keys;
mod outbound;
mod pacer;
mod pieces;
mod qlog;
mod security;
mod server;
#[cfg(test)]
mod tests;
pub mod wire;

use squall_base::Duration;
use squall_base::record::QuicPath;

pub use announced::{Announced, setting_name};
pub use batch::Batch;
pub use client::Client;
pub use closing::{Closing, Reason, Space, application_words};
pub use security::{ClientContext, SetupError};
pub use server::{Ended, Sender, Server};

/// After so long without a packet a connection is over (max_idle_timeout): what quiche's applications use.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What quiche counts of a connection and of its path, in the words of the record.
fn path_record(conn: &quiche::Stats, path: Option<&quiche::PathStats>) -> QuicPath {
    let time = |time: std::time::Duration| {
        Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    let mut record = QuicPath {
        recv: conn.recv as u64,
        sent: conn.sent as u64,
        lost: conn.lost as u64,
        retrans: conn.retrans as u64,
        sent_bytes: conn.sent_bytes,
        recv_bytes: conn.recv_bytes,
        lost_bytes: conn.lost_bytes,
        stream_retrans_bytes: conn.stream_retrans_bytes,
        ..QuicPath::default()
    };
    if let Some(path) = path {
        record.ptos = path.total_pto_count as u64;
        record.rtt = time(path.rtt);
        record.min_rtt = path.min_rtt.map(time);
        record.max_rtt = path.max_rtt.map(time);
        record.rttvar = time(path.rttvar);
        record.cwnd_bytes = path.cwnd as u64;
        record.pmtu_bytes = path.pmtu as u64;
        record.delivery_rate_bytes_per_s = path.delivery_rate;
        record.max_bandwidth_bytes_per_s = path.max_bandwidth;
    }
    record
}

/// Lines of a key log, out of what quiche wrote of it: whole lines only.
fn key_lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .map(str::to_owned)
        .collect()
}
