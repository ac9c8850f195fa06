//! One connection of the client: a socket, an engine, and the requests that are under way on it.
//!
//! Times are taken right after each read and write returns; all events of that read or write get it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use squall_base::Time;
use squall_base::record::{Outcome, RequestRecord};
use squall_http::{ClientConnection, ClientEvent, CreateError, Request, StreamId};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_linux::socket::{self, SocketError};
use squall_load::ConnectionId;

use super::ClientSettings;
use super::requests::{Failure, Recorder};
use crate::READ_BYTES;
use crate::error::StationError;

/// What a connection can do next.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    /// Take a request.
    Ready,
    /// Nothing new for now.
    Busy,
    /// Finish what is under way, and take nothing new.
    Draining,
    /// Nothing ever: it is to be dropped, and what is under way on it has failed so.
    Over(Failure),
}

/// Why a connection could not even begin.
#[derive(Debug)]
pub(crate) enum OpenError {
    Engine(CreateError),
    Socket(SocketError),
}

pub(crate) struct Connection {
    id: ConnectionId,
    stream: TcpStream,
    engine: ClientConnection,
    connected: Option<Time>,
    /// The request that this connection was opened for, until the handshake is done.
    pub(crate) first: Option<RequestRecord>,
    under_way: HashMap<StreamId, RequestRecord>,
    /// As the kernel said when the handshake was done, until it is taken.
    congestion_control: Option<String>,
    events: Vec<ClientEvent>,
}

