//! Effects of `--set`, observed from outside: as reported by the kernel, and on the wire.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Protocol;
use squall_base::record::{FrameRecord, Way, frame_name};
use squall_record::read_frames;
use tempfile::TempDir;

use crate::served::{Serving, ask, speaking, write_body};
use crate::support::{alone_if_it_fails, have, seat, squall, stderr, stdout};

/// One line of `ss` for each established socket of this port.
fn sockets_of(port: u16) -> Vec<String> {
    let output = Command::new("ss")
        .args(["-tinmoHO", "state", "established"])
        .arg(format!("( sport = :{port} or dport = :{port} )"))
        .output()
        .expect("ss starts; it is in iproute2");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(str::to_owned).collect()
}

#[test]
fn tcp_settings_reach_the_kernel() {
    if !have(&["ss"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let sets = [
        "--set",
        "tcp.congestion_control=reno",
        "--set",
        "tcp.send_buffer=40KiB",
        "--set",
        "tcp.receive_buffer=50KiB",
        "--set",
        "tcp.keep_alive=77s",
    ];
    let server = Serving::start(home.path(), &[&["--h1", "0"], &sets[..]].concat());
    let port = server.address("h1").port();
    // The response takes a while, so there is time to look.
    let mut child = squall(home.path())
        .args(["fetch", "-o", "answer"])
        .args(speaking(Protocol::H1))
        .args(sets)
        .arg(server.url(Protocol::H1) + "/?delay=2s")
        .stdout(Stdio::null())
        .spawn()
        .expect("squall starts");
    let give_up = Instant::now() + Duration::from_secs(5);
    let lines = loop {
        let lines = sockets_of(port);
        if lines.len() == 2 || Instant::now() > give_up {
            break lines;
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(lines.len(), 2, "a socket on each side: {lines:?}");
    for line in &lines {
        // The kernel doubles buffers (socket(7), SO_SNDBUF); `ss -m` shows the limits as rb and tb.
        for part in [" reno ", ",tb81920,", ",rb102400,", "timer:(keepalive,"] {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
    }
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn unknown_congestion_control_is_refused_with_advice() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let set = ["--set", "tcp.congestion_control=nonesuch"];
    let output = server.ask(home.path(), "fetch", Protocol::H1, &set);
    assert_eq!(output.status.code(), Some(1));
    for part in [
        "nonesuch",
        "net.ipv4.tcp_available_congestion_control",
        "modprobe tcp_nonesuch",
    ] {
        assert!(
            stderr(&output).contains(part),
            "no {part:?} in {}",
            stderr(&output)
        );
    }
}

fn name_of(row: &FrameRecord) -> &'static str {
    frame_name(row.frame.layer, row.frame.kind).unwrap_or("")
}

/// Uploads 200,000 bytes to a server with these window updates. Returns the frames as the client saw them.
fn upload(updates: &str) -> Vec<FrameRecord> {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", 200_000);
    let set = format!("http2.window_updates={updates}");
    let server = Serving::start(home.path(), &["--h2c", "0", "--sink", "--set", &set]);
    let arguments = ["-n", "1", "-d", "body.bin", "--frames-to", "frames"];
    let output = server.ask(home.path(), "load", Protocol::H2c, &arguments);
    assert!(output.status.success(), "{updates}: {}", stderr(&output));
    let frames = read_frames(home.path().join("frames")).expect("the frames");
    check_windows(&frames);
    frames
}

/// Checks the recorded windows of one stream and its connection as the client counts them: windows start at 65,535
/// bytes (RFC 9113, section 6.9.2), DATA subtracts its length, and updates add their increments. A frame counts as sent
/// when the socket accepted it.
fn check_windows(frames: &[FrameRecord]) {
    let (mut stream, mut connection) = (65_535_i64, 65_535_i64);
    let (mut sent, mut updates) = (0, 0);
    for row in frames {
        let frame = &row.frame;
        match (frame.way, name_of(row)) {
            (Way::Sent, "DATA") => {
                stream -= frame.length as i64;
                connection -= frame.length as i64;
                sent += 1;
                assert_eq!(frame.stream_window, Some(stream), "{row:?}");
                assert_eq!(frame.connection_window, Some(connection), "{row:?}");
                assert!(stream >= 0 && connection >= 0, "{row:?}");
            }
            (Way::Received, "WINDOW_UPDATE") => {
                let increment = frame.value.expect("an update has an increment") as i64;
                updates += 1;
                if frame.stream == Some(0) {
                    connection += increment;
                    assert_eq!(frame.connection_window, Some(connection), "{row:?}");
                } else {
                    stream += increment;
                    assert_eq!(frame.stream_window, Some(stream), "{row:?}");
                }
            }
            (way, "SETTINGS") => assert!(way == Way::Sent || frame.stream_window.is_none()),
            _ => {}
        }
    }
    assert!(
        sent >= 13 && updates > 0,
        "{sent} frames of data, {updates} updates"
    );
}

fn increments(frames: &[FrameRecord], is_of_connection: impl Fn(Option<u64>) -> bool) -> Vec<u64> {
    frames
        .iter()
        .filter(|row| name_of(row) == "WINDOW_UPDATE" && row.frame.way == Way::Received)
        .filter(|row| is_of_connection(row.frame.stream))
        .filter_map(|row| row.frame.value)
        .collect()
}

#[test]
fn window_updates_follow_the_configured_policy() {
    let _seat = seat();
    let frames = upload("{each_data=\"16375\"}");
    let data = frames
        .iter()
        .filter(|row| row.frame.way == Way::Sent && name_of(row) == "DATA")
        .count();
    let all = increments(&frames, |_| true);
    assert!(all.iter().all(|increment| *increment == 16_375), "{all:?}");
    // One for each frame on the connection; the stream gets none after its end.
    let connection = increments(&frames, |stream| stream == Some(0));
    assert!(
        (data - 1..=data).contains(&connection.len()),
        "{data} and {}",
        connection.len()
    );

    let frames = upload("{every=\"20000\"}");
    let connection = increments(&frames, |stream| stream == Some(0));
    // Sums of whole frames, once they exceed 20,000.
    assert!(
        connection
            .iter()
            .all(|increment| (20_000..20_000 + 16_384).contains(increment)),
        "{connection:?}"
    );

    let frames = upload("half");
    let connection = increments(&frames, |stream| stream == Some(0));
    assert!(
        connection.iter().all(|increment| *increment >= 65_535 / 2),
        "{connection:?}"
    );
}

#[test]
fn upload_without_window_updates_stalls_until_the_timeout() {
    alone_if_it_fails(seat(), || {
        let home = TempDir::new().expect("a temporary folder");
        write_body(home.path(), "body.bin", 200_000);
        let never = [
            "--h2c",
            "0",
            "--sink",
            "--set",
            "http2.window_updates=never",
        ];
        let server = Serving::start(home.path(), &never);
        let url = server.url(Protocol::H2c);
        let arguments = ["-v", "-d", "body.bin", "--timeout", "1s"];
        let output = ask(home.path(), "fetch", Protocol::H2c, &arguments, &url);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(
            said.lines().last(),
            Some("squall: no complete response within 1s")
        );
        let sent: u64 = said
            .lines()
            .filter(|line| line.contains("send DATA frame"))
            .filter_map(|line| {
                line.split("<length=")
                    .nth(1)?
                    .split(',')
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .sum();
        assert_eq!(sent, 65_535, "{said}");

        // The load records the stall as well, as a censored request.
        let child = squall(home.path())
            .args(["load", "-n", "1", "-d", "body.bin", "--frames-to", "frames"])
            .args(speaking(Protocol::H2c))
            .arg(&url)
            .stdout(Stdio::piped())
            .spawn()
            .expect("squall starts");
        thread::sleep(Duration::from_secs(1));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("the load is there");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130));
        assert!(
            stdout(&output).contains("0 succeeded (0 %), 1 unfinished (100 %)\n"),
            "{}",
            stdout(&output)
        );
        let frames = read_frames(home.path().join("frames")).expect("the frames");
        let data: u64 = frames
            .iter()
            .filter(|row| name_of(row) == "DATA")
            .map(|row| row.frame.length)
            .sum();
        assert_eq!(data, 65_535);
        assert!(increments(&frames, |_| true).is_empty());
    });
}

#[test]
fn key_exchange_uses_the_configured_group() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h2", "0"]);
    let url = server.url(Protocol::H2);
    for group in ["X25519MLKEM768", "X25519", "P-256", "P-384", "P-521"] {
        let set = format!("tls.groups={group}");
        let output = ask(home.path(), "load", Protocol::H2, &["--set", &set], &url);
        let said = stdout(&output);
        assert!(output.status.success(), "{said}{}", stderr(&output));
        assert!(
            said.contains(&format!("\nkey exchange {group} (1)\n")),
            "{said}"
        );
    }
}

#[test]
fn groups_of_tls_1_3_alone_are_refused_where_tls_1_3_is_not_allowed() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let sets = [
        "--set",
        "tls.max_version=1.2",
        "--set",
        "tls.groups=X25519MLKEM768",
    ];
    // Nothing listens there, and nothing is sent.
    let output = ask(
        home.path(),
        "fetch",
        Protocol::H2,
        &sets,
        "https://127.0.0.1:1/",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let conflict = "TLS 1.2 at most with the groups X25519MLKEM768 alone, which only TLS 1.3 has: expected an additional group";
    assert!(said.contains(conflict), "{said}");
}

/// Updates at an interval above the window would never be sent; `-w` and `-W` set windows, too.
#[test]
fn window_flags_are_checked_against_window_update_settings() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h2c", "0"]);
    let url = server.url(Protocol::H2c);
    let load = |set: &str, window: &str| {
        let arguments = ["-n", "1", "--set", set, "-w", window];
        ask(home.path(), "load", Protocol::H2c, &arguments, &url)
    };
    let output = load("http2.window_updates.every=60000", "10");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let conflict = "window updates every 60000B with a window of 1023B: expected updates that";
    assert!(said.contains(conflict), "{said}");
    // The flag can resolve a conflict for which `--set` alone would be refused.
    for (set, window) in [
        ("http2.window_updates.every=60000", "16"),
        (
            "http2={window_updates={every=\"1000\"}, stream_window=\"999\"}",
            "10",
        ),
    ] {
        let output = load(set, window);
        assert!(output.status.success(), "{set}: {}", stderr(&output));
    }
}
