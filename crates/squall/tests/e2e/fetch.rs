//! `squall fetch` against `squall serve`: what a user sees of one request, and how both commands end.

use std::fs;
use std::io::Write;
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{CERTIFICATE, EVERY_PROTOCOL, Serving, ask, speaking, write_body};
use crate::support::{have, seat, squall, stderr, stdout};

fn home() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

fn fetch(home: &TempDir, protocol: Protocol, arguments: &[&str], url: &str) -> Output {
    ask(home.path(), "fetch", protocol, arguments, url)
}

/// Runs `squall fetch` with only these arguments.
fn plainly(home: &TempDir, arguments: &[&str]) -> Output {
    squall(home.path())
        .arg("fetch")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts")
}

/// Asserts that a command failed with this code and printed all of `parts`, in one line.
fn assert_failed(output: &Output, code: i32, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert_eq!(said.lines().count(), 1, "one line says it: {said}");
}

#[test]
fn every_protocol_carries_bodies_unchanged_in_both_directions() {
    let _seat = seat();
    let home = home();
    // Several windows of 65,535 bytes, and not a multiple of a frame or record size.
    let sent = write_body(home.path(), "body.bin", 300_001);
    let log = ["--echo", "--access-log", "access.log", "--https", "0"];
    let server = Serving::start(home.path(), &[&EVERY_PROTOCOL[..], &log].concat());
    for protocol in Protocol::ALL {
        let arguments = ["-d", "body.bin", "-o", "answer.bin"];
        let output = fetch(&home, protocol, &arguments, &server.url(protocol));
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{protocol}");
        let answer = fs::read(home.path().join("answer.bin")).expect("the answer");
        assert!(answer == sent, "{protocol}: another body came back");
    }
    // ALPN decides; the response goes to stdout, the body comes from stdin.
    let url = format!("https://{}/", server.address("https"));
    let mut child = squall(home.path())
        .args(["fetch", "--cacert", CERTIFICATE, "-d", "-", &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("squall starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(&sent).expect("it reads its body");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stdout == sent);

    let (status, said) = server.end();
    assert!(status.success(), "{status}");
    assert!(said.starts_with("6 connections, 6 responses\n"), "{said}");
    for counted in [
        "handshakes 4 full",
        "spoken h1 (1), h1s (1), h2 (2), h2c (1), h3 (1)",
        "ALPN h2 (2), h3 (1), http/1.1 (1)",
    ] {
        assert!(said.contains(&format!("\n  {counted}\n")), "{said}");
    }
    check_access_log(home.path());
}

/// Checks for one line per exchange: `time address protocol "method target" status request_bytes response_bytes us`.
fn check_access_log(home: &Path) {
    let log = fs::read_to_string(home.join("access.log")).expect("the access log");
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let protocols: Vec<&str> = lines.iter().map(|words| words[2]).collect();
    assert_eq!(protocols, ["h1", "h1s", "h2c", "h2", "h3", "h2"], "{log}");
    for words in lines {
        assert_eq!(
            words[3..8],
            ["\"POST", "/\"", "200", "300001", "300001"],
            "{log}"
        );
        // 2026-11-22T05:06:04.510476Z
        assert_eq!(words[0].len(), 27, "{log}");
        assert!(words[1].starts_with("127.0.0.1:"), "{log}");
        assert!(words[8].parse::<f64>().is_ok_and(|us| us > 0.0), "{log}");
    }
}

#[test]
fn exit_code_is_1_unless_the_request_gets_a_successful_response() {
    let _seat = seat();
    let home = home();
    fs::create_dir(home.path().join("public")).expect("a folder");
    fs::write(home.path().join("public/page.txt"), "a page\n").expect("a file");
    let listeners = [&EVERY_PROTOCOL[..], &["--dir", "public"]].concat();
    let server = Serving::start(home.path(), &listeners);
    for protocol in Protocol::ALL {
        let url = server.url(protocol);
        let output = fetch(&home, protocol, &[], &format!("{url}/page.txt"));
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        assert_eq!(stdout(&output), "a page\n", "{protocol}");
        let output = fetch(&home, protocol, &[], &format!("{url}/nothing.txt"));
        assert_failed(&output, 1, &["the server answered with status 404"]);
    }
    // A closed port: the kernel refuses TCP, and rejects UDP by ICMP.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("it has an address").port();
    drop(closed);
    for protocol in Protocol::ALL {
        let scheme = if protocol.is_secure() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://127.0.0.1:{port}/");
        let output = fetch(&home, protocol, &["--timeout", "5s"], &url);
        assert_failed(&output, 1, &[url.as_str(), "refused"]);
    }
    // A protocol other than the listener's.
    let wrong = server.url(Protocol::H1s);
    let output = fetch(&home, Protocol::H2, &[], &wrong);
    assert_failed(&output, 1, &["tls_failed"]);
    let output = fetch(&home, Protocol::H2c, &[], &server.url(Protocol::H1));
    assert_failed(&output, 1, &["protocol_error", "HTTP/2"]);
}

#[test]
fn wrong_scheme_version_or_trust_is_reported_with_advice() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0", "--h1s", "0"]);
    let [plain, secure] = ["h1", "h1s"].map(|kind| server.address(kind).to_string());
    for (flags, url, advice) in [
        (
            &[][..],
            format!("https://{secure}/"),
            "--cacert FILE".to_owned(),
        ),
        (
            &[],
            format!("http://{secure}/x"),
            format!("https://{secure}/x"),
        ),
        (
            &["-k"],
            format!("https://{plain}/x"),
            format!("http://{plain}/x"),
        ),
        (
            &["-k", "--http", "2"],
            format!("https://{secure}/"),
            "--http 1.1".to_owned(),
        ),
        (
            &["--http", "2"],
            format!("http://{plain}/"),
            "--http 1.1".to_owned(),
        ),
        // No server speaks QUIC there.
        (
            &["-k", "--http", "3"],
            format!("https://{secure}/"),
            "--http 2".to_owned(),
        ),
    ] {
        let output = plainly(&home, &[flags, &["--timeout", "5s", &url]].concat());
        assert_failed(&output, 1, &[&advice]);
    }
}

#[test]
fn certificates_are_checked_for_names_and_addresses() {
    let _seat = seat();
    let home = home();
    // All of 127.0.0.0/8 is this machine; the certificate is for localhost, 127.0.0.1 and ::1.
    let elsewhere = [
        "--h1s",
        "127.0.0.2:0",
        "--h2",
        "127.0.0.2:0",
        "--h3",
        "127.0.0.2:0",
    ];
    let server = Serving::start(home.path(), &elsewhere);
    for protocol in [Protocol::H1s, Protocol::H2, Protocol::H3] {
        let version = speaking(protocol)[1];
        let address = server.address(protocol.name()).to_string();
        let connect = ["--http", version, "--connect-to", &address];
        for (flags, url, is_trusted) in [
            (&["--cacert", CERTIFICATE][..], "https://localhost/", true),
            (&["--cacert", CERTIFICATE], "https://127.0.0.1/", true),
            (&["--cacert", CERTIFICATE], "https://elsewhere/", false),
            (&["--cacert", CERTIFICATE], "https://127.0.0.2/", false),
            (&[], "https://localhost/", false),
            (&["-k"], "https://127.0.0.2/", true),
        ] {
            let output = plainly(&home, &[&connect[..], flags, &[url]].concat());
            if is_trusted {
                let said = stderr(&output);
                assert!(
                    output.status.success(),
                    "{protocol} {flags:?} {url}: {said}"
                );
            } else {
                assert_failed(&output, 1, &["tls_failed", "certificate"]);
            }
        }
    }
}

#[test]
fn usage_errors_are_reported_before_anything_is_sent() {
    let home = home();
    for (arguments, parts) in [
        (
            &["ftp://server/"][..],
            &["ftp://server/", "http or https"][..],
        ),
        (&["http://user:word@server/"], &["-H 'authorization"]),
        (
            &["http://no-such-host.invalid/"],
            &["cannot find no-such-host.invalid"],
        ),
        (
            &["--http", "3", "http://localhost/"],
            &["HTTP/3", "https://"],
        ),
        (
            &["-H", "no field", "http://localhost/"],
            &["no field", "name: value"],
        ),
        (
            &["-d", "nothing.bin", "http://localhost/"],
            &["nothing.bin"],
        ),
        (
            &["--cacert", "nothing.pem", "https://localhost/"],
            &["nothing.pem"],
        ),
        (
            &["--set", "http2.stream_windows=1MiB", "https://localhost/"],
            &["stream_windows", "did you mean `stream_window`?"],
        ),
        (
            &["--set", "tls.records=0", "https://localhost/"],
            &["records", "1 to 16384"],
        ),
        (
            &["--preset", "ngimx", "http://localhost/"],
            &["ngimx", "did you mean `nginx`?"],
        ),
    ] {
        let output = plainly(&home, arguments);
        assert_failed(&output, 2, parts);
    }
}

/// Removes the time in front of lines such as `[  0.001] recv SETTINGS ...`.
fn without_times(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| match line.strip_prefix('[') {
            Some(rest) => rest.split_once("] ").expect("a time ends with ]").1,
            None => line,
        })
        .collect()
}

/// The lines that begin with `way`, each with its indented lines.
fn blocks_of<'a>(way: &str, lines: &[&'a str]) -> Vec<&'a str> {
    let mut is_kept = false;
    let mut kept = Vec::new();
    for line in lines {
        if !line.starts_with(' ') {
            is_kept = line.starts_with(way);
        }
        if is_kept {
            kept.push(*line);
        }
    }
    kept
}

