//! `squall proxy` and interim responses with HTTP/3 in front: the proxy itself sends 100 (Continue) to a client that
//! waits for it, and forwards other interim responses. HTTP/1.1 and HTTP/2 clients are in `proxies_failing` and
//! `proxies_lasting`.
//!
//! The HTTP/3 client is squall's engine on its own socket, because no squall command waits before sending a body.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::{Http3Settings, TlsSettings};
use squall_http::tls::Trust;
use squall_http::{
    Body, ClientEvent, Field, Inbox, InboxOptions, Request, Scheme, StreamId, StreamIo, h3,
};

use crate::proxies::{KINDS, proxy, upstream};
use crate::serving::Serving;
use crate::support::seat;

/// Longer than an exchange takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest possible datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// An HTTP/3 client driven step by step by a test.
struct Client {
    socket: UdpSocket,
    engine: h3::Client,
    inbox: Inbox<ClientEvent>,
    /// Received events that have not been examined yet.
    events: VecDeque<ClientEvent>,
}

impl Client {
    /// Connects to this server, accepting any certificate.
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
        let wants = InboxOptions {
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

    /// Sends pending datagrams, and reads one if it arrives soon.
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

    /// The status and fields of the next head, and whether it belongs to an interim response.
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

    /// Waits for the end of the response and returns the length of its body.
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

/// RFC 9110, section 10.1.1: the client sends the body only after the proxy has said that it may.
#[test]
fn http3_client_that_expects_100_continue_receives_it_with_any_upstream() {
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
        // A client that does not ask receives no 100.
        client.submit("POST", false, Body::from(b"abc".to_vec()));
        let (status, _, is_interim) = client.next_head();
        assert_eq!((status, is_interim), (200, false), "to {back}");
        assert_eq!(client.rest(), 3, "to {back}");
        drop(client);
        proxy.check_ends_well();
    }
    server.check_ends_well();
}

/// RFC 9110, section 15.2; RFC 9114, section 4.1: any number of interim responses may precede the final one. The
/// upstream's own 100 is not forwarded, because the client did not ask for it.
#[test]
fn interim_responses_reach_an_http3_client() {
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
