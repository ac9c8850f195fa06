//! Mistakes in the settings of protocols, sides, presets and pools.

use squall_recipe::parse;

use super::RIGHT;

/// Gives the second variant of the valid recipe other settings and checks the problems.
#[track_caller]
fn check_settings(protocol: &str, settings: &str, problems: &str) {
    let text = RIGHT.replace("~h2c~>", &format!("~{protocol}~>")).replace(
        "http2 = { stream_window = \"1MiB\", max_concurrent_streams = 1_000 }",
        settings,
    );
    let found = parse(&text).expect_err("a mistake").to_string();
    assert_eq!(found, problems, "\n{settings}");
}

/// Checks rows of a protocol, settings and the problems.
#[track_caller]
fn check_rows(rows: &str) {
    for row in rows.trim().lines() {
        let (right, problems) = row.split_once(" => ").expect("a row");
        let (protocol, settings) = right.split_once(' ').expect("a row");
        check_settings(protocol, settings, problems);
    }
}

/// Checks rows of a setting in this table and its problem, whose place begins with the column.
#[track_caller]
fn check_table(protocol: &str, table: &str, rows: &str) {
    for row in rows.trim().lines() {
        let (setting, problem) = row.split_once(" => ").expect("a row");
        let settings = format!("{table} = {{ {setting} }}");
        check_settings(protocol, &settings, &format!("24:{problem}"));
    }
}

#[test]
fn mistakes_in_http1_settings_are_reported() {
    check_rows(
        r#"
h1 http1 = { framing = "chunkd" } => 24:21: "chunkd" is not a way to frame bodies: expected "length", "chunked" or { chunked = "16KiB" } (did you mean `chunked`?)
h1s http1 = { framing = { chunked = "0" } } => 24:33: `chunked` is out of range: 0: expected 1 byte to 1GiB
h1 http1 = { framing = 5 } => 24:21: `framing` is a whole number: expected "length", "chunked" or { chunked = "16KiB" }
h1 http1 = { requests_per_connection = 0 } => 24:37: `requests_per_connection` is out of range: 0: expected a whole number from 1 to 2147483647
h1 http1 = { requests_per_connection = "nevr" } => 24:37: "nevr" is not a number of requests: expected a whole number from 1 to 2147483647, or "never" (did you mean `never`?)
"#,
    );
    check_settings(
        "h1",
        "http1 = { framing = { chunk = \"1KiB\" } }",
        "24:21: missing key `chunked` in `framing`: expected the most bytes of a chunk\n24:23: unknown key `chunk` in `framing`: expected `chunked`",
    );
}

#[test]
fn mistakes_in_http2_settings_are_reported() {
    const RULES: &str = "\"half\", \"never\", { every = \"64KiB\" }, { each_data = \"16375\" } or { grant = \"8000000\" }";
    let rows = r#"
window_updates = "alf" => 28: "alf" is not a rule for window updates: expected {RULES} (did you mean `half`?)
window_updates = {} => 28: `window_updates` has 0 of its keys: expected {RULES}
window_updates = { every = "1", grant = "1" } => 28: `window_updates` has 2 of its keys: expected {RULES}
window_updates = true => 28: `window_updates` is true or false: expected {RULES}
window_updates = { each_data = 16375 } => 42: `each_data` is a whole number: expected a size, such as "1024", "1KiB" or "64KiB" (put it in quotes: "16375")
window_updates = { grant = "2GiB" } => 38: `grant` is out of range: 2GiB: expected 1 to 2147483647 bytes
max_frame_size = "16383" => 28: `max_frame_size` is out of range: 16383: expected 16384 to 16777215 bytes
max_frame_size = "16MiB" => 28: `max_frame_size` is out of range: 16MiB: expected 16384 to 16777215 bytes
header_table_size = "4GiB" => 31: `header_table_size` is out of range: 4GiB: expected at most 4294967295 bytes
data_size = "0" => 23: `data_size` is out of range: 0: expected 1 to 16777215 bytes
goaway_after = 0 => 26: `goaway_after` is out of range: 0: expected a whole number from 1 to 2147483647
goaway_after = 1.5 => 26: `goaway_after` is a number with a point: expected a whole number from 1 to 2147483647
"#;
    check_table("h2", "http2", &rows.replace("{RULES}", RULES));
}

