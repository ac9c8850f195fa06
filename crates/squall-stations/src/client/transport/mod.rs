//! What carries a connection's bytes: TCP or QUIC, each with its engine.
//!
//! Only dispatch and what both are asked for; `tcp` and `quic` do the work. Times are taken right after each system call.

mod quic;
mod tcp;

use std::io;
use std::sync::Arc;

use squall_base::plan::{Protocol, SideSettings};
use squall_base::record::{SideCounts, Way};
use squall_base::{Duration, Time};
use squall_http::{
    ClientEvent, ConnectionError, CreateError, Http2Announced, Inbox, Place, Request, StreamId,
    SubmitError, Trailers, Wants, h3,
};
use squall_linux::SetupError;
use squall_linux::reactor::{Interest, Reactor, Ready};
use squall_linux::socket::SocketError;

use super::Target;
use super::causes::Causes;
use crate::Buffers;
use crate::log::{self, Log};
use quic::Quic;
use tcp::Tcp;

/// CANCEL (RFC 9113, section 7).
const HTTP2_CANCEL: u64 = 0x8;

/// Why a connection could not even begin.
#[derive(Debug)]
pub(crate) enum OpenError {
    Engine(CreateError),
    Socket(SocketError),
    Quic(h3::SetupError),
}

/// What one read or write has done.
#[derive(Debug)]
pub(crate) enum Moved {
    /// Something, and there may be more.
    Some,
    /// All that could be done now.
    All,
    /// The connection has ended: properly, in the words given, or by an error.
    End(Result<String, ConnectionError>),
}

pub(crate) enum Transport {
    Tcp(Box<Tcp>),
    Quic(Box<Quic>),
}

/// Calls the same method of whichever it is.
macro_rules! either {
    ($transport:expr, $inner:ident => $call:expr) => {
        match $transport {
            Transport::Tcp($inner) => $call,
            Transport::Quic($inner) => $call,
        }
    };
}

/// Whom a connection is for, and how it begins.
#[derive(Clone, Copy)]
pub(crate) struct Dial<'a> {
    pub(crate) target: &'a Target,
    pub(crate) protocol: Protocol,
    /// Whether HTTP/1.1 in the clear asks for HTTP/2 (`upgrade: h2c`).
    pub(crate) asks_for_http2: bool,
    pub(crate) side: &'a SideSettings,
}

impl Dial<'_> {
    /// Whether that is what the settings ask for, and no fault of the machine: few local ports, and none left.
    pub(crate) fn asks_for(&self, error: &SocketError) -> bool {
        let ports = match self.protocol {
            Protocol::H3 => self.side.http3.local_ports,
            _ => self.side.tcp.local_ports,
        };
        ports.is_some() && error.lacks_port()
    }
}

impl Transport {
    pub(crate) fn open(dial: Dial<'_>, wants: Wants) -> Result<Transport, OpenError> {
        Ok(match dial.protocol {
            Protocol::H3 => Transport::Quic(Box::new(Quic::open(dial, wants)?)),
            _ => Transport::Tcp(Box::new(Tcp::open(dial)?)),
        })
    }

    pub(crate) fn watch(&self, reactor: &Reactor, token: u64) -> Result<(), SetupError> {
        match self {
            Transport::Tcp(tcp) => reactor.add(tcp.socket(), token),
            Transport::Quic(quic) => reactor.add_for(Interest::Reading, quic.socket(), token),
        }
    }

