//! `squall` with a program's preset announces what the real program announces, or the difference is listed with its
//! reason: HTTP/2 SETTINGS and the connection window of servers and of proxies' clients, and the QUIC transport
//! parameters of servers. Go is represented by fortio.
//!
//! HTTP/2 is parsed here, frame by frame, so that both sides are read by the same code; QUIC is read by tshark from a
//! capture, which needs root. Other effects of presets (window updates, DATA, TLS records) are not compared.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::capture::{self, Capture};
use crate::interop::observed::can_capture;
use crate::interop::support::answer::Request;
use crate::interop::support::program::{PATIENCE, have};
use crate::interop::support::{
    Http, Peer, Upstream, caddy, envoy, fortio, haproxy, nghttp2, nginx, squall,
};
use crate::support::seat;

/// Settings that a preset covers: identifier, name, and the value if not announced (RFC 9113, section 6.5.2).
const OF_PRESETS: [(u16, &str, u64); 4] = [
    (1, "HEADER_TABLE_SIZE", 4_096),
    (3, "MAX_CONCURRENT_STREAMS", u64::MAX),
    (4, "INITIAL_WINDOW_SIZE", 65_535),
    (5, "MAX_FRAME_SIZE", 16_384),
];

/// Settings that no preset covers, and why.
const OF_NO_PRESET: [(u16, &str); 4] = [
    (
        2,
        "ENABLE_PUSH: squall takes no pushes, whoever it stands for",
    ),
    (
        6,
        "MAX_HEADER_LIST_SIZE: the engine's own limit, for all alike",
    ),
    (8, "ENABLE_CONNECT_PROTOCOL: there are no tunnels in squall"),
    (
        9,
        "NO_RFC7540_PRIORITIES: squall sends and heeds no such priorities",
    ),
];

const CONNECTION_WINDOW: &str = "the connection's window";

/// Where a program differs from its preset on that side, and why that is correct.
const DIFFERENCES: [(&str, &str, &str, &str); 5] = [
    ("haproxy", "server", CONNECTION_WINDOW, WITH_DATA),
    ("haproxy", "client", CONNECTION_WINDOW, WITH_DATA),
    ("haproxy", "client", "MAX_CONCURRENT_STREAMS", OF_PUSHES),
    ("envoy", "client", "MAX_CONCURRENT_STREAMS", OF_PUSHES),
    ("nghttpx", "client", "MAX_CONCURRENT_STREAMS", OF_PUSHES),
];
const WITH_DATA: &str = "it is opened with the first DATA, and here from the start";
const OF_PUSHES: &str =
    "nobody opens streams to a client; ours holds it for the server's until that is known";