#[test]
fn verbose_prints_frames_in_the_layout_of_nghttp() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h2c", "0", "--h2", "0", "--body", "6"]);
    let request = [
        "send HEADERS frame <length=25, flags=0x05, stream_id=1>",
        "          ; END_STREAM | END_HEADERS",
        "          (padlen=0)",
        "          ; Open new stream",
        "          :method: GET",
    ];
    let answer = [
        "recv SETTINGS frame <length=18, flags=0x00, stream_id=0>",
        "          (niv=3)",
        "          [SETTINGS_MAX_CONCURRENT_STREAMS(0x03):100]",
        "          [SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]",
        "          [SETTINGS_MAX_HEADER_LIST_SIZE(0x06):65536]",
        "recv SETTINGS frame <length=0, flags=0x01, stream_id=0>",
        "          ; ACK",
        "          (niv=0)",
        "recv (stream_id=1) :status: 200",
        "recv (stream_id=1) content-type: application/octet-stream",
        "recv (stream_id=1) content-length: 6",
    ];
    for protocol in [Protocol::H2c, Protocol::H2] {
        let scheme = if protocol.is_secure() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://localhost/");
        let address = server.address(protocol.name()).to_string();
        let output = fetch(&home, protocol, &["-v", "--connect-to", &address], &url);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "abcdef");
        let said = stderr(&output);
        let lines = without_times(&said);
        // Lines about sent frames may appear anywhere among those about received frames.
        let has = |way: &str, part: &[&str]| {
            let blocks = blocks_of(way, &lines);
            blocks.windows(part.len()).any(|window| window == part)
        };
        assert!(has("recv ", &answer), "{said}");
        assert!(has("send ", &request[1..]), "{said}");
        assert!(
            has(
                "recv ",
                &[
                    "recv DATA frame <length=6, flags=0x01, stream_id=1>",
                    "          ; END_STREAM"
                ]
            ),
            "{said}"
        );
        assert!(lines.contains(&"          :authority: localhost"), "{said}");
        let negotiated = lines.contains(&"The negotiated protocol: h2");
        assert_eq!(negotiated, protocol.is_secure(), "{said}");
        for line in said.lines().filter(|line| line.starts_with('[')) {
            // `[%3ld.%03ld] `, as nghttp prints it.
            let time = line
                .get(1..8)
                .and_then(|time| time.trim_start().parse::<f64>().ok());
            assert!(time.is_some() && line.get(8..10) == Some("] "), "{line}");
        }
    }
}

