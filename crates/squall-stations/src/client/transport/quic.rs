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

    pub(crate) fn write(&mut self, inbox: &mut Inbox<ClientEvent>) -> (Time, Moved) {
        let now = clock::now();
        if let Err(error) = self.wake(now) {
            return (now, Moved::End(Err(error)));
        }
        if self.held.is_empty() {
            let instant = clock::instant_of(now);
            let (batch, marks) = self.held.fill();
            let is_filled = self.engine.output(instant, batch, marks);
            self.held.filled(is_filled, now);
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
        self.held.filled(false, clock::now());
        // The last datagram may be lost as any other; the server then waits for its idle time.
        let _ = self.write(inbox);
    }
}
