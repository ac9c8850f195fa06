//! One connection of the client: a transport with its engine, and the requests that are under way on it.
//!
//! It knows no pool and no schedule: `Next` says what it can do, the client decides.

use std::sync::Arc;

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::tls::TlsError;
use squall_http::{ClientEvent, ConnectionError, Inbox, Request, Wants};
use squall_linux::reactor::Ready;

use super::causes::{Causes, Watch};
use super::requests::{Failure, Recorder, Seen};
use super::transport::{Moved, OpenError, Transport};
use super::under_way::{Applied, UnderWay};
use super::upload::{Fed, Sending};
use super::{Asked, ClientSettings, Target, Uploads};
use crate::Buffers;
use crate::error::StationError;
use crate::log::Log;

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

/// What every connection of a client works with.
pub(crate) struct Shared<'a> {
    pub(crate) settings: &'a ClientSettings,
    pub(crate) uploads: &'a Uploads,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) log: &'a mut Log,
    pub(crate) buffers: &'a mut Buffers,
    /// Sums of what held it up, if they are wanted.
    pub(crate) causes: &'a mut Option<Causes>,
}

pub(crate) struct Connection {
    /// Its number among all connections of the load.
    number: u32,
    transport: Transport,
    /// When TCP's handshake was done, and when that of TLS or QUIC was.
    connected: Option<Time>,
    secured: Option<Time>,
    /// What is really spoken, once that is decided.
    protocol: Option<Protocol>,
    /// The request that this connection was opened for, until it can be sent.
    pub(crate) first: Option<RequestRecord>,
    under_way: UnderWay,
    /// Bodies that are read while they are sent.
    sending: Vec<Sending>,
    /// What flow control does to bodies, if that is wanted.
    watch: Option<Box<Watch>>,
    /// Whether requests say which they are.
    traces: bool,
    inbox: Inbox<ClientEvent>,
    /// There is more to read than one turn takes.
    is_hungry: bool,
    /// There is more to write than was written.
    has_more: bool,
    /// Whether another turn is arranged for.
    pub(crate) has_turn: bool,
    /// It is among those that will write.
    pub(crate) is_gathering: bool,
}

impl Connection {
    pub(crate) fn open(
        settings: &ClientSettings,
        target: &Target,
        wants: Wants,
        number: u32,
    ) -> Result<Connection, OpenError> {
        Ok(Connection {
            number,
            transport: Transport::open(settings.dial(target), wants)?,
            connected: None,
            secured: None,
            protocol: None,
            first: None,
            under_way: UnderWay::default(),
            sending: Vec::new(),
            watch: None,
            traces: settings.traces,
            inbox: Inbox::new(wants),
            is_hungry: false,
            has_more: false,
            has_turn: false,
            is_gathering: false,
        })
    }

    /// From now on it is noted how long bodies wait for windows. It needs frames.
    pub(crate) fn watch_windows(&mut self) {
        self.watch = Some(Box::default());
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether it has begun to speak HTTP.
    pub(crate) fn is_established(&self) -> bool {
        self.protocol.is_some()
    }

    /// Whether it has begun to speak HTTP, and has the server's limits.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_established() && self.transport.is_settled()
    }

    /// Whether it wants another turn although nothing new is ready.
    pub(crate) fn is_hungry(&self) -> bool {
        self.is_hungry || self.has_more
    }

