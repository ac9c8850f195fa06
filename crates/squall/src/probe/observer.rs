//! Observes what a step's connections receive: heads, SETTINGS, the pieces of bodies and the facts of handshakes. Ends
//! the step once it has received its maximum number of bytes.
//!
//! Bodies are counted; only that of robots.txt is kept.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use squall_analysis::probe::{Chain, Handshake, Piece, ReceivedRecord, TransportParameters};
use squall_base::{Duration, Time};
use squall_http::{ClientEvent, HandshakeFacts};
use squall_linux::stop::StopSignal;
use squall_stations::client::{Observation, Observer};

use super::capture::OwnSockets;
use crate::client::VerbosePrinter;

/// How many heads are kept: the first ones of a step tell everything that is needed.
const HEADS_AT_MOST: usize = 8;
/// How many ends of connections are kept.
const ENDS_AT_MOST: usize = 8;
/// How many TLS records are kept: more than any known server sends before its records grow.
const RECORDS_AT_MOST: usize = 8_192;
/// Pieces of one response that arrive within this time count as one, so that a server cannot fill the memory with tiny ones.
const PIECE: Duration = Duration::from_micros(200);

/// What a step has seen.
#[derive(Debug, Default)]
pub(super) struct StepObservations {
    /// Status and fields of the first responses.
    pub(super) heads: Vec<(u16, Vec<(String, String)>)>,
    /// The server's SETTINGS on the first connection, over HTTP/2 or HTTP/3.
    pub(super) settings: Vec<(u64, u64)>,
    pub(super) pieces: Vec<Piece>,
    pub(super) was_cut: bool,
    /// Whether a TCP handshake was completed.
    pub(super) was_connected: bool,
    /// Whether the TLS handshake after the TCP handshake was not completed.
    pub(super) lacks_tls: bool,
    /// What the first handshake showed.
    pub(super) handshake: Option<Handshake>,
    /// The first connections that the server ended, and when.
    pub(super) ended: Vec<(u32, Time)>,
    pub(super) largest_datagram: u64,
    /// The first TLS records of the first connection, if they are kept.
    pub(super) records: Vec<ReceivedRecord>,
    /// The beginning of the response's body, if it is kept.
    pub(super) body: Vec<u8>,
    bytes: u64,
}

/// A view of what a step has seen, for the observer and for its caller.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedObservations(Arc<Mutex<StepObservations>>);

impl SharedObservations {
    fn lock(&self) -> MutexGuard<'_, StepObservations> {
        // A thread that panicked while it held the lock left whole rows.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was seen.
    pub(super) fn take(&self) -> StepObservations {
        std::mem::take(&mut *self.lock())
    }
}

/// The observer of one step.
pub(super) struct StepObserver {
    pub(super) seen: SharedObservations,
    /// The step ends after this many bytes of bodies.
    pub(super) bytes_at_most: u64,
    pub(super) stop: StopSignal,
    /// Whether the step's connections use TLS.
    pub(super) is_secure: bool,
    /// Whether the step also ends when its first connection ends.
    pub(super) ends_with_connection: bool,
    /// Whether the sizes of TLS records are kept.
    pub(super) keeps_records: bool,
    pub(super) trace: Option<VerbosePrinter>,
    /// The probe's own sockets, for a capture.
    pub(super) own: Option<OwnSockets>,
}

impl Observer for StepObserver {
    fn opened(&mut self, from: SocketAddr, is_tcp: bool) {
        if let Some(own) = &self.own {
            own.add(from, is_tcp);
        }
    }

    fn connected(&mut self, now: Time, connection: u32) {
        let mut seen = self.seen.lock();
        seen.was_connected = true;
        seen.lacks_tls = self.is_secure;
        drop(seen);
        if let Some(trace) = &mut self.trace {
            trace.connected(now, connection);
        }
    }

    fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        self.seen.lock().lacks_tls = false;
        if let Some(trace) = &mut self.trace {
            trace.secured(now, connection, alpn);
        }
    }

    fn ended(&mut self, now: Time, connection: u32) {
        let mut seen = self.seen.lock();
        if seen.ended.len() < ENDS_AT_MOST {
            seen.ended.push((connection, now));
        }
        if self.ends_with_connection {
            // If the client cannot be woken, its time limit ends it.
            let _ = self.stop.request();
        }
    }

    fn observe(&mut self, observation: Observation<'_>) {
        let mut seen = self.seen.lock();
        if seen.handshake.is_none() {
            seen.handshake = (observation.handshake)().map(handshake);
        }
        let largest = observation.largest_datagram as u64;
        seen.largest_datagram = seen.largest_datagram.max(largest);
        if let Some(announced) = &observation.announced
            && seen.settings.is_empty()
        {
            let settings = announced.received.iter();
            seen.settings = settings
                .map(|(id, value)| (u64::from(*id), u64::from(*value)))
                .collect();
        }
        if let Some(announced) = &observation.announced_http3
            && seen.settings.is_empty()
        {
            seen.settings.clone_from(&announced.received);
        }
        if self.keeps_records {
            seen.add_records(&observation);
        }
        for event in &observation.inbox.events {
            seen.apply(event, observation.connection, observation.now);
        }
        // Empty unless the step wants bodies.
        seen.body.extend_from_slice(&observation.inbox.bodies);
        if seen.bytes >= self.bytes_at_most && !seen.was_cut {
            seen.was_cut = true;
            // If the client cannot be woken, its time limit ends it.
            let _ = self.stop.request();
        }
        drop(seen);
        if let Some(trace) = &mut self.trace {
            trace.observe(observation);
        }
    }
}

fn handshake(facts: HandshakeFacts) -> Handshake {
    let chain = facts.certificates.map(|chain| Chain {
        count: chain.count,
        der_bytes: chain.der_bytes,
        names: chain.names,
    });
    let transport = facts.transport.map(|announced| TransportParameters {
        max_idle_timeout: announced.max_idle_timeout,
        initial_max_data_bytes: announced.initial_max_data_bytes,
        initial_max_stream_data_bytes: announced.initial_max_stream_data_bytes,
        initial_max_streams_bidi: announced.initial_max_streams_bidi,
        max_udp_payload_bytes: announced.max_udp_payload_bytes,
        ack_delay_exponent: announced.ack_delay_exponent,
        max_ack_delay: announced.max_ack_delay,
        active_connection_id_limit: announced.active_connection_id_limit,
        disables_active_migration: announced.disables_active_migration,
        used_retry: announced.used_retry,
    });
    Handshake {
        group: facts.group.map(str::to_owned),
        client_hello_bytes: facts.client_hello_bytes,
        certificates: chain,
        transport,
    }
}

impl StepObservations {
    /// Adds the TLS records of the first connection that are not known yet.
    fn add_records(&mut self, observation: &Observation<'_>) {
        let known = self.records.len();
        if observation.connection > 0 || known >= RECORDS_AT_MOST {
            return;
        }
        let records = (observation.received_records)().into_iter();
        let new = records.skip_while(|(number, _)| *number < known as u64);
        self.records.extend(
            new.take(RECORDS_AT_MOST - known)
                .map(|(_, bytes)| ReceivedRecord {
                    time: observation.now,
                    bytes,
                }),
        );
    }

    fn apply(&mut self, event: &ClientEvent, connection: u32, now: Time) {
        match event {
            ClientEvent::ResponseHeaders { status, fields, .. }
                if self.heads.len() < HEADS_AT_MOST =>
            {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields = fields.iter();
                let fields = fields.map(|field| (text(&field.name), text(&field.value)));
                self.heads.push((*status, fields.collect()));
            }
            ClientEvent::ResponseBody { stream, len } => {
                self.bytes += len;
                match self.pieces.last_mut() {
                    Some(last)
                        if (last.connection, last.stream) == (connection, stream.0)
                            && now.since(last.time) < PIECE =>
                    {
                        last.bytes += len;
                    }
                    _ => self.pieces.push(Piece {
                        time: now,
                        connection,
                        stream: stream.0,
                        bytes: *len,
                    }),
                }
            }
            _ => {}
        }
    }
}
