//! QUIC endpoints whose HTTP/3 bytes are written by tests: what squall's own engine would never send.
//!
//! QUIC itself is quiche, so packets are correct whatever they carry.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, RecvInfo};
use squall_http::tls::{Identity, Validity};

/// SETTINGS without entries, after the type of a control stream (RFC 9114, sections 6.2.1 and 7.2.4).
pub(crate) const CONTROL: &[u8] = &[0x0, 0x4, 0x0];
/// GET https://a/ (RFC 9204, appendix A).
pub(crate) const GET: &[u8] = &[0x1, 8, 0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];
/// The start of a 1 GiB HEADERS frame.
pub(crate) const ENDLESS_HEADERS: &[u8] = &[0x1, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];

/// H3_REQUEST_REJECTED (RFC 9114, section 8.1).
pub(crate) const REQUEST_REJECTED: u64 = 0x10b;

/// The control stream of each side here: its first unidirectional stream.
const CLIENT_CONTROL: u64 = 2;
const SERVER_CONTROL: u64 = 3;

const DATAGRAM_BYTES: usize = 1_350;
const USUAL_WINDOW: u64 = 1 << 20;

/// How many PINGs, and how many meaningless datagrams, a server sends per turn.
const PINGS_A_TURN: usize = 50;
const GARBAGE_A_TURN: usize = 50;

/// How long a turn waits for a datagram.
const TURN: Duration = Duration::from_millis(5);
/// How long a server waits for a client.
const PATIENCE: Duration = Duration::from_secs(20);

fn config(window: u64) -> Config {
    let mut config = Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    config
        .set_application_protos(&[b"h3"])
        .expect("a short name");
    config.verify_peer(false);
    config.set_max_idle_timeout(30_000);
    config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
    config.set_initial_max_data(window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    // Control streams are never limited.
    config.set_initial_max_stream_data_uni(USUAL_WINDOW);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(3);
    config
}

fn flush(conn: &mut Connection, socket: &UdpSocket) {
    let mut datagram = [0; DATAGRAM_BYTES];
    while let Ok((len, info)) = conn.send(&mut datagram) {
        // A send failure is treated as a loss.
        let _ = socket.send_to(&datagram[..len], info.to);
    }
}

fn server_config(window: u64, home: &Path) -> Config {
    let validity = Validity {
        not_before_unix_s: 1_700_000_000,
        days: 36_500,
    };
    let identity = Identity::self_signed(&["localhost"], validity).expect("a certificate");
    let (chain, key) = (home.join("raw-chain.pem"), home.join("raw-key.pem"));
    std::fs::write(&chain, identity.chain_pem().expect("PEM")).expect("a file");
    std::fs::write(&key, identity.key_pem().expect("PEM")).expect("a file");
    let mut config = config(window);
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    config
        .load_cert_chain_from_pem_file(&path(&chain))
        .and_then(|()| config.load_priv_key_from_pem_file(&path(&key)))
        .expect("the files are right");
    config
}

fn bind() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(TURN)).expect("a timeout");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// A client.
pub(crate) struct RawClient {
    pub(crate) conn: Connection,
    socket: UdpSocket,
}

impl RawClient {
    /// A connected client with an open control stream and windows of this size. It reads nothing of responses.
    pub(crate) fn connect(server: SocketAddr, window: u64) -> RawClient {
        let mut client = RawClient::connect_bare(server, window);
        client.send(CLIENT_CONTROL, CONTROL, false);
        client
    }

    /// A connected client without any stream.
    pub(crate) fn connect_bare(server: SocketAddr, window: u64) -> RawClient {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_read_timeout(Some(TURN)).expect("a timeout");
        let local = socket.local_addr().expect("an address");
        let id = ConnectionId::from_ref(&[7; 16]);
        let mut config = config(window);
        let conn = quiche::connect(Some("localhost"), &id, local, server, &mut config);
        let mut client = RawClient {
            conn: conn.expect("a connection"),
            socket,
        };
        client.turn_until("connected", Connection::is_established);
        client
    }

