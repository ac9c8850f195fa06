//! An HTTP/1.1 client that does the least possible for a request: it waits, reads and writes, and looks at no byte.
//!
//! Its cost is the kernel's share: a client that waits, reads and writes the way squall does can only save what it costs beyond
//! that. `clients` runs it beside the others. All responses must have the length of the first one, which must have status 200;
//! otherwise the run fails, at the latest after two minutes. The bench starts its own executable as this client, because a
//! client's cost is measured as that of a child process. `least_server` is its counterpart.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use squall_base::Time;
use squall_linux::awake::SleepInhibitor;
use squall_linux::clock;
use squall_linux::reactor::Reactor;
use squall_linux::socket::{receive, send};

/// The first argument that makes this bench run as the client. The others are those of all clients.
pub(crate) const ARGUMENT: &str = "--least-client";

/// No response in these cases takes this long.
const PATIENCE: Duration = Duration::from_millis(200);
/// No run of these cases takes this long.
const RUN_WITHIN: squall_base::Duration = squall_base::Duration::from_secs(120);

/// Runs the client with the arguments `-n REQUESTS -c CONNECTIONS -m 1 URL`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [n, requests, c, connections, _, _, url] = arguments else {
        bail!("{ARGUMENT} takes -n, -c, -m and a URL");
    };
    ensure!(n == "-n" && c == "-c", "{ARGUMENT} takes -n before -c");
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nuser-agent: least\r\n\r\n");
    // As squall load does, if permitted.
    let _awake = SleepInhibitor::acquire();
    let mut client = LeastClient::begin(host.parse()?, connections.parse()?, request.into_bytes())?;
    let requests: u64 = requests.parse()?;
    client.run(requests)?;
    println!("succeeded {requests}, all of {} bytes", client.answer_bytes);
    Ok(())
}

struct LeastClient {
    reactor: Reactor,
    /// Each connection, with the number of response bytes received.
    streams: Vec<(TcpStream, usize)>,
    request: Vec<u8>,
    answer_bytes: usize,
}

impl LeastClient {
    fn begin(address: SocketAddr, connections: usize, request: Vec<u8>) -> Result<LeastClient> {
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
        Ok(LeastClient {
            reactor,
            streams,
            request,
            answer_bytes,
        })
    }

    /// A closed loop: each connection that has its response sends the next request, after everything available was
    /// read.
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
                let (stream, received) = &mut self.streams[place];
                ensure!(!ready.ended, "the server closed a connection");
                if ready.readable {
                    *received += take(stream, &mut buffer)?;
                }
                ensure!(*received <= self.answer_bytes, "an answer is longer");
                if *received == self.answer_bytes {
                    *received = 0;
                    answered += 1;
                    free.push(place);
                }
            }
        }
        Ok(())
    }
}

/// Reads what was received. 0 means nothing yet or end of stream, which the reactor reports.
pub(crate) fn take(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match receive(stream, buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

/// The length of a response: all bytes received until the connection falls silent.
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
