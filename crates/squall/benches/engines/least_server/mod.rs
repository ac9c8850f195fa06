//! The least that a server does for a request: it waits, reads and writes, and looks at as few bytes as it can.
//!
//! A client that waits for its server pays for that instead of showing what a request costs it. Only a server that takes
//! less time than every client lets them work almost without a pause, and this one does what none can do without. It
//! knows requests of these cases alone, which it answers with 1 KiB: `servers` starts it, and no other program should ask
//! it anything. What it says is in `h1` and `h2`.

mod h1;
mod h2;

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result, bail};
use squall_base::Time;
use squall_linux::reactor::Reactor;
use squall_linux::socket::{self, send};

use crate::least_client::take;

/// The first argument of a bench that is this server. The others are what it speaks, `h1` or `h2c`, and its port.
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
        "h1" => Site::<h1::Talk>::serve(port),
        "h2c" => Site::<h2::Talk>::serve(port),
        _ => bail!("{ARGUMENT} speaks h1 and h2c, not {spoken}"),
    }
}

/// What a server says on one connection.
trait Talk {
    fn begin() -> Self;

    /// Takes what came, and appends to `answer` what is to be sent now.
    fn take(&mut self, came: &[u8], answer: &mut Vec<u8>);
}

struct Site<T> {
    /// Those with token 1 and up; `None` once it has ended.
    streams: Vec<Option<(TcpStream, T)>>,
    buffer: Vec<u8>,
    answer: Vec<u8>,
}

impl<T: Talk> Site<T> {
    fn serve(port: u16) -> Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port}"))?;
        listener.set_nonblocking(true)?;
        let mut reactor = Reactor::new()?;
        reactor.add(&listener, LISTENER)?;
        let mut site = Site::<T> {
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
                    site.streams[place] = None;
                } else if ready.readable {
                    site.answer(place);
                }
            }
            if is_asked_for {
                site.accept(&listener, &reactor)?;
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

    /// Says what there is to say to what came. A client that is gone is no error: wrk goes with requests open.
    fn answer(&mut self, place: usize) {
        let Some((stream, talk)) = &mut self.streams[place] else {
            return;
        };
        self.answer.clear();
        let said = take(stream, &mut self.buffer).and_then(|count| {
            talk.take(&self.buffer[..count], &mut self.answer);
            if self.answer.is_empty() {
                return Ok(true);
            }
            Ok(send(stream, &self.answer)? == self.answer.len())
        });
        // A client that lets an answer wait finds its connection closed.
        if !said.unwrap_or(false) {
            self.streams[place] = None;
        }
    }
}

/// What every answer holds.
fn page() -> impl Iterator<Item = u8> {
    (b'a'..=b'z').cycle().take(PAGE_BYTES)
}
