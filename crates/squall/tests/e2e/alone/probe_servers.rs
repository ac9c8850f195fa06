//! `squall probe` against real servers with their own defaults, 30 or 50 ms away: what it recognises, and whether uploads are
//! as fast as the windows it found allow.
//!
//! All speak HTTP/2 in cleartext here; their windows are the same over TLS. `real_servers` has what is expected of each. With
//! `--nocapture` the tests print the table of docs/PROBE.md. A program that is missing skips its test, unless
//! SQUALL_REQUIRE_PEERS is set. `probe_servers_tls` has further servers, `probe_presets` has squall's own, `probe` and
//! `probe_faults` have the faults.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real_servers::{Expected, Way, expected};
use crate::served::Serving;
use crate::support::{
    OtherWork, free_port, have, peers, quiet_seat, say_disturbed, squall, stderr, stdout_json,
};

/// Longer than any program takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most probes to make until one is not disturbed by other work.
const ATTEMPTS: usize = 3;
/// The size of the short upload before the long one. Some servers have not returned it to the window when the long one
/// begins.
pub(super) const SHORT_UPLOAD: u64 = 1_000;

/// The certificate of a [`Bench::secure`] and its key, in its folder.
pub(crate) const CERTIFICATE: &str = "server.pem";
pub(crate) const KEY: &str = "server.key";

/// A program that is killed when the test is over.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The bytes of a full segment: 1,500 less the headers of IP and TCP, with timestamps.
const SEGMENT: f64 = 1_448.0;

/// A server under test: its folder, the server behind it, and the program.
pub(crate) struct Bench {
    pub(crate) home: TempDir,
    behind: Serving,
    pub(crate) port: u16,
    /// `http`, or `https` for a server with a certificate.
    scheme: &'static str,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let home = TempDir::new().expect("a temporary folder");
        let behind = Serving::start(home.path(), &["--h1", "0", "--sink"]);
        Bench {
            home,
            behind,
            port: free_port(),
            scheme: "http",
        }
    }

    /// A bench for a server that speaks HTTP/2 over TLS, with a certificate for localhost.
    pub(crate) fn secure() -> Bench {
        let bench = Bench {
            scheme: "https",
            ..Bench::new()
        };
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        write_certificate(bench.home.path(), CERTIFICATE, names);
        bench
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        self.behind.address("h1")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.home.path().join(name), text).expect("a file");
    }

    /// Starts a program in the folder, and waits until it accepts connections.
    pub(super) fn start(&self, program: &str, arguments: &[&str]) -> Daemon {
        let home = self.home.path();
        let log = fs::File::create(home.join("log")).expect("a log");
        let child = Command::new(found(program))
            .args(arguments)
            .current_dir(home)
            .envs(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, home)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let daemon = Daemon(child);
        let give_up = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let log = fs::read_to_string(home.join("log")).unwrap_or_default();
            assert!(Instant::now() < give_up, "{program}: {log}");
            thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    /// Probes the server of this name, as [`probe_fairly`] does, and checks everything that is known about it.
    pub(super) fn probe(&self, name: &str) -> ProbeResult {
        let expected = expected(name);
        let (way, is_limited) = (&expected.way, expected.is_limited);
        let other_work = OtherWork::watch();
        let seen = probe_fairly(self.home.path(), &self.url(), way, is_limited);
        eprintln!("{}", seen.row(name, way));
        seen.check_rate(is_limited, &other_work);
        seen.check(expected);
        seen
    }

    /// Probes the server once, and accepts any result.
    pub(super) fn try_probe(&self, way: &Way<'_>) -> Output {
        try_probe(self.home.path(), &self.url(), way)
    }

    fn url(&self) -> String {
        format!("{}://localhost:{}/", self.scheme, self.port)
    }
}

/// Probes a server on this machine through a link, until its upload is as fast as its windows allow. If `is_limited`, windows
/// must be what limits it.
pub(super) fn probe_fairly(home: &Path, url: &str, way: &Way<'_>, is_limited: bool) -> ProbeResult {
    let mut seen = probe_once(home, url, way);
    for _ in 1..ATTEMPTS {
        if seen.agrees(is_limited) {
            break;
        }
        seen = probe_once(home, url, way);
    }
    seen
}

fn probe_once(home: &Path, url: &str, way: &Way<'_>) -> ProbeResult {
    ProbeResult(stdout_json(&try_probe(home, url, way)))
}

fn try_probe(home: &Path, url: &str, way: &Way<'_>) -> Output {
    squall(home)
        .args(["probe", "-k", "--json", "--rounds", "1", "--http", "2"])
        .args(["--idle", "0s"])
        .args(["--upload", way.upload, "--behind", way.link, url])
        .stdin(Stdio::null())
        .output()
        .expect("squall starts")
}

