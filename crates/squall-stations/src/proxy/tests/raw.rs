//! HTTP/2 upstreams that send GOAWAY, stay silent or respond in parts, frame by frame; clients that go away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use squall_base::record::ExchangeRecord;

use super::memory::{SteppedProxy, connect};
use super::{
    Balance, Failure, Protocol, Proxy, ProxyReport, StopSignal, Version, listener, log, proxy,
    settings,
};
use crate::memory::MAX_BYTES;
use crate::proxy::exchange::{BackState, ProxyExchange};

const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
/// `:status 200` (RFC 7541, appendix A, 8).
const OK: &[u8] = &[0x88];
const PREFACE_BYTES: usize = 24;

/// The upstream's end of a connection.
struct Wire(TcpStream);

struct Frame {
    stream: u32,
    payload: Vec<u8>,
}

impl Wire {
    /// Accepts the next connection and sends SETTINGS.
    fn accept(listener: &TcpListener) -> Wire {
        let (mut stream, _) = listener.accept().unwrap();
        let patience = Some(StdDuration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        stream.read_exact(&mut [0; PREFACE_BYTES]).unwrap();
        let mut wire = Wire(stream);
        wire.send(SETTINGS, 0, 0, &[]);
        wire
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        self.0.write_all(&bytes).unwrap();
    }

    fn answer(&mut self, stream: u32) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, OK);
    }

    /// GOAWAY without an error: streams after `last` were not processed (RFC 9113, section 6.8).
    fn send_goaway(&mut self, last: u32) {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload);
    }

    /// The next frame of this kind; skips others.
    fn wait_for(&mut self, kind: u8) -> Frame {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).unwrap();
            if head[3] == kind {
                return Frame {
                    stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
                    payload,
                };
            }
        }
    }

    /// Keeps the connection open until the proxy closes it.
    fn linger(&mut self) {
        let _ = self.0.read_to_end(&mut Vec::new());
    }

    /// The stream of the next request.
    fn wait_for_request(&mut self) -> u32 {
        self.wait_for(HEADERS).stream
    }
}

/// A proxy in front of an upstream that runs `serve`.
struct Between {
    address: SocketAddr,
    stop: StopSignal,
    passing: JoinHandle<ProxyReport>,
    serving: JoinHandle<()>,
    rows: [crate::rows::RowReceiver<ExchangeRecord>; 2],
}

impl Between {
    fn start(serve: impl FnOnce(TcpListener) + Send + 'static) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = listener.local_addr().unwrap();
        let stop = StopSignal::new().unwrap();
        let ((front_log, front_rows), (back_log, back_rows)) = (log(), log());
        let proxy = proxy(
            &[upstream],
            Balance::RoundRobin,
            [front_log, back_log],
            &stop,
        );
        let address = proxy.addresses().unwrap()[0];
        Between {
            address,
            stop,
            passing: thread::spawn(move || proxy.run().unwrap()),
            serving: thread::spawn(move || serve(listener)),
            rows: [front_rows, back_rows],
        }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        let patience = Some(StdDuration::from_secs(10));
        client.set_read_timeout(patience).unwrap();
        client
    }

    /// The proxy's report, and the records of both sides.
    fn end(self) -> (ProxyReport, [Vec<ExchangeRecord>; 2]) {
        self.stop.request().unwrap();
        let report = self.passing.join().unwrap();
        self.serving.join().unwrap();
        let rows = self.rows.map(|rows| {
            rows.flat_map(|mut chunk| std::mem::take(&mut *chunk))
                .collect()
        });
        (report, rows)
    }
}

fn request(method: &str, rest: &str) -> Vec<u8> {
    format!("{method} / HTTP/1.1\r\nhost: a\r\n{rest}").into_bytes()
}

/// Sends a request, and reads until the connection ends.
fn ask(between: &Between, request: &[u8]) -> String {
    let mut client = between.connect();
    client.write_all(request).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A field as HPACK's literal without indexing (RFC 7541, section 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.bytes());
    bytes
}

/// Values that would be two lines of HTTP/1.1.
const TWO_LINES: [&str; 3] = ["a\rinjected: b", "a\ninjected: b", "a\r\ninjected: b"];

const CLOSING_POST: &str = "connection: close\r\ncontent-length: 3\r\n\r\nabc";

/// RFC 9113, section 8.7: the request was certainly not processed, so any method may be retried.
#[test]
fn request_beyond_a_goaway_is_retried() {
    let between = Between::start(|listener| {
        let mut first = Wire::accept(&listener);
        assert_eq!(first.wait_for_request(), 1);
        first.send_goaway(0);
        let mut second = Wire::accept(&listener);
        let stream = second.wait_for_request();
        second.answer(stream);
        second.linger();
    });
    let answer = ask(&between, &request("POST", CLOSING_POST));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (report, [front, back]) = between.end();
    assert_eq!((report.retries, report.responses_written), (1, 1));
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let ends: Vec<_> = back.iter().map(|row| (row.status, row.reset)).collect();
    // No RST_STREAM arrived.
    assert_eq!(ends, [(None, None), (Some(200), None)]);
    assert_eq!((front.len(), front[0].status), (1, Some(200)));
}

