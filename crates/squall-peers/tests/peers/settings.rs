//! Settings and key logs as they appear on the wire and on disk, rather than in configurations.

use std::collections::BTreeMap;
use std::path::Path;

use squall_base::Side;
use squall_base::plan::Protocol;
use squall_peers::{Setting, Settings};
use tempfile::TempDir;

use crate::asking::ask;
use crate::support::{command, have, installed, known, proxy, seat, server, start};

/// The frames of one exchange, as nghttp prints them.
fn frames(port: u16) -> String {
    let mut nghttp = command("nghttp");
    nghttp.args(["--verbose", "--null-out", "--timeout=30"]);
    let output = nghttp
        .arg(format!("http://127.0.0.1:{port}/answer"))
        .output()
        .expect("nghttp starts");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The server's first SETTINGS by name, and the connection window from its first WINDOW_UPDATE.
fn announced(printed: &str) -> BTreeMap<String, u64> {
    let mut settings = BTreeMap::new();
    let mut is_received = false;
    let mut window = 65_535;
    let mut is_update = false;
    for line in printed.lines() {
        if line.starts_with('[') {
            is_received = line.contains("recv SETTINGS frame");
            is_update = line.contains("recv WINDOW_UPDATE") && line.contains("stream_id=0>");
        }
        if is_received
            && let Some((_, rest)) = line.split_once('[')
            && let Some((name, value)) = rest.split_once(':')
        {
            let name = name.split('(').next().unwrap_or_default();
            if let Ok(value) = value.trim_end_matches(']').parse() {
                settings.insert(name.to_owned(), value);
            }
        }
        if is_update && let Some((_, value)) = line.split_once("window_size_increment=") {
            window += value
                .trim_end_matches(')')
                .parse::<u64>()
                .expect("what the test itself makes");
        }
    }
    settings.insert("connection".to_owned(), window);
    settings
}

fn word(setting: Setting) -> &'static str {
    match setting {
        Setting::StreamWindow => "SETTINGS_INITIAL_WINDOW_SIZE",
        Setting::ConnectionWindow => "connection",
        Setting::MaxConcurrentStreams => "SETTINGS_MAX_CONCURRENT_STREAMS",
        Setting::MaxFrameSize => "SETTINGS_MAX_FRAME_SIZE",
        Setting::HeaderTableSize => "SETTINGS_HEADER_TABLE_SIZE",
        Setting::DataSize | Setting::RequestsPerConnection | Setting::SmallRecords => {
            panic!("it is not announced")
        }
    }
}

/// Checks that a program has announced what was asked of it.
fn check_announced(name: &str, asked: &[(Setting, u64)], printed: &str) {
    let announced = announced(printed);
    for (setting, value) in asked {
        assert_eq!(
            announced.get(word(*setting)),
            Some(value),
            "{name} {setting}: {announced:?}\n{printed}"
        );
    }
}

