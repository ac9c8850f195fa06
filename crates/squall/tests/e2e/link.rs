//! `squall link`: ordinary programs, unaware of squall, communicate across the link.
//!
//! The programs are those present on every test machine: a shell, Python, curl.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use squall_base::record::Fate;
use squall_record::read_packets;
use tempfile::TempDir;

use crate::support::{have, seat, squall, stderr, stdout, wait_for};

/// Runs `squall link` with these arguments in a temporary folder.
fn link(home: &TempDir, arguments: &[&str]) -> Output {
    squall(home.path())
        .arg("link")
        .args(arguments)
        .output()
        .expect("squall starts")
}

fn home() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).expect("the summary is there");
    serde_json::from_slice(&text).expect("the summary is JSON")
}

/// Responds to every TCP connection on a loopback port with `answer`. Returns the port.
fn serve_on_loopback(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 4096];
            // The client may disconnect at any time.
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer);
        }
    });
    port
}

#[test]
fn local_service_is_reachable_across_the_link() {
    if !have(&["curl"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nhello\n";
    let port = serve_on_loopback(answer).to_string();
    let url = format!("http://server:{port}/");
    let output = link(
        &home,
        &[
            "--delay",
            "25ms",
            "--forward",
            &port,
            "--json",
            "sum.json",
            "--",
            "curl",
            "-s",
            "-w",
            "%{time_connect} %{time_starttransfer}\n",
            &url,
        ],
    );
    let shown = stdout(&output);
    let mut lines = shown.lines();
    assert_eq!(lines.next(), Some("hello"), "{shown}\n{}", stderr(&output));
    let times: Vec<f64> = lines
        .next()
        .expect("curl's times")
        .split(' ')
        .map(|word| word.parse().expect("a time"))
        .collect();
    // One round trip to connect, another to the first byte of the response.
    assert!(times[0] >= 0.050 && times[1] >= 0.100, "{times:?}");
    let summary = json(&home.path().join("sum.json"));
    let lanes = summary["directions"].as_array().expect("directions");
    for lane in lanes {
        assert!(lane["packets"].as_u64() > Some(3), "{lane}");
        assert_eq!(lane["packets"], lane["delivered"], "{lane}");
    }
}

#[test]
fn datagrams_are_forwarded_in_both_directions() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let service = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = service.local_addr().expect("its address").port();
    service
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    let echo = thread::spawn(move || {
        let mut datagram = [0; 100];
        let (length, from) = service.recv_from(&mut datagram).expect("a datagram");
        service
            .send_to(&datagram[..length], from)
            .expect("it can answer");
    });
    let script = format!(
        "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.settimeout(10)\n\
         t=time.monotonic()\ns.sendto(b'ping',('server',{port}))\nd=s.recv(100)\n\
         print(d.decode(), time.monotonic()-t >= 0.02)"
    );
    let port = port.to_string();
    let output = link(
        &home(),
        &[
            "--delay",
            "10ms",
            "--forward",
            &port,
            "--",
            "python3",
            "-c",
            &script,
        ],
    );
    assert_eq!(stdout(&output), "ping True\n", "{}", stderr(&output));
    echo.join().expect("the service ends");
}

#[test]
fn far_program_serves_the_near_one_and_exit_codes_are_passed_on() {
    if !have(&["curl", "python3"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    fs::write(home.path().join("index.html"), "far away\n").expect("a file");
    let serve = ["--serve", "python3 -m http.server 80 2>/dev/null"];
    let output = link(
        &home,
        &[&serve[..], &["--", "curl", "-s", "http://server/"]].concat(),
    );
    assert_eq!(
        (output.status.code(), stdout(&output).lines().last()),
        (Some(0), Some("far away")),
        "{}",
        stderr(&output)
    );
    for (command, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["no-such-program"], 127),
        (&["/etc/hosts"], 126),
    ] {
        let output = link(&home, &[&["--quiet", "--"], command].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{command:?}: {}",
            stderr(&output)
        );
    }
    let output = link(&home, &["--serve", "exit 3", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("before it listened"),
        "{}",
        stderr(&output)
    );
}

/// A program that sends `count` numbered datagrams to a port without a listener, one per millisecond.
fn datagrams(count: u32) -> String {
    format!(
        "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
         for i in range({count}):\n  s.sendto(b'%05d'%i,('server',9))\n  time.sleep(0.001)"
    )
}

#[test]
fn same_seed_drops_the_same_packets_and_table_capture_and_summary_agree() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    let script = datagrams(500);
    let dropped = |seed: &str, name: &str| -> Vec<u64> {
        let (log, pcap, sum) = (
            format!("{name}.parquet"),
            format!("{name}.pcapng"),
            format!("{name}.json"),
        );
        let output = link(
            &home,
            &[
                "--loss", "10%", "--seed", seed, "--log", &log, "--pcap", &pcap, "--json", &sum,
                "--", "python3", "-c", &script,
            ],
        );
        assert!(output.status.success(), "{}", stderr(&output));
        let packets = read_packets(home.path().join(&log)).expect("the table");
        let up = packets.iter().filter(|packet| packet.protocol == 17);
        let drops: Vec<u64> = up
            .filter(|packet| packet.fate == Fate::LossDrop)
            .map(|packet| packet.index)
            .collect();
        let summary = json(&home.path().join(&sum));
        let total: u64 = summary["directions"]
            .as_array()
            .expect("directions")
            .iter()
            .map(|lane| lane["packets"].as_u64().expect("a count"))
            .sum();
        assert_eq!(total, packets.len() as u64);
        drops
    };
    let (one, again, other) = (
        dropped("4", "one"),
        dropped("4", "again"),
        dropped("5", "other"),
    );
    assert_eq!(one, again);
    assert_ne!(one, other);
    // Binomial, 500 packets at 10 %: 50 +- 6.7; five standard deviations.
    assert!((17..=83).contains(&one.len()), "{}", one.len());
    let comments = tshark(
        &home.path().join("one.pcapng"),
        "frame.comment contains \"dropped by loss\"",
    );
    if let Some(comments) = comments {
        let all = read_packets(home.path().join("one.parquet")).expect("the table");
        let drops = all
            .iter()
            .filter(|packet| packet.fate == Fate::LossDrop)
            .count();
        assert_eq!(comments.lines().count(), drops, "{comments}");
        assert!(comments.contains("loss 10%"), "{comments}");
    }
}

/// The comments of the packets that match a display filter; `None` without tshark.
fn tshark(file: &Path, filter: &str) -> Option<String> {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields", "-e", "frame.comment"])
        .output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            let said = format!("skipped: a part of this test needs tshark: {error}");
            assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
            eprintln!("{said}");
            None
        }
    }
}

