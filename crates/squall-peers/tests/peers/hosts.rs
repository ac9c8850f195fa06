//! Stations in hosts: they listen there and nowhere else, and readiness is checked from there.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use squall_base::plan::Protocol;
use squall_linux::host::Host;
use squall_peers::Station;
use squall_peers::client::{Client, ClientLoad, ClientOrder, LoadEnd, client};
use tempfile::TempDir;

use crate::support::{NAME, PATIENCE, have, known, search, seat, server};

/// A host, if this machine allows creating one.
fn host() -> Option<Host> {
    match Host::create() {
        Ok(host) => Some(host),
        Err(error) => {
            let said = format!("skipped: this test needs a host: {error}");
            assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
            eprintln!("{said}");
            None
        }
    }
}

#[test]
fn stations_and_clients_run_in_their_host() {
    let _seat = seat();
    if !have(&["openssl", "h2load"]) {
        return;
    }
    let Some(host) = host() else { return };
    for (name, front) in [
        ("nginx", Protocol::H1),
        ("nginx", Protocol::H2),
        ("haproxy", Protocol::H2c),
        ("envoy", Protocol::H1s),
        ("envoy", Protocol::H3),
        ("nghttpd", Protocol::H2c),
        ("caddy", Protocol::H3),
    ] {
        let Some((driver, found)) = known(name) else {
            continue;
        };
        let folder = TempDir::new().unwrap();
        let mut order = server(folder.path(), name, front, 100);
        // All stations use the same port: a station that has ended must not occupy it.
        order.listen = SocketAddr::from(([127, 0, 0, 1], 8_080));
        let address = order.listen;
        let running = Station::new(driver, &found, order)
            .unwrap()
            .start(Some(&host))
            .unwrap();
        running
            .wait_ready(Some(&host), Instant::now() + PATIENCE)
            .unwrap_or_else(|error| panic!("{name} {front}: {error}"));
        let is_outside = TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok();
        assert!(!is_outside, "{name} listens outside of its host");
        if !matches!(front, Protocol::H3) {
            let load = ClientLoad::Closed {
                connections: 2,
                streams: 1,
                end: LoadEnd::Requests(50),
            };
            let order = ClientOrder {
                name: "h2load".to_owned(),
                target: address,
                server_name: NAME.to_owned(),
                protocol: front,
                method: "GET".to_owned(),
                path: "/answer".to_owned(),
                headers: vec![],
                body: squall_base::Bytes::new(0),
                load,
                page: None,
                pin: None,
                trust: None,
                folder: folder.path().join("h2load"),
            };
            let h2load = client("h2load").unwrap();
            let found = h2load.find(&search()).unwrap();
            let run = Client::new(h2load, &found, order)
                .unwrap()
                .start(Some(&host))
                .unwrap();
            let finished = run.finish(Instant::now() + PATIENCE).unwrap();
            let answered = finished.rows.iter().filter(|row| row.succeeded()).count();
            assert_eq!(answered, 50, "{name} {front}: {}", finished.exit);
        }
    }
}
