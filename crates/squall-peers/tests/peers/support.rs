//! A folder with a certificate, free ports, and stations that are started and ready.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use squall_base::Bytes;
use squall_base::plan::Protocol;
use squall_peers::{
    Answer, Body, Certificate, Driver, InstalledProgram, Order, RunningStation, SearchPath,
    Settings, Station, driver,
};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine with two cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The name in the certificate.
pub(crate) const NAME: &str = "test.local";

/// Guards the machine. A test that fails while it holds the guard leaves nothing behind that could harm the next.
static MACHINE: RwLock<()> = RwLock::new(());

/// Shares the machine with other tests that start programs.
pub(crate) fn seat() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the machine without any other test that starts programs: for a program that must send on time.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of scripts/peers.
pub(crate) fn peers() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty()) {
        Some(folder) => workspace.join(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers"),
    }
}

pub(crate) fn search() -> SearchPath {
    SearchPath::usual().and_then([peers().join("bin")])
}

/// Reports loudly that a test is skipped, and fails where every test must run.
pub(crate) fn skip(why: &str) {
    let said = format!("skipped: this test needs {why}; scripts/peers installs it");
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    // Not eprintln!, which the test harness would capture.
    let _ = std::io::stderr().write_all(format!("{said}\n").as_bytes());
}

/// Says what was not checked, or was repeated, because other work disturbs this machine. This is printed even if the test
/// succeeds: the test harness hides only what the macros print.
pub(crate) fn say_disturbed(what: &str) {
    let words = format!("other work disturbs this machine: {what}\n");
    // If this fails, only the message is missing.
    let _ = std::io::stderr().write_all(words.as_bytes());
}

/// Whether these programs are installed.
pub(crate) fn have(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| match **program {
        "pycurl" => !python().is_file(),
        program => search().program(program).is_none(),
    });
    if let Some(missing) = missing {
        skip(missing);
    }
    missing.is_none()
}

/// The Python that has pycurl.
pub(crate) fn python() -> PathBuf {
    peers().join("python/bin/python3")
}

pub(crate) fn command(program: &str) -> Command {
    Command::new(search().program(program).expect("`have` was asked first"))
}

/// The driver of this name and its program, or a loud skip. Once a test has found a program, its version is not asked for
/// again: Envoy takes up to half a second to print it.
pub(crate) fn known(name: &str) -> Option<(&'static dyn Driver, InstalledProgram)> {
    static FOUND: Mutex<BTreeMap<String, InstalledProgram>> = Mutex::new(BTreeMap::new());
    let found_before = FOUND.lock().expect("nobody panics").get(name).cloned();
    if let Some(found) = found_before {
        return Some((driver(name).expect("squall knows it"), found));
    }
    let (driver, found) = known_in(&search(), name)?;
    let mut all = FOUND.lock().expect("nobody panics");
    all.insert(name.to_owned(), found.clone());
    Some((driver, found))
}

/// The installed ones among these programs.
pub(crate) fn installed<const N: usize>(
    names: [&'static str; N],
) -> impl Iterator<Item = (&'static str, &'static dyn Driver, InstalledProgram)> {
    let found = |name: &'static str| known(name).map(|(driver, found)| (name, driver, found));
    names.into_iter().filter_map(found)
}

/// nginx from PyPI, where scripts/peers has installed it.
pub(crate) fn nginx_mainline() -> Option<(&'static dyn Driver, InstalledProgram)> {
    known_in(&SearchPath::only(vec![peers().join("mainline")]), "nginx")
}

fn known_in(search: &SearchPath, name: &str) -> Option<(&'static dyn Driver, InstalledProgram)> {
    let driver = driver(name).expect("squall knows it");
    match driver.find(search) {
        Ok(found) => Some((driver, found)),
        Err(missing) => {
            skip(&missing.to_string());
            None
        }
    }
}

/// A port on loopback that is free for TCP and UDP, and that no other call returns.
pub(crate) fn free_address() -> SocketAddr {
    // Below the kernel's ephemeral ports (32768 on), so that no client takes it before the server does.
    const FIRST: u16 = 10_500;
    const COUNT: u16 = 9_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id() % u32::from(COUNT / 100) * 100;
    for _ in 0..COUNT {
        let offset = (begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("less than COUNT");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free");
}

/// A self-signed P-256 certificate for `NAME`, localhost and 127.0.0.1, created once by openssl.
pub(crate) fn certificate() -> Certificate {
    static MADE: OnceLock<(TempDir, Certificate)> = OnceLock::new();
    let (_, certificate) = MADE.get_or_init(|| {
        let folder = TempDir::new().expect("a temporary folder");
        let certificate = Certificate {
            chain: folder.path().join("certificate.pem"),
            key: folder.path().join("key.pem"),
        };
        let mut openssl = command("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]);
        openssl.args([
            "-nodes",
            "-days",
            "10",
            "-subj",
            "/CN=test.local",
            "-addext",
        ]);
        openssl.arg("subjectAltName=DNS:test.local,DNS:localhost,IP:127.0.0.1");
        openssl
            .arg("-keyout")
            .arg(&certificate.key)
            .arg("-out")
            .arg(&certificate.chain);
        let made = openssl.output().expect("openssl starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        (folder, certificate)
    });
    certificate.clone()
}

/// An order without an upstream or a response yet.
pub(crate) fn order(folder: &Path, name: &str, front: Protocol) -> Order {
    Order {
        name: name.to_owned(),
        listen: free_address(),
        front,
        upstreams: Vec::new(),
        upstream_protocol: None,
        upstream_connections: None,
        certificate: Some(certificate()),
        trust: Some(certificate().chain),
        server_name: NAME.to_owned(),
        answer: None,
        folder: folder.join(name),
        threads: 1,
        extra: None,
        settings: Settings::new(),
        key_log: None,
    }
}

/// A server that responds with `size` bytes at /answer.
pub(crate) fn server(folder: &Path, name: &str, front: Protocol, size: u64) -> Order {
    let mut order = order(folder, name, front);
    order.answer = Some(Answer {
        status: 200,
        body: Body::Size(Bytes::new(size)),
        target: "/answer".to_owned(),
    });
    order
}

/// A proxy in front of this upstream.
pub(crate) fn proxy(
    folder: &Path,
    name: &str,
    front: Protocol,
    to: Protocol,
    upstream: SocketAddr,
) -> Order {
    let mut order = order(folder, name, front);
    order.upstreams = vec![upstream];
    order.upstream_protocol = Some(to);
    order
}

/// Starts the station and waits until it is ready.
pub(crate) fn start(
    (driver, found): (&dyn Driver, &InstalledProgram),
    order: Order,
) -> RunningStation {
    let name = format!("{} {}", driver.name(), order.front);
    let station = Station::new(driver, found, order).unwrap_or_else(|refusal| panic!("{refusal}"));
    let running = station
        .start(None)
        .unwrap_or_else(|error| panic!("{error}"));
    running
        .wait_ready(None, Instant::now() + PATIENCE)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    running
}