#[test]
fn verbose_prints_received_frames_exactly_as_nghttp_does() {
    if !have(&["nghttp"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h2c", "0", "--body", "40000"]);
    let url = server.url(Protocol::H2c) + "/";
    let ours = fetch(&home, Protocol::H2c, &["-v", "-o", "body.bin"], &url);
    let theirs = Command::new("nghttp")
        .args(["-nv", "--no-dep", "--window-bits=16", &url])
        .output()
        .expect("nghttp starts");
    assert_eq!(received(&stderr(&ours), 1), received(&stdout(&theirs), 1));
}

/// The blocks of lines about received frames, with the stream id replaced by N, because each client numbers its own
/// way.
fn received(text: &str, stream: u32) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_received = false;
    for line in without_times(text) {
        let line = line.replace(&format!("stream_id={stream}"), "stream_id=N");
        if !line.starts_with(' ') {
            is_received = line.starts_with("recv ");
            if is_received {
                blocks.push(line);
            }
        } else if is_received {
            let block = blocks.last_mut().expect("a block has begun");
            *block += "\n";
            *block += &line;
        }
    }
    // Their order depends on when the server reads.
    blocks.sort();
    blocks
}

#[test]
fn verbose_prints_http1_heads_and_http3_packets() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0", "--h3", "0", "--body", "6"]);
    let url = server.url(Protocol::H1);
    let output = fetch(&home, Protocol::H1, &["-v", "-H", "X-Why: Tests"], &url);
    let said = stderr(&output);
    let lines = without_times(&said);
    let authority = format!("          host: {}", server.address("h1"));
    for line in [
        "send GET / HTTP/1.1",
        authority.as_str(),
        "          x-why: Tests",
        "recv HTTP/1.1 200",
        "          content-length: 6",
        "recv body <length=6>",
    ] {
        assert!(lines.contains(&line), "no {line:?} in {said}");
    }
    // The head as the connection sends it, not as the request alone would be.
    let chunked = ["-v", "-d", "sent", "--set", "http1.framing=chunked"];
    fs::write(home.path().join("sent"), "abc").expect("a file");
    let said = stderr(&fetch(&home, Protocol::H1, &chunked, &url));
    let lines = without_times(&said);
    assert!(lines.contains(&"send POST / HTTP/1.1"), "{said}");
    assert!(
        lines.contains(&"          transfer-encoding: chunked"),
        "{said}"
    );
    assert!(!said.contains("content-length: 3"), "{said}");
    let output = fetch(&home, Protocol::H3, &["-v"], &server.url(Protocol::H3));
    let said = stderr(&output);
    let lines = without_times(&said);
    for beginning in [
        "send QUIC CRYPTO frame <length=",
        "send HEADERS frame <length=",
        "recv SETTINGS frame <length=",
        "recv QUIC HANDSHAKE_DONE frame <length=0, packet=",
        "recv HEADERS frame <length=",
        "recv DATA frame <length=6, stream_id=0, offset=",
    ] {
        let found = lines.iter().any(|line| line.starts_with(beginning));
        assert!(found, "no {beginning:?} in {said}");
    }
}

