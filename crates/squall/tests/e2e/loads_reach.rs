//! Which address of a name `squall load` and `squall fetch` connect to, and how they go through an HTTP or SOCKS5 proxy.
//!
//! `localhost` gets two addresses in a private mount namespace of the command, which requires root.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{CERTIFICATE, EVERY_PROTOCOL, Serving, ask, speaking};
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{have, is_root, run_squall, seat, stderr, stdout};

/// Runs squall where `localhost` resolves to ::1 and 127.0.0.1, in this order.
fn with_two_addresses(home: &Path, arguments: &[&str]) -> Output {
    let hosts = "::1 localhost\n127.0.0.1 localhost\n";
    with_file_of_etc(home, ("hosts", hosts), arguments)
}

/// Runs squall where this file of /etc has that content.
fn with_file_of_etc(home: &Path, (name, content): (&str, &str), arguments: &[&str]) -> Output {
    fs::write(home.join(name), content).expect("a file");
    Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg(format!(
            "mount --bind {name} /etc/{name} && exec \"$0\" \"$@\""
        ))
        .arg(env!("CARGO_BIN_EXE_squall"))
        .args(arguments)
        .current_dir(home)
        .env("NO_COLOR", "1")
        .output()
        .expect("unshare starts")
}

fn can_run() -> bool {
    is_root() && have(&["unshare", "mount"])
}

#[test]
fn next_address_is_used_if_the_first_refuses() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in Protocol::ALL {
        let address = server.address(protocol.name());
        let port = address.port();
        let url = server.url(protocol).replace("127.0.0.1", "localhost");
        for command in [&["load", "-n", "3"][..], &["fetch"]] {
            let arguments = [command, &speaking(protocol), &[&url]].concat();
            let output = with_two_addresses(home.path(), &arguments);
            assert!(output.status.success(), "{protocol}: {}", stderr(&output));
            let said = format!(
                "localhost:{port} has 2 addresses: [::1]:{port} does not accept connections \
                 (Connection refused (os error 111)), using {address}\n"
            );
            assert!(stderr(&output).contains(&said), "{}", stderr(&output));
            if command[0] == "load" {
                assert!(stdout(&output).contains(&format!("\nasked {address}\n")));
            }
        }
    }
}

