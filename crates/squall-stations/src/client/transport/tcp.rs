//! TCP, with HTTP/1.1 or HTTP/2 on it, in the clear or over TLS.

use std::io;
use std::net::TcpStream;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{SideCounts, TcpInfo};
use squall_http::{ClientConnection, ClientEvent, ConnectionError, Inbox};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_linux::socket;
use squall_linux::tcp_info::{TCP_INFO_BYTES, tcp_info};

use super::{Dial, Moved, OpenError};
use crate::Buffers;
use crate::log::{self, Log};

pub(crate) struct Tcp {
    stream: TcpStream,
    pub(crate) engine: ClientConnection,
    /// The sizes of TLS records depend on the time; nothing else that is written does.
    needs_time: bool,
    /// How many bytes one call writes at most.
    write_at_most: usize,
    /// The kernel has told that there is an end to be read.
    expects_end: bool,
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
        let stream =
            socket::start_connect(target.address, &dial.side.tcp).map_err(OpenError::Socket)?;
        Ok(Tcp {
            stream,
            engine,
            needs_time,
            write_at_most: dial.side.tcp.write_at_most(),
            expects_end: false,
        })
    }

    /// The server has closed its side, says the kernel, which says so once.
    pub(crate) fn expect_end(&mut self) {
        self.expects_end = true;
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// When the handshake was done; its failure as an error.
    pub(crate) fn finish_connecting(&mut self, ready: Ready) -> io::Result<Option<Time>> {
        if !ready.writable {
            return Ok(None);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        // A fresh socket is reported writable before its SYN is out; only a connected one has a peer.
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
    ) -> (Time, Moved) {
        let buffer = buffers.stream();
        let read = socket::receive(&self.stream, buffer);
        let now = clock::now();
        let moved = match read {
            Ok(0) => closed(self.engine.receive_end(inbox)),
            Ok(count) => {
                let received = self.engine.receive(&buffer[..count], inbox);
                if self.engine.has_heard_end() {
                    // The server may wait for ours: it is in the last write.
                    self.engine.close();
                    return (now, closed(received));
                }
                match received {
                    // Less than there was room for is all that there was (epoll(7)), but for the end.
                    Ok(()) if count < buffer.len() && !self.expects_end => Moved::All,
                    Ok(()) => Moved::Some,
                    Err(error) => Moved::End(Err(error)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Moved::All,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Moved::Some,
            Err(error) => Moved::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, Moved) {
        let now = match self.needs_time {
            true => clock::now(),
            false => Time::ZERO,
        };
        let output = self.engine.output(now);
        if output.is_empty() {
            return (Time::ZERO, Moved::All);
        }
        let part = &output[..output.len().min(self.write_at_most)];
        let written = socket::send(&self.stream, part);
        let now = clock::now();
        let moved = match written {
            Ok(count) => {
                self.engine.advance_output(count, inbox);
                Moved::Some
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Moved::All,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Moved::Some,
            Err(error) => Moved::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.engine.protocol()
    }

    pub(crate) fn count_handshake(&self, counts: &mut SideCounts) {
        if let Some(secured) = self.engine.secured() {
            log::count_tls(secured, counts);
        }
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut Log) {
        log.sample_tcp(connection, is_last, &self.stream);
    }

    /// What the kernel knows of it; of a connection that was never made, nothing.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        let mut buffer = [0; TCP_INFO_BYTES];
        let bytes = tcp_info(&self.stream, &mut buffer).ok()?;
        Some(TcpInfo::from_bytes(bytes))
    }

    pub(crate) fn congestion_control(&self) -> Option<String> {
        socket::congestion_control(&self.stream).ok()
    }

    /// With a reset: nothing stays in the kernel.
    pub(crate) fn close(self) {
        socket::close_abruptly(self.stream);
    }
}

/// What the server's end of a connection comes to.
fn closed(ended: Result<(), ConnectionError>) -> Moved {
    Moved::End(ended.map(|()| "the server closed the connection".to_owned()))
}
