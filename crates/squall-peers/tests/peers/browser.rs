//! Chromium as a client, which parses a page, reports each request and leaves nothing behind; and as the viewer of a page of
//! our own, in which expressions are evaluated.
//!
//! The server here is a few lines, because none of the stations that squall knows serves a page. The binary's tests
//! cover TLS, HTTP/2 and HTTP/3.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Bytes, Duration as Span};
use squall_peers::client::{
    Client, ClientError, ClientLoad, ClientOrder, ClientRun, LoadEnd, OpenPage, PageError,
    PageOrder, client, find_browser,
};
use tempfile::TempDir;

use crate::support::{NAME, PATIENCE, free_address, search, seat, skip};

const PICTURES: usize = 20;

/// The targets that were requested from a server, and how many times.
type RequestCounts = Arc<Mutex<BTreeMap<String, u32>>>;

/// An HTTP/1.1 server that serves a document and pictures, for as long as the test runs.
struct Server {
    address: SocketAddr,
    asked: RequestCounts,
    connections: Arc<AtomicU32>,
}

fn server() -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let server = Server {
        address: listener.local_addr().expect("it is bound"),
        asked: RequestCounts::default(),
        connections: Arc::default(),
    };
    let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            connections.fetch_add(1, Ordering::Relaxed);
            let asked = Arc::clone(&asked);
            thread::spawn(move || serve(&stream, &asked));
        }
    });
    server
}

fn serve(mut stream: &TcpStream, asked: &RequestCounts) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        // An empty line ends the header fields.
        if !lines.any(|line| line.is_empty()) {
            return;
        }
        let (kind, body) = match target.as_str() {
            "/page" => ("text/html", document()),
            _ => (
                "image/svg+xml",
                "<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_owned(),
            ),
        };
        *asked
            .lock()
            .expect("nobody panics")
            .entry(target)
            .or_default() += 1;
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn document() -> String {
    let pictures = pictures();
    let tags = pictures
        .iter()
        .map(|target| format!("<img src=\"{target}\">"));
    let icon = "<!doctype html><link rel=icon href=\"data:,\">".to_owned();
    [icon].into_iter().chain(tags).collect()
}

fn pictures() -> Vec<String> {
    (0..PICTURES)
        .map(|number| format!("/picture-{number}?a=b&c"))
        .collect()
}

fn order(folder: &Path, target: SocketAddr) -> ClientOrder {
    ClientOrder {
        name: "browser".to_owned(),
        target,
        server_name: NAME.to_owned(),
        protocol: Protocol::H1,
        method: "GET".to_owned(),
        path: "/page".to_owned(),
        headers: Vec::new(),
        body: Bytes::new(0),
        load: ClientLoad::Closed {
            connections: 1,
            streams: 1,
            end: LoadEnd::After(Span::from_millis(500)),
        },
        page: Some(PageOrder {
            targets: pictures(),
            drain: Span::from_secs(10),
        }),
        pin: None,
        trust: None,
        folder: folder.to_owned(),
    }
}

fn start(order: ClientOrder) -> Option<ClientRun> {
    let driver = client("chromium").expect("squall knows it");
    let found = match driver.find(&search()) {
        Ok(found) => found,
        Err(missing) => {
            skip(&missing.to_string());
            return None;
        }
    };
    let made = Client::new(driver, &found, order).unwrap_or_else(|refusal| panic!("{refusal}"));
    Some(made.start(None).unwrap_or_else(|error| panic!("{error}")))
}

/// Processes that were started in this folder, or have a path in it on their command line.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc")
        .expect("there is /proc")
        .flatten();
    let of = |process: std::fs::DirEntry| {
        let cwd = std::fs::read_link(process.path().join("cwd")).ok()?;
        let command = std::fs::read(process.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let is_of = cwd.to_string_lossy().contains(&folder) || command.contains(&folder);
        is_of.then_some(command)
    };
    all.filter_map(of).collect()
}

