//! A proxy between a raw client and the embedded server: what both of its sides record.
//!
//! `raw` has upstreams that a test controls frame by frame, `memory` tests what happens when too much memory is held,
//! `refused` when the kernel refuses something, `shares` what counts as a client's share, `slow_heads` when a head takes too
//! long, `timeouts` when something else does.

mod memory;
mod raw;
mod refused;
mod shares;
mod slow_heads;
mod timeouts;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use squall_base::plan::{PoolOrder, TlsSettings, Version};
use squall_base::record::{ExchangeRecord, SideCounts};
use squall_base::{Duration, Probability};
use squall_http::tls::{ClientContext, ServerContext, Trust};

use super::*;
use crate::LogSinks;
use crate::rows::{self, Capacity, RowReceiver};
use crate::server::{Listener, ListenerProtocol, Server, ServerSettings};
use crate::visitor::identity;
use squall_base::plan::{Connections, PoolSettings};

fn listener(version: Version) -> Listener {
    Listener {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        protocol: ListenerProtocol::Plain(version),
    }
}

fn server(stop: &StopSignal) -> Server {
    server_of(ListenerProtocol::Plain(Version::Http2), stop)
}

fn server_of(protocol: ListenerProtocol, stop: &StopSignal) -> Server {
    Server::listen(ServerSettings::for_test(protocol, 70_000), stop.clone()).unwrap()
}

fn settings(
    upstreams: &[SocketAddr],
    balance: Balance,
    [front_log, back_log]: [LogSinks; 2],
) -> ProxySettings {
    let target = |address: &SocketAddr| Target {
        address: *address,
        server_name: "server".to_owned(),
        security: None,
        quic: None,
        route: crate::dial::Route::Direct,
    };
    ProxySettings {
        listeners: vec![listener(Version::Http1)],
        upstreams: upstreams.iter().map(target).collect(),
        protocol: Protocol::H2c,
        front: SideSettings::default(),
        back: SideSettings::default(),
        connections: Connections::Fixed(1),
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 1,
        },
        balance,
        timeouts: Timeouts::default(),
        min_upload_rate: Some(MinUploadRate::default()),
        client_share: Probability::new(0.5),
        delay: Duration::ZERO,
        front_log,
        back_log,
        access: None,
        sample_every: Duration::from_secs(1),
        seed: 1,
        is_realtime: false,
    }
}

fn proxy(
    upstreams: &[SocketAddr],
    balance: Balance,
    logs: [LogSinks; 2],
    stop: &StopSignal,
) -> Proxy {
    Proxy::listen(settings(upstreams, balance, logs), stop.clone()).unwrap()
}

fn log() -> (LogSinks, RowReceiver<ExchangeRecord>) {
    let (sender, rows) = rows::queue(Capacity::Unbounded);
    let sinks = LogSinks {
        exchanges: Some(sender),
        ..LogSinks::default()
    };
    (sinks, rows)
}

/// Sends this many requests on one connection, then reads all responses. Returns how many bytes that were.
fn ask(address: SocketAddr, times: usize) -> usize {
    let mut client = TcpStream::connect(address).unwrap();
    let mut bytes = Vec::new();
    for time in 1..=times {
        let close = if time == times {
            "connection: close\r\n"
        } else {
            ""
        };
        let request = format!("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n{close}\r\nabc");
        client.write_all(request.as_bytes()).unwrap();
    }
    client.read_to_end(&mut bytes).unwrap();
    bytes.len()
}

/// Two clients together wait for one delay, not for two, and get the whole body after it.
#[test]
fn concurrent_responses_are_held_in_parallel() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    // Delays one after the other would take twice as long; a busy machine does not add that much.
    let delay = Duration::from_secs(2);
    let mut settings = settings(
        &[server.addresses().unwrap()[0]],
        Balance::RoundRobin,
        Default::default(),
    );
    settings.delay = delay;
    let proxy = Proxy::listen(settings, stop.clone()).unwrap();
    let address = proxy.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let passing = thread::spawn(move || proxy.run().unwrap());
    let start = clock::now();
    let clients = [0, 1].map(|_| {
        thread::spawn(move || {
            let bytes = ask(address, 1);
            (bytes, clock::now().since(start))
        })
    });
    for client in clients {
        let (bytes, took) = client.join().unwrap();
        assert!(bytes > 70_000, "{bytes}");
        assert!(took >= delay && took < delay + delay, "{took:?}");
    }
    stop.request().unwrap();
    assert_eq!(passing.join().unwrap().responses_written, 2);
    serving.join().unwrap();
}

/// An observer that derives the protocol from packets cannot know it without a byte, so our own stations count none either.
#[test]
fn protocol_of_a_connection_without_bytes_is_not_counted() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let upstream = server.addresses().unwrap()[0];
    let logs = [LogSinks::default(), LogSinks::default()];
    let proxy = proxy(&[upstream], Balance::RoundRobin, logs, &stop);
    let address = proxy.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let passing = thread::spawn(move || proxy.run().unwrap());
    for address in [upstream, address] {
        let mut silent = TcpStream::connect(address).unwrap();
        silent.shutdown(Shutdown::Write).unwrap();
        silent.read_to_end(&mut Vec::new()).unwrap();
    }
    ask(address, 1);
    stop.request().unwrap();
    let front = passing.join().unwrap().front;
    let served = serving.join().unwrap().counts;
    assert_eq!((front.tcp_connections, served.tcp_connections), (2, 2));
    assert_eq!(front.protocols, [("h1".to_owned(), 1)].into());
    assert_eq!(served.protocols, [("h2c".to_owned(), 1)].into());
}

