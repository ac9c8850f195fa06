//! Carries a connection's bytes: TCP or QUIC, each with its engine.
//!
//! Only dispatch and the operations common to both; `tcp` and `quic` do the work. Times are taken right after each
//! system call.

use std::io;
use std::net::SocketAddr;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{SideCounts, Way};
use squall_http::{
    ClientEvent, ClientStreams, HandshakeFacts, Http2Announcements, Inbox, InboxOptions, Request,
    StreamId, StreamIo, WireExtent, h3,
};
use squall_linux::SetupError;
use squall_linux::reactor::{Interest, Reactor, ReadyEvent};

use super::quic::Quic;
use super::tcp::Tcp;
use super::{Dial, IoOutcome, OpenError};
use crate::Buffers;
use crate::log::{self, StationLog};

/// CANCEL (RFC 9113, section 7).
const HTTP2_CANCEL: u64 = 0x8;

pub(crate) enum Transport {
    Tcp(Box<Tcp>),
    Quic(Box<Quic>),
}

impl Transport {
    pub(crate) fn open(dial: Dial<'_>, wants: InboxOptions) -> Result<Transport, OpenError> {
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

    /// When the TCP handshake completed; immediate for QUIC, whose engine performs its only handshake later.
    pub(crate) fn finish_connecting(&mut self, ready: ReadyEvent) -> io::Result<Option<Time>> {
        match self {
            Transport::Tcp(tcp) => tcp.finish_connecting(ready),
            Transport::Quic(quic) => quic.finish_connecting(ready),
        }
    }

    /// The address that the connection sends from; `None` over a UNIX socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Transport::Tcp(tcp) => tcp.socket().local_addr().ok(),
            Transport::Quic(quic) => Some(quic.socket().local_addr()),
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Transport::Tcp(_))
    }

    /// See [`Tcp::expect_end`]; QUIC signals its end in a packet.
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
    ) -> (Time, IoOutcome) {
        match self {
            Transport::Tcp(tcp) => tcp.read(buffers, inbox),
            Transport::Quic(quic) => quic.read(buffers, inbox),
        }
    }

    /// Writes once.
    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, IoOutcome) {
        match self {
            Transport::Tcp(tcp) => tcp.write(inbox),
            Transport::Quic(quic) => quic.write(inbox),
        }
    }

    /// The connection's streams.
    pub(crate) fn streams(&mut self) -> ClientStreams<'_> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.streams(),
            Transport::Quic(quic) => quic.engine.streams(),
        }
    }

    /// Whether a stream can be cancelled without its connection.
    pub(crate) fn has_streams(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => matches!(tcp.protocol(), Some(Protocol::H2 | Protocol::H2c)),
            Transport::Quic(_) => true,
        }
    }

    /// Cancels a stream with CANCEL or H3_REQUEST_CANCELLED, if [`Transport::has_streams`]. Returns the code.
    pub(crate) fn cancel(&mut self, stream: StreamId) -> u64 {
        let code = match self {
            Transport::Tcp(_) => HTTP2_CANCEL,
            Transport::Quic(_) => h3::code::REQUEST_CANCELLED,
        };
        self.streams().reset(stream, code);
        code
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.is_ready(),
            Transport::Quic(quic) => quic.engine.is_ready(),
        }
    }

    /// Whether a proxy has not opened the tunnel to the server yet.
    pub(crate) fn is_tunnelling(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.is_tunnelling(),
            Transport::Quic(_) => false,
        }
    }

    /// Serialises what was submitted. Returns whether another request may share its write.
    pub(crate) fn gather(&mut self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.engine.gather(),
            // QUIC streams delay each other only through the congestion window.
            Transport::Quic(quic) => quic.engine.is_ready(),
        }
    }

    /// Whether everything from the server that requests depend on has arrived.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.engine.is_settled(),
            // A server's limits arrive with QUIC's handshake (RFC 9000, section 7.4).
            Transport::Quic(quic) => quic.engine.is_established(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.engine.is_open(),
            Transport::Quic(quic) => quic.engine.is_open(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Transport::Tcp(tcp) => tcp.engine.in_flight(),
            Transport::Quic(quic) => quic.engine.in_flight(),
        }
    }

    /// From now on bodies count against the server's windows until they are consumed.
    pub(crate) fn set_manual_consumption(&mut self) {
        match self {
            Transport::Tcp(tcp) => tcp.engine.set_manual_consumption(),
            Transport::Quic(quic) => quic.engine.set_manual_consumption(),
        }
    }

    /// The protocol actually spoken, once it is decided.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        match self {
            Transport::Tcp(tcp) => tcp.protocol(),
            Transport::Quic(quic) => quic.protocol(),
        }
    }

    pub(crate) fn take_key_log(&mut self) -> Vec<String> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.take_key_log(),
            Transport::Quic(quic) => quic.engine.take_key_log(),
        }
    }

    pub(crate) fn locate(&self, way: Way, offset: u64) -> Option<WireExtent> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.locate(way, offset),
            // frames.parquet records which packets carried which bytes of a stream.
            Transport::Quic(_) => None,
        }
    }

    /// Over HTTP/1.1: the head sent for `request`, which must be the last request submitted.
    pub(crate) fn sent_head(&self, request: &Request) -> Option<Vec<u8>> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.sent_head(request),
            Transport::Quic(_) => None,
        }
    }

    /// What the handshake of TLS or QUIC showed of the server; `None` before it completes and in cleartext.
    pub(crate) fn handshake_facts(&self) -> Option<HandshakeFacts> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.handshake_facts(),
            Transport::Quic(quic) => quic.engine.handshake_facts(),
        }
    }

    /// Over TLS over TCP: the number of each record of the last read, and the length of its plaintext in bytes.
    pub(crate) fn received_records(&self) -> Vec<(u64, u64)> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.received_records(),
            Transport::Quic(_) => Vec::new(),
        }
    }

    /// Bytes of the largest UDP payload received; 0 over TCP.
    pub(crate) fn largest_datagram(&self) -> usize {
        match self {
            Transport::Tcp(_) => 0,
            Transport::Quic(quic) => quic.engine.largest_datagram(),
        }
    }

    /// SETTINGS of both sides of HTTP/2, as far as known.
    pub(crate) fn announced(&self) -> Option<Http2Announcements<'_>> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.http2_settings(),
            Transport::Quic(_) => None,
        }
    }

    /// SETTINGS of both sides of HTTP/3, as far as known.
    pub(crate) fn announced_http3(&self) -> Option<h3::Announcements> {
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

    /// Counts a connection that TCP has made, or that QUIC starts to make.
    pub(crate) fn count_connection(&self, counts: &mut SideCounts) {
        match self {
            Transport::Tcp(_) => counts.tcp_connections += 1,
            Transport::Quic(_) => counts.quic_connections += 1,
        }
    }

    /// Counts a connection on which `protocol` has been established.
    pub(crate) fn count_handshake(&self, protocol: Protocol, counts: &mut SideCounts) {
        *counts.protocols.entry(protocol.to_string()).or_default() += 1;
        match self {
            Transport::Tcp(tcp) => tcp.count_handshake(counts),
            Transport::Quic(quic) => quic.count_handshake(counts),
        }
    }

    /// The protocol that ALPN agreed on, if any; QUIC has no connection without it (RFC 9001, section 8.1).
    pub(crate) fn alpn(&self) -> Option<&str> {
        match self {
            Transport::Tcp(tcp) => tcp.engine.secured()?.alpn.as_deref(),
            Transport::Quic(_) => Some(Protocol::H3.alpn()),
        }
    }

    /// Counts the settings, GOAWAYs and resets of both sides, at the end.
    pub(crate) fn count_settings(&self, counts: &mut SideCounts) {
        match self {
            Transport::Tcp(tcp) => log::count_settings(tcp.engine.http2_settings(), counts),
            Transport::Quic(quic) => {
                log::count_http3_settings(&quic.engine.announced(), counts);
            }
        }
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut StationLog) {
        if log.wants_sockets() {
            match self {
                Transport::Tcp(tcp) => tcp.sample(connection, is_last, log),
                Transport::Quic(quic) => quic.sample(connection, is_last, log),
            }
        }
    }

    /// Closes the connection; QUIC also sends the frames that say so.
    pub(crate) fn close(self, inbox: &mut Inbox<ClientEvent>) {
        match self {
            Transport::Tcp(tcp) => tcp.close(),
            Transport::Quic(mut quic) => {
                quic.send_close(inbox);
            }
        }
    }

    /// Tells the server that the connection, on which nothing is in flight, has ended. Returns when; `None` for TCP, where
    /// the kernel says so when the socket is closed.
    pub(crate) fn send_close(&mut self, inbox: &mut Inbox<ClientEvent>) -> Option<Time> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Quic(quic) => Some(quic.send_close(inbox)),
        }
    }

    /// The congestion control actually in use.
    pub(crate) fn congestion_control(&self) -> Option<String> {
        match self {
            Transport::Tcp(tcp) => tcp.congestion_control(),
            Transport::Quic(_) => None,
        }
    }
}