fn nothing_is_left(folder: &Path) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let left = processes(folder);
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < give_up, "{left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn chromium_loads_pages_and_reports_each_request() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    let server = server();
    let Some(run) = start(order(folder.path(), server.address)) else {
        return;
    };
    let finished = run
        .finish(Instant::now() + PATIENCE)
        .unwrap_or_else(|error| panic!("{error}"));
    let pages = &finished.readout.pages;
    assert!(!pages.is_empty(), "{}", finished.exit);
    let asked = server.asked.lock().unwrap();
    let counts: Vec<u32> = asked.values().copied().collect();
    // Only the page was requested, each part once per page: nothing came from a cache.
    assert_eq!(asked.len(), 1 + PICTURES, "{asked:?}");
    assert_eq!(counts, vec![pages.len() as u32; 1 + PICTURES], "{asked:?}");
    assert_eq!(finished.rows.len(), pages.len() * (1 + PICTURES));
    for (number, row) in (0..).zip(&finished.rows) {
        assert_eq!(
            (row.request, row.outcome),
            (number, Outcome::Answered),
            "{row:?}"
        );
        assert_eq!(row.status, Some(200), "{row:?}");
        assert!(
            row.intended <= row.written_first.expect("it was written")
                && row.headers <= Some(row.end),
            "{row:?}"
        );
        assert!(row.response_body_bytes > 30, "{row:?}");
    }
    // A browser opens at most six connections to an HTTP/1.1 host. A connection opened in advance is not visible in any
    // request.
    let connections = server.connections.load(Ordering::Relaxed);
    assert!((1..=6).contains(&connections), "{connections} connections");
    let openers = finished.rows.iter().filter(|row| row.opened_connection);
    assert!(openers.count() as u32 <= connections);
    for page in pages {
        assert!(page.is_loaded && page.error.is_none(), "{page:?}");
        let of_page = |row: &&RequestRecord| row.request / (1 + PICTURES as u64) == page.page;
        let rows = || finished.rows.iter().filter(of_page);
        let last = rows()
            .map(|row| row.end)
            .max()
            .expect("a page has requests");
        // The load event fires when everything has arrived, and scripts see times rounded to 0.1 ms.
        let slack = Span::from_millis(2);
        assert!(page.start + page.took + slack >= last, "{page:?} {last:?}");
    }
    drop(asked);
    nothing_is_left(folder.path());
    assert!(!folder.path().join("profile").exists());
}

#[test]
fn chromium_that_is_stopped_leaves_no_process() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    let server = server();
    let mut order = order(folder.path(), server.address);
    order.load = ClientLoad::Closed {
        connections: 1,
        streams: 1,
        end: LoadEnd::After(Span::from_secs(600)),
    };
    let Some(mut run) = start(order) else { return };
    thread::sleep(Duration::from_millis(500));
    run.stop();
    nothing_is_left(folder.path());
    let error = run
        .finish(Instant::now() + PATIENCE)
        .expect_err("it was killed");
    assert!(matches!(error, ClientError::Conversation { .. }), "{error}");
}

#[test]
fn page_that_fails_to_load_is_reported_with_its_reason() {
    let _seat = seat();
    let folder = TempDir::new().unwrap();
    let Some(run) = start(order(folder.path(), free_address())) else {
        return;
    };
    let finished = run
        .finish(Instant::now() + PATIENCE)
        .unwrap_or_else(|error| panic!("{error}"));
    let [page] = &finished.readout.pages[..] else {
        panic!("{:?}", finished.readout);
    };
    assert!(!page.is_loaded);
    assert_eq!(page.error.as_deref(), Some("net::ERR_CONNECTION_REFUSED"));
}

#[test]
fn expressions_in_a_page_of_our_own_have_values() {
    let _seat = seat();
    let found = match find_browser(&search()) {
        Ok(found) => found,
        Err(missing) => return skip(&missing.to_string()),
    };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    let script = "globalThis.half = Promise.resolve(21); \
                  globalThis.fail = () => { throw new Error('there is no such plot'); };";
    std::fs::write(&file, format!("<script type=module>{script}</script>")).unwrap();
    let url = format!("file://{}", file.display());
    let mut page = OpenPage::open(&found, &url, folder.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(page.evaluate("half.then((it) => 2 * it)").unwrap(), 42);
    assert_eq!(page.evaluate("innerWidth").unwrap(), 1280);
    assert!(page.evaluate("undefined").unwrap().is_null());
    let error = page.evaluate("fail()").unwrap_err();
    assert!(matches!(error, PageError::Thrown(_)), "{error}");
    assert!(error.to_string().contains("no such plot"), "{error}");
    drop(page);
    nothing_is_left(folder.path());
    assert!(!folder.path().join("profile").exists());
    let missing = format!("file://{}/missing.html", folder.path().display());
    let error = OpenPage::open(&found, &missing, folder.path()).unwrap_err();
    assert!(error.to_string().contains("ERR_FILE_NOT_FOUND"), "{error}");
}

#[test]
fn orders_that_a_browser_cannot_fulfil_are_refused() {
    let order = || order(Path::new("/nowhere"), free_address());
    let mut h2c = order();
    h2c.protocol = Protocol::H2c;
    let mut twice = order();
    twice
        .page
        .as_mut()
        .unwrap()
        .targets
        .push("/picture-0?a=b&c".to_owned());
    let mut fields = order();
    fields.headers.push(("a".to_owned(), "b".to_owned()));
    let mut single = order();
    single.page = None;
    for (name, order, says) in [
        ("chromium", &h2c, "cannot speak h2c"),
        ("chromium", &twice, "each target of a page once"),
        ("chromium", &fields, "leave out `headers`"),
        ("chromium", &single, "it loads pages, and nothing else"),
        ("h2load", &order(), "it does not load pages"),
    ] {
        let refused = client(name).unwrap().render(order, &Default::default());
        let error = refused.expect_err(says).to_string();
        assert!(error.contains(says) && error.contains(name), "{error}");
    }
}