/// Writes a self-signed certificate with this extension into a folder, and its key as [`KEY`] unless that exists.
pub(super) fn write_certificate(folder: &Path, name: &str, extension: &str) {
    let key = if folder.join(KEY).exists() {
        vec!["-key", KEY]
    } else {
        let curve = "ec_paramgen_curve:P-256";
        vec!["-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", KEY]
    };
    let output = Command::new("openssl")
        .args(["req", "-x509", "-days", "10", "-subj", "/CN=localhost"])
        .args(&key)
        .args(["-addext", extension, "-out", name])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The program that scripts/peers installed, otherwise the system's.
fn found(program: &str) -> PathBuf {
    let own = peers().join("bin").join(program);
    let system = Path::new("/usr/sbin").join(program);
    let places = [own, system];
    let found = places.into_iter().find(|place| place.is_file());
    found.unwrap_or_else(|| PathBuf::from(program))
}

/// The result of a probe.
pub(super) struct ProbeResult(pub(super) Value);

impl ProbeResult {
    fn windows(&self) -> &Value {
        &self.0["endpoint"]["upload_windows"]
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        let number = self.windows()[name].as_u64();
        number.unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    pub(super) fn product(&self) -> &str {
        let product = &self.0["endpoint"]["product"]["product"];
        product.as_str().unwrap_or("-")
    }

    pub(super) fn setting(&self, name: &str) -> Option<u64> {
        self.0["endpoint"]["settings"][name].as_u64()
    }

    pub(super) fn policy(&self) -> &str {
        let policy = &self.windows()["policy"]["kind"];
        policy.as_str().expect("a policy")
    }

    pub(super) fn fix(&self) -> &str {
        self.0["verdict"]["fix"].as_str().expect("a text")
    }

    pub(super) fn first_fault(&self) -> &str {
        self.0["faults"][0]["fault"].as_str().unwrap_or("-")
    }

    fn round_trip_s(&self) -> f64 {
        let nanos = &self.0["endpoint"]["round_trip_ns"];
        nanos.as_u64().expect("a time") as f64 / 1e9
    }

    /// Bytes per second: the most that the windows allow, and what to expect given how the server updates them.
    fn predicted(&self) -> (f64, f64) {
        let largest = ["largest_stream_bytes", "largest_connection_bytes"];
        let most = largest.map(|name| self.number(name)).into_iter().min();
        let rtt = self.round_trip_s();
        let expected = self.number("round_trip_bytes");
        (most.unwrap_or(0) as f64 / rtt, expected as f64 / rtt)
    }

    /// A figure of the long upload.
    fn of_upload(&self, name: &str) -> f64 {
        let upload = &self.0["endpoint"]["versions"][0]["uploads"][0];
        upload[name].as_u64().expect("a number") as f64
    }

    fn measured(&self) -> f64 {
        self.of_upload("bytes") / (self.of_upload("took_ns") / 1e9)
    }

    /// Whether the upload waited for a window nearly all the time.
    pub(super) fn is_limited(&self) -> bool {
        let blocked = self.number("blocked_by_stream_ns") + self.number("blocked_by_connection_ns");
        blocked * 10 >= self.number("sending_ns") * 8
    }

    /// The time that slow start adds to the upload: the first flight is ten segments (RFC 6928), and each is twice as large as
    /// the one before (RFC 5681, section 3.1), until they fill the window. A window that grows has no such end, so slow start
    /// takes as long as the upload waited for its congestion window.
    fn slow_start_s(&self) -> f64 {
        if self.policy() == "growing" {
            return self.of_upload("congestion_window_ns") / 1e9;
        }
        let window = self.number("round_trip_bytes") as f64;
        let (mut flight, mut sent, mut round_trips) = (10.0 * SEGMENT, 0.0, 0.0);
        while flight < window {
            sent += flight;
            flight *= 2.0;
            round_trips += 1.0;
        }
        (round_trips - sent / window) * self.round_trip_s()
    }

    /// Whether the measured rate is the expected one: within 15 % of what windows and slow start predict if the upload waited
    /// for windows, as it must if `is_limited`; otherwise no more than they allow.
    pub(super) fn agrees(&self, is_limited: bool) -> bool {
        let (most, expected) = self.predicted();
        if self.is_limited() {
            let bytes = self.of_upload("bytes");
            let predicted = bytes / (bytes / expected + self.slow_start_s());
            (0.85..=1.15).contains(&(self.measured() / predicted))
        } else {
            !is_limited && self.measured() <= 1.15 * most
        }
    }

    /// What is expected, as a share of what the windows allow at most.
    fn expected_share(&self) -> f64 {
        let (most, expected) = self.predicted();
        expected / most
    }

    /// Checks the rate. A busy machine sends window updates late, which lowers it.
    pub(super) fn check_rate(&self, is_limited: bool, other_work: &OtherWork) {
        if self.agrees(is_limited) {
            return;
        }
        assert!(other_work.disturbs_a_second(), "{}", self.0);
        say_disturbed("no rate to check");
    }

    /// Checks everything that is known about a server except the rate.
    fn check(&self, expected: &Expected) {
        let said = format!("{}: {}", expected.name, self.0);
        assert_eq!(self.product(), expected.product, "{said}");
        assert_eq!(self.number("stream_bytes"), expected.stream_bytes, "{said}");
        if let Some(bytes) = expected.connection_bytes {
            let largest = self.number("largest_connection_bytes");
            let least = bytes - SHORT_UPLOAD;
            assert!((least..=bytes).contains(&largest), "{largest}, {said}");
        }
        if !expected.policies.is_empty() {
            assert!(expected.policies.contains(&self.policy()), "{said}");
        }
        if let Some(streams) = expected.streams {
            let announced = self.setting("MAX_CONCURRENT_STREAMS");
            assert_eq!(announced, Some(streams), "{said}");
        }
    }

    /// A row of the table in docs/PROBE.md.
    pub(super) fn row(&self, name: &str, way: &Way<'_>) -> String {
        let (most, expected) = self.predicted();
        let mbit = |bytes_per_s: f64| match bytes_per_s * 8.0 / 1e6 {
            mbit if mbit > 10_000.0 => "no limit".to_owned(),
            mbit => format!("{mbit:.1}"),
        };
        let streams = self.setting("MAX_CONCURRENT_STREAMS");
        let expected = if self.is_limited() {
            mbit(expected)
        } else {
            "windows do not limit".to_owned()
        };
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {expected} | {} |",
            self.product(),
            way.round_trip,
            self.number("stream_bytes"),
            self.number("largest_connection_bytes"),
            self.policy().replace('_', " "),
            streams.map_or_else(|| "-".to_owned(), |streams| streams.to_string()),
            mbit(most),
            mbit(self.measured())
        )
    }
}

/// nginx in front of the server, with these directives of its `server` and its `location`.
fn nginx(bench: &Bench, server: &str, location: &str) -> Daemon {
    let server = format!(
        "listen 127.0.0.1:{} http2; client_max_body_size 0; {server}
         location / {{
             proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Connection \"\";
             {location}
         }}",
        bench.port,
        bench.upstream()
    );
    nginx_with(bench, &server)
}

/// nginx with one `server` of these directives.
pub(crate) fn nginx_with(bench: &Bench, server: &str) -> Daemon {
    let configuration = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr; user root;
         events {{}}
         http {{
             access_log off; client_body_temp_path body; proxy_temp_path proxy;
             fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
             server {{ {server} }}
         }}\n"
    );
    bench.write("nginx.conf", &configuration);
    let home = bench.home.path().to_str().expect("a path in UTF-8");
    let arguments = ["-p", home, "-e", "stderr", "-c", "nginx.conf"];
    bench.start("nginx", &arguments)
}