#[test]
fn address_family_can_be_selected() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--h1", "[::1]:0"]);
    let url = server.url(Protocol::H1).replace("127.0.0.1", "localhost");
    // The IPv4 server is the only one on its port: no other address is tried, and -6 fails like any missing server.
    let output = with_two_addresses(home.path(), &["load", "-n", "3", "-4", &url]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("addresses"),
        "{}",
        stderr(&output)
    );
    let output = with_two_addresses(home.path(), &["load", "-n", "3", "-6", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("3 without a connection"));
    let output = with_two_addresses(home.path(), &["fetch", "-6", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));

    let by_number = server.url(Protocol::H1);
    let output = with_two_addresses(home.path(), &["load", "--ipv6", &by_number]);
    assert_eq!(output.status.code(), Some(2));
    let said = "127.0.0.1 has no IPv6 address, only 127.0.0.1";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let output = with_two_addresses(home.path(), &["load", "-4", "-6", &by_number]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn requests_fail_with_the_reason_of_the_first_address_if_all_refuse() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let port = server.address("h1").port();
    server.end();
    let url = format!("http://localhost:{port}/");
    let output = with_two_addresses(home.path(), &["load", "-n", "2", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let (said, shown) = (stderr(&output), stdout(&output));
    assert!(
        said.contains("none accepts connections, using [::1]:"),
        "{said}"
    );
    assert!(
        shown.contains("2 without a connection: Connection refused"),
        "{shown}"
    );
    assert!(shown.contains(&format!("asked [::1]:{port}\n")), "{shown}");
}

#[test]
fn unresponsive_name_server_is_bad_input_with_advice() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    // Nothing listens there.
    let resolver = "nameserver 127.211.7.9\noptions timeout:1 attempts:1\n";
    for command in ["load", "fetch"] {
        let arguments = [command, "http://server.test/"];
        let output = with_file_of_etc(home.path(), ("resolv.conf", resolver), &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for words in [
            "cannot find server.test",
            "the name server did not answer, or failed",
            "--connect-to ADDRESS",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }
}

/// Covers servers that advertise no alternative; interop's peers cover those that do.
#[test]
fn automatic_version_choice_is_explained() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--https", "0"]);
    let secure = format!("https://{}/", server.address("https"));
    let load = |arguments: &[&str]| {
        let always = ["load", "--cacert", CERTIFICATE, "-n", "2"];
        run_squall(home.path(), [&always, arguments].concat())
    };
    let output = load(&["--http", "auto", &secure]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said =
        format!("as ALPN decides, h2 now, because {secure} advertised no alternative (alt-svc)\n");
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert!(stdout(&output).contains("\nspoken h2 (1)\n"));

    let output = load(&["--http", "auto", &server.url(Protocol::H1)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("HTTP/1.1, because HTTP/3 is for https only"));

    let old = ["--http", "auto", "--set", "tls.max_version=1.2", &secure];
    let output = load(&old);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("because of the settings: "),
        "{}",
        stderr(&output)
    );

    let output = load(&["--http", "auto,2", &secure]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));

    server.end();
    let output = load(&["--http", "auto", &secure]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let said = "did not answer: Connection refused";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

/// A proxy that opens `count` tunnels. `agree` reads and answers a client's request, and returns it together with the address
/// to which the tunnel leads. Returns the proxy's address and, when the thread ends, all requests.
fn proxy<T: Send + 'static>(
    count: usize,
    agree: impl Fn(&mut TcpStream) -> (T, SocketAddr) + Send + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let proxy = thread::spawn(move || {
        let mut asked = Vec::new();
        let mut relays = Vec::new();
        for _ in 0..count {
            let (mut near, _) = listener.accept().expect("a client");
            let (what, far) = agree(&mut near);
            let far = TcpStream::connect(far).expect("the server listens");
            let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            relays.push(relay(clone(&near), clone(&far)));
            relays.push(relay(far, near));
            asked.push(what);
        }
        for relay in relays {
            relay.join().expect("it relays");
        }
        asked
    });
    (address, proxy)
}

/// An HTTP proxy that opens this many tunnels. Returns its address and, when the thread ends, where they led.
fn tunnelling_proxy(count: usize) -> (SocketAddr, JoinHandle<Vec<SocketAddr>>) {
    proxy(count, |near| {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            near.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("a request");
        assert!(head.starts_with("CONNECT "), "{head}");
        let authority = head.split(' ').nth(1).expect("an authority");
        let far: SocketAddr = authority.parse().expect("an address");
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n")
            .expect("it reads");
        (far, far)
    })
}

fn relay(mut from: TcpStream, mut to: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        // The client ends its connections with a reset.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })
}

#[test]
fn connections_go_through_the_tunnels_of_a_proxy() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in [Protocol::H1, Protocol::H1s, Protocol::H2c, Protocol::H2] {
        let (address, proxy) = tunnelling_proxy(2);
        let through = format!("http://{address}");
        let arguments = ["-n", "6", "-c", "2", "--proxy", &through];
        let output = server.ask(home.path(), "load", protocol, &arguments);
        assert!(output.status.success(), "{protocol}: {}", stdout(&output));
        let led_to = proxy.join().expect("it relays");
        assert_eq!(led_to, [server.address(protocol.name()); 2]);
    }
    let url = server.url(Protocol::H3);
    let output = ask(
        home.path(),
        "fetch",
        Protocol::H3,
        &["--proxy", "http://a:1"],
        &url,
    );
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn response_of_a_refusing_proxy_is_shown() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    let no_proxy = server.url(Protocol::H1);
    for protocol in [Protocol::H1, Protocol::H2] {
        let arguments = ["--proxy", no_proxy.as_str()];
        let output = server.ask(home.path(), "fetch", protocol, &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("connect_failed"), "{said}");
        assert!(said.contains("the proxy answered CONNECT with"), "{said}");
    }
}

/// What a client asked a SOCKS5 proxy for: the user name and password, and the destination.
type SocksRequest = (Vec<u8>, Vec<u8>);

/// Reads what a client of SOCKS5 asks for; it must offer user name and password.
fn read_socks_request(near: &mut TcpStream) -> SocksRequest {
    let mut answering = near.try_clone().expect("a descriptor");
    let mut answer = |bytes: &[u8]| answering.write_all(bytes).expect("it reads");
    let mut read = |length: usize| {
        let mut bytes = vec![0; length];
        near.read_exact(&mut bytes).expect("a message");
        bytes
    };
    assert_eq!(read(4), [5, 2, 0, 2]);
    answer(&[5, 2]);
    let user = read(2);
    let user = [read(usize::from(user[1])), read(1)].concat();
    let (length, user) = user.split_last().expect("a length");
    let login = [user, b":", &read(usize::from(*length))].concat();
    answer(&[1, 0]);
    let mut destination = read(5);
    assert_eq!(destination[..3], [5, 1, 0]);
    // One byte of the address has been read: of a name, its length.
    let rest = match destination[3] {
        1 => 3,
        3 => usize::from(destination[4]),
        kind => panic!("an address of kind {kind}"),
    };
    destination.extend(read(rest + 2));
    (login, destination.split_off(3))
}

/// A SOCKS5 proxy that opens this many tunnels to `far`. Returns its address and, when the thread ends, its requests.
fn socks_proxy(count: usize, far: SocketAddr) -> (SocketAddr, JoinHandle<Vec<SocksRequest>>) {
    proxy(count, move |near| {
        let asked = read_socks_request(near);
        near.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 9])
            .expect("it reads");
        (asked, far)
    })
}

#[test]
fn connections_go_through_a_socks_proxy_by_address_or_by_name() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in [Protocol::H1, Protocol::H1s, Protocol::H2c, Protocol::H2] {
        let far = server.address(protocol.name());
        let port = far.port().to_be_bytes();
        let by_name = server.url(protocol).replace("127.0.0.1", "localhost");
        let name = [&[3, 9][..], b"localhost", &port].concat();
        let by_address = [&[1, 127, 0, 0, 1][..], &port].concat();
        for (scheme, url, destination) in [
            ("socks5h", &by_name, &name),
            ("socks5", &server.url(protocol), &by_address),
        ] {
            let (address, proxy) = socks_proxy(2, far);
            let through = format!("{scheme}://me:p%40ss@{address}");
            let arguments = ["-n", "6", "-c", "2", "--proxy", &through];
            let output = ask(home.path(), "load", protocol, &arguments, url);
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success(), "{protocol} {scheme}: {said}");
            assert!(said.contains(&format!("\nasked {address}\n")), "{said}");
            assert!(!said.contains("p@ss") && !said.contains("p%40ss"), "{said}");
            let asked = proxy.join().expect("it relays");
            assert_eq!(asked, vec![(b"me:p@ss".to_vec(), destination.clone()); 2]);
        }
    }
    let url = server.url(Protocol::H3);
    let arguments = ["--proxy", "socks5://me:p%40ss@127.0.0.1:9"];
    for command in ["fetch", "load"] {
        let output = ask(home.path(), command, Protocol::H3, &arguments, &url);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("carry UDP, which HTTP/3 needs"), "{said}");
        assert!(!said.contains("p%40ss"), "{said}");
    }
}