/// A program by its preset's name, and how to start it: a server, or a proxy in front of an upstream.
type Server = (&'static str, fn() -> Peer);
type Proxy = (&'static str, fn(Upstream) -> Peer);

/// Announced values by name.
type Announced = BTreeMap<&'static str, u64>;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;

const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
const A_PING: [u8; 17] = [0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Reads what the peer announces until it has acknowledged two PINGs. The first acknowledgement may overtake earlier
/// frames in the peer's queue; the second PING is sent only after the first is acknowledged.
fn announced(stream: &mut TcpStream) -> Announced {
    let mut acknowledged = 0;
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
        .write_all(&[&EMPTY_SETTINGS[..], &A_PING].concat())
        .expect("it reads");
    let mut found: Announced = OF_PRESETS.map(|(_, name, unless)| (name, unless)).into();
    let mut connection_window = 65_535;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("the head of a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).expect("a whole frame");
        let is_of_connection = head[5..] == [0; 4];
        match (head[3], head[4] & ACK) {
            (SETTINGS, 0) => payload.chunks_exact(6).for_each(|setting| {
                let id = u16::from_be_bytes([setting[0], setting[1]]);
                let value = setting[2..].try_into().expect("four bytes");
                let known = OF_PRESETS.iter().find(|(known, ..)| *known == id);
                match known {
                    Some((_, name, _)) => {
                        found.insert(name, u64::from(u32::from_be_bytes(value)));
                    }
                    None => assert!(
                        OF_NO_PRESET.iter().any(|(known, _)| *known == id),
                        "setting {id} is of no preset, and nothing says why"
                    ),
                }
            }),
            (WINDOW_UPDATE, _) if is_of_connection => {
                let increment = payload.as_slice().try_into().expect("four bytes");
                connection_window += u64::from(u32::from_be_bytes(increment));
            }
            (PING, ACK) if acknowledged == 1 => break,
            (PING, ACK) => {
                acknowledged += 1;
                stream.write_all(&A_PING).expect("it reads");
            }
            _ => {}
        }
    }
    found.insert(CONNECTION_WINDOW, connection_window);
    found
}

/// What a server announces to a client.
fn of_server(server: &Peer) -> Announced {
    let mut stream = TcpStream::connect(server.address(Http::H2c)).expect("it listens");
    stream.write_all(PREFACE).expect("it reads");
    announced(&mut stream)
}

/// What a client announces to a server that never responds; `send` directs the client to it.
fn of_client<T>(send: impl FnOnce(SocketAddrV4) -> T) -> Announced {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = thread::spawn(move || {
        let mut stream = accept(&listener);
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).expect("the preface");
        assert_eq!(preface, PREFACE);
        announced(&mut stream)
    });
    let sent = send(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    let found = server.join().expect("it announces something");
    drop(sent);
    found
}

fn accept(listener: &TcpListener) -> TcpStream {
    let give_up = Instant::now() + PATIENCE;
    listener.set_nonblocking(true).expect("it can be asked");
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("it can wait");
            return stream;
        }
        assert!(Instant::now() < give_up, "the client does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

fn check_alike(name: &str, side: &str, real: &Announced, preset: &Announced) {
    for (setting, value) in real {
        let listed = (DIFFERENCES.iter())
            .find(|(of, on, what, _)| (*of, *on, what) == (name, side, setting));
        match listed {
            None => assert_eq!(
                value, &preset[setting],
                "{setting} of {name} as a {side}, and of its preset: {real:?} {preset:?}"
            ),
            Some(_) => assert_ne!(
                value, &preset[setting],
                "{setting} of {name} as a {side} is listed as different"
            ),
        }
    }
}

/// An upstream that receives no requests.
fn nowhere() -> Upstream {
    Upstream {
        http: Http::H1,
        address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9),
    }
}

#[test]
fn server_presets_announce_the_values_of_real_servers() {
    let _seat = seat();
    if !have(&[
        "nginx", "envoy", "haproxy", "nghttpx", "nghttpd", "caddy", "fortio", "openssl",
    ]) {
        return;
    }
    let real: [Server; 7] = [
        ("nginx", || nginx::start(&[])),
        ("envoy", || envoy::start(nowhere())),
        ("haproxy", || haproxy::start(nowhere())),
        ("nghttpx", || nghttp2::start_proxy(nowhere())),
        ("nghttpd", || nghttp2::start_server(&[])),
        ("caddy", || caddy::start(&[])),
        ("go", fortio::start),
    ];
    for (name, start) in real {
        let ours = of_server(&squall::serve(&["--preset", name]));
        check_alike(name, "server", &of_server(&start()), &ours);
    }
}

#[test]
fn client_presets_announce_the_values_of_real_proxies() {
    let _seat = seat();
    if !have(&[
        "nginx-mainline",
        "envoy",
        "haproxy",
        "nghttpx",
        "caddy",
        "openssl",
    ]) {
        return;
    }
    let real: [Proxy; 5] = [
        ("nginx", nginx::start_proxy),
        ("envoy", envoy::start),
        ("haproxy", haproxy::start),
        ("nghttpx", nghttp2::start_proxy),
        ("caddy", caddy::start_proxy),
    ];
    for (name, start) in real {
        let real = of_client(|address| {
            let http = Http::H2c;
            let proxy = start(Upstream { http, address });
            let mut stream = TcpStream::connect(proxy.address(Http::H1)).expect("it listens");
            let request = b"GET / HTTP/1.1\r\nhost: test.local\r\n\r\n";
            stream.write_all(request).expect("it reads");
            (proxy, stream)
        });
        check_alike(name, "client", &real, &of_our_client(name));
    }
}

/// What our client announces with this preset.
fn of_our_client(preset: &str) -> Announced {
    of_client(|address| {
        let url = Http::H2c.url(address, "/");
        // The fetch fails because there is no response.
        squall::fetch(Http::H2c, &Request::get(&url), &["--preset", preset])
    })
}

#[test]
fn go_client_preset_announces_the_values_of_go() {
    let _seat = seat();
    if have(&["fortio"]) {
        let real = of_client(fortio::ask_over_http2);
        check_alike("go", "client", &real, &of_our_client("go"));
    }
}

/// Transport parameters (RFC 9000, section 18.2) that a preset covers, and their values if not announced.
const PARAMETERS: [(&str, u64); 6] = [
    ("initial_max_data", 0),
    ("initial_max_stream_data_bidi_local", 0),
    ("initial_max_stream_data_bidi_remote", 0),
    ("initial_max_streams_bidi", 0),
    ("max_udp_payload_size", 65_527),
    ("max_ack_delay", 25),
];

/// What an HTTP/3 server announces to our client.
fn of_quic_server(server: &Peer) -> Announced {
    let home = TempDir::new().expect("a temporary folder");
    let keys = home.path().join("keys.log");
    let port = server.address(Http::H3).port();
    let capture = Capture::start(home.path(), &format!("port {port}"));
    let url = server.url(Http::H3, "/");
    let key_log = keys.to_str().expect("UTF-8");
    // Without GSO, because tshark and Envoy expect one datagram at a time.
    let flags = ["--key-log", key_log, "--set", "http3.gso=false"];
    squall::fetch(Http::H3, &Request::get(&url), &flags);
    let capture = capture.end(port);
    let names = PARAMETERS.map(|(name, _)| format!("tls.quic.parameter.{name}"));
    let filter = format!("udp.srcport == {port} && {}", names[0]);
    let decode = ["-d", &format!("udp.port=={port},quic")];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = capture::fields(&capture, Some(&keys), &filter, &names, &decode);
    let row = found.first().expect("the parameters of the server");
    let values = row.iter().zip(PARAMETERS).map(|(text, (name, unless))| {
        let value = match text.as_str() {
            "" => unless,
            text => text.parse().expect("a number"),
        };
        (name, value)
    });
    values.collect()
}

#[test]
fn quic_presets_announce_the_parameters_of_real_servers() {
    let _seat = seat();
    if !can_capture() || !have(&["envoy", "caddy", "tshark"]) {
        return;
    }
    let real: [Server; 2] = [
        ("envoy", || envoy::start(nowhere())),
        ("caddy", || caddy::start(&[])),
    ];
    for (name, start) in real {
        let ours = of_quic_server(&squall::serve(&["--preset", name]));
        check_alike(name, "server", &of_quic_server(&start()), &ours);
    }
}
