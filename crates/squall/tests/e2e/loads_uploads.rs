//! Request bodies streamed from files: sent whole, in little memory, with a distinct error when the file shrinks. And
//! bodies that wait for a 100 (Continue).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use squall_base::plan::Protocol;
use squall_base::record::Outcome;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::served::{EVERY_PROTOCOL, Serving, ask, speaking, write_body};
use crate::support::{self, alone_if_it_fails, run_squall, seat, squall, stderr, stdout};

const MIB: u64 = 1 << 20;

/// Runs the child until it exits. Returns its output and its peak memory.
fn measured(mut child: Child) -> (Output, u64) {
    let mut peak_kib = 0;
    let status = loop {
        peak_kib = support::peak_kib(&child).unwrap_or(peak_kib);
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut output = Output {
        status,
        stdout: Vec::new(),
        stderr: Vec::new(),
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    out.expect("a pipe")
        .read_to_end(&mut output.stdout)
        .expect("its text");
    err.expect("a pipe")
        .read_to_end(&mut output.stderr)
        .expect("its text");
    (output, peak_kib * 1024)
}

/// Whether the child has this file open.
fn has_open(child: &Child, path: &Path) -> bool {
    let folder = format!("/proc/{}/fd", child.id());
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| target == path)
}

/// The request body sizes in the server's access log.
fn logged_bodies(home: &Path) -> Vec<u64> {
    let log = fs::read_to_string(home.join("access.log")).expect("the log");
    log.lines()
        .map(|line| {
            line.rsplit(' ')
                .nth(2)
                .expect("a field")
                .parse()
                .expect("bytes")
        })
        .collect()
}

#[test]
fn concurrent_uploads_of_a_large_file_use_little_memory() {
    const LENGTH: u64 = 300 * MIB;
    let _seat = seat();
    for protocol in [Protocol::H1, Protocol::H2c, Protocol::H3] {
        let home = TempDir::new().expect("a temporary folder");
        let file = File::create(home.path().join("large")).expect("a file");
        file.set_len(LENGTH).expect("it is sparse");
        let arguments = ["--sink", "--access-log", "access.log"];
        let server = Serving::of(home.path(), protocol, &arguments);
        let child = squall(home.path())
            .arg("load")
            .args(speaking(protocol))
            .args(["-n", "2", "-c", "2", "-t", "1", "-q", "-d", "large"])
            .args(["--output", "requests.parquet"])
            .arg(server.url(protocol))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squall starts");
        let (output, peak_bytes) = measured(child);
        assert!(
            output.status.success(),
            "{protocol}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        assert!(
            (MIB..100 * MIB).contains(&peak_bytes),
            "{protocol}: {peak_bytes}"
        );
        let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
        assert!(rows.iter().all(|row| row.request_body_bytes == LENGTH));
        // The two uploads overlapped.
        assert!(rows[0].written_first < rows[1].written_last);
        assert!(rows[1].written_first < rows[0].written_last);
        server.end();
        assert_eq!(logged_bodies(home.path()), [LENGTH; 2], "{protocol}");
    }
}

/// The streamed bytes are exactly the file's, and within a form also what surrounds it.
#[test]
fn streamed_file_arrives_byte_for_byte() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let body = write_body(home.path(), "sent", 6 * MIB as usize + 12_345);
    let server = Serving::start(
        home.path(),
        &[
            "--h1", "0", "--h1s", "0", "--h2c", "0", "--h2", "0", "--h3", "0", "--echo",
        ],
    );
    for protocol in Protocol::ALL {
        let url = server.url(protocol);
        let output = ask(home.path(), "fetch", protocol, &["-d", "sent"], &url);
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        assert!(output.stdout == body, "{protocol}: another body");
        let form = ["-F", "who=me", "-F", "what=@sent", "-F", "more=yes"];
        let output = ask(home.path(), "fetch", protocol, &form, &url);
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        let whole = &output.stdout;
        let start = whole.windows(64).position(|piece| *piece == body[..64]);
        let start = start.expect("the file is in it");
        assert!(whole[start..start + body.len()] == body, "{protocol}");
        assert!(whole[..start].starts_with(b"------squall-"));
        let rest = &whole[start + body.len()..];
        let expected = b"\r\n------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"more\"\r\n\r\nyes\r\n";
        assert!(
            rest.starts_with(expected) && rest.ends_with(b"--\r\n"),
            "{protocol}"
        );
    }
    // An h2c upgrade would have to send the whole body first.
    let url = server.url(Protocol::H1);
    let output = run_squall(home.path(), ["fetch", "--upgrade", "-d", "sent", &url]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--upgrade works only with bodies of up to 4MiB"));
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A server that sends `first` after the head of its only request, and a response after five bytes of body. Returns its
/// address and, when the thread ends, the body it received and the time from the head to the body.
fn cautious(first: &'static [u8]) -> (SocketAddr, JoinHandle<(Vec<u8>, Duration)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut piece = [0; 4_096];
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut piece).expect("a head");
            assert!(count > 0, "the body came with the head");
            head.extend_from_slice(&piece[..count]);
        }
        let since = Instant::now();
        stream.write_all(first).expect("it reads");
        let mut body = Vec::new();
        let mut waited = Duration::ZERO;
        // The client may end the connection with a reset.
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            body.extend_from_slice(&piece[..count]);
            waited = since.elapsed();
            if body.len() == 5 {
                stream.write_all(OK).expect("it reads");
                break;
            }
        }
        (body, waited)
    });
    (address, server)
}

