//! `--key-log` of `squall serve` and `squall proxy`: they log the same secrets as their peers, and write them while they
//! still run.
//!
//! `fetch` tests the key logs of clients, `secrets` that such secrets decrypt a capture.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::proxies::{fetch, proxy};
use crate::serving::Serving;
use crate::support::{seat, stderr};

const SECURE: [&str; 3] = ["h1s", "h2", "h3"];

/// The TLS 1.3 secrets of one connection: for the handshake and for application data, of both sides, and the
/// exporter's.
const SECRETS: usize = 5;

/// The deadline for a line to appear in its file on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn lines(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn servers_and_proxies_log_the_same_secrets_as_their_peers() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for back in SECURE {
        let logs =
            ["client", "server", "proxy"].map(|name| home.path().join(format!("{name} of {back}")));
        let [client_log, server_log, proxy_log] =
            (logs.each_ref()).map(|path| path.to_str().expect("UTF-8"));
        let server = Serving::start(&[back], &["--key-log", server_log]);
        let keys = ["--key-log", proxy_log];
        let proxy = proxy(&SECURE, back, server.address(back), &keys);
        for front in SECURE {
            let output = fetch(&home, &proxy, front, "/", &["--key-log", client_log]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        let [client, _, _] = logs.each_ref().map(|path| lines(path));
        assert_eq!(client.len(), SECRETS * SECURE.len(), "{client:?}");
        let began = Instant::now();
        loop {
            let [client, server, proxy] = logs.each_ref().map(|path| lines(path));
            if server.len() >= SECRETS && proxy == &client | &server {
                break;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{client:#?} {server:#?} {proxy:#?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
        proxy.check_ends_well();
        server.check_ends_well();
    }
}
