//! The embedded server: the same response to every request, as soon as the request is complete.
//!
//! It serves any number of connections of one protocol on one thread. It keeps no records of its own; a
//! misbehaving client costs it that client's connection and nothing else.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;

use squall_base::plan::{Http2Settings, Protocol};
use squall_http::{Response, ServerConnection, ServerEvent};
use squall_linux::host::Host;
use squall_linux::reactor::{Reactor, Ready};
use squall_linux::scheduling::{self, Scheduling};
use squall_linux::socket;
use squall_linux::stop::StopSignal;

use crate::error::StationError;
use crate::{READ_BYTES, STATION_PRIORITY};

const LISTENER: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;

/// What a server shall do.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where to listen, in the server's host.
    pub address: SocketAddrV4,
    /// The protocol.
    pub protocol: Protocol,
    /// Settings of HTTP/2.
    pub http2: Http2Settings,
    /// TCP congestion control by its kernel name.
    pub congestion_control: String,
    /// The response.
    pub response: Arc<Response>,
}

/// What a server has done.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Requests answered in full: the socket took the last byte.
    pub responses_written: u64,
    /// Congestion control of its sockets, as the kernel says.
    pub congestion_controls: BTreeSet<String>,
    /// How its thread was scheduled; `None` before it has run.
    pub scheduling: Option<Scheduling>,
}

/// A server that listens already.
pub struct Server {
    settings: ServerSettings,
    listener: TcpListener,
    reactor: Reactor,
    stop: StopSignal,
    connections: Vec<Option<Box<Connection>>>,
    report: ServerReport,
}

struct Connection {
    stream: TcpStream,
    engine: ServerConnection,
}

/// Why a connection is over; no fault of ours.
struct Gone;

impl Server {
    /// Listens in `host`. From now on clients can connect; they are answered when `run` is called.
    pub fn listen(
        host: &Host,
        settings: ServerSettings,
        stop: StopSignal,
    ) -> Result<Server, StationError> {
        let address = settings.address;
        let listener = host.run(|| {
            Ok(socket::start_listening(
                address,
                &settings.congestion_control,
            ))
        })??;
        let reactor = Reactor::new()?;
        reactor.add(&listener, LISTENER)?;
        reactor.add(&stop, STOP)?;
        let report = ServerReport::default();
        Ok(Server {
            settings,
            listener,
            reactor,
            stop,
            connections: Vec::new(),
            report,
        })
    }

    /// Serves until the stop signal, then resets what is still open.
    pub fn run(mut self) -> Result<ServerReport, StationError> {
        self.report.scheduling = Some(scheduling::make_realtime(STATION_PRIORITY));
        while !self.stop.is_requested() {
            let ready: Vec<Ready> = self
                .reactor
                .wait(squall_linux::clock::now(), None)?
                .to_vec();
            for ready in ready {
                match ready.token {
                    LISTENER => self.accept()?,
                    STOP => {}
                    token => self.serve(token as usize),
                }
            }
        }
        for connection in self.connections.into_iter().flatten() {
            socket::close_abruptly(connection.stream);
        }
        Ok(self.report)
    }

    fn accept(&mut self) -> Result<(), StationError> {
        loop {
            let stream = match socket::accept(&self.listener) {
                Ok(Some(stream)) => stream,
                Ok(None) => return Ok(()),
                // A connection that died in the queue is the client's matter (accept(2), ECONNABORTED).
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(self.accept_failed(error)),
            };
            self.report.connections_accepted += 1;
            self.report
                .congestion_controls
                .extend(socket::congestion_control(&stream).ok());
            let engine = ServerConnection::new(self.settings.protocol, &self.settings.http2)?;
            let token = self.connections.len();
            self.reactor.add(&stream, token as u64)?;
            self.connections
                .push(Some(Box::new(Connection { stream, engine })));
            self.serve(token);
        }
    }

    fn accept_failed(&self, source: io::Error) -> StationError {
        StationError::Socket(socket::SocketError::System {
            action: "accept connections on",
            address: self.settings.address.into(),
            source,
        })
    }

    fn serve(&mut self, token: usize) {
        let slot = self.connections.get_mut(token);
        let Some(connection) = slot.and_then(Option::as_deref_mut) else {
            return;
        };
        if connection
            .serve(&self.settings.response, &mut self.report)
            .is_err()
        {
            self.connections[token] = None;
        }
    }
}

impl Connection {
    /// Reads, answers and writes as far as it goes.
    fn serve(&mut self, response: &Arc<Response>, report: &mut ServerReport) -> Result<(), Gone> {
        let mut buffer = [0_u8; READ_BYTES];
        let mut events = Vec::new();
        loop {
            let (received, is_last) = match self.stream.read(&mut buffer) {
                Ok(0) => (self.engine.receive_end(&mut events), true),
                Ok(count) => (self.engine.receive(&buffer[..count], &mut events), false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(Gone),
            };
            for event in events.drain(..) {
                if let ServerEvent::RequestEnd { stream } = event {
                    // Refused only if the client has reset the stream meanwhile.
                    let _ = self.engine.respond(stream, response);
                }
            }
            // Also after an error: the engine may have a last word for the peer, such as GOAWAY.
            self.write(report)?;
            if received.is_err() || is_last {
                return Err(Gone);
            }
        }
        self.write(report)?;
        let is_over = !self.engine.is_open() && self.engine.output().is_empty();
        if is_over { Err(Gone) } else { Ok(()) }
    }

    fn write(&mut self, report: &mut ServerReport) -> Result<(), Gone> {
        let mut events = Vec::new();
        loop {
            let output = self.engine.output();
            if output.is_empty() {
                break;
            }
            match self.stream.write(output) {
                Ok(count) => self.engine.advance_output(count, &mut events),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        let is_written =
            |event: &&ServerEvent| matches!(event, ServerEvent::ResponseWritten { .. });
        report.responses_written += events.iter().filter(is_written).count() as u64;
        Ok(())
    }
}