    /// When TCP's handshake was done; at once for QUIC, which has no handshake but that of TLS.
    pub(crate) fn finish_connecting(&mut self, ready: Ready) -> io::Result<Option<Time>> {
        either!(self, inner => inner.finish_connecting(ready))
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Transport::Tcp(_))
    }

    /// See [`Tcp::expect_end`]; QUIC has its end in a packet.
    pub(crate) fn expect_end(&mut self) {
        match self {
            Transport::Tcp(tcp) => tcp.expect_end(),
            Transport::Quic(_) => {}
        }
    }

    /// Reads once.
    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Moved) {
        either!(self, inner => inner.read(buffers, inbox))
    }

    /// Writes once.
    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, Moved) {
        either!(self, inner => inner.write(inbox))
    }

    pub(crate) fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        either!(self, inner => inner.engine.submit(request))
    }

    /// How many bytes of a streamed body would be taken now; 0 also if the stream is gone.
    pub(crate) fn body_room(&self, stream: StreamId) -> usize {
        either!(self, inner => inner.engine.body_room(stream))
    }

    /// Takes bytes of a streamed body, and says how many.
    pub(crate) fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        either!(self, inner => inner.engine.send_body(stream, bytes))
    }

    /// A streamed body is complete.
    pub(crate) fn end_body(&mut self, stream: StreamId) {
        either!(self, inner => inner.engine.end_body(stream));
    }

    /// Whether a stream can be given up without its connection.
    pub(crate) fn has_streams(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => matches!(tcp.protocol(), Some(Protocol::H2 | Protocol::H2c)),
            Transport::Quic(_) => true,
        }
    }

    /// Gives a stream up, where [`Transport::has_streams`]: by CANCEL or H3_REQUEST_CANCELLED.
    pub(crate) fn cancel(&mut self, stream: StreamId) {
        match self {
            Transport::Tcp(tcp) => tcp.engine.reset(stream, HTTP2_CANCEL),
            Transport::Quic(quic) => quic.engine.reset(stream, h3::code::REQUEST_CANCELLED),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        either!(self, inner => inner.engine.is_ready())
    }

    /// Serialises what was submitted; whether another request may share its write.
    pub(crate) fn gather(&mut self) -> bool {
        either!(self, inner => inner.engine.gather())
    }

    /// Whether nothing of the server is still to come that requests hang on.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.engine.is_settled(),
            // A server's limits come with QUIC's handshake (RFC 9000, section 7.4).
            Transport::Quic(quic) => quic.engine.is_established(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        either!(self, inner => inner.engine.is_open())
    }

    pub(crate) fn in_flight(&self) -> usize {
        either!(self, inner => inner.engine.in_flight())
    }

    /// From now on bodies count against the server's windows until they are consumed.
    pub(crate) fn set_manual_consumption(&mut self) {
        either!(self, inner => inner.engine.set_manual_consumption());
    }

    pub(crate) fn consume(&mut self, stream: StreamId, n: u64) {
        either!(self, inner => inner.engine.consume(stream, n));
    }

    pub(crate) fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        either!(self, inner => inner.engine.end_body_with(stream, trailers));
    }

    /// Gives an exchange up; over HTTP/1.1 the whole connection.
    pub(crate) fn reset(&mut self, stream: StreamId, code: u64) {
        either!(self, inner => inner.engine.reset(stream, code));
    }

    /// What is really spoken, once that is decided.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        either!(self, inner => inner.protocol())
    }

    pub(crate) fn take_key_log(&mut self) -> Vec<String> {
        either!(self, inner => inner.engine.take_key_log())
    }

    pub(crate) fn locate(&self, way: Way, offset: u64) -> Option<Place> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.locate(way, offset),
            // frames.parquet says which packets carried which bytes of a stream.
            Transport::Quic(_) => None,
        }
    }

    /// Over HTTP/1.1: the head with which it sends the request that it took last, which is `request`.
    pub(crate) fn sent_head(&self, request: &Request) -> Option<Vec<u8>> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.sent_head(request),
            Transport::Quic(_) => None,
        }
    }

    /// SETTINGS of both sides of HTTP/2, as far as they are known.
    pub(crate) fn announced(&self) -> Option<Http2Announced<'_>> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.http2_settings(),
            Transport::Quic(_) => None,
        }
    }

    /// The same of HTTP/3.
    pub(crate) fn announced_http3(&self) -> Option<h3::Announced> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Quic(quic) => Some(quic.engine.announced()),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Quic(quic) => quic.deadline(),
        }
    }

    /// Why a connection on which nothing is under way takes no more requests.
    pub(crate) fn last_words(&self) -> String {
        "the server ended the connection".to_owned()
    }

    /// Counts a connection that TCP has made, or that QUIC begins to make.
    pub(crate) fn count_connection(&self, counts: &mut SideCounts) {
        match self {
            Transport::Tcp(_) => counts.tcp_connections += 1,
            Transport::Quic(_) => counts.quic_connections += 1,
        }
    }

    /// Counts a connection that has begun to speak `protocol`.
    pub(crate) fn count_handshake(&self, protocol: Protocol, counts: &mut SideCounts) {
        *counts.protocols.entry(protocol.to_string()).or_default() += 1;
        either!(self, inner => inner.count_handshake(counts));
    }

    /// What ALPN agreed on, if it did; without it QUIC has no connection (RFC 9001, section 8.1).
    pub(crate) fn alpn(&self) -> Option<&str> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.secured()?.alpn.as_deref(),
            Transport::Quic(_) => Some(Protocol::H3.alpn()),
        }
    }

    /// Counts what both sides announced and gave up, at the end.
    pub(crate) fn count_settings(&self, counts: &mut SideCounts) {
        match self {
            Transport::Tcp(tcp) => log::count_settings(tcp.engine.http2_settings(), counts),
            Transport::Quic(quic) => {
                log::count_http3_settings(&quic.engine.announced(), counts);
            }
        }
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut Log) {
        if log.wants_sockets() {
            either!(self, inner => inner.sample(connection, is_last, log));
        }
    }

    /// Adds what it knows of itself, at its end; it was open so long.
    pub(crate) fn add_causes(&self, open: Duration, causes: &mut Causes) {
        match self {
            Transport::Tcp(tcp) => {
                if let Some(info) = tcp.info() {
                    causes.add_tcp(&info, open);
                }
            }
            Transport::Quic(quic) => causes.add_quic(&quic.engine.path()),
        }
    }

    /// Ends the connection; of QUIC, with the frames that say so.
    pub(crate) fn close(self, inbox: &mut Inbox<ClientEvent>) {
        match self {
            Transport::Tcp(tcp) => tcp.close(),
            Transport::Quic(quic) => quic.close(inbox),
        }
    }

    /// The congestion control that is really in use.
    pub(crate) fn congestion_control(&self) -> Option<String> {
        match self {
            Transport::Tcp(tcp) => tcp.congestion_control(),
            Transport::Quic(_) => None,
        }
    }
}
