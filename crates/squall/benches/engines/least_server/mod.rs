//! A server that does the least possible for a request: it waits, reads and writes, and looks at as few bytes as it
//! can.
//!
//! A client that waits for its server pays for the wait, which hides what a request costs the client. Only if the server is
//! faster than every client can clients work almost without a pause, so this server does only what no server can do without. It
//! understands only the requests of these cases, and answers them with 1 KiB: `servers` starts it, and no other program should
//! use it. `h1` and `h2` have the protocols.

mod h1;
mod h2;

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result, bail};
use squall_base::Time;
use squall_linux::reactor::Reactor;
use squall_linux::socket::{self, send};

use crate::least_client::take;

/// The first argument that makes this bench run as the server. The others are the protocol, `h1` or `h2c`, and the
/// port.
pub(crate) const ARGUMENT: &str = "--least-server";

const LISTENER: u64 = 0;
const PAGE_BYTES: usize = 1024;

/// Serves until it is killed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [spoken, port] = arguments else {
        bail!("{ARGUMENT} takes h1 or h2c, and a port");
    };
    let port: u16 = port.parse()?;
    match spoken.as_str() {
        "h1" => LeastServer::<h1::Connection>::serve(port),
        "h2c" => LeastServer::<h2::Connection>::serve(port),
        _ => bail!("{ARGUMENT} speaks h1 and h2c, not {spoken}"),
    }
}

/// The protocol of one connection.
trait ServerProtocol {
    fn begin() -> Self;

    /// Takes received bytes, and appends to `answer` what to send now.
    fn receive(&mut self, received: &[u8], answer: &mut Vec<u8>);
}

struct LeastServer<T> {
    /// Connections with token 1 and up; `None` once ended.
    streams: Vec<Option<(TcpStream, T)>>,
    buffer: Vec<u8>,
    answer: Vec<u8>,
}

impl<T: ServerProtocol> LeastServer<T> {
    fn serve(port: u16) -> Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port}"))?;
        listener.set_nonblocking(true)?;
        let mut reactor = Reactor::new()?;
        reactor.add(&listener, LISTENER)?;
        let mut server = LeastServer::<T> {
            streams: Vec::new(),
            buffer: vec![0; 256 * 1024],
            answer: Vec::new(),
        };
        loop {
            let ready = reactor.wait(Time::ZERO, None)?;
            let is_asked_for = ready.iter().any(|ready| ready.token == LISTENER);
            for ready in ready.iter().filter(|ready| ready.token != LISTENER) {
                let place = ready.token as usize - 1;
                if ready.ended {
                    server.streams[place] = None;
                } else if ready.readable {
                    server.answer(place);
                }
            }
            if is_asked_for {
                server.accept(&listener, &reactor)?;
            }
        }
    }

    fn accept(&mut self, listener: &TcpListener, reactor: &Reactor) -> Result<()> {
        while let Some(stream) = socket::accept(listener).context("cannot accept")? {
            stream.set_nodelay(true)?;
            reactor.add(&stream, self.streams.len() as u64 + 1)?;
            self.streams.push(Some((stream, T::begin())));
        }
        Ok(())
    }

    /// Reads a connection and responds. A client that has gone is not an error: wrk ends with requests in flight.
    fn answer(&mut self, place: usize) {
        let Some((stream, connection)) = &mut self.streams[place] else {
            return;
        };
        self.answer.clear();
        let sent = take(stream, &mut self.buffer).and_then(|count| {
            connection.receive(&self.buffer[..count], &mut self.answer);
            if self.answer.is_empty() {
                return Ok(true);
            }
            Ok(send(stream, &self.answer)? == self.answer.len())
        });
        // A client that does not read fast enough is disconnected.
        if !sent.unwrap_or(false) {
            self.streams[place] = None;
        }
    }
}

/// The body of every response.
fn page() -> impl Iterator<Item = u8> {
    (b'a'..=b'z').cycle().take(PAGE_BYTES)
}
