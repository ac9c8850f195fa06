//! What the proxy does when open requests and responses take too much memory, and that it recovers.
//!
//! No test really takes that much. It adds what other clients would hold to the proxy's own counts, and so tests the real
//! limits (`crate::memory`), or it has many clients and small limits.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration as StdDuration;

use squall_base::Duration;
use squall_http::{Body, Request, Scheme, StreamId};
use squall_linux::clock;

use super::{Balance, Failure, ListenerProtocol, Proxy, StopSignal, proxy, server, settings};
use crate::memory::{CLOSED, HeldMemory, MAX_BYTES};
use crate::proxy::exchange::{MAX_KEPT_BYTES, ProxyExchange};
use crate::proxy::keys::FrontKey;
use crate::visitor::{Visitor, context, identity};

pub(super) const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
/// A request that the proxy itself responds to.
const OPTIONS: &str =
    "OPTIONS / HTTP/1.1\r\nhost: a\r\nmax-forwards: 0\r\nconnection: close\r\n\r\n";
const LARGE_BYTES: usize = 64 << 20;

/// A proxy that runs only while a test gives it turns.
pub(super) struct SteppedProxy(pub(super) Proxy);

impl SteppedProxy {
    pub(super) fn before(upstream: SocketAddr, stop: &StopSignal) -> SteppedProxy {
        let mut proxy = proxy(&[upstream], Balance::RoundRobin, Default::default(), stop);
        proxy.open_in_advance().unwrap();
        SteppedProxy(proxy)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.addresses().unwrap()[0]
    }

    /// Takes turns until the condition holds, for at most 20 s.
    pub(super) fn turn_until(&mut self, what: &str, is_so: impl Fn(&Proxy) -> bool) {
        let give_up = clock::now() + Duration::from_secs(20);
        while !is_so(&self.0) {
            assert!(clock::now() < give_up, "not {what} within 20 s");
            let wake = clock::now() + Duration::from_millis(10);
            self.0.turn(Some(wake)).unwrap();
        }
    }

    /// Takes turns with a client of HTTP/3 until the condition holds, for at most 20 s.
    pub(super) fn turn_with(
        &mut self,
        visitor: &mut Visitor,
        is_so: impl Fn(&Proxy, &Visitor) -> bool,
    ) {
        let give_up = clock::now() + Duration::from_secs(20);
        while !is_so(&self.0, visitor) {
            assert!(clock::now() < give_up, "{:?}", visitor.engine.closing());
            visitor.turn();
            let wake = clock::now() + Duration::from_millis(1);
            self.0.turn(Some(wake)).unwrap();
        }
    }

    /// Takes turns until this client has ended. Returns its result.
    pub(super) fn serve<T>(&mut self, client: thread::JoinHandle<T>) -> T {
        self.turn_until("served", |_| client.is_finished());
        client.join().unwrap()
    }

    /// The first line and the body of the response to a request.
    pub(super) fn ask(&mut self, request: &'static str) -> (String, String) {
        let address = self.address();
        let answer = self.serve(thread::spawn(move || {
            let mut client = connect(address);
            client.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            String::from_utf8_lossy(&answer).into_owned()
        }));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let line = head.lines().next().unwrap_or_default();
        (line.to_owned(), body.to_owned())
    }

    fn closed_to_save_memory(&self) -> u64 {
        let errors = &self.0.connections.relay.report.machine_errors;
        errors.get(CLOSED).copied().unwrap_or(0)
    }

    /// How many exchanges failed because too much was held, and how many failed in all.
    fn failures(&self) -> (u64, u64) {
        let failures = &self.0.connections.relay.report.failures;
        let of_it = failures.get(&Failure::TooMuchHeld).copied().unwrap_or(0);
        (of_it, failures.values().sum())
    }
}

pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    let patience = Some(StdDuration::from_secs(20));
    client.set_read_timeout(patience).unwrap();
    client
}

#[test]
fn new_requests_get_503_over_the_memory_limit_and_are_forwarded_afterwards() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let serving = thread::spawn(move || server.run().unwrap());
    let (line, body) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert!(body.len() >= 70_000, "{}", body.len());

    let exchanges = &mut proxy.0.connections.relay.exchanges;
    let mut others = ProxyExchange::new(FrontKey::Tcp(0), StreamId(0), clock::now());
    others.front = None;
    let others = exchanges.insert(others);
    exchanges.keep(others, MAX_KEPT_BYTES);
    for refused in 1..=2 {
        let (line, body) = proxy.ask(GET);
        assert!(line.starts_with("HTTP/1.1 503"), "{line}");
        assert!(body.contains("too many requests"), "{body}");
        let errors = &proxy.0.connections.relay.report.machine_errors;
        let (said, count) = errors.iter().next().unwrap();
        assert!(said.contains("503 to save memory"), "{said}");
        assert_eq!(*count, refused);
    }

    proxy.0.connections.relay.exchanges.remove(others);
    let (line, body) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert!(body.len() >= 70_000, "{}", body.len());
    assert_eq!(proxy.failures(), (0, 0));
    stop.request().unwrap();
    // Only the two that were passed on.
    assert_eq!(serving.join().unwrap().responses_written, 2);
}

