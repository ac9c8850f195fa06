//! HTTP/3 over QUIC: one UDP socket per connection.
//!
//! Batches that the engine produces for later, because it paces, are held here until they are due, along with the marks
//! of their bytes.

use std::io;
use std::sync::PoisonError;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::SideCounts;
use squall_http::h3;
use squall_http::{ClientEvent, ConnectionError, Inbox, InboxOptions};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_linux::udp::{UdpOptions, UdpSocket};

use super::{Dial, IoOutcome, OpenError};
use crate::Buffers;
use crate::held::PendingBatch;
use crate::log::StationLog;

pub(crate) struct Quic {
    socket: UdpSocket,
    pub(crate) engine: h3::Client,
    pending: PendingBatch<ClientEvent>,
    /// When the engine's timer is due.
    timer_due: Option<Time>,
}

impl Quic {
    pub(crate) fn open(dial: Dial<'_>, wants: InboxOptions) -> Result<Quic, OpenError> {
        let target = dial.target;
        let options = UdpOptions::from(&dial.side.http3);
        let socket = UdpSocket::connect(target.address, &options).map_err(OpenError::Socket)?;
        let context = target
            .quic
            .as_ref()
            .expect("a client of HTTP/3 is given a context for QUIC");
        let mut context = context.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = h3::Client::new(
            &mut context,
            &target.server_name,
            socket.local_addr(),
            target.address,
        );
        Ok(Quic {
            socket,
            engine: engine.map_err(OpenError::Quic)?,
            pending: PendingBatch::new(wants),
            timer_due: Some(clock::now()),
        })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Completes immediately: the only handshake is that of QUIC, which the engine performs.
    pub(crate) fn finish_connecting(&mut self, _ready: ReadyEvent) -> io::Result<Option<Time>> {
        Ok(Some(clock::now()))
    }

    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, IoOutcome) {
        let engine = &mut self.engine;
        let mut outcome = Ok(());
        let received = self
            .socket
            .receive(buffers.datagrams(), |arrival, datagram| {
                if outcome.is_ok() {
                    outcome = engine.receive(datagram, arrival.from, arrival.to, inbox);
                }
            });
        let now = clock::now();
        let moved = match (outcome, received) {
            (Err(error), _) => IoOutcome::End(Err(error)),
            (Ok(()), Ok(_)) => IoOutcome::More,
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => IoOutcome::Done,
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::Interrupted => IoOutcome::More,
            // An ICMP error about an earlier datagram, such as a closed port.
            (Ok(()), Err(error)) => IoOutcome::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    /// Writes a batch, including the last one if the timer that is due ends the connection.
    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, IoOutcome) {
        let now = clock::now();
        let timer_result = self.run_timer(now);
        let (now, moved) = self.write_batch(now, inbox);
        match timer_result {
            Ok(()) => (now, moved),
            Err(error) => (now, IoOutcome::End(Err(error))),
        }
    }

    fn write_batch(&mut self, now: Time, inbox: &mut Inbox<ClientEvent>) -> (Time, IoOutcome) {
        if self.engine.closing().is_some() {
            self.drop_pending(now);
        }
        if self.pending.is_empty() {
            let instant = clock::instant_of(now);
            let (batch, marks) = self.pending.fill();
            let is_filled = self.engine.output(instant, batch, marks);
            self.pending.filled(is_filled, now);
            // Pass on what has been received now: it must keep its order with what the socket brings while the batch
            // waits.
            self.pending.take_received(is_sent, inbox);
            if !is_filled {
                self.rearm(now);
                inbox.append(self.pending.marks());
                return (now, self.outcome_when_drained());
            }
        }
        let sent = self.pending.send(&self.socket, now);
        let now = clock::now();
        match sent {
            Ok(true) => {
                inbox.append(self.pending.marks());
                (now, IoOutcome::More)
            }
            Ok(false) => {
                self.rearm(now);
                (now, IoOutcome::Done)
            }
            Err(error) => (now, IoOutcome::End(Ok(error.to_string()))),
        }
    }

    /// Drops the held batch: it is of no use to a server that is about to learn of the end.
    fn drop_pending(&mut self, now: Time) {
        if !self.pending.is_empty() {
            self.pending.filled(false, now);
            self.pending.marks().clear();
        }
    }

    /// Runs the engine's timer if it is due.
    fn run_timer(&mut self, now: Time) -> Result<(), ConnectionError> {
        if self.timer_due.is_some_and(|due| due <= now) {
            self.timer_due = None;
            self.engine.on_timeout(clock::instant_of(now))?;
        }
        Ok(())
    }

    fn rearm(&mut self, now: Time) {
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.timer_due = timeout.map(|timeout| now + timeout);
    }

    /// The outcome when nothing is left to send: the end, if the connection is closed.
    fn outcome_when_drained(&self) -> IoOutcome {
        match self.engine.closing() {
            Some(closing) if self.engine.is_closed() || closing.is_clean() => {
                IoOutcome::End(Ok(closing.to_string()))
            }
            Some(closing) => IoOutcome::End(Err(ConnectionError::Quic(closing))),
            None => IoOutcome::Done,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.timer_due, self.pending.release()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.engine.is_established().then_some(Protocol::H3)
    }

    pub(crate) fn count_handshake(&self, counts: &mut SideCounts) {
        counts.count_handshake(self.engine.is_resumed(), Some(Protocol::H3.alpn()));
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut StationLog) {
        log.sample_quic(connection, is_last, self.engine.path(), &self.socket);
    }

    /// Sends CONNECTION_CLOSE, as far as the socket accepts it. Returns when.
    pub(crate) fn send_close(&mut self, inbox: &mut Inbox<ClientEvent>) -> Time {
        self.engine.close(h3::code::NO_ERROR);
        // The last datagram may be lost like any other, and where the congestion window is full quiche 0.30 produces
        // none, although CONNECTION_CLOSE is not in flight (RFC 9002, section 2): the server then waits for its idle
        // timeout.
        let (sent, _) = self.write(inbox);
        sent
    }
}

fn is_sent(event: &ClientEvent) -> bool {
    matches!(
        event,
        ClientEvent::RequestFirstByteWritten { .. } | ClientEvent::RequestWritten { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use squall_base::plan::SideSettings;
    use squall_http::tls::Identity;
    use squall_http::{Body, Request, Response, Scheme, ServerEvent, StreamId, StreamIo};

    use super::*;
    use crate::accept::QuicEndpoint;
    use crate::dial::{Route, Target};
    use crate::visitor::{context, identity};

    /// A round-trip time at which a congestion window's packets are milliseconds apart.
    const TURN: std::time::Duration = std::time::Duration::from_millis(50);
    const TURNS: usize = 100;

    const ALL: InboxOptions = InboxOptions {
        fields: true,
        bodies: true,
        frames: false,
    };

    /// Makes the server read, respond to each GET with 200 KB, and write.
    fn serve(endpoint: &mut QuicEndpoint) {
        let answer = Response::new(200, &[], vec![7; 200_000]).unwrap();
        let answer = Arc::new(answer);
        let mut buffers = Buffers::new();
        while endpoint.read(&mut buffers, |engine, (connection, _), inbox| {
            for event in &inbox.events {
                if let ServerEvent::RequestHead { stream, method, .. } = event
                    && method == "GET"
                {
                    engine
                        .streams(connection)
                        .respond(*stream, &answer)
                        .unwrap();
                }
            }
        }) {}
        endpoint.run_timers();
        while endpoint.write(|_, _, _| {}) {}
    }

    fn request(method: &str, body: impl Into<Body>) -> Arc<Request> {
        Arc::new(Request::new(method, Scheme::Https, "server", "/", &[], body).unwrap())
    }

    fn connect(server: SocketAddr, identity: &Identity) -> Quic {
        let side = SideSettings::default();
        let target = Target {
            address: server,
            server_name: "server".to_owned(),
            security: None,
            quic: Some(Arc::new(Mutex::new(context(identity)))),
            route: Route::Direct,
        };
        let dial = Dial {
            target: &target,
            protocol: Protocol::H3,
            asks_for_http2: false,
            side: &side,
        };
        let mut quic = Quic::open(dial, ALL).expect("a socket");
        quic.engine.set_manual_consumption();
        quic
    }

    /// Reads everything that has arrived.
    fn read_all(quic: &mut Quic, inbox: &mut Inbox<ClientEvent>) {
        while matches!(quic.read(&mut Buffers::new(), inbox).1, IoOutcome::More) {}
    }

    /// Reads and writes everything that can be moved now.
    fn turn(quic: &mut Quic, inbox: &mut Inbox<ClientEvent>) {
        read_all(quic, inbox);
        while matches!(quic.write(inbox).1, IoOutcome::More) {}
    }

    #[test]
    fn events_and_close_do_not_wait_for_a_paced_batch() {
        let identity = identity();
        let side = SideSettings::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut endpoint =
            QuicEndpoint::bind(any, &identity, &side, 1, InboxOptions::default()).unwrap();
        let mut quic = connect(endpoint.address(), &identity);
        let mut inbox = Inbox::new(ALL);
        let mut download = None;
        for _ in 0..TURNS {
            turn(&mut quic, &mut inbox);
            if download.is_none() && quic.engine.is_ready() {
                download = quic.engine.submit(&request("GET", Body::EMPTY)).ok();
            }
            thread::sleep(TURN);
            serve(&mut endpoint);
            if inbox.bodies.len() >= 60_000 {
                break;
            }
        }
        let download: StreamId = download.expect("a connection");
        assert!(inbox.bodies.len() <= 65_536, "it is read ahead");
        quic.engine
            .submit(&request("POST", vec![7; 1 << 20]))
            .unwrap();
        let is_for_later = |quic: &Quic| quic.pending.release().is_some_and(|at| at > clock::now());
        let mut is_paced = false;
        'turns: for _ in 0..TURNS {
            loop {
                // Events that arrive here are those that the engine reads while it is asked for a batch.
                inbox.clear();
                quic.engine.consume(download, 500);
                let (_, moved) = quic.write(&mut inbox);
                is_paced = is_for_later(&quic);
                if is_paced {
                    break 'turns;
                }
                if !matches!(moved, IoOutcome::More) {
                    break;
                }
            }
            thread::sleep(TURN);
            serve(&mut endpoint);
            inbox.clear();
            read_all(&mut quic, &mut inbox);
        }
        assert!(is_paced, "no batch is paced");
        let is_body = |event: &ClientEvent| matches!(event, ClientEvent::ResponseBody { .. });
        assert!(inbox.events.iter().any(is_body), "{:?}", inbox.events);

        // The batch may have filled the congestion window: acknowledgements make room.
        thread::sleep(TURN);
        serve(&mut endpoint);
        thread::sleep(TURN);
        read_all(&mut quic, &mut inbox);
        quic.send_close(&mut inbox);
        // On a busy machine the datagram takes a while, even over loopback.
        let is_closed = (0..TURNS).any(|_| {
            serve(&mut endpoint);
            let is_closed = endpoint.engine.path(0).is_none();
            if !is_closed {
                thread::sleep(TURN);
            }
            is_closed
        });
        assert!(is_closed, "it was not told");
    }
}
