//! The access-log line of an exchange, in the embedded server's format.

use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::Protocol;

use super::exchange::ProxyExchange;
use crate::server::AccessEntry;

/// The log entry of an exchange that is over on the client side.
pub(super) fn entry(
    exchange: &ProxyExchange,
    peer: SocketAddr,
    protocol: Protocol,
    now: Time,
) -> AccessEntry<'_> {
    let (method, target) = match &exchange.request_line {
        Some((method, target)) => (method.as_str(), target.as_str()),
        None => ("-", "-"),
    };
    let marks = &exchange.front_marks;
    AccessEntry {
        peer,
        protocol,
        method,
        target,
        status: exchange.status.filter(|_| marks.response.last.is_some()),
        request_body_bytes: exchange.up.received_bytes,
        response_body_bytes: exchange.down.sent_bytes,
        began: marks.request.first.unwrap_or(now),
        ended: marks.response.last.unwrap_or(now),
    }
}
