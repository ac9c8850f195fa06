//! A connection that a station opens: its transport, and how far its handshakes have got.
//!
//! The connection knows neither its pool nor what its requests are; `client::connection` and `proxy::back` do.

use std::io;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_http::InboxOptions;
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;

use super::{Dial, OpenError, Transport};
use crate::log::StationLog;

/// What a connection can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Take a request.
    Ready,
    /// Take no request for now.
    Busy,
    /// Finish the requests in flight, and take no new ones.
    Draining,
    /// Nothing: it is no longer usable.
    Over,
}

/// A connection. `R`: a request.
pub(crate) struct DialedConnection<R> {
    /// The connection's number in the records.
    pub(crate) number: u32,
    pub(crate) transport: Transport,
    /// When the TCP handshake completed, and when the TLS or QUIC handshake did.
    pub(crate) connected: Option<Time>,
    pub(crate) secured: Option<Time>,
    /// The protocol actually spoken, once it is decided.
    pub(crate) protocol: Option<Protocol>,
    /// The request that the connection was opened for, until it can be sent.
    pub(crate) first: Option<R>,
    /// There is more to read than was read.
    pub(crate) has_unread: bool,
}

impl<R> DialedConnection<R> {
    pub(crate) fn open(
        dial: Dial<'_>,
        wants: InboxOptions,
        number: u32,
        first: Option<R>,
    ) -> Result<DialedConnection<R>, OpenError> {
        Ok(DialedConnection {
            number,
            transport: Transport::open(dial, wants)?,
            connected: None,
            secured: None,
            protocol: None,
            first,
            has_unread: false,
        })
    }

    /// Whether HTTP has been established on the connection.
    pub(crate) fn is_established(&self) -> bool {
        self.protocol.is_some()
    }

    /// Continues connecting. Returns when it connected, if it just did.
    pub(crate) fn connect(
        &mut self,
        ready: ReadyEvent,
        log: &mut StationLog,
    ) -> io::Result<Option<Time>> {
        let connected = self.transport.finish_connecting(ready)?;
        if connected.is_some() {
            self.connected = connected;
            self.transport.count_connection(&mut log.counts);
        }
        Ok(connected)
    }

    /// Records the protocol, once it is known or has changed, and returns it then. A change is from HTTP/1.1 to HTTP/2,
    /// after an upgrade.
    pub(crate) fn note_established(&mut self, log: &mut StationLog) -> Option<Protocol> {
        log.record_keys(self.transport.take_key_log());
        let protocol = self.transport.protocol()?;
        if self.protocol == Some(protocol) {
            return None;
        }
        self.protocol = Some(protocol);
        self.secured = protocol.is_secure().then(clock::now);
        self.transport.count_handshake(protocol, &mut log.counts);
        Some(protocol)
    }

    /// Whether the pool's settings allow another request on the connection.
    pub(crate) fn has_free_stream(&self, streams_at_most: Option<u32>) -> bool {
        let in_flight = self.transport.in_flight();
        streams_at_most.is_none_or(|at_most| in_flight < at_most as usize)
    }

    /// What the connection can do, if `is_ready` says whether a request could be sent immediately.
    pub(crate) fn availability(
        &self,
        is_ready: bool,
        streams_at_most: Option<u32>,
    ) -> Availability {
        if is_ready && self.first.is_none() {
            return if self.has_free_stream(streams_at_most) {
                Availability::Ready
            } else {
                Availability::Busy
            };
        }
        match (self.transport.is_open(), self.transport.in_flight()) {
            (true, _) => Availability::Busy,
            (false, 0) => Availability::Over,
            (false, _) => Availability::Draining,
        }
    }
}
