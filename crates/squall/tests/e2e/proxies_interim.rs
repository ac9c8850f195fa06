//! `squall proxy` and interim responses where HTTP/3 is in front: a client that waits for 100 (Continue) hears it from the
//! proxy, other interim responses pass through. Clients of HTTP/1.1 and HTTP/2 are in `proxies_failing` and
//! `proxies_lasting`.
//!
//! The client of HTTP/3 is squall's engine on a socket of its own, since no command of squall's waits before a body.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::{Http3Settings, TlsSettings};
use squall_http::tls::Trust;
use squall_http::{Body, ClientEvent, Field, Inbox, Request, Scheme, StreamId, Wants, h3};

use crate::proxies::{KINDS, proxy, upstream};
use crate::serving::Serving;
use crate::support::seat;

/// Longer than an exchange takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// No datagram is longer.
const DATAGRAM_BYTES: usize = 65_536;

/// A client of HTTP/3 that does as a test says.
struct Client {
    socket: UdpSocket,
    engine: h3::Client,
    inbox: Inbox<ClientEvent>,
    /// What came and was not looked at.
    events: VecDeque<ClientEvent>,
}

impl Client {
    /// With a connection to this server, whoever it is.
    fn connect(server: SocketAddr) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(server).expect("an address");
        let timeout = Some(Duration::from_millis(5));
        socket.set_read_timeout(timeout).expect("a timeout");
        let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
        let mut context =
            h3::ClientContext::new(&settings, &tls, &Trust::Anyone, 1).expect("a context for QUIC");
        let local = socket.local_addr().expect("its address");
        let engine = h3::Client::new(&mut context, "server", local, server).expect("a connection");
        let wants = Wants {
            fields: true,
            bodies: true,
            frames: false,
        };
        let mut client = Client {
            socket,
            engine,
            inbox: Inbox::new(wants),
            events: VecDeque::new(),
        };
        let give_up = Instant::now() + PATIENCE;
        while !client.engine.is_ready() {
            assert!(Instant::now() < give_up, "no handshake");
            client.turn();
        }
        client
    }

    /// Sends what there is, and reads a datagram if one comes soon.
    fn turn(&mut self) {
        let now = Instant::now();
        if self
            .engine
            .timeout(now)
            .is_some_and(|left| left.as_nanos() == 0)
        {
            self.engine.on_timeout(now).expect("a connection");
        }
        let mut batch = h3::Batch::new();
        while self
            .engine
            .output(Instant::now(), &mut batch, &mut self.inbox)
        {
            thread::sleep(batch.delay().into());
            for datagram in batch.datagrams() {
                self.socket.send(datagram).expect("it is sent");
            }
        }
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let local = self.socket.local_addr().expect("its address");
        let server = self.socket.peer_addr().expect("the server's");
        match self.socket.recv(&mut datagram) {
            Ok(count) => self
                .engine
                .receive(&mut datagram[..count], server, local, &mut self.inbox)
                .expect("a connection"),
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ),
                "{error}"
            ),
        }
        self.events.extend(self.inbox.events.drain(..));
        self.inbox.clear();
    }

    fn submit(&mut self, method: &str, expects: bool, body: Body) -> StreamId {
        let expect = [("expect".to_owned(), "100-continue".to_owned())];
        let headers = &expect[..usize::from(expects)];
        let request = Request::new(method, Scheme::Https, "server", "/", headers, body);
        let request = Arc::new(request.expect("a request"));
        self.engine.submit(&request).expect("a stream")
    }

    /// The status and fields of the next head, and whether it is that of an interim response.
    fn next_head(&mut self) -> (u16, Vec<Field>, bool) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            while let Some(event) = self.events.pop_front() {
                match event {
                    ClientEvent::Interim { status, fields, .. } => return (status, fields, true),
                    ClientEvent::ResponseHeaders { status, fields, .. } => {
                        return (status, fields, false);
                    }
                    ClientEvent::StreamReset { code, .. } => panic!("reset with {code}"),
                    _ => {}
                }
            }
            assert!(Instant::now() < give_up, "no head came");
            self.turn();
        }
    }

    /// How long the body was, once it has ended.
    fn rest(&mut self) -> u64 {
        let give_up = Instant::now() + PATIENCE;
        let mut body_bytes = 0;
        loop {
            while let Some(event) = self.events.pop_front() {
                match event {
                    ClientEvent::ResponseBody { len, .. } => body_bytes += len,
                    ClientEvent::ResponseEnd { .. } => return body_bytes,
                    _ => {}
                }
            }
            assert!(Instant::now() < give_up, "no end came");
            self.turn();
        }
    }
}

/// RFC 9110, section 10.1.1: the body comes only when the proxy has said that it may.
#[test]
fn a_client_of_http3_that_waits_is_told_to_continue_whatever_is_behind() {
    let _seat = seat();
    let server = Serving::start(&KINDS, &["--echo"]);
    for back in KINDS {
        let proxy = proxy(&["h3"], back, server.address(back), &[]);
        let mut client = Client::connect(proxy.address("h3"));
        let stream = client.submit("POST", true, Body::Streamed { length: Some(3) });
        assert_eq!(client.next_head(), (100, Vec::new(), true), "to {back}");
        assert_eq!(client.engine.send_body(stream, b"abc"), 3);
        client.engine.end_body(stream);
        let (status, _, is_interim) = client.next_head();
        assert_eq!((status, is_interim), (200, false), "to {back}");
        assert_eq!(client.rest(), 3, "to {back}");
        // Who does not ask is told nothing.
        client.submit("POST", false, Body::from(b"abc".to_vec()));
        let (status, _, is_interim) = client.next_head();
        assert_eq!((status, is_interim), (200, false), "to {back}");
        assert_eq!(client.rest(), 3, "to {back}");
        drop(client);
        proxy.check_ends_well();
    }
    server.check_ends_well();
}

/// RFC 9110, section 15.2; RFC 9114, section 4.1: any number of them, before the final response. The upstream's own 100 is
/// not passed on, for nobody has asked it.
#[test]
fn interim_answers_reach_a_client_of_http3() {
    let _seat = seat();
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
                   HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                   HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for middle in KINDS {
        let (address, _heard) = upstream(|mut stream: TcpStream, _| {
            let _ = stream.write_all(answer);
        });
        let second = proxy(&[middle], "h1", address, &[]);
        let first = proxy(&["h3"], middle, second.address(middle), &[]);
        let mut client = Client::connect(first.address("h3"));
        client.submit("GET", false, Body::EMPTY);
        let (processing, _, is_interim) = client.next_head();
        assert_eq!((processing, is_interim), (102, true), "over {middle}");
        let (hints, fields, is_interim) = client.next_head();
        assert_eq!((hints, is_interim), (103, true), "over {middle}");
        let link = fields.iter().find(|field| field.name == "link");
        assert_eq!(
            link.map(|field| &field.value[..]),
            Some(&b"</a>"[..]),
            "over {middle}: {fields:?}"
        );
        let (status, _, is_interim) = client.next_head();
        assert_eq!((status, is_interim), (200, false), "over {middle}");
        assert_eq!(client.rest(), 2, "over {middle}");
        drop(client);
        first.check_ends_well();
        second.check_ends_well();
    }
}