    /// Sends pending packets and processes what arrives within 5 ms.
    pub(crate) fn turn(&mut self) {
        flush(&mut self.conn, &self.socket);
        let mut datagram = [0; 2_000];
        let to = self.socket.local_addr().expect("an address");
        // Processes everything that has arrived; each wait of 5 ms is only for the next datagram.
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            // An error closes the connection, and the tests see that.
            let _ = self.conn.recv(&mut datagram[..len], RecvInfo { from, to });
        }
        self.conn.on_timeout();
        flush(&mut self.conn, &self.socket);
    }

    /// Sends pending packets.
    pub(crate) fn flush(&mut self) {
        flush(&mut self.conn, &self.socket);
    }

    /// Takes turns until the condition holds, for at most 10 s.
    pub(crate) fn turn_until(&mut self, what: &str, is_so: impl Fn(&Connection) -> bool) {
        let give_up = Instant::now() + Duration::from_secs(10);
        while !is_so(&self.conn) {
            assert!(Instant::now() < give_up, "not {what} within 10 s");
            self.turn();
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.conn.peer_error().is_some() || self.conn.is_closed()
    }

    /// How the server rejects the connection or, failing that, this stream; `None` if it does neither within 3 s.
    pub(crate) fn refusal(&mut self, stream: u64) -> Option<Refusal> {
        let give_up = Instant::now() + Duration::from_secs(3);
        while Instant::now() < give_up {
            self.turn();
            if let Some(error) = self.conn.peer_error().filter(|error| error.is_app) {
                return Some(Refusal::OfConnection(error.error_code));
            }
            match self.conn.stream_recv(stream, &mut [0; 4_096]) {
                Err(quiche::Error::StreamReset(code)) => return Some(Refusal::OfStream(code)),
                Ok((_, true)) => return None,
                _ => {}
            }
        }
        None
    }

    /// The whole response on a stream, including frame headers; `None` if it is not complete within 10 s.
    pub(crate) fn answer(&mut self, stream: u64) -> Option<Vec<u8>> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let (mut answer, mut piece) = (Vec::new(), [0; 16_384]);
        while Instant::now() < give_up && !self.is_over() {
            while let Ok((len, fin)) = self.conn.stream_recv(stream, &mut piece) {
                answer.extend(&piece[..len]);
                if fin {
                    return Some(answer);
                }
            }
            self.turn();
        }
        None
    }

    /// Sends all of `bytes`; the server must accept some of it every 10 s.
    pub(crate) fn send_all(&mut self, stream: u64, mut bytes: &[u8], fin: bool) {
        let mut moved = Instant::now();
        while !bytes.is_empty() {
            assert!(
                moved.elapsed() < Duration::from_secs(10),
                "it takes no more"
            );
            match self.conn.stream_send(stream, bytes, fin) {
                Ok(len) if len > 0 => (bytes, moved) = (&bytes[len..], Instant::now()),
                _ => self.turn(),
            }
        }
        self.flush();
    }

    /// Sends what the stream accepts immediately. Returns false if it accepts nothing.
    pub(crate) fn send(&mut self, stream: u64, bytes: &[u8], fin: bool) -> bool {
        let sent = self.conn.stream_send(stream, bytes, fin);
        self.flush();
        sent.is_ok()
    }
}

/// How the other side rejects something, with its HTTP/3 error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// CONNECTION_CLOSE.
    OfConnection(u64),
    /// RESET_STREAM or STOP_SENDING.
    OfStream(u64),
}

/// What a server's clients rejected, in order.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<Refusal>>>);

impl Refusals {
    pub(crate) fn so_far(&self) -> Vec<Refusal> {
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.clone()
    }

    fn push(&self, refusal: Refusal) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.push(refusal);
    }
}

/// What a server does on each request stream.
#[derive(Clone, Copy)]
pub(crate) struct RawServer {
    /// Bytes at the start of the control stream; empty for no control stream.
    pub(crate) control: &'static [u8],
    /// Bytes on the request stream.
    pub(crate) says: &'static [&'static [u8]],
    pub(crate) then: Then,
    /// The window of each stream and of the connection.
    pub(crate) window: u64,
    /// Bytes on further streams of the server, and whether they end there.
    pub(crate) beside: &'static [(u64, &'static [u8], bool)],
    /// Its first connection refuses requests from this stream on, with a GOAWAY once one of them has arrived (RFC 9114,
    /// section 5.2). At most 63.
    pub(crate) goes_away_at: Option<u8>,
}

#[derive(Clone, Copy)]
pub(crate) enum Then {
    Closes,
    KeepsSilent,
    EndsTheStream,
    ResetsTheStream,
    /// Resets the stream as one whose request was not processed.
    RejectsTheRequest,
    /// Sends these bytes on the stream repeatedly.
    Repeats(&'static [u8]),
    /// Sends nothing on the stream, but QUIC PING frames, each in a separate packet, repeatedly.
    Pings,
}

impl RawServer {
    /// A server with the usual windows.
    pub(crate) const fn new(
        control: &'static [u8],
        says: &'static [&'static [u8]],
        then: Then,
    ) -> RawServer {
        RawServer {
            control,
            says,
            then,
            window: USUAL_WINDOW,
            beside: &[],
            goes_away_at: None,
        }
    }

    /// Serves every client, until none has sent anything for `PATIENCE`. Its certificate is written to `home`.
    pub(crate) fn start(self, home: &Path) -> SocketAddr {
        self.start_listening(home).0
    }