/// Sends a large part of an upload, then reads until the proxy ends the connection.
fn upload(address: SocketAddr) -> Result<usize> {
    let mut client = connect(address);
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")?;
    client.write_all(&vec![b'x'; 300_000])?;
    client.read_to_end(&mut Vec::new())
}

#[test]
fn client_that_holds_the_most_is_closed_when_all_hold_too_much() {
    let stop = StopSignal::new().unwrap();
    // Nothing ever reads from its connections.
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = SteppedProxy::before(upstream.local_addr().unwrap(), &stop);
    let address = proxy.address();
    let large = thread::spawn(move || upload(address));
    let held = |proxy: &Proxy| {
        let fronts = proxy.connections.relay.fronts.tcp.iter().flatten();
        fronts.map(|front| front.held_bytes).max().unwrap_or(0)
    };
    proxy.turn_until("held", |proxy| held(proxy) > 32_000);
    let mut small = connect(address);
    let open = |proxy: &Proxy| proxy.connections.relay.fronts.tcp.iter().flatten().count();
    proxy.turn_until("connected", |proxy| open(proxy) == 2);
    assert_eq!(proxy.closed_to_save_memory(), 0);

    let mut others = 0;
    let memory = &mut proxy.0.connections.relay.fronts.memory;
    memory.update(&mut others, MAX_BYTES - 1_000);
    let end = proxy.serve(large).map_err(|error| error.kind());
    let is_reset = matches!(end, Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    assert!(is_reset, "{end:?}");
    assert_eq!(
        (proxy.closed_to_save_memory(), proxy.failures()),
        (1, (1, 1))
    );
    assert_eq!(open(&proxy.0), 1);

    // The other client is served, and once there is room, new ones are.
    let small = proxy.serve(thread::spawn(move || {
        small.write_all(OPTIONS.as_bytes()).unwrap();
        let mut answer = Vec::new();
        small.read_to_end(&mut answer).unwrap();
        answer
    }));
    assert!(small.starts_with(b"HTTP/1.1 200"), "{small:?}");
    (proxy.0.connections.relay.fronts.memory).update(&mut others, 0);
    let (line, _) = proxy.ask(OPTIONS);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert_eq!(proxy.closed_to_save_memory(), 1);
}

/// Number of concurrent uploads, and the limits for them. Each client holds at least what one read returned.
const CLIENTS: u32 = 50;
const SMALL_AMPLE_BYTES: usize = 128 << 10;
const SMALL_MAX_BYTES: usize = 512 << 10;

#[test]
fn many_clients_together_hold_less_than_the_limit() {
    let stop = StopSignal::new().unwrap();
    // Nothing ever reads from its connections.
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = SteppedProxy::before(upstream.local_addr().unwrap(), &stop);
    let limits = HeldMemory::of_limits(SMALL_AMPLE_BYTES, SMALL_MAX_BYTES);
    proxy.0.connections.relay.fronts.memory = limits;
    let address = proxy.address();
    let clients = (0..CLIENTS).map(|_| thread::spawn(move || upload(address)));
    let clients: Vec<_> = clients.collect();
    let has_closed = |proxy: &Proxy| {
        let errors = &proxy.connections.relay.report.machine_errors;
        errors.contains_key(CLOSED)
    };
    let give_up = clock::now() + Duration::from_secs(20);
    while proxy.0.connections.relay.fronts.accepted < CLIENTS || !has_closed(&proxy.0) {
        assert!(clock::now() < give_up, "the limit was not reached");
        let wake = clock::now() + Duration::from_millis(10);
        proxy.0.turn(Some(wake)).unwrap();
        // What they really hold, not what was counted.
        let fronts = proxy.0.connections.relay.fronts.tcp.iter().flatten();
        let held = fronts.map(|front| front.tcp.engine.buffered_bytes() + front.backlog_bytes);
        let held: usize = held.sum();
        assert!(held < SMALL_MAX_BYTES, "{held}");
    }
    // A client that holds little is served.
    let (line, _) = proxy.ask(OPTIONS);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let still_open = (proxy.0.connections.relay.fronts.tcp.iter().flatten()).count();
    let closed = proxy.closed_to_save_memory();
    assert!(still_open > 0 && closed > 0, "{still_open}, {closed}");
    // Dropping the proxy ends the other connections.
    drop(proxy);
    for client in clients {
        let _ = client.join().unwrap();
    }
}

#[test]
fn client_of_http3_that_holds_the_most_is_closed_when_all_hold_too_much() {
    let stop = StopSignal::new().unwrap();
    let identity = identity();
    // Nothing ever reads from its connections.
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstreams = [upstream.local_addr().unwrap()];
    let mut settings = settings(&upstreams, Balance::RoundRobin, Default::default());
    settings.listeners[0].protocol = ListenerProtocol::Quic(identity.clone());
    let mut proxy = SteppedProxy(Proxy::listen(settings, stop).unwrap());
    proxy.0.open_in_advance().unwrap();
    let mut context = context(&identity);
    let [mut large, mut small] = [(); 2].map(|()| Visitor::new(&mut context, proxy.address()));
    for client in [&mut large, &mut small] {
        proxy.turn_with(client, |_, client| client.engine.is_ready());
    }
    let request = |method, headers: &[(String, String)], body: Body| {
        let request = Request::new(method, Scheme::Https, "server", "/", headers, body);
        Arc::new(request.unwrap())
    };
    let upload = request("POST", &[], vec![b'x'; 300_000].into());
    large.engine.submit(&upload).unwrap();
    let held = |proxy: &Proxy| {
        let held = proxy.connections.relay.fronts.quic[0].held();
        held.map(|(_, bytes)| bytes).sum::<usize>()
    };
    proxy.turn_with(&mut large, |proxy, _| held(proxy) > 10_000);
    assert_eq!(proxy.closed_to_save_memory(), 0);
    // The upload waits for the upstream, so it is not its client's fault that it makes no progress.
    let fronts = &proxy.0.connections.relay.fronts;
    let (connection, bytes) = fronts.quic[0].held().next().unwrap();
    let at = FrontKey::Quic {
        listener: 0,
        connection,
    };
    assert_eq!(fronts.backlog_bytes(at), bytes);

    let mut others = 0;
    let memory = &mut proxy.0.connections.relay.fronts.memory;
    memory.update(&mut others, MAX_BYTES - 1_000);
    proxy.turn_with(&mut large, |_, client| client.engine.closing().is_some());
    assert_eq!(
        (proxy.closed_to_save_memory(), proxy.failures()),
        (1, (1, 1))
    );
    assert_eq!(held(&proxy.0), 0);

    // The other client is served. The proxy itself responds.
    let forwards = [("max-forwards".to_owned(), "0".to_owned())];
    let options = request("OPTIONS", &forwards, Body::EMPTY);
    small.engine.submit(&options).unwrap();
    proxy.turn_with(&mut small, |_, client| client.has_answer());
    assert_eq!(proxy.closed_to_save_memory(), 1);
}

#[test]
fn response_with_the_most_bytes_waiting_is_cut_off_when_all_hold_too_much() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let serving = thread::spawn(move || server.run().unwrap());
    let address = proxy.address();
    let (let_read, may_read) = mpsc::channel();
    let slow = thread::spawn(move || {
        let mut client = connect(address);
        let request = b"GET /?size=64MiB HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(request).unwrap();
        may_read.recv().unwrap();
        let mut all = Vec::new();
        let end = client.read_to_end(&mut all).map_err(|error| error.kind());
        (all.len(), end)
    });
    let waiting = |proxy: &Proxy| {
        let connections = proxy.connections.relay.backs.pools.connections();
        connections
            .map(|(_, back)| back.backlog_bytes)
            .sum::<usize>()
    };
    proxy.turn_until("waiting", |proxy| waiting(proxy) > 10_000);
    assert_eq!(proxy.closed_to_save_memory(), 0);

    let mut others = 0;
    let memory = &mut proxy.0.connections.relay.backs.memory;
    memory.update(&mut others, MAX_BYTES - 1_000);
    proxy.turn_until("cut off", |proxy| waiting(proxy) == 0);
    assert_eq!(
        (proxy.closed_to_save_memory(), proxy.failures()),
        (1, (1, 1))
    );
    let_read.send(()).unwrap();
    let (received, end) = proxy.serve(slow);
    assert!(received < LARGE_BYTES, "{received}");
    assert!(
        matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)),
        "{end:?}"
    );

    (proxy.0.connections.relay.backs.memory).update(&mut others, 0);
    let (line, body) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert!(body.len() >= 70_000, "{}", body.len());
    stop.request().unwrap();
    serving.join().unwrap();
}