/// For each program, settings that differ from its defaults and from those of the other programs.
fn settings_for_each() -> [(&'static str, Vec<(Setting, u64)>); 5] {
    use Setting::{ConnectionWindow, HeaderTableSize, MaxConcurrentStreams, StreamWindow};
    [
        (
            "nginx",
            vec![(StreamWindow, 200_000), (MaxConcurrentStreams, 7)],
        ),
        (
            "haproxy",
            vec![
                (StreamWindow, 200_001),
                (MaxConcurrentStreams, 8),
                (HeaderTableSize, 8_192),
            ],
        ),
        (
            "envoy",
            vec![
                (StreamWindow, 200_002),
                (ConnectionWindow, 300_002),
                (MaxConcurrentStreams, 9),
                (HeaderTableSize, 8_193),
            ],
        ),
        (
            "nghttpx",
            vec![
                (StreamWindow, 200_003),
                (ConnectionWindow, 300_003),
                (MaxConcurrentStreams, 10),
                (HeaderTableSize, 8_194),
            ],
        ),
        (
            "nghttpd",
            vec![
                (StreamWindow, (1 << 18) - 1),
                (ConnectionWindow, (1 << 19) - 1),
                (MaxConcurrentStreams, 11),
                (HeaderTableSize, 8_195),
            ],
        ),
    ]
}

#[test]
fn settings_towards_clients_appear_on_the_wire() {
    let _seat = seat();
    if !have(&["nghttp", "openssl"]) {
        return;
    }
    for (name, asked) in settings_for_each() {
        let Some((driver, found)) = known(name) else {
            continue;
        };
        let folder = TempDir::new().unwrap();
        let mut order = if name == "nghttpx" {
            proxy(
                folder.path(),
                name,
                Protocol::H2c,
                Protocol::H1,
                crate::support::free_address(),
            )
        } else {
            server(folder.path(), name, Protocol::H2c, 10)
        };
        order.settings = asked
            .iter()
            .map(|&(setting, value)| ((Side::Server, setting), value))
            .collect::<Settings>();
        let port = order.listen.port();
        let _running = start((driver, &found), order);
        let printed = frames(port);
        check_announced(name, &asked, &printed);
    }
}

/// Settings towards upstreams, as nghttpd prints them.
#[test]
fn settings_towards_upstreams_appear_on_the_wire() {
    let _seat = seat();
    use Setting::{ConnectionWindow, HeaderTableSize, StreamWindow};
    if !have(&["nghttpd", "curl", "openssl"]) {
        return;
    }
    for (name, asked) in [
        ("haproxy", vec![(StreamWindow, 200_001)]),
        (
            "envoy",
            vec![
                (StreamWindow, 200_002),
                (ConnectionWindow, 300_002),
                (HeaderTableSize, 8_193),
            ],
        ),
        (
            "nghttpx",
            vec![
                (StreamWindow, 200_003),
                (ConnectionWindow, 300_003),
                (HeaderTableSize, 8_194),
            ],
        ),
    ] {
        let Some((driver, found)) = known(name) else {
            continue;
        };
        let folder = TempDir::new().unwrap();
        let address = crate::support::free_address();
        let log = std::fs::File::create(folder.path().join("nghttpd.log")).unwrap();
        let mut nghttpd = command("nghttpd")
            .args([
                "--no-tls",
                "--verbose",
                "--address=127.0.0.1",
                &address.port().to_string(),
            ])
            .stdout(log)
            .spawn()
            .unwrap();
        let mut order = proxy(folder.path(), name, Protocol::H1, Protocol::H2c, address);
        order.settings = asked
            .iter()
            .map(|&(setting, value)| ((Side::Client, setting), value))
            .collect::<Settings>();
        let front = order.listen;
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let running = start((driver, &found), order);
        ask(folder.path(), Protocol::H1, front, "/", None);
        drop(running);
        // nghttpd writes its log when it ends.
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(nghttpd.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        )
        .unwrap();
        nghttpd.wait().unwrap();
        let printed = plain(&std::fs::read_to_string(folder.path().join("nghttpd.log")).unwrap());
        check_announced(name, &asked, &printed);
    }
}

/// nghttpd prefixes lines with the connection's number.
fn plain(printed: &str) -> String {
    let line = |line: &str| match line.split_once(" [") {
        Some((id, rest)) if id.starts_with("[id=") => format!("[{rest}\n"),
        _ => format!("{line}\n"),
    };
    printed.lines().map(line).collect()
}

/// A connection is closed after this many requests.
#[test]
fn connections_are_closed_after_the_ordered_number_of_requests() {
    let _seat = seat();
    if !have(&["curl", "openssl", "haproxy"]) {
        return;
    }
    for (name, driver, found) in installed(["nginx", "envoy"]) {
        let folder = TempDir::new().unwrap();
        let mut order = server(folder.path(), name, Protocol::H1, 10);
        order
            .settings
            .insert((Side::Server, Setting::RequestsPerConnection), 5);
        let port = order.listen.port();
        let _running = start((driver, &found), order);
        let mut curl = command("curl");
        curl.args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{num_connects}",
        ]);
        let output = curl
            .arg(format!("http://127.0.0.1:{port}/answer#[1-20]"))
            .output()
            .unwrap();
        let connects = String::from_utf8_lossy(&output.stdout).matches('1').count();
        assert_eq!(
            connects,
            4,
            "{name}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

/// Secrets by label, in NSS format: <https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html>.
fn has_secrets(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| {
        line.starts_with("CLIENT_TRAFFIC_SECRET_0 ") || line.starts_with("CLIENT_RANDOM ")
    })
}

#[test]
fn secrets_are_written_to_the_ordered_file() {
    let _seat = seat();
    if !have(&["curl", "openssl", "pycurl"]) {
        return;
    }
    for (name, driver, found) in installed(["envoy", "caddy"]) {
        for front in [Protocol::H1s, Protocol::H2, Protocol::H3] {
            let folder = TempDir::new().unwrap();
            let mut order = server(folder.path(), name, front, 10);
            let keys = folder.path().join("keys");
            order.key_log = Some(keys.clone());
            let address = order.listen;
            let mut running = start((driver, &found), order);
            ask(folder.path(), front, address, "/answer", None);
            running.stop();
            assert!(
                has_secrets(&keys),
                "{name} {front}: {:?}",
                std::fs::read_to_string(&keys)
            );
        }
    }
}

#[test]
fn envoy_refuses_to_write_secrets_of_an_h3_upstream() {
    let Some((driver, found)) = known("envoy") else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let upstream = "127.0.0.1:1".parse().unwrap();
    let mut order = proxy(folder.path(), "envoy", Protocol::H1, Protocol::H3, upstream);
    order.key_log = Some(folder.path().join("keys"));
    let refusal = driver.render(&order, &found.version);
    let refusal = refusal.expect_err("it has none").to_string();
    assert!(refusal.contains("and has neither"), "{refusal}");
}

/// Towards an upstream: only Envoy.
#[test]
fn secrets_of_upstreams_are_written() {
    let _seat = seat();
    if !have(&["curl", "openssl", "caddy"]) {
        return;
    }
    let (Some((envoy, envoy_found)), Some((caddy, caddy_found))) = (known("envoy"), known("caddy"))
    else {
        return;
    };
    for to in [Protocol::H1s, Protocol::H2] {
        let folder = TempDir::new().unwrap();
        let upstream = server(folder.path(), "caddy", to, 10);
        let mut order = proxy(folder.path(), "envoy", Protocol::H1, to, upstream.listen);
        let keys = folder.path().join("keys");
        order.key_log = Some(keys.clone());
        let address = order.listen;
        let _upstream = start((caddy, &caddy_found), upstream);
        let mut running = start((envoy, &envoy_found), order);
        let got = ask(folder.path(), Protocol::H1, address, "/answer", None);
        assert_eq!(got.status, 200);
        running.stop();
        assert!(
            has_secrets(&keys),
            "{to}: {:?}",
            std::fs::read_to_string(&keys)
        );
    }
}