    /// Like [`RawServer::start`], and also returns what its clients reject.
    pub(crate) fn start_listening(self, home: &Path) -> (SocketAddr, Refusals) {
        let mut config = server_config(self.window, home);
        let (socket, address) = bind();
        let refusals = Refusals::default();
        let noted = refusals.clone();
        thread::spawn(move || self.serve(&socket, &mut config, &noted));
        (address, refusals)
    }

    fn serve(self, socket: &UdpSocket, config: &mut Config, refusals: &Refusals) {
        let to = socket.local_addr().expect("an address");
        let mut served: HashMap<SocketAddr, Served> = HashMap::new();
        let mut datagram = [0; 65_536];
        let mut heard = Instant::now();
        while heard.elapsed() < PATIENCE {
            if let Ok((len, from)) = socket.recv_from(&mut datagram) {
                heard = Instant::now();
                let number = served.len() as u8;
                let one = served.entry(from).or_insert_with(|| {
                    let id = [number; 16];
                    let id = ConnectionId::from_ref(&id);
                    let conn = quiche::accept(&id, None, to, from, config);
                    let goes_away_at = self.goes_away_at.filter(|_| number == 0);
                    Served::new(conn.expect("a connection"), goes_away_at)
                });
                let _ = (one.conn).recv(&mut datagram[..len], RecvInfo { from, to });
            }
            for one in served.values_mut() {
                one.conn.on_timeout();
                // quiche reports a stopped stream only once, to the first call that asks.
                one.note(refusals);
                one.act(&self);
                flush(&mut one.conn, socket);
                if matches!(self.then, Then::Pings) && !one.asked.is_empty() {
                    for _ in 0..PINGS_A_TURN {
                        // The connection may be closed.
                        let _ = one.conn.send_ack_eliciting();
                        flush(&mut one.conn, socket);
                    }
                }
            }
        }
    }
}

/// A server-side connection.
struct Served {
    conn: Connection,
    has_control: bool,
    /// The first stream that it does not serve.
    goes_away_at: Option<u8>,
    has_gone_away: bool,
    /// Request streams, and how much of the response has been sent on each.
    asked: Vec<(u64, usize)>,
    /// Streams that the client has stopped.
    stopped: Vec<u64>,
    is_over: bool,
}

impl Served {
    fn new(conn: Connection, goes_away_at: Option<u8>) -> Served {
        Served {
            conn,
            has_control: false,
            goes_away_at,
            has_gone_away: false,
            asked: Vec::new(),
            stopped: Vec::new(),
            is_over: false,
        }
    }

    /// Records each rejection by the client once.
    fn note(&mut self, refusals: &Refusals) {
        if let Some(error) = self.conn.peer_error()
            && error.is_app
            && !self.is_over
        {
            self.is_over = true;
            refusals.push(Refusal::OfConnection(error.error_code));
        }
        for (stream, _) in &self.asked {
            if let Err(quiche::Error::StreamStopped(code)) = self.conn.stream_capacity(*stream)
                && !self.stopped.contains(stream)
            {
                self.stopped.push(*stream);
                refusals.push(Refusal::OfStream(code));
            }
        }
    }

    fn act(&mut self, server: &RawServer) {
        if !self.conn.is_established() {
            return;
        }
        if !self.has_control && !server.control.is_empty() {
            self.has_control = true;
            let _ = (self.conn).stream_send(SERVER_CONTROL, server.control, false);
            for (stream, bytes, fin) in server.beside {
                let _ = (self.conn).stream_send(*stream, bytes, *fin);
            }
        }
        for stream in self.conn.readable() {
            // With zero windows, bodies stay unread.
            while server.window > 0
                && let Ok((1.., _)) = self.conn.stream_recv(stream, &mut [0; 4_096])
            {}
            let is_known = self.asked.iter().any(|(known, _)| *known == stream);
            if stream % 4 == 0 && !is_known {
                self.asked.push((stream, 0));
            }
        }
        self.go_away();
        let first = server.says.concat();
        for (stream, sent) in &mut self.asked {
            if is_given_up(*stream, self.goes_away_at) {
                continue;
            }
            *sent += (self.conn)
                .stream_send(*stream, &first[(*sent).min(first.len())..], false)
                .unwrap_or(0);
            if *sent < first.len() {
                continue;
            }
            match server.then {
                Then::Closes => {
                    let _ = self.conn.close(true, 0x100, b"");
                }
                Then::KeepsSilent | Then::Pings => {}
                Then::EndsTheStream => {
                    let _ = self.conn.stream_send(*stream, b"", true);
                }
                Then::ResetsTheStream => {
                    // H3_REQUEST_CANCELLED. Repeating it only fails.
                    let _ = (self.conn).stream_shutdown(*stream, quiche::Shutdown::Write, 0x10c);
                }
                Then::RejectsTheRequest => {
                    let _ = (self.conn).stream_shutdown(
                        *stream,
                        quiche::Shutdown::Write,
                        REQUEST_REJECTED,
                    );
                }
                Then::Repeats(bytes) => {
                    // Whole copies only, otherwise the following bytes would change meaning.
                    let room = self.conn.stream_capacity(*stream).unwrap_or(0);
                    let many = bytes.repeat(room.min(65_536) / bytes.len());
                    let _ = self.conn.stream_send(*stream, &many, false);
                }
            }
        }
    }

