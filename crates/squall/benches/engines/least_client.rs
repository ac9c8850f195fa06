//! The least that a client of HTTP/1.1 does for a request: it waits, reads and writes, and looks at no byte.
//!
//! What it costs is the kernel's: of what a client that waits, reads and writes as ours does costs, only the rest can be
//! saved. `clients` has it beside the others. All answers must be as long as the first one, which must be of status 200; a
//! run that takes minutes has had one that is not. It is this bench's own program again, because what a client costs is
//! what a child has had. `least_server` is the other end of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use squall_base::Time;
use squall_linux::awake::Awake;
use squall_linux::clock;
use squall_linux::reactor::Reactor;
use squall_linux::socket::{receive, send};

/// The first argument of a bench that is this client. The others are those of all clients.
pub(crate) const ARGUMENT: &str = "--least-client";

/// No answer of these cases takes as long.
const PATIENCE: Duration = Duration::from_millis(200);
/// No run of these cases takes as long.
const RUN_WITHIN: squall_base::Duration = squall_base::Duration::from_secs(120);

/// Runs it, as `-n REQUESTS -c CONNECTIONS -m 1 URL` say.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [n, requests, c, connections, _, _, url] = arguments else {
        bail!("{ARGUMENT} takes -n, -c, -m and a URL");
    };
    ensure!(n == "-n" && c == "-c", "{ARGUMENT} takes -n before -c");
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nuser-agent: least\r\n\r\n");
    // As squall load does, if it may.
    let _awake = Awake::keep();
    let mut load = Load::begin(host.parse()?, connections.parse()?, request.into_bytes())?;
    let requests: u64 = requests.parse()?;
    load.run(requests)?;
    println!("succeeded {requests}, all of {} bytes", load.answer_bytes);
    Ok(())
}

struct Load {
    reactor: Reactor,
    /// Each with the bytes of its answer that have come.
    streams: Vec<(TcpStream, usize)>,
    request: Vec<u8>,
    answer_bytes: usize,
}

impl Load {
    fn begin(address: SocketAddr, connections: usize, request: Vec<u8>) -> Result<Load> {
        let answer_bytes = length_of_answer(address, &request)?;
        let reactor = Reactor::new()?;
        let mut streams = Vec::new();
        for token in 0..connections {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            reactor.add(&stream, token as u64)?;
            streams.push((stream, 0));
        }
        Ok(Load {
            reactor,
            streams,
            request,
            answer_bytes,
        })
    }

    /// As a closed loop: whoever has an answer asks again, once all that is there was read.
    fn run(&mut self, requests: u64) -> Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        let mut free: Vec<usize> = (0..self.streams.len()).collect();
        let (mut asked, mut answered) = (0, 0);
        let deadline = clock::now() + RUN_WITHIN;
        while answered < requests {
            for place in free.drain(..) {
                if asked < requests {
                    asked += 1;
                    send(&self.streams[place].0, &self.request)?;
                }
            }
            let ready = self.reactor.wait(Time::ZERO, Some(deadline))?;
            let is_late = ready.is_empty() && clock::now() >= deadline;
            ensure!(!is_late, "an answer is shorter, or missing");
            for ready in ready {
                let place = ready.token as usize;
                let (stream, came) = &mut self.streams[place];
                ensure!(!ready.ended, "the server closed a connection");
                if ready.readable {
                    *came += take(stream, &mut buffer)?;
                }
                ensure!(*came <= self.answer_bytes, "an answer is longer");
                if *came == self.answer_bytes {
                    *came = 0;
                    answered += 1;
                    free.push(place);
                }
            }
        }
        Ok(())
    }
}

/// Takes what has come. 0 is nothing yet, and the end too, of which the reactor tells.
pub(crate) fn take(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match receive(stream, buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

/// How many bytes an answer has: all that come before nothing more does.
fn length_of_answer(address: SocketAddr, request: &[u8]) -> Result<usize> {
    let mut stream = TcpStream::connect(address).context("cannot connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..count]);
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "not answered by 200");
    Ok(answer.len())
}
