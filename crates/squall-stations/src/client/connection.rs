//! One connection of the client: a transport with its engine, and the requests in flight on it.
//!
//! It knows neither the pool nor the schedule: `Availability` reports what the connection can do, and the client decides.

use std::sync::Arc;

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::tls::TlsError;
use squall_http::{ClientEvent, ConnectionError, Inbox, InboxOptions, Request};
use squall_linux::reactor::ReadyEvent;

use super::causes::{Causes, WindowWatch};
use super::in_flight::{EventContext, InFlightRequests};
use super::requests::{Observation, Recorder, RequestFailure};
use super::settings::{ClientSettings, TargetedRequest};
use super::upload::{ActiveUpload, UploadProgress, Uploads};
use crate::Buffers;
use crate::buffers::READS_A_TURN;
use crate::dial::{Availability, DialedConnection, IoOutcome, OpenError, Target, Transport};
use crate::error::StationError;
use crate::log::StationLog;

/// Writes of one connection before others get their turn: 1 MiB, if the receiver takes it that fast.
const WRITES_A_TURN: usize = 16;

/// What a connection can do next. `Err`: it is closed, and the requests in flight on it failed for this reason.
pub(crate) type TurnResult = Result<Availability, RequestFailure>;

/// What all connections of a client share.
pub(crate) struct Shared {
    pub(crate) settings: ClientSettings,
    pub(crate) uploads: Uploads,
    pub(crate) recorder: Recorder,
    pub(crate) log: StationLog,
    pub(crate) buffers: Buffers,
    /// Sums of what delayed sending, if they are wanted.
    pub(crate) causes: Option<Causes>,
}

pub(crate) struct Connection {
    /// The connection, numbered among all connections of the load.
    dialed: DialedConnection<RequestRecord>,
    /// The protocol that the connection began with.
    requested: Protocol,
    in_flight_requests: InFlightRequests,
    /// Bodies that are read from disk while they are sent.
    active_uploads: Vec<ActiveUpload>,
    /// How long flow control delays bodies, if that is wanted.
    watch: Option<Box<WindowWatch>>,
    /// Whether requests carry their own number (`traceparent`).
    traces: bool,
    inbox: Inbox<ClientEvent>,
    /// When the first read of the connection's last wake-up returned.
    woken: Time,
    /// There is more to write than one turn allows.
    has_unwritten: bool,
    /// Whether another turn is scheduled.
    pub(crate) has_turn: bool,
    /// The connection is in the list of those that are about to write.
    pub(crate) is_gathering: bool,
}

impl Connection {
    pub(crate) fn open(
        settings: &ClientSettings,
        target: &Target,
        wants: InboxOptions,
        number: u32,
    ) -> Result<Connection, OpenError> {
        Ok(Connection {
            dialed: DialedConnection::open(settings.dial(target), wants, number, None)?,
            requested: settings.protocol_to(target),
            in_flight_requests: InFlightRequests::default(),
            active_uploads: Vec::new(),
            watch: None,
            traces: settings.traces,
            inbox: Inbox::new(wants),
            woken: Time::ZERO,
            has_unwritten: false,
            has_turn: false,
            is_gathering: false,
        })
    }

    /// Starts measuring how long bodies wait for windows. Needs frames.
    pub(crate) fn watch_windows(&mut self) {
        self.watch = Some(Box::default());
    }

    /// Makes the connection send this request first, as soon as possible.
    pub(crate) fn begin_with(&mut self, first: Option<RequestRecord>) {
        self.dialed.first = first;
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.dialed.transport
    }

    /// Whether HTTP has been established on the connection.
    pub(crate) fn is_established(&self) -> bool {
        self.dialed.is_established()
    }