#[test]
fn mistakes_in_http3_settings_are_reported() {
    check_table(
        "h3",
        "http3",
        r#"
stream_window = "1" => 27: `stream_window` is out of range: 1: expected 2 to 2147483647 bytes
connection_window = "2GiB" => 31: `connection_window` is out of range: 2GiB: expected 2 to 2147483647 bytes
max_concurrent_streams = 0 => 36: `max_concurrent_streams` is out of range: 0: expected a whole number from 1 to 2147483647
congestion_control = "bbr" => 32: "bbr" is not a congestion control of QUIC: expected `cubic`, `reno` or `bbr2` (did you mean `bbr2`?)
pacing = "yes" => 20: `pacing` is a text: expected true or false
max_ack_delay = "16384ms" => 27: `max_ack_delay` is out of range: 16384ms: expected 1ms to 16383ms, in whole milliseconds
max_ack_delay = "0ms" => 27: `max_ack_delay` is out of range: 0ms: expected 1ms to 16383ms, in whole milliseconds
max_ack_delay = "1.5ms" => 27: `max_ack_delay` is out of range: 1.5ms: expected 1ms to 16383ms, in whole milliseconds
max_udp_payload = "1199" => 29: `max_udp_payload` is out of range: 1199: expected 1200 to 65507 bytes
max_udp_payload = "65508" => 29: `max_udp_payload` is out of range: 65508: expected 1200 to 65507 bytes
gso = 1 => 17: `gso` is a whole number: expected true or false
receive_buffer = "kernels" => 28: "kernels" does not begin with a plain number: expected a size, such as "1024", "1KiB" or "64KiB"
local_ports = "1024" => 25: "1024" is not a range of ports: expected two ports of 1 to 65535, the lower one first, such as "40000-40100", or "kernel"
"#,
    );
}

#[test]
fn mistakes_in_tls_settings_are_reported() {
    const CIPHERS: &str =
        "cipher suites of TLS 1.2 as OpenSSL names them, with colons between them, or \"default\"";
    const GROUPS: &str = "one or several of X25519MLKEM768, X25519, P-256, P-384, P-521, with colons between them, or \
                          \"default\"";
    let rows = r#"
min_version = "1.1" => 23: "1.1" is not a version of TLS: expected `1.2` or `1.3` (did you mean `1.2`?)
max_version = 1.3 => 23: `max_version` is a number with a point: expected `1.2` or `1.3` (put it in quotes)
ciphers = "" => 19: "" is not a list of ciphers: expected {CIPHERS}
ciphers = "A B" => 19: "A B" is not a list of ciphers: expected {CIPHERS}
groups = "P-256:P-257" => 18: "P-256:P-257" is not a list of groups: expected {GROUPS}
groups = "P-256:P-256" => 18: "P-256:P-256" is not a list of groups: expected {GROUPS}
resumption = "no" => 22: `resumption` is a text: expected true or false
records = "16385" => 19: `records` is out of range: 16385: expected 1 to 16384 bytes
records = 1300 => 19: `records` is a whole number: expected a size, or { small = "1300", warmup = "1MiB", idle = "1s" } (put it in quotes)
records = { small = "1300", idle = "1s" } => 19: missing key `warmup` in `records`: expected after how many bytes records grow
"#;
    check_table(
        "h1s",
        "tls",
        &rows
            .replace("{CIPHERS}", CIPHERS)
            .replace("{GROUPS}", GROUPS),
    );
    check_settings(
        "h1s",
        "tls = { records = { small = \"0\", warmup = \"1MiB\", idle = \"0s\" } }",
        "24:29: `small` is out of range: 0: expected 1 to 16384 bytes\n24:58: `idle` is out of range: 0s: expected more than 0 and at most 24h",
    );
}

