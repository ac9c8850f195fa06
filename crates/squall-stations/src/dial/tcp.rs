//! A connection that a station opens over TCP, or over a UNIX socket: HTTP/1.1 or HTTP/2, in cleartext or over TLS.
//!
//! It opens the socket, passes through a proxy if there is one (`tunnel`), and moves bytes. squall-http's engine speaks the
//! protocol, and the connection's owner decides when to read and write. `quic` is its counterpart.

use std::io;
use std::net::TcpStream;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{SideCounts, TcpInfo};
use squall_http::{ClientConnection, ClientEvent, ConnectionError, Inbox};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_linux::socket;
use squall_linux::tcp_info::{TCP_INFO_BYTES, tcp_info};

use super::tunnel::{self, Tunnel};
use super::{Dial, IoOutcome, OpenError, Route};
use crate::Buffers;
use crate::log::{self, StationLog};

pub(crate) struct Tcp {
    stream: TcpStream,
    pub(crate) engine: ClientConnection,
    /// Whether writing needs the time: the sizes of TLS records depend on it, and nothing else does.
    needs_time: bool,
    /// Most bytes that one call writes.
    write_at_most: usize,
    /// The kernel has reported that the end of the stream is there to be read.
    expects_end: bool,
    /// Whether the connection uses a UNIX socket.
    is_unix: bool,
    /// The tunnel through a proxy, until it is open.
    tunnel: Option<Tunnel>,
}

impl Tcp {
    pub(crate) fn open(dial: Dial<'_>) -> Result<Tcp, OpenError> {
        let target = dial.target;
        let needs_time = target.security.is_some();
        let engine = match &target.security {
            Some(context) => {
                ClientConnection::secure(context, Some(&target.server_name), dial.side)
            }
            None if dial.asks_for_http2 => ClientConnection::upgrading(dial.side),
            None => ClientConnection::plain(dial.protocol.version(), dial.side),
        };
        let engine = engine.map_err(OpenError::Engine)?;
        let stream = match &target.route {
            Route::UnixSocket(path) => socket::connect_unix(path),
            Route::Direct | Route::Tunnel(_) | Route::Socks(_) => {
                socket::start_connect(target.address, &dial.side.tcp)
            }
        };
        let stream = stream.map_err(OpenError::Socket)?;
        Ok(Tcp {
            stream,
            engine,
            needs_time,
            write_at_most: dial.side.tcp.write_at_most(),
            expects_end: false,
            is_unix: matches!(target.route, Route::UnixSocket(_)),
            tunnel: Tunnel::of(&target.route),
        })
    }

    /// Whether a proxy has not opened the tunnel yet.
    pub(crate) fn is_tunnelling(&self) -> bool {
        self.tunnel.is_some()
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.is_tunnelling() && self.engine.is_ready()
    }

    /// Notes that the server has closed its side. The kernel reports this only once.
    pub(crate) fn expect_end(&mut self) {
        self.expects_end = true;
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns when the handshake completed; an error if it failed.
    pub(crate) fn finish_connecting(&mut self, ready: ReadyEvent) -> io::Result<Option<Time>> {
        if !ready.writable {
            return Ok(None);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if self.is_unix {
            return Ok(Some(clock::now()));
        }
        // A fresh socket is reported writable before its SYN is sent; only a connected one has a peer.
        match self.stream.peer_addr() {
            Ok(_) => Ok(Some(clock::now())),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, IoOutcome) {
        let buffer = buffers.stream();
        let read = socket::receive(&self.stream, buffer);
        let now = clock::now();
        let moved = match read {
            Ok(0) => match &self.tunnel {
                Some(tunnel) => IoOutcome::End(Ok(tunnel.closed().to_owned())),
                None => closed(self.engine.receive_end(inbox)),
            },
            Ok(count) => {
                let received = match tunnel::pass(&mut self.tunnel, &buffer[..count]) {
                    Ok(bytes) if bytes.is_empty() => Ok(()),
                    Ok(bytes) => self.engine.receive(&bytes, inbox),
                    Err(refusal) => return (now, IoOutcome::End(Ok(refusal))),
                };
                if self.engine.has_received_end() {
                    // The server may wait for our close, which is in the last write.
                    self.engine.close();
                    return (now, closed(received));
                }
                match received {
                    // A short read means that nothing is left to read (epoll(7)), except for the end.
                    Ok(()) if count < buffer.len() && !self.expects_end => IoOutcome::Done,
                    Ok(()) => IoOutcome::More,
                    Err(error) => IoOutcome::End(Err(error)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => IoOutcome::Done,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => IoOutcome::More,
            Err(error) => IoOutcome::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, IoOutcome) {
        let now = if self.needs_time {
            clock::now()
        } else {
            Time::ZERO
        };
        let output = match &self.tunnel {
            Some(tunnel) => tunnel.output(),
            None => self.engine.output(now),
        };
        if output.is_empty() {
            return (Time::ZERO, IoOutcome::Done);
        }
        let part = &output[..output.len().min(self.write_at_most)];
        let written = socket::send(&self.stream, part);
        let now = clock::now();
        let moved = match written {
            Ok(count) => {
                match &mut self.tunnel {
                    Some(tunnel) => tunnel.advance_output(count),
                    None => self.engine.advance_output(count, inbox),
                }
                IoOutcome::More
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => IoOutcome::Done,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => IoOutcome::More,
            Err(error) => IoOutcome::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.engine.protocol().filter(|_| !self.is_tunnelling())
    }

    pub(crate) fn count_handshake(&self, counts: &mut SideCounts) {
        if let Some(secured) = self.engine.secured() {
            log::count_tls(secured, counts);
        }
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut StationLog) {
        log.sample_tcp(connection, is_last, &self.stream);
    }

    /// The kernel's statistics; `None` for a connection that was never made.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        let mut buffer = [0; TCP_INFO_BYTES];
        let bytes = tcp_info(&self.stream, &mut buffer).ok()?;
        Some(TcpInfo::from_bytes(bytes))
    }

    pub(crate) fn congestion_control(&self) -> Option<String> {
        socket::congestion_control(&self.stream).ok()
    }

    /// Closes with a reset, so that nothing stays in the kernel.
    pub(crate) fn close(self) {
        socket::close_abruptly(self.stream);
    }
}

/// What the server's close means for the connection.
fn closed(ended: Result<(), ConnectionError>) -> IoOutcome {
    IoOutcome::End(ended.map(|()| "the server closed the connection".to_owned()))
}