#[test]
fn refusal_of_a_socks_proxy_is_explained_in_words() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let cases: [(&[u8], &str); 3] = [
        (
            &[5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0],
            "the SOCKS proxy did not connect to server.test:80: the host is unreachable, or its name is unknown (reply 4)",
        ),
        (
            &[5, 0xff],
            "the SOCKS proxy wants a user name and a password",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "the proxy does not speak SOCKS5",
        ),
    ];
    for (answer, words) in cases {
        let address = serve(move |mut near| {
            near.read_exact(&mut [0; 3])?;
            near.write_all(answer)?;
            // Until the client disconnects.
            io::copy(&mut near, &mut io::sink())
        });
        let through = format!("socks5h://{address}");
        let arguments = ["--proxy", &through];
        let output = ask(
            home.path(),
            "fetch",
            Protocol::H1,
            &arguments,
            "http://server.test/",
        );
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("connect_failed") && said.contains(words),
            "{said}"
        );
    }
}

/// Responds to each request on a connection until its client closes it. Returns how many there were.
fn respond(stream: &UnixStream) -> usize {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut requests = 0;
    while let Ok(Some(_)) = ReceivedRequest::read(&mut reader) {
        requests += 1;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        writer.write_all(answer).expect("it reads");
    }
    requests
}