#[test]
fn key_log_has_the_secrets_of_each_connection() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1s", "0", "--h2", "0", "--h3", "0"]);
    let keys = ["--key-log", "keys.log"];
    for protocol in [Protocol::H1s, Protocol::H2, Protocol::H3] {
        let output = fetch(&home, protocol, &keys, &server.url(protocol));
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let old = [&keys[..], &["--set", "tls.max_version=1.2"]].concat();
    let output = fetch(&home, Protocol::H2, &old, &server.url(Protocol::H2));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(home.path().join("keys.log")).expect("the key log");
    // The labels of draft-ietf-tls-keylogfile: four secrets per TLS 1.3 connection, one for TLS 1.2.
    let count = |label: &str| {
        text.lines()
            .filter(|line| line.split(' ').next() == Some(label))
            .count()
    };
    for label in [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    ] {
        assert_eq!(count(label), 3, "{label} in {text}");
    }
    assert_eq!(count("CLIENT_RANDOM"), 1, "{text}");
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let are_hex = words[1..]
            .iter()
            .all(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(
            words.len() == 3 && words[1].len() == 64 && are_hex,
            "{line}"
        );
    }
}

#[test]
fn ipv6_works_if_the_machine_supports_it() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let _seat = seat();
    let home = home();
    let listeners = ["--h1", "[::1]:0", "--h2", "[::1]:0", "--h3", "[::1]:0"];
    let server = Serving::start(home.path(), &[&listeners[..], &["--body", "6"]].concat());
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let output = fetch(&home, protocol, &[], &server.url(protocol));
        assert_eq!(stdout(&output), "abcdef", "{protocol}: {}", stderr(&output));
    }
}

#[test]
fn serve_fails_with_a_clear_error_for_a_used_port_or_a_bad_setting() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0", "--h3", "0"]);
    let serve = |arguments: &[&str]| {
        squall(home.path())
            .arg("serve")
            .args(arguments)
            .output()
            .expect("squall starts")
    };
    for (flag, kind) in [("--h1", "h1"), ("--h3", "h3")] {
        let address = server.address(kind).to_string();
        assert_failed(&serve(&[flag, &address]), 1, &[&address, "in use"]);
    }
    assert_failed(&serve(&["--preset", "albb"]), 2, &["did you mean `alb`?"]);
    assert_failed(&serve(&["--dir", "nowhere"]), 2, &["nowhere"]);
    assert_failed(
        &serve(&["--h1", "0", "--set", "tcp.congestion_control=nonesuch"]),
        1,
        &["nonesuch", "tcp_available_congestion_control"],
    );
}
