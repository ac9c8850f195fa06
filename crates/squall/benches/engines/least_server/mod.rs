//! The least that a server of HTTP/1.1 does for a request: it waits, reads and writes, and looks at its last bytes alone.
//!
//! A client that waits for its server pays for that instead of showing what a request costs it. Only a server that takes
//! less time than every client lets all of them work without a pause, and this one does what none can do without. It has
//! one answer of 1 KiB for all GETs, and knows neither bodies nor requests before the last one was answered: `servers`
//! starts it, and no other program should ask it anything.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result, bail};
use squall_base::Time;
use squall_linux::reactor::Reactor;
use squall_linux::socket::{self, send};

use crate::least_client::take;

/// The first argument of a bench that is this server. The second is its port.
pub(crate) const ARGUMENT: &str = "--least-server";

const LISTENER: u64 = 0;

/// Serves until it is killed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [port] = arguments else {
        bail!("{ARGUMENT} takes a port");
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse()?))
        .with_context(|| format!("cannot listen on port {port}"))?;
    listener.set_nonblocking(true)?;
    let mut reactor = Reactor::new()?;
    reactor.add(&listener, LISTENER)?;
    let mut site = Site {
        streams: Vec::new(),
        answer: answer(),
        buffer: vec![0; 64 * 1024],
    };
    loop {
        let ready = reactor.wait(Time::ZERO, None)?;
        let is_asked_for = ready.iter().any(|ready| ready.token == LISTENER);
        for ready in ready.iter().filter(|ready| ready.token != LISTENER) {
            let place = ready.token as usize - 1;
            if ready.ended {
                site.streams[place] = None;
            } else if ready.readable {
                site.serve(place);
            }
        }
        if is_asked_for {
            site.accept(&listener, &reactor)?;
        }
    }
}

struct Site {
    /// Those with token 1 and up; `None` once it has ended.
    streams: Vec<Option<TcpStream>>,
    answer: Vec<u8>,
    buffer: Vec<u8>,
}

impl Site {
    fn accept(&mut self, listener: &TcpListener, reactor: &Reactor) -> Result<()> {
        while let Some(stream) = socket::accept(listener).context("cannot accept")? {
            stream.set_nodelay(true)?;
            reactor.add(&stream, self.streams.len() as u64 + 1)?;
            self.streams.push(Some(stream));
        }
        Ok(())
    }

    /// Answers if what came is the end of a request. A client that is gone is no error: wrk goes with requests open.
    fn serve(&mut self, place: usize) {
        let Some(stream) = &self.streams[place] else {
            return;
        };
        let answered = take(stream, &mut self.buffer).and_then(|count| {
            let is_asked = self.buffer[..count].ends_with(b"\r\n\r\n");
            if is_asked {
                send(stream, &self.answer)
            } else {
                Ok(0)
            }
        });
        // Of an answer that does not fit, the rest is never sent, and the client finds that.
        if answered.is_err() {
            self.streams[place] = None;
        }
    }
}

/// With the headers of nginx.
fn answer() -> Vec<u8> {
    let body: String = ('a'..='z').cycle().take(1024).collect();
    format!(
        "HTTP/1.1 200 OK\r\nServer: least\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: keep-alive\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
