//! Accepting connections, for the embedded server and the proxy alike: listeners, and the connections that clients open
//! to them.
//!
//! It moves bytes and datagrams, and records what concerns a whole connection. Its owner knows what events belong to
//! and what follows from them. `tcp` is a TCP connection with its engine, `quic` a UDP socket with all its connections;
//! `dial` is the opposite: it opens connections.

mod quic;
mod tcp;

use std::io;
use std::net::{SocketAddr, TcpListener};

use squall_base::plan::{SideSettings, Version};
use squall_http::{InboxOptions, tls};
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::socket::{self, SocketError};

use crate::error::StationError;
pub(crate) use quic::{Handshake, QuicEndpoint};
pub(crate) use tcp::{Drained, Received, TcpConnection, Written};

/// Where a station listens and which protocol it speaks there.
pub struct Listener {
    /// The address; port 0 takes any that is free.
    pub address: SocketAddr,
    /// The protocol.
    pub protocol: ListenerProtocol,
}

/// The protocol of a listener.
pub enum ListenerProtocol {
    /// HTTP in cleartext.
    Plain(Version),
    /// HTTP over TLS; ALPN decides the version.
    Secure(tls::ServerContext),
    /// HTTP/3.
    Quic(tls::Identity),
}

/// A listener that is bound.
pub(crate) enum Bound {
    Tcp(TcpAcceptor),
    Quic(Box<QuicEndpoint>),
}

/// A TCP listener, and what its connections speak.
pub(crate) struct TcpAcceptor {
    listener: TcpListener,
    protocol: TcpProtocol,
}

/// What the connections of a TCP listener speak.
enum TcpProtocol {
    Plain(Version),
    Secure(tls::ServerContext),
}

/// What waited at a listener.
pub(crate) enum Accepted {
    Connection(TcpConnection),
    /// No connection.
    Nothing,
    /// Perhaps a connection, but file descriptors ran out. The kernel does not report it again.
    Full,
}

impl Listener {
    /// Listens, in the network namespace of the calling thread, and has `reactor` report connections under `token`.
    /// `wants` is what inboxes collect; QUIC connection ids are derived from `seed`.
    pub(crate) fn bind(
        self,
        side: &SideSettings,
        wants: InboxOptions,
        seed: u64,
        (reactor, token): (&Reactor, u64),
    ) -> Result<Bound, StationError> {
        let protocol = match self.protocol {
            ListenerProtocol::Plain(version) => TcpProtocol::Plain(version),
            ListenerProtocol::Secure(context) => TcpProtocol::Secure(context),
            ListenerProtocol::Quic(identity) => {
                let quic = QuicEndpoint::bind(self.address, &identity, side, seed, wants)?;
                quic.watch(reactor, token)?;
                return Ok(Bound::Quic(Box::new(quic)));
            }
        };
        let listener = socket::start_listening(self.address, &side.tcp)?;
        reactor.add(&listener, token)?;
        Ok(Bound::Tcp(TcpAcceptor { listener, protocol }))
    }
}

impl TcpAcceptor {
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts one connection, and gives it the next number in the records.
    pub(crate) fn accept(
        &self,
        next_number: &mut u32,
        side: &SideSettings,
        wants: InboxOptions,
    ) -> Result<Accepted, StationError> {
        loop {
            let stream = match socket::accept(&self.listener) {
                Ok(Some(stream)) => stream,
                Ok(None) => return Ok(Accepted::Nothing),
                // A connection that was aborted in the backlog is the client's concern (accept(2), ECONNABORTED).
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if is_out_of_files(&error) => return Ok(Accepted::Full),
                Err(error) => return Err(self.failed(error)),
            };
            let Ok(address) = stream.peer_addr() else {
                continue;
            };
            let number = *next_number;
            *next_number = number.wrapping_add(1);
            let accepted = (stream, address);
            let connection = TcpConnection::new(number, accepted, &self.protocol, side, wants)?;
            return Ok(Accepted::Connection(connection));
        }
    }

    fn failed(&self, source: io::Error) -> StationError {
        StationError::Socket(match self.listener.local_addr() {
            Ok(address) => SocketError::System {
                action: "accept connections on",
                address,
                source,
            },
            Err(error) => SocketError::System {
                action: "find the address of a listener that failed at",
                address: SocketAddr::from(([0, 0, 0, 0], 0)),
                source: error,
            },
        })
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// For a connection that has just been accepted: it may have been written to already, and it can be written.
pub(crate) fn first_event(token: u64) -> ReadyEvent {
    ReadyEvent {
        token,
        readable: true,
        writable: true,
        ended: false,
    }
}