/// A request that an upstream may have processed is retried only if it is idempotent (RFC 9110, section 9.2.2).
#[test]
fn non_idempotent_request_that_may_have_been_processed_is_not_retried() {
    let between = Between::start(|listener| {
        let mut first = Wire::accept(&listener);
        let stream = first.wait_for_request();
        first.send_goaway(stream);
        first.0.shutdown(Shutdown::Both).unwrap();
    });
    let answer = ask(&between, &request("POST", CLOSING_POST));
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let (report, [_, back]) = between.end();
    assert_eq!(report.retries, 0);
    assert_eq!(report.failures.get(&Failure::UpstreamClosed), Some(&1));
    assert_eq!((back.len(), back[0].status), (1, None));
}

#[test]
fn response_in_progress_survives_a_goaway() {
    let between = Between::start(|listener| {
        let mut first = Wire::accept(&listener);
        let stream = first.wait_for_request();
        first.send_goaway(stream);
        first.answer(stream);
        let mut second = Wire::accept(&listener);
        let stream = second.wait_for_request();
        second.answer(stream);
        second.linger();
    });
    let requests = [
        request("GET", "\r\n"),
        request("GET", "connection: close\r\n\r\n"),
    ];
    let answers = ask(&between, &requests.concat());
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    let (report, [_, back]) = between.end();
    assert_eq!((report.retries, report.failures.len()), (0, 0));
    let connections: Vec<_> = back.iter().map(|row| row.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[test]
fn abandoned_request_is_cancelled_upstream_and_recorded() {
    let (sender, has_arrived) = mpsc::channel();
    let between = Between::start(move |listener| {
        let mut wire = Wire::accept(&listener);
        let stream = wire.wait_for_request();
        sender.send(()).unwrap();
        let reset = wire.wait_for(RST_STREAM);
        // CANCEL (RFC 9113, section 7).
        assert_eq!((reset.stream, reset.payload), (stream, vec![0, 0, 0, 8]));
        // The connection stays open.
        let stream = wire.wait_for_request();
        wire.answer(stream);
        wire.linger();
    });
    let mut client = between.connect();
    client.write_all(&request("GET", "\r\n")).unwrap();
    has_arrived.recv().unwrap();
    drop(client);
    let answer = ask(&between, &request("GET", "connection: close\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (report, [front, back]) = between.end();
    assert_eq!(report.failures.get(&Failure::ClientGone), Some(&1));
    let ends = |rows: &[ExchangeRecord]| -> Vec<_> {
        rows.iter()
            .map(|row| (row.connection, row.status, row.reset))
            .collect()
    };
    assert_eq!(ends(&front), [(0, None, None), (1, Some(200), None)]);
    assert_eq!(ends(&back), [(0, None, Some(8)), (0, Some(200), None)]);
}

/// RFC 9110, section 15.2; HTTP/1.0 has no interim responses.
#[test]
fn interim_responses_are_passed_on() {
    // `:status` as a literal, and `link` (45 in the static table).
    let status = |digits: &[u8; 3]| [&[0x08, 3], &digits[..]].concat();
    let early = [&status(b"103")[..], &[0x0f, 30, 4], b"</a>"].concat();
    for (version, has_interim) in [("1.1", true), ("1.0", false)] {
        let (early, continue_response) = (early.clone(), status(b"100"));
        let between = Between::start(move |listener| {
            let mut wire = Wire::accept(&listener);
            let stream = wire.wait_for_request();
            wire.send(HEADERS, END_HEADERS, stream, &continue_response);
            wire.send(HEADERS, END_HEADERS, stream, &early);
            wire.answer(stream);
            wire.linger();
        });
        let request = format!("GET / HTTP/{version}\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = ask(&between, request.as_bytes());
        let early_hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nvia: 2 squall\r\n\r\n";
        let (interim, last) = answer.split_at(if has_interim { early_hints.len() } else { 0 });
        assert_eq!(interim, if has_interim { early_hints } else { "" });
        assert!(last.starts_with("HTTP/1.1 200"), "{answer}");
        let (report, [front, _]) = between.end();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert_eq!((front.len(), front[0].status), (1, Some(200)));
    }
}

#[test]
fn field_with_a_line_end_does_not_reach_an_upstream_of_another_version() {
    /// `:method: GET`, `:scheme: http`, `:path: /` and `:authority: a`.
    const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = StopSignal::new().unwrap();
    let mut settings = settings(
        &[upstream.local_addr().unwrap()],
        Balance::RoundRobin,
        Default::default(),
    );
    settings.listeners = vec![listener(Version::Http2)];
    settings.protocol = Protocol::H1;
    let proxy = Proxy::listen(settings, stop.clone()).unwrap();
    let address = proxy.addresses().unwrap()[0];
    let passing = thread::spawn(move || proxy.run().unwrap());
    let serving = thread::spawn(move || {
        let (mut stream, _) = upstream.accept().unwrap();
        let (mut seen, mut piece) = (Vec::<u8>::new(), [0; 4_096]);
        while !seen.ends_with(b"\r\n\r\n") {
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "{seen:?}");
            seen.extend_from_slice(&piece[..length]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).unwrap();
        String::from_utf8_lossy(&seen).into_owned()
    });
    let mut client = TcpStream::connect(address).unwrap();
    let patience = Some(StdDuration::from_secs(10));
    client.set_read_timeout(patience).unwrap();
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    let mut wire = Wire(client);
    wire.send(SETTINGS, 0, 0, &[]);
    let mut ask = |stream: u32, value: &str| {
        let section = [GET, &literal("x", value)].concat();
        wire.send(HEADERS, END_STREAM | END_HEADERS, stream, &section);
        wire.wait_for(if value == "a" { HEADERS } else { RST_STREAM })
    };
    for (value, stream) in TWO_LINES.into_iter().zip([1, 3, 5]) {
        let reset = ask(stream, value);
        // PROTOCOL_ERROR (RFC 9113, section 8.1.1).
        let expected = (stream, vec![0, 0, 0, 1]);
        assert_eq!((reset.stream, reset.payload), expected, "{value:?}");
    }
    assert_eq!(ask(7, "a").stream, 7);
    let seen = serving.join().unwrap();
    assert!(seen.contains("\r\nx: a\r\n"), "{seen:?}");
    assert!(!seen.contains("injected"), "{seen:?}");
    stop.request().unwrap();
    passing.join().unwrap();
}

fn has_exchange(proxy: &Proxy, is_so: impl Fn(&ProxyExchange) -> bool) -> bool {
    let mut exchanges = proxy.connections.relay.exchanges.iter();
    exchanges.any(|(_, exchange)| is_so(exchange))
}

/// Otherwise clients that open no window could make a proxy hold any number of responses.
#[test]
fn waiting_response_still_counts_after_its_upstream_closed_the_connection() {
    /// `:method: GET`, `:scheme: http`, `:path: /` and `:authority: a`.
    const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];
    const BODY: &[u8] = &[b'x'; 10_000];
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = StopSignal::new().unwrap();
    let upstreams = [upstream.local_addr().unwrap()];
    let mut settings = settings(&upstreams, Balance::RoundRobin, Default::default());
    settings.listeners = vec![listener(Version::Http2)];
    settings.protocol = Protocol::H1;
    let mut proxy = SteppedProxy(Proxy::listen(settings, stop).unwrap());
    proxy.0.open_in_advance().unwrap();
    let mut client = Wire(connect(proxy.address()));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    client.0.write_all(preface).unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE 0.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    client.send(HEADERS, END_STREAM | END_HEADERS, 1, GET);

    proxy.turn_until("sent", |proxy| {
        has_exchange(proxy, |it| matches!(it.back, BackState::Sent { .. }))
    });
    let (mut server, _) = upstream.accept().unwrap();
    assert!(server.read(&mut [0; 4_096]).unwrap() > 0);
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n";
    server.write_all(head).unwrap();
    proxy.turn_until("begun", |proxy| has_exchange(proxy, |it| it.is_answered));
    server.write_all(BODY).unwrap();
    drop(server);
    proxy.turn_until("closed", |proxy| {
        let mut connections = proxy.connections.relay.backs.pools.connections();
        has_exchange(proxy, |it| it.down.waiting.len() == BODY.len())
            && connections.all(|(_, back)| back.backlog_bytes == 0)
    });

    let mut others = 0;
    let memory = &mut proxy.0.connections.relay.backs.memory;
    memory.update(&mut others, MAX_BYTES - 1_000);
    proxy.turn_until("cut off", |proxy| {
        let failures = &proxy.connections.relay.report.failures;
        failures.get(&Failure::TooMuchHeld) == Some(&1)
    });
    let reset = client.wait_for(RST_STREAM);
    // INTERNAL_ERROR (RFC 9113, section 7).
    assert_eq!((reset.stream, reset.payload), (1, vec![0, 0, 0, 2]));
}

#[test]
fn field_with_a_line_end_does_not_split_a_response() {
    for value in TWO_LINES {
        let between = Between::start(move |listener| {
            let mut wire = Wire::accept(&listener);
            let stream = wire.wait_for_request();
            let section = [OK, &literal("x", value)].concat();
            wire.send(HEADERS, END_STREAM | END_HEADERS, stream, &section);
            wire.linger();
        });
        let answer = ask(&between, &request("POST", CLOSING_POST));
        assert!(answer.starts_with("HTTP/1.1 502"), "{value:?}: {answer:?}");
        assert!(!answer.contains("injected"), "{value:?}: {answer:?}");
        between.end();
    }
}