/// HTTP/1.1 is spoken over TLS either way: both ends record whether ALPN chose it.
#[test]
fn missing_alpn_is_distinguished_from_http_1() {
    for (known, counted) in [(&[][..], SideCounts::NO_ALPN), (&["http/1.1"], "http/1.1")] {
        let stop = StopSignal::new().unwrap();
        let tls = TlsSettings::default();
        let context = ServerContext::new(&tls, known, &identity()).unwrap();
        let server = server_of(ListenerProtocol::Secure(context), &stop);
        let upstream = server.addresses().unwrap()[0];
        let context = ClientContext::new(&tls, &["h2", "http/1.1"], &Trust::Anyone);
        let mut settings = settings(&[upstream], Balance::RoundRobin, Default::default());
        settings.protocol = Protocol::H1s;
        settings.upstreams[0].security = Some(context.unwrap());
        let proxy = Proxy::listen(settings, stop.clone()).unwrap();
        let address = proxy.addresses().unwrap()[0];
        let serving = thread::spawn(move || server.run().unwrap());
        let passing = thread::spawn(move || proxy.run().unwrap());
        assert!(ask(address, 1) > 70_000);
        stop.request().unwrap();
        let back = passing.join().unwrap().back;
        let served = serving.join().unwrap().counts;
        for counts in [back, served] {
            assert_eq!(counts.protocols, [("h1s".to_owned(), 1)].into());
            assert_eq!(counts.alpn, [(counted.to_owned(), 1)].into());
        }
    }
}

#[test]
fn both_sides_record_every_exchange() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let upstream = server.addresses().unwrap()[0];
    let ((front_log, front_rows), (back_log, back_rows)) = (log(), log());
    let proxy = proxy(
        &[upstream],
        Balance::RoundRobin,
        [front_log, back_log],
        &stop,
    );
    let address = proxy.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let passing = thread::spawn(move || proxy.run().unwrap());
    assert!(ask(address, 3) > 3 * 70_000);
    stop.request().unwrap();
    let report = passing.join().unwrap();
    serving.join().unwrap();
    assert_eq!(report.responses_written, 3);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(
        (report.front.tcp_connections, report.back.tcp_connections),
        (1, 1)
    );
    assert_eq!(report.front.protocols.get("h1"), Some(&1));
    assert_eq!(report.back.protocols.get("h2c"), Some(&1));
    for (rows, side, streams) in [
        (front_rows, Side::Server, [0, 1, 2]),
        (back_rows, Side::Client, [1, 3, 5]),
    ] {
        let rows: Vec<ExchangeRecord> = rows
            .flat_map(|mut chunk| std::mem::take(&mut *chunk))
            .collect();
        let seen: Vec<u64> = rows.iter().map(|row| row.stream).collect();
        assert_eq!(seen, streams);
        for row in rows {
            assert_eq!((row.side, row.connection), (side, 0));
            assert_eq!(
                (row.request_body_bytes, row.response_body_bytes),
                (3, 70_000)
            );
            assert_eq!((row.status, row.reset), (Some(200), None));
            assert!(row.request_first <= row.request_last && row.request_first.is_some());
            assert!(row.request_last <= row.response_last && row.response_first.is_some());
            assert!(row.request_extent.is_some() && row.response_extent.is_some());
        }
    }
}

#[test]
fn upstreams_take_turns() {
    for balance in [Balance::RoundRobin, Balance::LeastRequests] {
        let stop = StopSignal::new().unwrap();
        let servers = [server(&stop), server(&stop)];
        let upstreams = servers
            .each_ref()
            .map(|server| server.addresses().unwrap()[0]);
        let proxy = proxy(&upstreams, balance, Default::default(), &stop);
        let address = proxy.addresses().unwrap()[0];
        let passing = thread::spawn(move || proxy.run().unwrap());
        let serving = servers.map(|server| thread::spawn(move || server.run().unwrap()));
        ask(address, 6);
        stop.request().unwrap();
        assert_eq!(passing.join().unwrap().responses_written, 6);
        let answered = serving.map(|server| server.join().unwrap().responses_written);
        assert_eq!(answered, [3, 3], "{balance:?}");
    }
}

#[test]
fn proxy_reports_when_its_fixed_connections_are_open_or_lost() {
    let stop = StopSignal::new().unwrap();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let context = ClientContext::new(&TlsSettings::default(), &["http/1.1"], &Trust::Anyone);
    let mut settings = settings(&[address], Balance::RoundRobin, Default::default());
    settings.protocol = Protocol::H1s;
    settings.upstreams[0].security = Some(context.unwrap());
    (settings.connections, settings.pool.warm) = (Connections::Fixed(2), 2);
    let proxy = Proxy::listen(settings, stop.clone()).unwrap();
    let (open, is_open) = mpsc::channel();
    let passing = thread::spawn(move || proxy.run_notifying(|| open.send(()).unwrap()));
    // Both wait for the response to their ClientHello.
    let mut accepted = [(); 2].map(|()| upstream.accept().unwrap().0);
    for connection in &mut accepted {
        connection.read_exact(&mut [0; 5]).unwrap();
    }
    assert_eq!(is_open.try_recv(), Err(mpsc::TryRecvError::Empty));
    drop(accepted);
    is_open.recv().unwrap();
    stop.request().unwrap();
    passing.join().unwrap().unwrap();
}
