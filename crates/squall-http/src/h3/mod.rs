//! HTTP/3 (RFC 9114) over QUIC (RFC 9000): datagrams in, datagrams out, events.
//!
//! QUIC is quiche's. The HTTP/3 frames are our own: quiche's module for them reports neither the offset of a frame in
//! its stream nor the length of a message there, and every offset here is exact. Header sections go through quiche's
//! QPACK. Not supported: server push, priorities, the dynamic table, DATAGRAM, 0-RTT, migration and path MTU discovery.
//!
//! Time: quiche reads the clock itself in most of its functions. So this is the one engine that cannot run on virtual
//! time; `now` is an argument where the owner needs delays relative to it. A connection's client side is a [`Client`].
//! One [`Server`] serves a whole UDP socket.
//!
//! Windows do not grow on their own, and a connection without packets ends after [`IDLE_TIMEOUT`]. Peculiarities of
//! quiche 0.30: only its BBR2 paces, so `pacer` paces CUBIC and NewReno; a packet holds STREAM data of only one stream;
//! and since quiche is never given data that it cannot send, it rarely sends DATA_BLOCKED.
//!
//! Against hostile peers: `unvalidated` limits what is sent to an address that may be forged, `tokens` validates
//! addresses with Retry when many connections wait for that, `buffers` limits the bodies that wait for a peer, and
//! `allowance` limits what a peer may send without content.
//!
//! Where to go next: `connection` for what both sides share, `pieces` for how the marks of sent bytes are found, `qlog`
//! for QUIC's frames, `security` for certificates and settings, [`code`] for error codes.

mod accepted;
mod allowance;
mod announced;
mod batch;
mod buffers;
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
mod tokens;
mod unvalidated;
pub mod wire;

use squall_base::Duration;
use squall_base::record::QuicPath;

pub use accepted::AcceptedConnection;
pub use announced::{Announcements, setting_name};
pub use batch::Batch;
pub use client::Client;
pub use closing::{CloseFrame, CloseReason, ErrorSpace, application_words};
pub use security::{ClientContext, SetupError};
pub use server::{BatchSource, EndedConnection, Server};

/// A connection ends after this time without a packet (max_idle_timeout); quiche's applications use the same value.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// quiche's statistics of a connection and its path, in the record's terms.
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

/// Splits what quiche wrote to the key log into lines; it only writes whole ones.
fn key_lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .map(str::to_owned)
        .collect()
}