/// nginx stores uploads, and opens the window to its maximum when it begins to read one.
#[test]
fn nginx_that_stores_uploads_opens_the_window_fully() {
    if !have(&["nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    let _nginx = nginx(&bench, "", "");
    let seen = bench.probe("nginx, default");
    assert_ne!(seen.first_fault(), "stream_window", "{}", seen.0);
}

#[test]
fn nginx_that_streams_uploads_is_limited_by_its_preread_size() {
    if !have(&["nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    let streaming = "proxy_request_buffering off;";
    let small = {
        let _nginx = nginx(&bench, "", streaming);
        bench.probe("nginx, proxy_request_buffering off")
    };
    assert_eq!(small.first_fault(), "stream_window", "{}", small.0);
    assert!(small.fix().contains("http2_body_preread_size"));
    // The fix that it names works.
    let bench = Bench::new();
    let _nginx = nginx(&bench, "http2_body_preread_size 1m;", streaming);
    let large = bench.probe("nginx, the same with http2_body_preread_size 1m");
    assert!(large.measured() > 2.0 * small.measured(), "{}", large.0);
}

#[test]
fn haproxy_is_limited_by_its_stream_window() {
    if !have(&["haproxy"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    let configuration = format!(
        "global
    maxconn 1000
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{} proto h2
    default_backend back
backend back
    server upstream {}
",
        bench.port,
        bench.upstream()
    );
    bench.write("haproxy.cfg", &configuration);
    let _haproxy = bench.start("haproxy", &["-db", "-f", "haproxy.cfg"]);
    let seen = bench.probe("HAProxy");
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
    assert!(seen.fix().contains("initial-window-size"));
}

/// Both of its windows are 65,535 bytes, and it returns half a window at a time. So part of each window stays unused: about
/// three eighths if it reads whole DATA frames.
#[test]
fn nghttpx_gives_back_half_a_window_at_a_time() {
    if !have(&["nghttpx"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    let frontend = format!("--frontend=127.0.0.1,{};no-tls", bench.port);
    let upstream = bench.upstream();
    let backend = format!("--backend={},{}", upstream.ip(), upstream.port());
    let general = ["--conf=/dev/null", "--single-process", "--workers=1"];
    let arguments = [&general[..], &[frontend.as_str(), backend.as_str()]].concat();
    let _nghttpx = bench.start("nghttpx", &arguments);
    let seen = bench.probe("nghttpx");
    assert!((0.45..0.95).contains(&seen.expected_share()), "{}", seen.0);
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
    assert!(seen.fix().contains("--frontend-http2-window-size"));
}

#[test]
fn nghttpd_that_echoes_uploads_is_limited_by_its_stream_window() {
    if !have(&["nghttpd"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    fs::create_dir(bench.home.path().join("documents")).expect("a folder");
    bench.write("documents/index.html", "hello\n");
    let port = bench.port.to_string();
    let arguments = ["--address=127.0.0.1", "--no-tls", "--echo-upload"];
    let documents = ["--htdocs", "documents", port.as_str()];
    let _nghttpd = bench.start("nghttpd", &[&arguments[..], &documents].concat());
    let seen = bench.probe("nghttpd");
    assert!((0.45..0.95).contains(&seen.expected_share()), "{}", seen.0);
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
}

/// Go's server has a window of 1 MiB for a stream, which limits a long upload from farther away.
#[test]
fn caddy_is_told_apart_from_other_go_servers() {
    if !have(&["caddy"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    let upstream = bench.upstream().to_string();
    let route =
        json!({ "handle": [{ "handler": "reverse_proxy", "upstreams": [{ "dial": upstream }] }] });
    let configuration = json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "apps": { "http": { "servers": { "plain": {
            "listen": [format!("127.0.0.1:{}", bench.port)],
            "protocols": ["h1", "h2c"],
            "automatic_https": { "disable": true },
            "routes": [route],
        } } } },
    });
    bench.write("caddy.json", &configuration.to_string());
    let _caddy = bench.start("caddy", &["run", "--config", "caddy.json"]);
    let seen = bench.probe("Caddy");
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
}

#[test]
fn envoy_does_not_limit_uploads() {
    if !have(&["envoy"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::new();
    bench.write("envoy.json", &envoy(&bench).to_string());
    let general = ["--disable-hot-restart", "--concurrency", "1"];
    let rest = ["--log-level", "warning", "--config-path", "envoy.json"];
    let _envoy = bench.start("envoy", &[&general[..], &rest].concat());
    let seen = bench.probe("Envoy");
    assert_ne!(seen.first_fault(), "stream_window", "{}", seen.0);
}

/// The configuration of Envoy in front of the server.
fn envoy(bench: &Bench) -> Value {
    let any = |kind: &str, mut message: Value| {
        message["@type"] = json!(format!(
            "type.googleapis.com/envoy.extensions.filters.{kind}"
        ));
        message
    };
    let address =
        |port: u16| json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
    let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": "upstream" } });
    let router = any("http.router.v3.Router", json!({}));
    let manager = json!({
        "stat_prefix": "front",
        "codec_type": "HTTP2",
        "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] },
        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": router }],
    });
    let manager = any(
        "network.http_connection_manager.v3.HttpConnectionManager",
        manager,
    );
    let upstream = json!({ "endpoint": { "address": address(bench.upstream().port()) } });
    json!({ "static_resources": {
        "listeners": [{
            "name": "front",
            "address": address(bench.port),
            "filter_chains": [{ "filters": [{ "name": "manager", "typed_config": manager }] }],
        }],
        "clusters": [{
            "name": "upstream",
            "type": "STATIC",
            "connect_timeout": "10s",
            "load_assignment": {
                "cluster_name": "upstream",
                "endpoints": [{ "lb_endpoints": [upstream] }],
            },
        }],
    } })
}
