//! The server of `squall view`: HTTP/1.1 on loopback, a thread for each connection, GET and HEAD only.
//!
//! squall-http's engine reads requests and frames responses. A browser runs the scripts of any site, and DNS can make a
//! site's name lead to 127.0.0.1 (DNS rebinding). So a request must name this server by an address of its own, and
//! responses tell browsers to keep them from other sites. `site` decides what is at a path.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use squall_base::Time;
use squall_base::plan::{SideSettings, Version};
use squall_http::{
    Field, Inbox, InboxOptions, MessageError, Response, ServerConnection, ServerEvent,
};

use super::site::{Answer, Site};

/// More connections than a browser opens. Further ones are closed at once.
const CONNECTIONS_AT_MOST: usize = 64;

/// How long a connection may be silent.
const SILENT_AT_MOST: Duration = Duration::from_secs(120);

/// How long to wait after a connection could not be accepted, such as for lack of file descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What all connections share.
struct Server {
    site: Arc<Site>,
    /// The port that it listens on.
    port: u16,
    connections: AtomicUsize,
}

/// Serves connections until the process ends.
pub(super) fn serve(listener: &TcpListener, port: u16, site: &Arc<Site>) {
    let server = Arc::new(Server {
        site: Arc::clone(site),
        port,
        connections: AtomicUsize::new(0),
    });
    for socket in listener.incoming() {
        let Ok(socket) = socket else {
            thread::sleep(RETRY_AFTER);
            continue;
        };
        let permit = ConnectionPermit::take(&server);
        if permit.has_no_room() {
            continue;
        }
        let started = thread::Builder::new()
            .name("squall-viewer".to_owned())
            .spawn(move || {
                // Only the client is affected if its connection fails, and it sees that.
                let _ = permit.server.converse(socket);
            });
        if started.is_err() {
            thread::sleep(RETRY_AFTER);
        }
    }
}

/// One of the connections that the server may have at once.
struct ConnectionPermit {
    server: Arc<Server>,
    others: usize,
}

impl ConnectionPermit {
    fn take(server: &Arc<Server>) -> ConnectionPermit {
        ConnectionPermit {
            server: Arc::clone(server),
            others: server.connections.fetch_add(1, Ordering::AcqRel),
        }
    }

    /// Whether the server has too many connections to accept this one.
    fn has_no_room(&self) -> bool {
        self.others >= CONNECTIONS_AT_MOST
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.server.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// Answers the requests of one connection until it ends.
    fn converse(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_read_timeout(Some(SILENT_AT_MOST))?;
        socket.set_write_timeout(Some(SILENT_AT_MOST))?;
        socket.set_nodelay(true)?;
        let mut connection = ServerConnection::plain(Version::Http1, &SideSettings::default())
            .map_err(io::Error::other)?;
        let mut inbox = Inbox::new(InboxOptions {
            fields: true,
            ..InboxOptions::default()
        });
        let mut buffer = vec![0; 16 * 1024];
        while connection.is_open() {
            let count = socket.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let received = connection.receive(&buffer[..count], &mut inbox);
            for event in std::mem::take(&mut inbox.events) {
                if let ServerEvent::RequestHead {
                    stream,
                    method,
                    target,
                    fields,
                    ..
                } = event
                {
                    let answer = self.answer(&method, &target, &fields);
                    let response = response(answer).map_err(io::Error::other)?;
                    // Fails only if the engine has refused the request meanwhile; then no response is due.
                    let _ = connection.streams().respond(stream, &Arc::new(response));
                }
            }
            inbox.clear();
            write_output(&mut socket, &mut connection, &mut inbox)?;
            if received.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, method: &str, target: &str, fields: &[Field]) -> Answer {
        let is_own =
            |field: &Field| *field.name == *b"host" && is_own_host(&field.value, self.port);
        if !fields.iter().any(is_own) {
            let port = self.port;
            return Answer::text(
                403,
                format!(
                    "This server answers only as http://127.0.0.1:{port}/ or http://localhost:{port}/.\n"
                ),
            );
        }
        match method {
            "GET" | "HEAD" => self.site.answer(target),
            _ => Answer::text(405, "Only GET and HEAD are answered.\n".to_owned()),
        }
    }
}

/// Whether a host field names this server: DNS cannot make another site's name one of these.
fn is_own_host(value: &[u8], port: u16) -> bool {
    let Ok(host) = std::str::from_utf8(value) else {
        return false;
    };
    ["127.0.0.1", "localhost"].iter().any(|name| {
        let own = format!("{name}:{port}");
        // A browser leaves out HTTP's default port.
        host.eq_ignore_ascii_case(&own) || (port == 80 && host.eq_ignore_ascii_case(name))
    })
}

fn response(answer: Answer) -> Result<Response, MessageError> {
    let mut fields = vec![
        ("content-type", answer.content_type.to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("cross-origin-resource-policy", "same-origin".to_owned()),
        (
            "content-security-policy",
            "frame-ancestors 'none'".to_owned(),
        ),
    ];
    if answer.status == 405 {
        fields.push(("allow", "GET, HEAD".to_owned()));
    }
    fields.extend(answer.location.map(|location| ("location", location)));
    let fields: Vec<(String, String)> = (fields.into_iter())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Response::new(answer.status, &fields, answer.body)
}

/// Writes everything that the connection has to send.
fn write_output(
    socket: &mut TcpStream,
    connection: &mut ServerConnection,
    inbox: &mut Inbox<ServerEvent>,
) -> io::Result<()> {
    loop {
        // Without TLS, the time does not matter.
        let output = connection.output(Time::ZERO);
        if output.is_empty() {
            return Ok(());
        }
        let written = socket.write(output)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        connection.advance_output(written, inbox);
        inbox.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_names_and_port_are_accepted_as_host() {
        for host in ["127.0.0.1:8080", "localhost:8080", "LocalHost:8080"] {
            assert!(is_own_host(host.as_bytes(), 8080), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:80800",
            "localhost.evil.example:8080",
            "evil.example:8080",
            "127.0.0.1:8080.evil.example",
            "",
        ] {
            assert!(!is_own_host(host.as_bytes(), 8080), "{host}");
        }
        assert!(!is_own_host(b"\xff", 8080));
        assert!(is_own_host(b"localhost", 80) && !is_own_host(b"evil.example", 80));
    }
}
