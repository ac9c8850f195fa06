//! `squall probe` against further real servers with their own defaults, 30 or 50 ms away: Apache httpd and h2o in front of
//! another server, and Node.js, Go, Tomcat, hyper and gRPC, which read uploads themselves.
//!
//! All but hyper and gRPC speak HTTP/2 over TLS. Their programs are in `tests/servers`; scripts/peers builds the one in Go.
//! `probe_servers` has the bench, and tests the servers that speak HTTP/2 in cleartext.

use std::fs;
use std::path::Path;

use super::probe_servers::{Bench, CERTIFICATE, Daemon, KEY, ProbeResult};
use crate::real_servers::{GRPC, USUAL};
use crate::support::{have, python_with, quiet_seat, stderr};

/// Where the server programs are.
const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers");
/// Where Debian's libtomcat10-java puts its classes.
const JARS: &str = "/usr/share/java";

/// Starts a server with these arguments, followed by its port, the certificate and the key.
fn serve(bench: &Bench, program: &str, arguments: &[&str]) -> Daemon {
    let port = bench.port.to_string();
    let own = [port.as_str(), CERTIFICATE, KEY];
    bench.start(program, &[arguments, &own].concat())
}

/// Starts one of the servers in Python.
fn serve_python(bench: &Bench, python: &Path, name: &str) -> Daemon {
    let python = python.to_str().expect("a path in UTF-8");
    let port = bench.port.to_string();
    bench.start(python, &[&format!("{SERVERS}/{name}"), &port])
}