#[test]
fn schedule_changes_the_running_link() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    fs::write(
        home.path().join("night.txt"),
        "# from bad to worse\nat 100ms: loss 0%\nat 400ms: up loss 100%\n",
    )
    .expect("the schedule");
    let output = link(
        &home,
        &[
            "--loss",
            "100%",
            "--schedule",
            "night.txt",
            "--log",
            "log.parquet",
            "--",
            "python3",
            "-c",
            &datagrams(700),
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let packets = read_packets(home.path().join("log.parquet")).expect("the table");
    let up = packets.iter().filter(|packet| packet.protocol == 17);
    for packet in up {
        let at_ms = packet.arrived.as_nanos() / 1_000_000;
        let expected = match at_ms {
            100..400 => Fate::Delivered,
            _ => Fate::LossDrop,
        };
        assert_eq!(packet.fate, expected, "at {at_ms} ms");
    }
}

/// The kernel drops corrupted datagrams at the forwarding socket, which is not a fault of `--forward`.
#[test]
fn corrupted_datagrams_are_not_taken_for_drops_of_forwarding() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    let service = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = service.local_addr().expect("its address").port();
    let sends = format!(
        "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for _ in range(200):\n s.sendto(b'x' * 500, ('server', {port}))\n time.sleep(0.001)\n"
    );
    let port = port.to_string();
    let asks = [
        "--corrupt",
        "20%",
        "--forward",
        &port,
        "--json",
        "link.json",
        "--",
    ];
    let output = link(&home, &[&asks[..], &["python3", "-c", &sends]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json = fs::read(home.path().join("link.json")).expect("link.json");
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    assert!(
        json["directions"][0]["corrupted"].as_u64() > Some(0),
        "{json}"
    );
    assert_eq!(json["forward_drops"], 0, "{json}");
}

#[test]
fn connections_of_any_program_use_the_configured_congestion_control() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let script = "import socket\nl=socket.create_server(('198.18.0.1',0))\n\
        s=socket.socket()\ns.settimeout(5)\n\
        s.connect(('server',80))\nprint(s.getsockopt(socket.IPPROTO_TCP,13,16).split(b'\\0')[0].decode())";
    for name in ["cubic", "reno"] {
        let home = home();
        let output = link(
            &home,
            &[
                "--cc",
                name,
                "--serve",
                "python3 -m http.server 80",
                "--quiet",
                "--",
                "python3",
                "-c",
                script,
            ],
        );
        assert_eq!(
            stdout(&output).lines().last(),
            Some(name),
            "{}",
            stderr(&output)
        );
    }
    let output = link(&home(), &["--cc", "nonesuch", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("tcp_available_congestion_control"),
        "{}",
        stderr(&output)
    );
}

/// Starts a link whose programs sleep for long, in a separate process group.
fn started(home: &TempDir, word: &str) -> Child {
    let serve = format!("python3 -m http.server 80 & exec sleep 9{word}");
    let mut command = squall(home.path());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command
        .args(["link", "--serve", &serve, "--", "sh", "-c"])
        .arg(format!("echo up > up; exec sleep 8{word}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    let is_up = || home.path().join("up").exists().then_some(());
    wait_for("the near program", is_up);
    child
}

/// Processes whose command line contains `word`, except this one.
fn processes_with(word: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc");
    processes
        .flatten()
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word) && !line.contains("e2e"))
        .collect()
}

#[test]
fn signals_end_the_link_and_leave_no_process() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    for (signal, to_group, word) in [
        (Signal::SIGKILL, false, "1101"),
        (Signal::SIGTERM, false, "1102"),
        (Signal::SIGHUP, false, "1103"),
        (Signal::SIGINT, false, "1104"),
        (Signal::SIGINT, true, "1105"),
    ] {
        let home = home();
        let mut front = started(&home, word);
        assert!(!processes_with(word).is_empty());
        let pid = front.id() as i32;
        kill(Pid::from_raw(if to_group { -pid } else { pid }), signal).expect("the link is there");
        front.wait().expect("it can be waited for");
        wait_for(&format!("the end of all processes after {signal}"), || {
            processes_with(word).is_empty().then_some(())
        });
    }
}

#[test]
fn usage_errors_are_reported_before_anything_starts() {
    let home = home();
    let write = |name: &str, text: &str| fs::write(home.path().join(name), text).expect("a file");
    write("empty.trace", "# nothing\n");
    write("back.trace", "1\n5\n4\n");
    write("words.trace", "1\nten\n");
    write("bad.schedule", "at 1s: loss 3%\nat 2s: loss 130%\n");
    write("back.schedule", "at 2s: loss 3%\nat 1s: loss 2%\n");
    write("far.schedule", "at 2s: link 2 loss 3%\n");
    for (arguments, expected) in [
        (
            &["--loss", "130%"][..],
            &["--loss", "130%", "0% to 100%"][..],
        ),
        (&["--delay", "25"], &["--delay", "\"25ms\" or \"25s\""]),
        (&["--loss", "3"], &["--loss", "no unit", "\"3%\""]),
        (&["--delay", "25 parsecs"], &["--delay", "no unit", "25ms"]),
        (&["--rate", "20mb"], &["--rate", "mb", "20mbit"]),
        (&["--queue", "cobel"], &["--queue", "codel"]),
        (
            &["--down", "empty.trace"],
            &["empty.trace", "no delivery opportunity"],
        ),
        (
            &["--down", "back.trace"],
            &["back.trace", "line 3", "goes back"],
        ),
        (&["--up", "words.trace"], &["words.trace", "line 2", "ten"]),
        (&["--up", "no.trace"], &["no.trace", "cannot read"]),
        (
            &["--schedule", "bad.schedule"],
            &["bad.schedule", "line 2", "130%"],
        ),
        (
            &["--schedule", "back.schedule"],
            &["back.schedule", "line 2"],
        ),
        (&["--schedule", "far.schedule"], &["far.schedule", "link 2"]),
        (
            &["--schedule", "no.schedule"],
            &["no.schedule", "cannot read"],
        ),
        (&["--next", "lozz 3%"], &["--next", "lozz", "loss"]),
        (&["--forward", "0"], &["--forward", "0"]),
        (&["--seed=-1"], &["--seed"]),
    ] {
        let output = link(&home, &[arguments, &["--", "touch", "started"]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{arguments:?}: no {part:?} in {said}");
        }
        assert!(!home.path().join("started").exists());
    }
}