/// RFC 9110, section 10.1.1.
#[test]
fn body_waits_for_100_continue_or_a_second_and_is_not_sent_after_final_status() {
    alone_if_it_fails(seat(), || {
        let home = TempDir::new().expect("a temporary folder");
        for (first, body, waits, code) in [
            (
                &b"HTTP/1.1 100 Continue\r\n\r\n"[..],
                &b"hello"[..],
                false,
                0,
            ),
            (b"", b"hello", true, 0),
            (
                b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n",
                b"",
                false,
                1,
            ),
        ] {
            let (address, server) = cautious(first);
            let output = squall(home.path())
                .args(["fetch", "--http", "1.1", "-H", "expect: 100-continue"])
                .args(["--data-text", "hello", &format!("http://{address}/")])
                .output()
                .expect("squall starts");
            assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
            let (sent, waited) = server.join().expect("it served");
            assert_eq!(sent, body);
            assert!(!waits || waited >= Duration::from_millis(900), "{waited:?}");
        }
    });
}

/// An echo responds after the head, other pages after the end of the request. Both make the client send its body.
#[test]
fn server_unblocks_a_client_that_expects_100_continue_over_every_protocol() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (mode, answers) in [("--echo", "hello"), ("--sink", "5 bytes")] {
        let listeners = [&EVERY_PROTOCOL[..], &[mode]].concat();
        let server = Serving::start(home.path(), &listeners);
        for protocol in Protocol::ALL {
            let is_http1 = matches!(protocol, Protocol::H1 | Protocol::H1s);
            let asked = if is_http1 {
                "recv HTTP/1.1 100"
            } else {
                ":status: 100"
            };
            // Over HTTP/1.1 an echo's response comes first and makes 100 unnecessary.
            let expected = usize::from(!(is_http1 && mode == "--echo"));
            let asks = || {
                let asking = ["-v", "--timeout", "20s", "-H", "expect: 100-continue"];
                let arguments = [&asking[..], &["--data-text", "hello"]].concat();
                let output = server.ask(home.path(), "fetch", protocol, &arguments);
                let said = stderr(&output);
                assert!(output.status.success(), "{protocol} {mode}: {said}");
                assert_eq!(stdout(&output).trim(), answers, "{protocol} {mode}: {said}");
                said.matches(asked).count() == expected
            };
            // A server that gets no processor for a second reads the head together with the body.
            assert!((0..3).any(|_| asks()), "{protocol} {mode}");
        }
        server.end();
    }
}

#[test]
fn file_that_shrinks_during_upload_fails_its_requests_with_a_message() {
    let _seat = seat();
    for (protocol, outcome) in [
        (Protocol::H1, Outcome::ConnectionClosed),
        (Protocol::H2c, Outcome::StreamReset),
        (Protocol::H3, Outcome::StreamReset),
    ] {
        let home = TempDir::new().expect("a temporary folder");
        let path = home.path().join("large");
        let file = File::create(&path).expect("a file");
        file.set_len(1 << 36).expect("it is sparse");
        let server = Serving::of(home.path(), protocol, &["--sink"]);
        let child = squall(home.path())
            .arg("load")
            .args(speaking(protocol))
            .args(["-n", "2", "-t", "1", "-q", "-d", "large"])
            .args(["--output", "requests.parquet"])
            .arg(server.url(protocol))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squall starts");
        support::wait_for("the file to be open", || {
            has_open(&child, &path).then_some(())
        });
        // The upload is in progress by then: 64 GiB take longer on any machine.
        thread::sleep(Duration::from_millis(60));
        file.set_len(0).expect("it shrinks");
        let (output, _) = measured(child);
        let shown = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{shown}{}", stderr(&output));
        assert!(
            shown.contains("large became shorter while it was sent: "),
            "{shown}"
        );
        let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.outcome == outcome), "{rows:?}");
    }
}
