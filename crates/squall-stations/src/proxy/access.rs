//! The line of an exchange in the access log, which is that of the embedded server.

use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::Protocol;

use super::exchange::Exchange;
use crate::server::Entry;

/// What the line of an exchange says that is over on the side of its client.
pub(super) fn entry(
    exchange: &Exchange,
    (peer, protocol): (SocketAddr, Protocol),
    now: Time,
) -> Entry<'_> {
    let (method, target) = match &exchange.words {
        Some((method, target)) => (method.as_str(), target.as_str()),
        None => ("-", "-"),
    };
    let marks = &exchange.front_marks;
    Entry {
        peer,
        protocol,
        method,
        target,
        status: exchange.status.filter(|_| marks.response.last.is_some()),
        request_body_bytes: exchange.up.came_bytes,
        response_body_bytes: exchange.down.went_bytes,
        began: marks.request.first.unwrap_or(now),
        ended: marks.response.last.unwrap_or(now),
    }
}