    /// When it has something to do by itself.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.transport.deadline()
    }

    /// Requests in flight on it.
    pub(crate) fn in_flight(&self) -> usize {
        self.transport.in_flight()
    }

    /// Gives the engine a request whose slot this is, at `now`.
    pub(crate) fn submit(
        &mut self,
        mut request: RequestRecord,
        now: Time,
        requests: &[Asked],
        uploads: &Uploads,
    ) -> Result<(), StationError> {
        let asked = &requests[request.what as usize].request;
        let traced = match self.traces {
            true => asked.traced(request.request).map(Arc::new),
            false => None,
        };
        let stream = self.transport.submit(traced.as_ref().unwrap_or(asked))?;
        request.connection = Some(self.number);
        request.stream = Some(stream.0);
        request.connected = self.connected;
        request.secured = self.secured;
        if let Some(Some(upload)) = uploads.get(request.what as usize) {
            self.sending.push(Sending::new(stream, upload.clone()));
        }
        if let Some(watch) = &mut self.watch {
            watch.begin(stream.0, request.request_body_bytes, now);
        }
        self.under_way.insert(stream, request);
        Ok(())
    }

    /// Connects and reads as far as one turn goes.
    pub(crate) fn read_turn(
        &mut self,
        ready: Ready,
        shared: &mut Shared<'_>,
    ) -> Result<Next, StationError> {
        match self.connect_and_read(ready, shared) {
            Ok(()) => self.send_first(shared),
            Err(failure) => Ok(Next::Over(failure)),
        }
    }

    /// Writes as far as one turn goes.
    pub(crate) fn write_turn(&mut self, shared: &mut Shared<'_>) -> Result<Next, StationError> {
        self.is_gathering = false;
        match self.write(shared) {
            Ok(()) if self.first.is_none() => Ok(self.next(shared.settings)),
            Ok(()) => self.send_first(shared),
            Err(failure) => Ok(Next::Over(failure)),
        }
    }

    /// Sends the request for which the connection was opened, as soon as it can.
    fn send_first(&mut self, shared: &mut Shared<'_>) -> Result<Next, StationError> {
        if let Some(mut first) = self.first.take_if(|_| self.transport.is_ready()) {
            first.opened_connection = true;
            let now = squall_linux::clock::now();
            self.submit(first, now, &shared.settings.requests, shared.uploads)?;
            if let Err(failure) = self.write(shared) {
                return Ok(Next::Over(failure));
            }
        }
        Ok(self.next(shared.settings))
    }

    /// Whether another request may share the write of those that were submitted just now.
    pub(crate) fn gathers(&mut self, settings: &ClientSettings) -> bool {
        self.first.is_none() && self.has_stream(settings) && self.transport.gather()
    }

    /// Whether the pool's settings allow another request on it.
    fn has_stream(&self, settings: &ClientSettings) -> bool {
        let in_flight = self.transport.in_flight();
        (settings.pool.streams_at_most).is_none_or(|at_most| in_flight < at_most as usize)
    }

    fn next(&self, settings: &ClientSettings) -> Next {
        let in_flight = self.transport.in_flight();
        if self.transport.is_ready() && self.first.is_none() {
            return if self.has_stream(settings) {
                Next::Ready
            } else {
                Next::Busy
            };
        }
        match (self.transport.is_open(), in_flight) {
            (true, _) => Next::Busy,
            (false, 0) => {
                let said = self.transport.last_words();
                Next::Over(Failure::new(Outcome::ConnectionClosed, said))
            }
            (false, _) => Next::Draining,
        }
    }

    /// Reads if there is something.
    fn connect_and_read(&mut self, ready: Ready, shared: &mut Shared<'_>) -> Result<(), Failure> {
        if self.connected.is_none() {
            match self.transport.finish_connecting(ready) {
                Ok(Some(time)) => {
                    self.connected = Some(time);
                    if self.transport.is_tcp() {
                        shared.recorder.connected(time, self.number);
                    }
                    self.transport.count_connection(&mut shared.log.counts);
                    self.note_established(shared)?;
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    return Err(Failure::new(Outcome::ConnectFailed, error.to_string()));
                }
            }
        }
        if ready.ended {
            self.transport.expect_end();
        }
        if ready.readable || self.is_hungry {
            self.read(shared)?;
        }
        Ok(())
    }

    fn read(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        self.is_hungry = true;
        for _ in 0..super::READS_A_TURN {
            let (now, moved) = self.transport.read(shared.buffers, &mut self.inbox);
            self.apply(now, shared);
            match moved {
                Moved::Some => {}
                Moved::All => {
                    self.is_hungry = false;
                    break;
                }
                Moved::End(outcome) => {
                    self.is_hungry = false;
                    self.say_last_word(shared);
                    return Err(self.ending(outcome));
                }
            }
        }
        self.note_established(shared)
    }

    /// What a broken protocol leaves to be said, such as GOAWAY or an alert.
    fn say_last_word(&mut self, shared: &mut Shared<'_>) {
        // The connection has failed already; that its last word fails too changes nothing.
        let _ = self.write(shared);
    }

    fn ending(&self, outcome: Result<String, ConnectionError>) -> Failure {
        match outcome {
            Ok(said) if self.protocol.is_none() => Failure::new(Outcome::TlsFailed, said),
            Ok(said) => Failure::new(Outcome::ConnectionClosed, said),
            Err(error @ ConnectionError::Tls(TlsError::Truncated)) if self.protocol.is_some() => {
                Failure::new(Outcome::ConnectionClosed, error.to_string())
            }
            Err(ConnectionError::UnexpectedEnd) if self.protocol.is_some() => {
                let said = "the server closed the connection inside an exchange".to_owned();
                Failure::new(Outcome::ConnectionClosed, said)
            }
            Err(error) if self.protocol.is_none() => {
                Failure::new(Outcome::TlsFailed, error.to_string())
            }
            Err(ConnectionError::Quic(closing)) if closing.is_clean() => {
                Failure::new(Outcome::ConnectionClosed, closing.to_string())
            }
            Err(error) => Failure::new(Outcome::ProtocolError, error.to_string()),
        }
    }

    fn write(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        self.has_more = true;
        for _ in 0..super::WRITES_A_TURN {
            if !self.sending.is_empty() {
                self.feed(shared)?;
            }
            let (now, moved) = self.transport.write(&mut self.inbox);
            self.apply(now, shared);
            match moved {
                Moved::Some => {}
                Moved::All => {
                    self.has_more = false;
                    break;
                }
                Moved::End(outcome) => return Err(self.ending(outcome)),
            }
        }
        Ok(())
    }

    /// Hands over what there is room for of the bodies that are read while they are sent.
    fn feed(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        let has_streams = self.transport.has_streams();
        let mut index = 0;
        while let Some(sending) = self.sending.get_mut(index) {
            let stream = sending.stream;
            // Who has an answer needs no more of the request. HTTP/1.1 can end it in no other way.
            if has_streams && !self.under_way.has(stream) {
                self.sending.swap_remove(index);
                self.transport.cancel(stream);
                continue;
            }
            match sending.feed(&mut self.transport, shared.buffers.stream()) {
                Fed::Partly => index += 1,
                Fed::Wholly => {
                    self.sending.swap_remove(index);
                }
                Fed::Broken(why) if has_streams => {
                    self.sending.swap_remove(index);
                    self.transport.cancel(stream);
                    let failure = Failure::new(Outcome::StreamReset, why);
                    if let Some(request) = self.under_way.take(stream) {
                        let now = squall_linux::clock::now();
                        shared.recorder.fail(request, &failure, now);
                    }
                }
                Fed::Broken(why) => return Err(Failure::new(Outcome::ConnectionClosed, why)),
            }
        }
        Ok(())
    }

    fn apply(&mut self, now: Time, shared: &mut Shared<'_>) {
        if self.inbox.is_empty() && !shared.recorder.has_observer() {
            return;
        }
        if let Some(watch) = self
            .watch
            .as_mut()
            .filter(|_| !self.inbox.frames.is_empty())
        {
            watch.frames(&self.inbox.frames, now);
        }
        let transport = &self.transport;
        let (inbox, under_way) = (&self.inbox, &mut self.under_way);
        let mut asked = |stream| under_way.what(stream);
        let sent_head = |request: &Request| transport.sent_head(request);
        let connection = self.number;
        shared.recorder.observe(|| Seen {
            connection,
            inbox,
            now,
            announced: transport.announced(),
            announced_http3: transport.announced_http3(),
            sent_head: &sent_head,
            asked: &mut asked,
        });
        let mut with = Applied {
            connection: self.number,
            protocol: self.protocol.unwrap_or(shared.settings.protocol),
            now,
            recorder: shared.recorder,
            log: shared.log,
        };
        let locate = |way, offset| transport.locate(way, offset);
        self.under_way.apply(&mut self.inbox, locate, &mut with);
    }

    /// Notes what is spoken, once that is known or has changed.
    fn note_established(&mut self, shared: &mut Shared<'_>) -> Result<(), Failure> {
        shared.log.keys(self.transport.take_key_log());
        let Some(protocol) = self.transport.protocol() else {
            return Ok(());
        };
        // Another one than before is HTTP/2 after an upgrade.
        if self.protocol == Some(protocol) {
            return Ok(());
        }
        self.protocol = Some(protocol);
        if protocol.is_secure() {
            let now = squall_linux::clock::now();
            self.secured = Some(now);
            let alpn = self.transport.alpn();
            shared.recorder.secured(now, self.number, alpn);
        }
        self.transport
            .count_handshake(protocol, &mut shared.log.counts);
        let asked = shared.settings.protocol;
        if shared.settings.is_strict && protocol != asked {
            let said = format!("the server agreed on {protocol} instead of {asked}");
            return Err(Failure::new(Outcome::TlsFailed, said));
        }
        Ok(())
    }

    /// Samples the socket, if samples are wanted.
    pub(crate) fn sample(&self, is_last: bool, log: &mut Log) {
        self.transport.sample(self.number, is_last, log);
    }

    /// Adds what held it up, at its end.
    fn add_causes(&mut self, shared: &mut Shared<'_>) {
        let Some(causes) = shared.causes else {
            return;
        };
        let now = squall_linux::clock::now();
        let open = self
            .connected
            .map_or(Duration::ZERO, |from| now.since(from));
        self.transport.add_causes(open, causes);
        if let Some(watch) = self.watch.take() {
            causes.add_windows(&watch.end(now));
        }
    }

    /// Requests of this connection that have not ended, in the order of the schedule.
    pub(crate) fn take_unfinished(&mut self) -> Vec<RequestRecord> {
        let mut unfinished = self.under_way.take_unfinished();
        unfinished.extend(self.first.take());
        unfinished.sort_by_key(|request| request.request);
        unfinished
    }

    /// Ends the connection with everything on it.
    pub(crate) fn fail_all(mut self, failure: &Failure, shared: &mut Shared<'_>) {
        self.sample(true, shared.log);
        self.add_causes(shared);
        self.transport.count_settings(&mut shared.log.counts);
        let now = squall_linux::clock::now();
        for request in self.take_unfinished() {
            shared.recorder.fail(request, failure, now);
        }
    }

    /// Ends the connection at the end of the load: with a reset, leaving nothing in the kernel.
    pub(crate) fn close(mut self, shared: &mut Shared<'_>) {
        self.sample(true, shared.log);
        self.add_causes(shared);
        self.transport.count_settings(&mut shared.log.counts);
        self.transport.close(&mut self.inbox);
        let (inbox, now) = (&self.inbox, squall_linux::clock::now());
        if inbox.frames.is_empty() {
            return;
        }
        shared.log.frames(self.number, now, &inbox.frames);
        let mut asked = |_| None;
        let connection = self.number;
        shared.recorder.observe(|| Seen {
            connection,
            inbox,
            now,
            announced: None,
            announced_http3: None,
            sent_head: &|_| None,
            asked: &mut asked,
        });
    }
}