#[test]
fn mistakes_in_tcp_settings_are_reported() {
    check_table(
        "h2c",
        "tcp",
        r#"
congestion_control = "BBR" => 30: "BBR" is not a congestion control: expected the kernel's name for it, such as "cubic" or "bbr"
no_delay = 1 => 20: `no_delay` is a whole number: expected true or false
notsent_lowat = "0" => 25: `notsent_lowat` is out of range: 0: expected 1 to 1073741823 bytes, or "kernel"
send_buffer = "1GiB" => 23: `send_buffer` is out of range: 1GiB: expected 1 to 1073741823 bytes, or "kernel"
receive_buffer = "1 KB/s" => 26: unknown unit "KB/s" in "1 KB/s": expected a size, such as "1024", "1KiB" or "64KiB"
keep_alive = "500ms" => 22: `keep_alive` is out of range: 500ms: expected 1s to 32767s, in whole seconds, or "off"
keep_alive = "1.5s" => 22: `keep_alive` is out of range: 1.5s: expected 1s to 32767s, in whole seconds, or "off"
slow_start_after_idle = "kernels" => 33: "kernels" is not true or false: expected true, false or "kernel" (did you mean `kernel`?)
slow_start_after_idle = 0 => 33: `slow_start_after_idle` is a whole number: expected true, false or "kernel"
write_size = "0" => 22: `write_size` is out of range: 0: expected 1 to 1073741823 bytes, or "all"
local_ports = "kernels" => 23: "kernels" is not a range of ports: expected two ports of 1 to 65535, the lower one first, such as "40000-40100", or "kernel" (did you mean `kernel`?)
local_ports = "2-1" => 23: "2-1" is not a range of ports: expected two ports of 1 to 65535, the lower one first, such as "40000-40100", or "kernel"
local_ports = 40000 => 23: `local_ports` is a whole number: expected two ports of 1 to 65535, the lower one first, such as "40000-40100", or "kernel"
local_port = "1-2" => 9: unknown key `local_port` in `tcp`: expected `congestion_control`, `no_delay`, `notsent_lowat`, `send_buffer`, `receive_buffer`, `keep_alive`, `slow_start_after_idle`, `max_cwnd`, `max_pacing_rate`, `write_size` or `local_ports` (did you mean `local_ports`?)
"#,
    );
}

#[test]
fn mistakes_in_tcp_caps_are_reported() {
    check_table(
        "h2c",
        "tcp",
        r#"
max_cwnd = 0 => 20: `max_cwnd` is out of range: 0: expected a whole number from 1 to 2147483647
max_cwnd = "4" => 20: "4" is not a number of segments: expected a whole number from 1 to 2147483647, or "kernel"
max_pacing_rate = "999bit" => 27: `max_pacing_rate` is out of range: 999bit: expected 1kbit to 1000gbit, or "kernel"
max_pacing_rate = "1MB" => 27: unknown unit "MB" in "1MB": expected a rate in bits, such as "20mbit" or "500kbit"
"#,
    );
}