#[test]
fn load_goes_to_a_unix_socket() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let listener = UnixListener::bind(home.path().join("server.sock")).expect("a socket");
    let server = thread::spawn(move || {
        let streams = [(); 2].map(|()| listener.accept().expect("a client").0);
        let answering = streams.map(|stream| thread::spawn(move || respond(&stream)));
        answering.map(|one| one.join().expect("it responds"))
    });
    let arguments = ["-n", "6", "-c", "2", "--unix-socket", "server.sock"];
    let output = ask(
        home.path(),
        "load",
        Protocol::H1,
        &arguments,
        "http://name/",
    );
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    assert!(
        said.contains("connections 2 TCP") && !said.contains("\nasked "),
        "{said}"
    );
    assert_eq!(server.join().expect("it responds").iter().sum::<usize>(), 6);
    // Nothing listens there.
    let arguments = ["--unix-socket", "other.sock"];
    let output = ask(
        home.path(),
        "fetch",
        Protocol::H1,
        &arguments,
        "http://name/",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot connect to the UNIX socket other.sock"),
        "{said}"
    );
}

/// Passes bytes on until one side ends.
fn pass(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) {
    thread::spawn(move || {
        // The client ends its connections with a reset.
        let _ = io::copy(&mut from, &mut to);
    });
}

#[test]
fn http2_goes_to_a_unix_socket_in_cleartext_and_over_tls() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in [Protocol::H2c, Protocol::H2] {
        let socket = format!("{protocol}.sock");
        let listener = UnixListener::bind(home.path().join(&socket)).expect("a socket");
        let far = server.address(protocol.name());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(far).expect("the server listens");
                pass(
                    near.try_clone().expect("a descriptor"),
                    far.try_clone().expect("a descriptor"),
                );
                pass(far, near);
            }
        });
        // The name is that of the certificate; nothing listens at its port.
        let url = if protocol.is_secure() {
            "https://localhost:1/"
        } else {
            "http://localhost:1/"
        };
        let arguments = ["-n", "6", "-c", "2", "--unix-socket", &socket];
        let output = ask(home.path(), "load", protocol, &arguments, url);
        let said = stdout(&output);
        assert!(output.status.success(), "{said}{}", stderr(&output));
        assert!(said.contains("6 succeeded (100 %)"), "{said}");
        assert!(said.contains(&format!("spoken {protocol} (2)")), "{said}");
        let arguments = ["-v", "--unix-socket", &socket];
        let output = ask(home.path(), "fetch", protocol, &arguments, url);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(":authority: localhost:1"), "{said}");
    }
    let arguments = ["--unix-socket", "h2.sock"];
    let output = ask(
        home.path(),
        "load",
        Protocol::H3,
        &arguments,
        "https://localhost:1/",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("carry UDP, which HTTP/3 needs"), "{said}");
}
