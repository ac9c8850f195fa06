//! Accepting connections, for the embedded server and the proxy alike: listeners, and the connections that clients open
//! to them.
//!
//! It moves bytes and datagrams, and records what concerns a whole connection. Which exchange an event belongs to, and
//! what to do about it, is up to the owner. `tcp` is a TCP connection with its engine, `quic` a UDP socket with all its
//! connections; `dial` is the opposite: it opens connections.

mod quic;
mod tcp;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::{fmt, io};

use squall_base::Duration;
use squall_base::plan::{SideSettings, Version};
use squall_http::{InboxOptions, tls};
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::socket::{self, SocketError};

use crate::error::StationError;
pub(crate) use quic::{Handshake, QuicEndpoint};
use tcp::TcpProtocol;
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

/// The result of accepting from a listener.
pub(crate) enum Accepted {
    Connection(TcpConnection),
    /// No connection.
    Nothing,
    /// There may be a connection, but the machine cannot accept it now. The kernel will not report it again, so retry after
    /// [`ACCEPT_PAUSE`], or once a socket has been closed.
    Later,
}

/// How long the head of a request may take from its first byte on, however steadily it arrives: nginx's default
/// (client_header_timeout).
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How many times each error of the machine occurred, by its message.
pub(crate) type MachineErrors = BTreeMap<String, u64>;

/// How long to wait before accepting again after the machine failed to accept. Short enough that clients hardly notice,
/// long enough that trying costs nothing.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections in a row may fail before the others get their turn.
const MAX_FAILED: usize = 64;

/// What an error of accept(2) means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptError {
    /// The client gave up before it was accepted.
    Aborted,
    /// Only this connection failed.
    OfConnection,
    /// File descriptors or memory ran out.
    OutOfResources,
    /// The listener itself does not work.
    OfListener,
}

impl Listener {
    /// Listens, in the network namespace of the calling thread, and has `reactor` report connections under `token`.
    /// `wants` is what inboxes collect; QUIC connection ids are derived from `seed`.
    pub(crate) fn bind(
        self,
        side: &SideSettings,
        wants: InboxOptions,
        seed: u64,
        reactor: &Reactor,
        token: u64,
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

    /// Accepts one connection, and gives it the next number in the records. Counts errors of the machine in `errors`.
    ///
    /// # Errors
    /// If the listener does not work, or the engine of a connection cannot be created.
    pub(crate) fn accept(
        &self,
        next_number: &mut u32,
        side: &SideSettings,
        wants: InboxOptions,
        errors: &mut MachineErrors,
    ) -> Result<Accepted, StationError> {
        for _ in 0..MAX_FAILED {
            let stream = match socket::accept(&self.listener) {
                Ok(Some(stream)) => stream,
                Ok(None) => return Ok(Accepted::Nothing),
                Err(error) => match AcceptError::of(&error) {
                    AcceptError::Aborted => continue,
                    AcceptError::OfConnection => {
                        note_failed(errors, &error);
                        continue;
                    }
                    AcceptError::OutOfResources => {
                        note_failed(errors, &error);
                        return Ok(Accepted::Later);
                    }
                    AcceptError::OfListener => return Err(self.failed(error)),
                },
            };
            let Ok(address) = stream.peer_addr() else {
                continue;
            };
            let number = *next_number;
            *next_number = number.wrapping_add(1);
            let connection =
                TcpConnection::new(number, stream, address, &self.protocol, side, wants)?;
            return Ok(Accepted::Connection(connection));
        }
        Ok(Accepted::Later)
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

impl AcceptError {
    /// accept(2) fails with errors of the listener and of the machine. On Linux it also fails with errors that are already
    /// pending on the new connection, such as those of the network; its manual lists them.
    fn of(error: &io::Error) -> AcceptError {
        match error.raw_os_error() {
            Some(libc::ECONNABORTED) => AcceptError::Aborted,
            Some(
                libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
                | libc::EOPNOTSUPP
                | libc::ECONNRESET
                | libc::ETIMEDOUT
                | libc::EPERM
                | libc::EINTR,
            ) => AcceptError::OfConnection,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC) => {
                AcceptError::OutOfResources
            }
            _ => AcceptError::OfListener,
        }
    }
}

/// Counts a connection that could not be accepted or watched.
pub(crate) fn note_failed(errors: &mut MachineErrors, error: &impl fmt::Display) {
    let said = format!("cannot accept a connection: {error}");
    *errors.entry(said).or_default() += 1;
}

/// The event of a connection that has just been accepted: the client may have sent something already, and the socket has
/// room.
pub(crate) fn first_event(token: u64) -> ReadyEvent {
    ReadyEvent {
        token,
        readable: true,
        writable: true,
        ended: false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{thread, time};

    use squall_linux::clock;

    use super::*;

    /// Accepts the connection that a test's client has opened.
    pub(crate) fn accept_soon(acceptor: &TcpAcceptor, wants: InboxOptions) -> TcpConnection {
        let side = SideSettings::default();
        let give_up = clock::now() + Duration::from_secs(20);
        loop {
            let mut errors = MachineErrors::new();
            let accepted = acceptor.accept(&mut 0, &side, wants, &mut errors);
            if let Accepted::Connection(tcp) = accepted.unwrap() {
                return tcp;
            }
            assert!(clock::now() < give_up, "no connection within 20 s");
            thread::sleep(time::Duration::from_millis(1));
        }
    }

    /// Checks that one connection could not be watched, and nothing else went wrong.
    pub(crate) fn check_one_unwatched(errors: &MachineErrors) {
        let found: Vec<(&String, &u64)> = errors.iter().collect();
        let [(said, 1)] = found[..] else {
            panic!("{errors:?}");
        };
        assert!(said.contains("cannot watch a file descriptor"), "{said}");
    }

    #[test]
    fn only_an_error_of_the_listener_itself_is_fatal() {
        let of = |number| AcceptError::of(&io::Error::from_raw_os_error(number));
        assert_eq!(of(libc::ECONNABORTED), AcceptError::Aborted);
        for number in [
            libc::EPROTO,
            libc::ENETDOWN,
            libc::EPERM,
            libc::EHOSTUNREACH,
            libc::ENONET,
            libc::EOPNOTSUPP,
            libc::ENETUNREACH,
        ] {
            assert_eq!(of(number), AcceptError::OfConnection, "{number}");
        }
        for number in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(of(number), AcceptError::OutOfResources, "{number}");
        }
        assert_eq!(of(libc::EBADF), AcceptError::OfListener);
        let mut errors = MachineErrors::new();
        for _ in 0..2 {
            note_failed(&mut errors, &io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        assert_eq!(errors.into_values().collect::<Vec<_>>(), [2]);
    }
}