#[test]
fn settings_of_protocols_that_the_path_does_not_use_are_reported() {
    let cases = [
        ("h2", "http1", "HTTP/1.1", "`h1` or `h1s`"),
        ("h3", "http2", "HTTP/2", "`h2c` or `h2`"),
        ("h2", "http3", "HTTP/3", "`h3`"),
        ("h2c", "tls", "TLS", "`h1s`, `h2` or `h3`"),
        ("h3", "tcp", "TCP", "`h1`, `h1s`, `h2c` or `h2`"),
    ];
    for (protocol, key, lacking, users) in cases {
        let problem = |column: usize| {
            format!(
                "24:{column}: `{key}` without {lacking}: expected `{key}` where {users} is spoken"
            )
        };
        check_settings(protocol, &format!("{key} = {{}}"), &problem(1));
        let both = format!("server = {{ {key} = {{}} }}");
        check_settings(protocol, &both, &problem(12));
    }
    check_rows(
        r#"
h3 congestion_control = "bbr" => 24:1: `congestion_control` without TCP: expected `congestion_control` where `h1`, `h1s`, `h2c` or `h2` is spoken
h1s pool = { streams_at_most = 3 } => 24:10: `streams_at_most` without streams: expected `streams_at_most` where `h2c`, `h2` or `h3` is spoken
"#,
    );
    check_settings(
        "h3",
        "tls = { records = \"1KiB\", ciphers = \"AES\" }",
        "24:9: `records` without TLS records: expected `records` where `h1s` or `h2` is spoken\n24:27: `ciphers` without TLS 1.2: expected `ciphers` where `h1s` or `h2` is spoken",
    );
}

#[test]
fn contradictory_settings_are_reported() {
    check_rows(
        r#"
h2 tls = { min_version = "1.3", max_version = "1.2" } => 24:1: TLS versions from 1.3 to 1.2: expected a `min_version` that is no newer than `max_version`
h3 client = { tls = { max_version = "1.2" } } => 24:12: HTTP/3 with TLS 1.2 at most: expected `max_version` "1.3", which QUIC needs
h2 tls = { max_version = "1.2", groups = "X25519MLKEM768" } => 24:1: TLS 1.2 at most with the groups X25519MLKEM768 alone, which only TLS 1.3 has: expected an additional group, such as X25519, or `max_version` "1.3"
h2c http2 = { stream_window = "1MiB", window_updates = { every = "64KiB" } } => 24:1: window updates every 64KiB with a window of 65535B: expected updates that are due before the window of a stream or connection is used up
"#,
    );
    check_settings(
        "h2",
        "tls = { min_version = \"1.3\" }\nserver = { tls = { max_version = \"1.2\" } }",
        "25:12: TLS versions from 1.3 to 1.2: expected a `min_version` that is no newer than `max_version`",
    );
}

#[test]
fn mistakes_in_sides_and_presets_are_reported() {
    check_rows(
        r#"
h2 server = { preset = "ngin" } => 24:22: unknown preset `ngin`: expected `nginx`, `envoy`, `haproxy`, `nghttpx`, `nghttpd`, `h2o`, `caddy`, `go`, `cowboy`, `tomcat` or `alb` (did you mean `nginx`?)
h2 server = "nginx" => 24:10: `server` is a text: expected a table
h2 preset = "nginx" => 24:1: unknown key `preset` in [[variant]]: expected `name`, `path`, `connections`, `pool`, `client`, `server`, `http1`, `http2`, `http3`, `tls`, `tcp`, `congestion_control`, `pinned` or `hop` (`preset` is a key of `client` and `server`)
"#,
    );
    check_settings(
        "h2",
        "client = { http = {}, preset = 1 }",
        "24:12: unknown key `http` in `client`: expected `preset`, `http1`, `http2`, `http3`, `tls` or `tcp` (did you mean `http1`?)\n24:32: `preset` is a whole number: expected a text in quotes",
    );
}

#[test]
fn mistakes_in_pools_are_reported() {
    check_rows(
        r#"
h2 pool = { order = "turn", warm = 3 } => 24:18: "turn" is not an order of connections: expected `last_used`, `first_used`, `turns`, `least_busy` or `random` (did you mean `turns`?)
h2 pool = { warm = 3 } => 24:17: `warm` is out of range: 3: expected at most the connections that there are: 2
h2 pool = { streams_at_most = 0 } => 24:28: `streams_at_most` is out of range: 0: expected a whole number from 1 to 2147483647
h2 pool = { size = 3 } => 24:10: unknown key `size` in `pool`: expected `order`, `streams_at_most` or `warm` (`size` is a key of `body`)
h2 pool = 3 => 24:8: `pool` is a whole number: expected a table
"#,
    );
}