impl Connection {
    pub(crate) fn open(
        settings: &ClientSettings,
        id: ConnectionId,
    ) -> Result<Connection, OpenError> {
        let engine =
            ClientConnection::new(settings.protocol, &settings.http2).map_err(OpenError::Engine)?;
        let stream = socket::start_connect(settings.server, &settings.congestion_control)
            .map_err(OpenError::Socket)?;
        Ok(Connection {
            id,
            stream,
            engine,
            connected: None,
            first: None,
            under_way: HashMap::new(),
            congestion_control: None,
            events: Vec::new(),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// What congestion control the kernel uses, once, after the handshake.
    pub(crate) fn take_congestion_control(&mut self) -> Option<String> {
        self.congestion_control.take()
    }

    /// Gives the engine a request whose slot this is.
    pub(crate) fn submit(
        &mut self,
        mut request: RequestRecord,
        template: &Arc<Request>,
    ) -> Result<(), StationError> {
        let stream = self.engine.submit(template)?;
        request.connection = Some(self.id.0);
        request.stream = Some(stream.0);
        request.connected = self.connected;
        self.under_way.insert(stream, request);
        Ok(())
    }

    /// Connects, reads and writes as far as it goes.
    pub(crate) fn serve(
        &mut self,
        ready: Ready,
        template: &Arc<Request>,
        recorder: &mut Recorder,
    ) -> Result<Next, StationError> {
        if self.connected.is_none() {
            match self.finish_connecting(ready) {
                Ok(true) => {}
                Ok(false) => return Ok(Next::Busy),
                Err(error) => {
                    return Ok(Next::Over(Failure::new(
                        Outcome::ConnectFailed,
                        error.to_string(),
                    )));
                }
            }
            if let Some(mut first) = self.first.take() {
                first.opened_connection = true;
                self.submit(first, template)?;
            }
        }
        let moved = if ready.readable {
            self.read(recorder)
        } else {
            Ok(())
        };
        if let Err(failure) = moved.and_then(|()| self.write(recorder)) {
            return Ok(Next::Over(failure));
        }
        if self.engine.is_ready() {
            return Ok(Next::Ready);
        }
        match (self.engine.is_open(), self.engine.in_flight()) {
            (true, _) => Ok(Next::Busy),
            (false, 0) => {
                let said = "the server ended the connection".to_owned();
                Ok(Next::Over(Failure::new(Outcome::ConnectionClosed, said)))
            }
            (false, _) => Ok(Next::Draining),
        }
    }

    /// Whether the handshake is done; its failure as an error.
    fn finish_connecting(&mut self, ready: Ready) -> io::Result<bool> {
        if !ready.writable {
            return Ok(false);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        // A fresh socket is reported writable before its SYN is out; only a connected one has a peer.
        match self.stream.peer_addr() {
            Ok(_) => {
                self.connected = Some(clock::now());
                self.congestion_control = socket::congestion_control(&self.stream).ok();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, recorder: &mut Recorder) -> Result<(), Failure> {
        let mut buffer = [0_u8; READ_BYTES];
        loop {
            let read = self.stream.read(&mut buffer);
            let now = clock::now();
            let outcome = match read {
                Ok(0) => Some(self.engine.receive_end(&mut self.events)),
                Ok(count) => match self.engine.receive(&buffer[..count], &mut self.events) {
                    Ok(()) => None,
                    broken @ Err(_) => Some(broken),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::new(Outcome::ConnectionClosed, error.to_string()));
                }
            };
            self.apply_events(now, recorder);
            match outcome {
                None => {}
                Some(Ok(())) => {
                    let said = "the server closed the connection".to_owned();
                    return Err(Failure::new(Outcome::ConnectionClosed, said));
                }
                Some(Err(squall_http::ConnectionError::UnexpectedEnd)) => {
                    let said = "the server closed the connection inside an exchange".to_owned();
                    return Err(Failure::new(Outcome::ConnectionClosed, said));
                }
                Some(Err(error)) => {
                    return Err(Failure::new(Outcome::ProtocolError, error.to_string()));
                }
            }
        }
    }

    fn write(&mut self, recorder: &mut Recorder) -> Result<(), Failure> {
        loop {
            let output = self.engine.output();
            if output.is_empty() {
                return Ok(());
            }
            let written = self.stream.write(output);
            let now = clock::now();
            match written {
                Ok(count) => self.engine.advance_output(count, &mut self.events),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::new(Outcome::ConnectionClosed, error.to_string()));
                }
            }
            self.apply_events(now, recorder);
        }
    }

    /// Writes the marks of all gathered events into their requests' records.
    fn apply_events(&mut self, now: Time, recorder: &mut Recorder) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.apply(&event, now, recorder);
        }
        self.events = events;
    }

    fn apply(&mut self, event: &ClientEvent, now: Time, recorder: &mut Recorder) {
        let mut mark = |stream: &StreamId, set: &dyn Fn(&mut RequestRecord)| {
            if let Some(request) = self.under_way.get_mut(stream) {
                set(request);
            }
        };
        match event {
            ClientEvent::RequestFirstByteWritten { stream } => {
                mark(stream, &|request| request.written_first = Some(now));
            }
            ClientEvent::RequestWritten { stream } => {
                mark(stream, &|request| request.written_last = Some(now));
            }
            ClientEvent::ResponseFirstByte { stream } => {
                mark(stream, &|request| request.answered_first = Some(now));
            }
            ClientEvent::ResponseHeaders { stream, status } => mark(stream, &|request| {
                request.headers = Some(now);
                request.status = Some(*status);
            }),
            ClientEvent::ResponseBody { stream, len } => {
                mark(stream, &|request| request.response_body_bytes += len);
            }
            ClientEvent::ResponseEnd { stream } => {
                if let Some(request) = self.under_way.remove(stream) {
                    recorder.finish(request, now);
                }
            }
            ClientEvent::StreamReset { stream, code } => {
                if let Some(request) = self.under_way.remove(stream) {
                    let said = format!("the server reset the stream with error code {code}");
                    recorder.fail(request, &Failure::new(Outcome::StreamReset, said), now);
                }
            }
            ClientEvent::GoAway { .. } => {}
        }
    }

    /// Requests of this connection that have not ended, in the order of the schedule.
    pub(crate) fn take_unfinished(&mut self) -> Vec<RequestRecord> {
        let mut unfinished: Vec<RequestRecord> = self
            .under_way
            .drain()
            .map(|(_, request)| request)
            .chain(self.first.take())
            .collect();
        unfinished.sort_by_key(|request| request.request);
        unfinished
    }

    /// Ends the connection with everything on it.
    pub(crate) fn fail_all(mut self, failure: &Failure, recorder: &mut Recorder) {
        let now = clock::now();
        for request in self.take_unfinished() {
            recorder.fail(request, failure, now);
        }
    }

    /// Ends the connection with a reset, leaving nothing in the kernel.
    pub(crate) fn close(self) {
        socket::close_abruptly(self.stream);
    }
}
