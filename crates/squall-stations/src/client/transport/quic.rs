//! QUIC, with HTTP/3 on it: one UDP socket for each connection.
//!
//! What the engine gives out for later, because it paces, is held here until its time; the marks of its bytes are held
//! with it.

use std::io;
use std::sync::PoisonError;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::SideCounts;
use squall_http::h3;
use squall_http::{ClientEvent, ConnectionError, Inbox, Wants};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_linux::udp::{UdpOptions, UdpSocket};

use super::{Dial, Moved, OpenError};
use crate::Buffers;
use crate::held::Held;
use crate::log::Log;

pub(crate) struct Quic {
    socket: UdpSocket,
    pub(crate) engine: h3::Client,
    held: Held<ClientEvent>,
    /// When the engine has to be woken.
    wake: Option<Time>,
}

impl Quic {
    pub(crate) fn open(dial: Dial<'_>, wants: Wants) -> Result<Quic, OpenError> {
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
            held: Held::new(wants),
            wake: Some(clock::now()),
        })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// There is no handshake but that of QUIC itself, which the engine does.
    pub(crate) fn finish_connecting(&mut self, _ready: Ready) -> io::Result<Option<Time>> {
        Ok(Some(clock::now()))
    }

    pub(crate) fn read(
        &mut self,
        buffers: &mut Buffers,
        inbox: &mut Inbox<ClientEvent>,
    ) -> (Time, Moved) {
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
            (Err(error), _) => Moved::End(Err(error)),
            (Ok(()), Ok(_)) => Moved::Some,
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Moved::All,
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::Interrupted => Moved::Some,
            // An ICMP error about an earlier datagram, such as a closed port.
            (Ok(()), Err(error)) => Moved::End(Ok(error.to_string())),
        };
        (now, moved)
    }

    /// Writes a batch, the last one too if its time brings the end of the connection.
    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, Moved) {
        let now = clock::now();
        let woken = self.wake(now);
        let (now, moved) = self.write_batch(now, inbox);
        match woken {
            Ok(()) => (now, moved),
            Err(error) => (now, Moved::End(Err(error))),
        }
    }

    fn write_batch(&mut self, now: Time, inbox: &mut Inbox<ClientEvent>) -> (Time, Moved) {
        if self.engine.closing().is_some() {
            self.drop_held(now);
        }
        if self.held.is_empty() {
            let instant = clock::instant_of(now);
            let (batch, marks) = self.held.fill();
            let is_filled = self.engine.output(instant, batch, marks);
            self.held.filled(is_filled, now);
            // What was heard keeps its order with what comes from the socket while the batch waits.
            self.held.take_news(is_sent, inbox);
            if !is_filled {
                self.rearm(now);
                inbox.append(self.held.marks());
                return (now, self.after_last());
            }
        }
        let sent = self.held.send(&self.socket, now);
        let now = clock::now();
        match sent {
            Ok(true) => {
                inbox.append(self.held.marks());
                (now, Moved::Some)
            }
            Ok(false) => {
                self.rearm(now);
                (now, Moved::All)
            }
            Err(error) => (now, Moved::End(Ok(error.to_string()))),
        }
    }

    /// What waits for its time is nothing to a server that is about to hear of the end.
    fn drop_held(&mut self, now: Time) {
        if !self.held.is_empty() {
            self.held.filled(false, now);
            self.held.marks().clear();
        }
    }

    /// Tells the engine that its time has come, if it has.
    fn wake(&mut self, now: Time) -> Result<(), ConnectionError> {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
            self.engine.on_timeout(clock::instant_of(now))?;
        }
        Ok(())
    }

    fn rearm(&mut self, now: Time) {
        let timeout = self.engine.timeout(clock::instant_of(now));
        self.wake = timeout.map(|timeout| now + timeout);
    }

    /// Nothing is left to send: for good, if the connection is closed.
    fn after_last(&self) -> Moved {
        match self.engine.closing() {
            Some(closing) if self.engine.is_closed() || closing.is_clean() => {
                Moved::End(Ok(closing.to_string()))
            }
            Some(closing) => Moved::End(Err(ConnectionError::Quic(closing))),
            None => Moved::All,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.wake, self.held.release()].into_iter().flatten().min()
    }

    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.engine.is_established().then_some(Protocol::H3)
    }

    pub(crate) fn count_handshake(&self, counts: &mut SideCounts) {
        counts.count_handshake(self.engine.is_resumed(), Some(Protocol::H3.alpn()));
    }

    pub(crate) fn sample(&self, connection: u32, is_last: bool, log: &mut Log) {
        log.sample_quic(connection, is_last, self.engine.path(), &self.socket);
    }

    /// Says goodbye, as far as the socket takes it.
    pub(crate) fn close(mut self, inbox: &mut Inbox<ClientEvent>) {
        self.engine.close(h3::code::NO_ERROR);
        // The last datagram may be lost as any other, and where the congestion window is full quiche 0.30 gives none, although
        // CONNECTION_CLOSE is not in flight (RFC 9002, section 2): the server then waits for its idle time.
        let _ = self.write(inbox);
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
    use squall_http::{Body, Request, Response, Scheme, ServerEvent, StreamId};

    use super::*;
    use crate::client::Target;
    use crate::quic::QuicEndpoint;
    use crate::visitor::{context, identity};

    /// A round trip of which a congestion window's packets are milliseconds apart.
    const TURN: std::time::Duration = std::time::Duration::from_millis(50);
    const TURNS: usize = 100;

    const ALL: Wants = Wants {
        fields: true,
        bodies: true,
        frames: false,
    };

    /// The server reads, answers each request for something with 200 KB, and writes.
    fn serve(endpoint: &mut QuicEndpoint) {
        let answer = Response::new(200, &[], vec![7; 200_000]).unwrap();
        let answer = Arc::new(answer);
        let mut buffers = Buffers::new();
        while endpoint.read(&mut buffers, |engine, (connection, _), inbox| {
            for event in &inbox.events {
                if let ServerEvent::RequestHead { stream, method, .. } = event
                    && method == "GET"
                {
                    engine.respond(connection, *stream, &answer).unwrap();
                }
            }
        }) {}
        endpoint.on_time();
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

    /// Reads and writes all that can be now.
    fn turn(quic: &mut Quic, inbox: &mut Inbox<ClientEvent>) {
        while matches!(quic.read(&mut Buffers::new(), inbox).1, Moved::Some) {}
        while matches!(quic.write(inbox).1, Moved::Some) {}
    }

    #[test]
    fn what_is_heard_waits_for_no_batch_and_neither_does_the_end() {
        let identity = identity();
        let side = SideSettings::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut endpoint = QuicEndpoint::bind(any, &identity, &side, 1, Wants::default()).unwrap();
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
        let is_for_later = |quic: &Quic| quic.held.release().is_some_and(|at| at > clock::now());
        'turns: for _ in 0..TURNS {
            loop {
                // What the engine reads then it reads while it is asked for a batch.
                inbox.clear();
                quic.engine.consume(download, 500);
                let (_, moved) = quic.write(&mut inbox);
                if is_for_later(&quic) {
                    break 'turns;
                }
                if !matches!(moved, Moved::Some) {
                    break;
                }
            }
            thread::sleep(TURN);
            serve(&mut endpoint);
            inbox.clear();
            while matches!(quic.read(&mut Buffers::new(), &mut inbox).1, Moved::Some) {}
        }
        assert!(is_for_later(&quic), "no batch is paced");
        let is_body = |event: &ClientEvent| matches!(event, ClientEvent::ResponseBody { .. });
        assert!(inbox.events.iter().any(is_body), "{:?}", inbox.events);

        // The batch may have filled the congestion window: acknowledgements of what was sent make room.
        thread::sleep(TURN);
        serve(&mut endpoint);
        thread::sleep(TURN);
        while matches!(quic.read(&mut Buffers::new(), &mut inbox).1, Moved::Some) {}
        quic.close(&mut inbox);
        // On a busy machine the datagram takes its time, even over loopback.
        let is_told = (0..TURNS).any(|_| {
            serve(&mut endpoint);
            let is_told = endpoint.engine.state(0).is_err();
            if !is_told {
                thread::sleep(TURN);
            }
            is_told
        });
        assert!(is_told, "it was not told");
    }
}