    /// Sends GOAWAY, once, after a request has arrived that it refuses.
    fn go_away(&mut self) {
        let is_asked = |(stream, _): &(u64, usize)| is_given_up(*stream, self.goes_away_at);
        if let Some(first) = self.goes_away_at
            && !self.has_gone_away
            && self.asked.iter().any(is_asked)
        {
            self.has_gone_away = true;
            let _ = (self.conn).stream_send(SERVER_CONTROL, &[0x7, 0x1, first], false);
        }
    }
}

/// Whether a connection that goes away at a stream refuses this one.
fn is_given_up(stream: u64, goes_away_at: Option<u8>) -> bool {
    goes_away_at.is_some_and(|first| stream >= u64::from(first))
}

/// A server with which no handshake completes.
#[derive(Clone, Copy)]
pub(crate) enum Unfinished {
    /// Receives datagrams and sends none.
    Silent,
    /// Responds with meaningless datagrams, some of which look like QUIC packets.
    Garbage,
    /// Sends its first packet, with ServerHello, and nothing more.
    FirstPacketOnly,
}

impl Unfinished {
    /// Serves until no client has sent anything for `PATIENCE`.
    pub(crate) fn start(self, home: &Path) -> SocketAddr {
        let mut config = server_config(USUAL_WINDOW, home);
        let (socket, to) = bind();
        thread::spawn(move || {
            let mut datagram = [0; 65_536];
            let mut answered: Vec<SocketAddr> = Vec::new();
            let mut heard = Instant::now();
            while heard.elapsed() < PATIENCE {
                let Ok((len, from)) = socket.recv_from(&mut datagram) else {
                    continue;
                };
                heard = Instant::now();
                let came = &mut datagram[..len];
                let answers = match self {
                    Unfinished::Silent => Vec::new(),
                    Unfinished::Garbage => garbage(came),
                    Unfinished::FirstPacketOnly if answered.contains(&from) => Vec::new(),
                    Unfinished::FirstPacketOnly => {
                        let packet = first_packet(came, RecvInfo { from, to }, &mut config);
                        answered.extend(packet.iter().map(|_| from));
                        Vec::from_iter(packet)
                    }
                };
                for answer in answers {
                    // A send failure is treated as a loss.
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        to
    }
}

/// Datagrams made of the reversed input: as is, and after a short or a long header of version 1 for that connection.
fn garbage(came: &[u8]) -> Vec<Vec<u8>> {
    let reversed: Vec<u8> = came.iter().rev().copied().collect();
    // The client's connection id (RFC 9000, section 17.2), to which packets for the client are addressed.
    let theirs = 6 + usize::from(came.get(5).copied().unwrap_or_default());
    let len = usize::from(came.get(theirs).copied().unwrap_or_default());
    let id = came.get(theirs + 1..theirs + 1 + len).unwrap_or_default();
    let short = [&[0x43][..], id, &reversed].concat();
    let long = [&[0xe3, 0, 0, 0, 1, len as u8][..], id, &reversed].concat();
    (0..GARBAGE_A_TURN)
        .map(|n| {
            let mut one = match n % 3 {
                0 => reversed.clone(),
                1 => short.clone(),
                _ => long.clone(),
            };
            one.truncate(DATAGRAM_BYTES - n);
            one
        })
        .collect()
}

/// The Initial packet with which a server responds to a ClientHello, without the Handshake packets after it; `None`
/// until the whole ClientHello has arrived.
fn first_packet(came: &mut [u8], info: RecvInfo, config: &mut Config) -> Option<Vec<u8>> {
    let id = ConnectionId::from_ref(&[9; 16]);
    let conn = quiche::accept(&id, None, info.to, info.from, config);
    let mut conn = conn.expect("a connection");
    conn.recv(came, info).ok()?;
    let mut datagram = [0; DATAGRAM_BYTES];
    let (len, _) = conn.send(&mut datagram).ok()?;
    let rest = &datagram[..len];
    // RFC 9000, section 17.2.2: ids, a token, and the length of the rest in two bytes.
    let mut at = 5;
    for _ in 0..2 {
        at += 1 + usize::from(*rest.get(at)?);
    }
    at += 1;
    let length = rest.get(at..at + 2)?;
    let length = usize::from(u16::from_be_bytes([length[0] & 0x3f, length[1]]));
    Some(rest.get(..at + 2 + length)?.to_vec())
}