    /// Whether HTTP has been established on the connection and the server's limits are known.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_established() && self.dialed.transport.is_settled()
    }

    /// Whether the connection wants another turn although its socket reports nothing new.
    pub(crate) fn wants_turn(&self) -> bool {
        self.dialed.has_unread || self.has_unwritten
    }

    /// When the connection's next timer is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let uploads = self.active_uploads.iter();
        uploads
            .filter_map(ActiveUpload::waits_until)
            .chain(self.dialed.transport.deadline())
            .min()
    }

    /// The number of requests in flight on the connection.
    pub(crate) fn in_flight(&self) -> usize {
        self.dialed.transport.in_flight()
    }

    /// Submits a request to the engine at `now`, when it was assigned to this connection.
    pub(crate) fn submit(
        &mut self,
        mut request: RequestRecord,
        now: Time,
        requests: &[TargetedRequest],
        uploads: &Uploads,
    ) -> Result<(), StationError> {
        let template = &requests[request.what as usize].request;
        let traced = if self.traces {
            template.traced(request.request).map(Arc::new)
        } else {
            None
        };
        let request_to_send = traced.as_ref().unwrap_or(template);
        let stream = self.dialed.transport.streams().submit(request_to_send)?;
        request.connection = Some(self.dialed.number);
        request.stream = Some(stream.0);
        request.connected = self.dialed.connected;
        request.secured = self.dialed.secured;
        if let Some(Some(upload)) = uploads.get(request.what as usize) {
            let upload = ActiveUpload::new(stream, upload.clone());
            self.active_uploads.push(if template.expects_continue() {
                upload.awaiting_continue(now)
            } else {
                upload
            });
        }
        if let Some(watch) = &mut self.watch {
            watch.begin(stream.0, request.request_body_bytes, now);
        }
        let is_call = template.is_grpc();
        self.in_flight_requests.insert(stream, request, is_call);
        Ok(())
    }

    /// Connects, and reads as much as one turn allows.
    pub(crate) fn read_turn(
        &mut self,
        ready: ReadyEvent,
        shared: &mut Shared,
    ) -> Result<TurnResult, StationError> {
        match self.connect_and_read(ready, shared) {
            Ok(()) => self.send_first(shared),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Writes as much as one turn allows.
    pub(crate) fn write_turn(&mut self, shared: &mut Shared) -> Result<TurnResult, StationError> {
        self.is_gathering = false;
        match self.write(shared) {
            Ok(()) if self.dialed.first.is_none() => Ok(self.availability(shared)),
            Ok(()) => self.send_first(shared),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Sends the request that the connection was opened for, as soon as possible.
    fn send_first(&mut self, shared: &mut Shared) -> Result<TurnResult, StationError> {
        if let Some(mut first) = self
            .dialed
            .first
            .take_if(|_| self.dialed.transport.is_ready())
        {
            first.opened_connection = true;
            let now = squall_linux::clock::now();
            self.submit(first, now, &shared.settings.requests, &shared.uploads)?;
            if let Err(failure) = self.write(shared) {
                return Ok(Err(failure));
            }
        }
        Ok(self.availability(shared))
    }

    /// Whether another request may share a write with those that were just submitted.
    pub(crate) fn may_gather(&mut self, settings: &ClientSettings) -> bool {
        self.dialed.first.is_none()
            && (self.dialed).has_free_stream(settings.pool.streams_at_most)
            && self.dialed.transport.gather()
    }

    fn availability(&mut self, shared: &mut Shared) -> TurnResult {
        let is_ready = self.dialed.transport.is_ready();
        match (self.dialed).availability(is_ready, shared.settings.pool.streams_at_most) {
            Availability::Over => {
                self.send_close(shared);
                let message = "the server ended the connection".to_owned();
                Err(RequestFailure::new(Outcome::ConnectionClosed, message))
            }
            availability => Ok(availability),
        }
    }

    /// Finishes connecting if necessary, then reads what is there.
    fn connect_and_read(
        &mut self,
        ready: ReadyEvent,
        shared: &mut Shared,
    ) -> Result<(), RequestFailure> {
        if self.dialed.connected.is_none() {
            match self.dialed.connect(ready, &mut shared.log) {
                Ok(Some(time)) => {
                    if self.dialed.transport.is_tcp() {
                        shared.recorder.connected(time, self.dialed.number);
                    }
                    self.note_established(shared)?;
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    return Err(RequestFailure::new(
                        Outcome::ConnectFailed,
                        error.to_string(),
                    ));
                }
            }
        }
        if ready.ended {
            self.dialed.transport.expect_end();
        }
        if ready.readable || self.dialed.has_unread {
            self.read(shared)?;
        }
        Ok(())
    }

    fn read(&mut self, shared: &mut Shared) -> Result<(), RequestFailure> {
        self.dialed.has_unread = true;
        for read in 0..READS_A_TURN {
            let (now, outcome) = self
                .dialed
                .transport
                .read(&mut shared.buffers, &mut self.inbox);
            if read == 0 {
                self.woken = now;
            }
            self.apply(now, shared);
            match outcome {
                IoOutcome::More => {}
                IoOutcome::Done => {
                    self.dialed.has_unread = false;
                    break;
                }
                IoOutcome::End(outcome) => {
                    self.dialed.has_unread = false;
                    self.flush_after_error(shared);
                    return Err(self.end_failure(outcome));
                }
            }
        }
        self.note_established(shared)
    }

    /// Writes what remains to be sent after a protocol error, such as GOAWAY or an alert.
    fn flush_after_error(&mut self, shared: &mut Shared) {
        // The connection has already failed; failing to write this changes nothing.
        let _ = self.write(shared);
    }

    fn end_failure(&self, outcome: Result<String, ConnectionError>) -> RequestFailure {
        match outcome {
            Ok(message) if self.dialed.transport.is_tunnelling() => {
                RequestFailure::new(Outcome::ConnectFailed, message)
            }
            Ok(message) if self.dialed.protocol.is_none() => {
                RequestFailure::new(Outcome::TlsFailed, message)
            }
            Ok(message) => RequestFailure::new(Outcome::ConnectionClosed, message),
            Err(error @ ConnectionError::Tls(TlsError::Truncated))
                if self.dialed.protocol.is_some() =>
            {
                RequestFailure::new(Outcome::ConnectionClosed, error.to_string())
            }
            Err(ConnectionError::UnexpectedEnd) if self.dialed.protocol.is_some() => {
                let message = "the server closed the connection inside an exchange".to_owned();
                RequestFailure::new(Outcome::ConnectionClosed, message)
            }
            Err(error) if self.dialed.protocol.is_none() => {
                RequestFailure::new(Outcome::TlsFailed, error.to_string())
            }
            Err(ConnectionError::Quic(closing)) if closing.is_clean() => {
                RequestFailure::new(Outcome::ConnectionClosed, closing.to_string())
            }
            Err(error) => RequestFailure::new(Outcome::ProtocolError, error.to_string()),
        }
    }

    fn write(&mut self, shared: &mut Shared) -> Result<(), RequestFailure> {
        self.has_unwritten = true;
        for _ in 0..WRITES_A_TURN {
            if !self.active_uploads.is_empty() {
                self.feed(shared)?;
            }
            let (now, outcome) = self.dialed.transport.write(&mut self.inbox);
            self.apply(now, shared);
            match outcome {
                IoOutcome::More => {}
                IoOutcome::Done => {
                    self.has_unwritten = false;
                    break;
                }
                IoOutcome::End(outcome) => return Err(self.end_failure(outcome)),
            }
        }
        Ok(())
    }

    /// Feeds the bodies that are read while they are sent, as far as the transport has room.
    fn feed(&mut self, shared: &mut Shared) -> Result<(), RequestFailure> {
        let has_streams = self.dialed.transport.has_streams();
        let mut index = 0;
        while let Some(upload) = self.active_uploads.get_mut(index) {
            let stream = upload.stream;
            // Once the exchange has ended, the rest of the request is not needed. HTTP/1.1 must still send it to
            // complete the request.
            if has_streams && !self.in_flight_requests.contains(stream) {
                self.active_uploads.swap_remove(index);
                self.dialed.transport.cancel(stream);
                continue;
            }
            if upload.is_held(squall_linux::clock::now) {
                if !has_streams && !self.in_flight_requests.contains(stream) {
                    let message = "the response came before the body was asked for".to_owned();
                    return Err(RequestFailure::new(Outcome::ConnectionClosed, message));
                }
                index += 1;
                continue;
            }
            match upload.feed(
                &mut self.dialed.transport.streams(),
                shared.buffers.stream(),
            ) {
                UploadProgress::Partial => index += 1,
                UploadProgress::Complete => {
                    self.active_uploads.swap_remove(index);
                }
                UploadProgress::Failed(reason) if has_streams => {
                    self.active_uploads.swap_remove(index);
                    self.dialed.transport.cancel(stream);
                    let failure = RequestFailure::new(Outcome::StreamReset, reason);
                    if let Some(request) = self.in_flight_requests.take(stream) {
                        let now = squall_linux::clock::now();
                        shared.recorder.fail(request, &failure, now);
                    }
                }
                UploadProgress::Failed(reason) => {
                    return Err(RequestFailure::new(Outcome::ConnectionClosed, reason));
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, now: Time, shared: &mut Shared) {
        if self.inbox.is_empty() && !shared.recorder.has_observer() {
            return;
        }
        if let Some(watch) = self
            .watch
            .as_mut()
            .filter(|_| !self.inbox.frames.is_empty())
        {
            watch.record_frames(&self.inbox.frames, now);
        }
        for upload in &mut self.active_uploads {
            self.inbox
                .events
                .iter()
                .for_each(|event| upload.note(event));
        }
        let transport = &self.dialed.transport;
        let (inbox, in_flight_requests) = (&self.inbox, &mut self.in_flight_requests);
        let mut request_index = |stream| in_flight_requests.request_index(stream);
        let sent_head = |request: &Request| transport.sent_head(request);
        let handshake = || transport.handshake_facts();
        let received_records = || transport.received_records();
        let connection = self.dialed.number;
        shared.recorder.observe(|| Observation {
            connection,
            inbox,
            now,
            announced: transport.announced(),
            announced_http3: transport.announced_http3(),
            handshake: &handshake,
            largest_datagram: transport.largest_datagram(),
            received_records: &received_records,
            sent_head: &sent_head,
            request_index: &mut request_index,
        });
        let mut context = EventContext {
            connection: self.dialed.number,
            protocol: self.dialed.protocol.unwrap_or(self.requested),
            now,
            woken: self.woken,
            recorder: &mut shared.recorder,
            log: &mut shared.log,
        };
        let locate = |way, offset| transport.locate(way, offset);
        self.in_flight_requests
            .apply(&mut self.inbox, locate, &mut context);
    }

    /// Records the protocol, once it is known or has changed.
    fn note_established(&mut self, shared: &mut Shared) -> Result<(), RequestFailure> {
        let Some(protocol) = self.dialed.note_established(&mut shared.log) else {
            return Ok(());
        };
        if let Some(secured) = self.dialed.secured {
            let alpn = self.dialed.transport.alpn();
            (shared.recorder).secured(secured, self.dialed.number, alpn);
        }
        let requested = self.requested;
        if shared.settings.is_strict && protocol != requested {
            let message = format!("the server agreed on {protocol} instead of {requested}");
            return Err(RequestFailure::new(Outcome::TlsFailed, message));
        }
        Ok(())
    }

    /// When the oldest of the connection's requests was due.
    pub(crate) fn oldest_due(&self) -> Option<Time> {
        let first = self.dialed.first.as_ref().map(|first| first.intended);
        self.in_flight_requests
            .oldest_due()
            .into_iter()
            .chain(first)
            .min()
    }

    /// Ends the requests that were due at `deadline` or before. While the connection is being opened, and over HTTP/1.1,
    /// which cannot cancel a single request, the whole connection fails with them.
    pub(crate) fn fail_overdue(
        &mut self,
        deadline: Time,
        failure: &RequestFailure,
        shared: &mut Shared,
    ) -> TurnResult {
        let first = self.dialed.first.as_ref();
        let is_first_overdue = first.is_some_and(|first| first.intended <= deadline);
        let overdue = self.in_flight_requests.due_until(deadline);
        let is_opening = is_first_overdue && !self.is_established();
        let ends_with_them = !overdue.is_empty() && !self.dialed.transport.has_streams();
        if is_opening || ends_with_them {
            self.send_close(shared);
            return Err(failure.clone());
        }
        let now = squall_linux::clock::now();
        if let Some(first) = self.dialed.first.take_if(|_| is_first_overdue) {
            shared.recorder.fail(first, failure, now);
        }
        for stream in overdue {
            self.active_uploads.retain(|upload| upload.stream != stream);
            let code = self.dialed.transport.cancel(stream);
            let mut context = EventContext {
                connection: self.dialed.number,
                protocol: self.dialed.protocol.unwrap_or(self.requested),
                now,
                woken: self.woken,
                recorder: &mut shared.recorder,
                log: &mut shared.log,
            };
            self.in_flight_requests
                .fail(stream, Some(code), failure, &mut context);
        }
        self.availability(shared)
    }

    /// Tells a QUIC server that the connection ends. Over TCP, the kernel does so.
    fn send_close(&mut self, shared: &mut Shared) {
        if let Some(now) = self.dialed.transport.send_close(&mut self.inbox) {
            self.apply(now, shared);
        }
    }

    /// Samples the socket, if samples are wanted.
    pub(crate) fn sample(&self, is_last: bool, log: &mut StationLog) {
        self.dialed
            .transport
            .sample(self.dialed.number, is_last, log);
    }

    /// Adds what delayed the connection's sending, at its end.
    fn add_causes(&mut self, shared: &mut Shared) {
        let Some(causes) = &mut shared.causes else {
            return;
        };
        let now = squall_linux::clock::now();
        let open = self
            .dialed
            .connected
            .map_or(Duration::ZERO, |from| now.since(from));
        causes.add_connection(&self.dialed.transport, open);
        if let Some(watch) = self.watch.take() {
            causes.add_windows(&watch.end(now));
        }
    }

    /// Requests of this connection that have not ended, in schedule order.
    pub(crate) fn take_unfinished(&mut self) -> Vec<RequestRecord> {
        let mut unfinished = self.in_flight_requests.take_unfinished();
        unfinished.extend(self.dialed.first.take());
        unfinished.sort_by_key(|request| request.request);
        unfinished
    }

    /// Ends the connection and fails every request on it. A request that was never sent may be retried instead.
    pub(crate) fn fail_all(mut self, failure: &RequestFailure, shared: &mut Shared) {
        self.sample(true, &mut shared.log);
        self.add_causes(shared);
        self.dialed.transport.count_settings(&mut shared.log.counts);
        let now = squall_linux::clock::now();
        shared.recorder.ended(now, self.dialed.number);
        // The request that the connection was opened for was never sent.
        if failure.outcome == Outcome::ConnectionClosed
            && let Some(protocol) = self.dialed.protocol
            && let Some(first) = self.dialed.first.take()
        {
            (shared.recorder).fail_unprocessed(first, protocol.version(), failure, now);
        }
        for request in self.take_unfinished() {
            shared.recorder.fail(request, failure, now);
        }
    }

    /// Ends the connection at the end of the load. TCP is reset, so that nothing stays in the kernel.
    pub(crate) fn close(mut self, shared: &mut Shared) {
        self.sample(true, &mut shared.log);
        self.add_causes(shared);
        self.dialed.transport.count_settings(&mut shared.log.counts);
        self.dialed.transport.close(&mut self.inbox);
        let (inbox, now) = (&self.inbox, squall_linux::clock::now());
        if inbox.frames.is_empty() {
            return;
        }
        shared
            .log
            .record_frames(self.dialed.number, now, &inbox.frames);
        let mut request_index = |_| None;
        let connection = self.dialed.number;
        shared.recorder.observe(|| Observation {
            connection,
            inbox,
            now,
            announced: None,
            announced_http3: None,
            handshake: &|| None,
            largest_datagram: 0,
            received_records: &Vec::<(u64, u64)>::new,
            sent_head: &|_| None,
            request_index: &mut request_index,
        });
    }
}
