//! A server that resets each stream as soon as its request has arrived, against `squall load`: each of many requests
//! gets an outcome, and the connection stays open.
//!
//! Other server behaviour is in `hostile_servers`, clients that reset streams are in `hostile_ends`.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use squall_base::plan::TlsVersion;
use squall_base::record::Outcome;
use squall_http::tls::ServerContext;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::bare_tls::{BareTls, server_context};
use crate::bounded;
use crate::hostile_servers::{MOST, MOST_KIB, RESET, SETTINGS};
use crate::stand_ins;
use crate::support::{seat, squall};

const REQUESTS: usize = 200;

/// Codes of RST_STREAM (RFC 9113, section 7).
const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;

#[test]
fn each_of_many_resets_is_recorded_as_an_outcome() {
    let _seat = seat();
    let tls = server_context(TlsVersion::Tls13, "h2");
    check("http", start(None, CANCEL));
    check("https", start(Some(tls), CANCEL));
}

/// If a server refuses every request, the load still ends, on one connection.
#[test]
fn requests_on_refused_streams_are_retried_a_limited_number_of_times() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let url = format!("http://{}/", start(None, REFUSED_STREAM));
    let always = ["load", "--http", "2", "-n", "3", "--json", "load.json"];
    for (asked, retried) in [(&[][..], 0), (&["--retry-unprocessed"], 30)] {
        let mut client = squall(home.path());
        client.args(always).args(asked).arg(&url);
        let ended = bounded::run(&mut client, home.path(), MOST, "refusing");
        let said = &ended.output;
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("3 reset: the server reset the stream with error code 7"),
            "{said}"
        );
        let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
        for count in [
            format!("\"retried\": {retried}\n"),
            format!("\"resets_received\": {}", retried + 3),
            "\"tcp\": 1,".to_owned(),
        ] {
            assert!(json.contains(&count), "no {count} in {json}");
        }
    }
}

fn check(scheme: &str, address: SocketAddr) {
    let home = TempDir::new().expect("a temporary folder");
    let mut client = squall(home.path());
    client
        .args(["load", "-k", "--http", "2", "-m", "10", "-n"])
        .arg(REQUESTS.to_string())
        .args(["--json", "load.json", "--output", "requests.parquet"])
        .arg(format!("{scheme}://{address}/"));
    let ended = bounded::run(&mut client, home.path(), MOST, scheme);
    let said = &ended.output;
    assert_eq!(ended.status.code(), Some(1), "{scheme}: {said}");
    let peak_kib = ended.peak_kib;
    assert!(peak_kib < MOST_KIB, "{scheme}: {peak_kib} KiB");
    assert!(said.contains("0 succeeded (0 %)"), "{scheme}: {said}");
    let rows = read_requests(home.path().join("requests.parquet")).expect("requests.parquet");
    assert_eq!(rows.len(), REQUESTS, "{scheme}: {said}");
    let others: Vec<_> = rows
        .iter()
        .filter(|row| row.outcome != Outcome::StreamReset)
        .collect();
    assert!(others.is_empty(), "{scheme}: {others:?}");
    let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
    for count in ["\"tcp\": 1,", "\"resets_received\": 200"] {
        assert!(json.contains(count), "{scheme}: no {count} in {json}");
    }
}

/// Serves every client, over TLS if there is a context for it, and resets its streams with this code.
fn start(tls: Option<ServerContext>, code: u8) -> SocketAddr {
    stand_ins::serve(move |stream| match &tls {
        None => serve(stream, code),
        Some(context) => serve_tls(stream, context, code),
    })
}

fn serve(mut stream: TcpStream, code: u8) -> io::Result<()> {
    stream.write_all(SETTINGS)?;
    let (mut heard, mut done) = (Vec::new(), 0);
    let mut piece = [0; 4_096];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            len => heard.extend(&piece[..len]),
        }
        stream.write_all(&resets(&heard, &mut done, code))?;
    }
}

fn serve_tls(stream: TcpStream, context: &ServerContext, code: u8) -> io::Result<()> {
    let mut tls = BareTls::server(stream, context)?;
    tls.say(SETTINGS);
    tls.flush()?;
    let mut done = 0;
    loop {
        let before = tls.heard().len();
        tls.hear_until(|heard| heard.len() > before)?;
        let resets = resets(tls.heard(), &mut done, code);
        tls.say(&resets);
        tls.flush()?;
    }
}

/// RST_STREAM for each complete HEADERS frame in the bytes after the preface of 24 bytes, starting from `done`.
fn resets(heard: &[u8], done: &mut usize, code: u8) -> Vec<u8> {
    *done = (*done).max(24);
    let mut resets = Vec::new();
    while let Some([l0, l1, l2, kind, _, stream @ ..]) = heard.get(*done..*done + 9) {
        let len = 9 + u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
        if heard.len() < *done + len {
            break;
        }
        if *kind == 1 {
            resets.extend([&RESET[..5], stream, &RESET[9..12], &[code]].concat());
        }
        *done += len;
    }
    resets
}