/// mod_http2 gives each stream H2WindowSize, and opens the connection's window to its maximum.
#[test]
fn apache_is_recognised_and_gives_streams_the_window_of_the_rfc() {
    if !have(&["apache2", "openssl"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::secure();
    let modules = [
        "mpm_event",
        "authn_core",
        "authz_core",
        "http2",
        "ssl",
        "proxy",
        "proxy_http",
    ];
    let modules = modules
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    let home = bench.home.path().display();
    let configuration = format!(
        "{}ServerRoot {home}
ServerName localhost
DefaultRuntimeDir {home}
PidFile apache.pid
ErrorLog /dev/stderr
User www-data
Group www-data
Listen 127.0.0.1:{}
Protocols h2 http/1.1
SSLEngine on
SSLCertificateFile {home}/{CERTIFICATE}
SSLCertificateKeyFile {home}/{KEY}
ProxyPass / http://{}/
",
        modules.concat(),
        bench.port,
        bench.upstream()
    );
    bench.write("apache.conf", &configuration);
    let path = bench.home.path().join("apache.conf");
    let path = path.to_str().expect("a path in UTF-8");
    // One process, which ends when it is killed.
    let _apache = bench.start("apache2", &["-X", "-f", path]);
    bench.probe("Apache httpd");
}

/// Its SETTINGS give each stream 16 MiB (2.2.5; later versions raise the window at the first DATA).
#[test]
fn h2o_does_not_limit_uploads() {
    if !have(&["h2o", "openssl"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::secure();
    let configuration = format!(
        "error-log: /dev/stderr
num-threads: 1
listen:
  host: 127.0.0.1
  port: {}
  ssl:
    certificate-file: {CERTIFICATE}
    key-file: {KEY}
    ocsp-update-interval: 0
hosts:
  default:
    paths:
      /:
        proxy.reverse.url: \"http://{}/\"
",
        bench.port,
        bench.upstream()
    );
    bench.write("h2o.conf", &configuration);
    let _h2o = bench.start("h2o", &["-c", "h2o.conf"]);
    let seen = bench.probe("h2o");
    assert_ne!(seen.first_fault(), "stream_window", "{}", seen.0);
}

/// nghttp2, which is part of it, gives back half of a window of 65,535 bytes at a time.
#[test]
fn node_is_limited_by_its_stream_window() {
    if !have(&["node", "openssl"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::secure();
    let _node = serve(&bench, "node", &[&format!("{SERVERS}/node.js")]);
    let seen = bench.probe("Node.js");
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
}

/// This server sends no `server` field, so only its SETTINGS show that it is Go.
#[test]
fn go_is_recognised_by_its_settings() {
    if !have(&["go-server", "openssl"]) {
        return;
    }
    let _seat = quiet_seat();
    let bench = Bench::secure();
    let _go = serve(&bench, "go-server", &[]);
    let seen = bench.probe("Go net/http");
    assert_eq!(seen.product(), "go", "{}", seen.0);
}

/// The class path of Debian's Tomcat, without the translations of its messages.
fn tomcat() -> Option<String> {
    let files = fs::read_dir(JARS).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let wanted = |name: &String| {
        name.starts_with("tomcat10-") && name.ends_with(".jar") && !name.contains("-i18n-")
    };
    let jars: Vec<String> = names
        .filter(wanted)
        .map(|name| format!("{JARS}/{name}"))
        .collect();
    if !jars.is_empty() {
        return Some(jars.join(":"));
    }
    let said = "skipped: this test needs Tomcat 10 in /usr/share/java; scripts/peers installs it";
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    eprintln!("{said}");
    None
}

/// Its windows are 65,535 bytes, and it returns what its application has read.
#[test]
fn tomcat_is_limited_by_its_stream_window() {
    if !have(&["java", "openssl"]) {
        return;
    }
    let Some(jars) = tomcat() else {
        return;
    };
    let _seat = quiet_seat();
    let bench = Bench::secure();
    let program = format!("{SERVERS}/TomcatServer.java");
    let _tomcat = serve(&bench, "java", &["-cp", &jars, &program]);
    let seen = bench.probe("Tomcat");
    assert_eq!(seen.first_fault(), "stream_window", "{}", seen.0);
}

/// Both of its windows are 1 MiB. Whether an upload of 2 MB at 30 ms waits longer for them than for the congestion window
/// varies, so the first fault is not asserted.
#[test]
fn hyper_has_windows_of_one_mebibyte() {
    let Some(python) = python_with("granian") else {
        return;
    };
    let _seat = quiet_seat();
    let bench = Bench::new();
    let _hyper = serve_python(&bench, &python, "hyper_server.py");
    let seen = bench.probe("hyper (granian)");
    // Less the short upload before, if the server has not returned it.
    let connection_bytes = seen.number("largest_connection_bytes");
    assert!((1 << 20) - 1_000 <= connection_bytes, "{}", seen.0);
}

/// A gRPC server answers only its own methods. The probe says so and does not judge the server, but shows what it announces.
#[test]
fn grpc_server_that_does_not_answer_get_is_not_judged() {
    let Some(python) = python_with("grpc") else {
        return;
    };
    let _seat = quiet_seat();
    let bench = Bench::new();
    let _grpc = serve_python(&bench, &python, "grpc_server.py");
    let output = bench.try_probe(&USUAL);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let seen = ProbeResult(serde_json::from_slice(&output.stdout).expect("valid JSON"));
    assert_eq!(seen.first_fault(), "no_answer", "{}", seen.0);
    let fix = seen.0["verdict"]["fix"].as_str().expect("a fix");
    assert!(fix.contains("gRPC"), "{fix}");
    let endpoint = &seen.0["endpoint"];
    let settings = endpoint["settings"].as_object();
    assert!(settings.is_some_and(|settings| !settings.is_empty()));
    let window = |name: &str| endpoint["announced_windows"][name].as_u64();
    let [stream, connection] = ["stream_bytes", "connection_bytes"].map(window);
    assert!(stream > Some(0) && connection > Some(0), "{endpoint}");
    let streams = seen.setting("MAX_CONCURRENT_STREAMS");
    let cell = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let (stream, connection, streams) = (cell(stream), cell(connection), cell(streams));
    let product = seen.product();
    let round_trip = USUAL.round_trip;
    eprintln!(
        "| {GRPC} | {product} | {round_trip} | {stream} | {connection} | - | {streams} | - | - | - |"
    );
}
