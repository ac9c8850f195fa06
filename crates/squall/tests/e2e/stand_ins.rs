//! What stands in for real programs: shell scripts under their names, and servers that do what a test says.
//!
//! `served` and `serving` start squall's own servers, `alone::probe_servers` starts real ones.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::hostile_servers::has_headers;

/// Writes a shell script as a program of this name; creates the folder if it is missing.
pub(crate) fn write_program(folder: &Path, name: &str, script: &str) {
    fs::create_dir_all(folder).expect("a folder");
    let text = folder.join(format!("{name}.sh"));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&text, Permissions::from_mode(0o755)).expect("its mode is set");
    copy_program(&text, &folder.join(name));
    fs::remove_file(text).expect("it is there");
}

/// Copies a program, so that the copy can be executed at once. `cp` writes it, because a process that another test starts
/// holds every descriptor of this one until its own program is executed, and a file that is open for writing cannot be
/// executed ("Text file busy").
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.expect("cp starts").success(), "{}", to.display());
}

/// A PATH in which this folder comes first.
pub(crate) fn path_from(folder: &Path) -> String {
    let path = std::env::var("PATH").expect("there is a PATH");
    format!("{}:{path}", folder.display())
}

/// A server on 127.0.0.1 that calls `with` for each connection, in the background until the tests end. The result is ignored,
/// because a client that closes its connection is not a failure.
pub(crate) fn serve<T>(with: impl Fn(TcpStream) -> T + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let with = with.clone();
            thread::spawn(move || {
                with(stream);
            });
        }
    });
    address
}

/// A server that waits for each client's HTTP/2 request or HTTP/1.1 head, and then sends these pieces, 30 ms apart.
pub(crate) fn answering(pieces: &'static [&'static [u8]]) -> SocketAddr {
    serve(move |stream| send_pieces(stream, pieces))
}

fn send_pieces(mut stream: TcpStream, pieces: &[&[u8]]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut heard = Vec::new();
    let is_asked = |heard: &[u8]| {
        if heard.starts_with(b"PRI ") {
            has_headers(heard)
        } else {
            heard.ends_with(b"\r\n\r\n")
        }
    };
    while !is_asked(&heard) {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        heard.extend_from_slice(&buffer[..count]);
    }
    for piece in pieces {
        stream.write_all(piece)?;
        thread::sleep(Duration::from_millis(30));
    }
    // Until the client disconnects.
    io::copy(&mut stream, &mut io::sink())?;
    Ok(())
}

/// A request over HTTP/1.1, as a server read it.
#[derive(Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    /// By names in lower case.
    fields: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    /// Reads a request with its body; `None` if the client has closed the connection.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<ReceivedRequest>> {
        let Some(mut asked) = ReceivedRequest::read_head(reader)? else {
            return Ok(None);
        };
        asked.body.resize(asked.body_bytes()?, 0);
        reader.read_exact(&mut asked.body)?;
        Ok(Some(asked))
    }

    /// Reads the head of a request and leaves its body to the caller; `None` if the client has closed the connection.
    pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<ReceivedRequest>> {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut words = first.split(' ').map(str::to_owned);
        let mut asked = ReceivedRequest {
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            fields: BTreeMap::new(),
            body: Vec::new(),
        };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(Some(asked));
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            asked.fields.insert(name, value);
        }
    }

    pub(crate) fn is(&self, method: &str, target: &str) -> bool {
        self.method == method && self.target == target
    }

    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// The length of the body, as the head says.
    pub(crate) fn body_bytes(&self) -> io::Result<usize> {
        let length = self.field("content-length").unwrap_or("0");
        length.parse().map_err(io::Error::other)
    }
}
