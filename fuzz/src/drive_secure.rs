//! Feeds TLS and HTTP/3 the bytes of a hostile peer: an error or nothing, never a panic, and bounded output.
//!
//! The first byte of an input determines how the rest is cut, into reads of TLS or into datagrams of QUIC. Half of the
//! QUIC inputs are changes to a real client's first flight, so that they get past its encryption.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

use squall_base::Time;
use squall_base::plan::{Http3Settings, SideSettings, TlsSettings};
use squall_http::h3::{self, Batch};
use squall_http::tls::{ClientContext, Identity, ServerContext, Trust, Validity};
use squall_http::{ClientConnection, Inbox, InboxOptions, ServerConnection};

/// More output than a handshake ever has.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

const ALL: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: true,
};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let validity = Validity {
            not_before_unix_s: 1_700_000_000,
            days: 36_500,
        };
        Identity::self_signed(&["server"], validity).expect("this name is valid")
    })
}

/// How many bytes to pass at a time, and the bytes.
fn choices(input: &[u8]) -> (usize, &[u8]) {
    match input {
        [] => (1, &[]),
        [first, bytes @ ..] => (1 + usize::from(*first) * 8, bytes),
    }
}

/// A server's bytes, sent to a client of HTTP over TLS.
pub fn tls_client(input: &[u8]) {
    let context = ClientContext::new(&TlsSettings::default(), &["h2", "http/1.1"], &Trust::Anyone);
    let context = context.expect("the default settings are valid");
    let made = ClientConnection::secure(&context, Some("server"), &SideSettings::default());
    let mut connection = made.expect("the default settings are valid");
    let (cut, bytes) = choices(input);
    let mut inbox = Inbox::new(ALL);
    for piece in bytes.chunks(cut) {
        let len = connection.output(Time::ZERO).len();
        assert!(len <= MAX_OUTPUT_BYTES);
        connection.advance_output(len, &mut inbox);
        if connection.receive(piece, &mut inbox).is_err() {
            assert!(
                connection.receive(piece, &mut inbox).is_err(),
                "errors are final"
            );
            assert!(!connection.is_open() && !connection.is_ready());
            break;
        }
    }
    assert!(
        connection.receive_end(&mut inbox).is_err(),
        "no handshake ends so"
    );
    assert_eq!(connection.protocol(), None);
}

/// A client's bytes, sent to a server of HTTP over TLS.
pub fn tls_server(input: &[u8]) {
    let context = ServerContext::new(&TlsSettings::default(), &["h2", "http/1.1"], identity());
    let context = context.expect("the default settings are valid");
    let made = ServerConnection::secure(&context, &SideSettings::default());
    let mut connection = made.expect("the default settings are valid");
    let (cut, bytes) = choices(input);
    let mut inbox = Inbox::new(ALL);
    for piece in bytes.chunks(cut) {
        if connection.receive(piece, &mut inbox).is_err() {
            assert!(
                connection.receive(piece, &mut inbox).is_err(),
                "errors are final"
            );
            break;
        }
        let len = connection.output(Time::ZERO).len();
        assert!(len <= MAX_OUTPUT_BYTES);
        connection.advance_output(len, &mut inbox);
    }
    assert!(
        inbox.events.is_empty(),
        "nothing is said before the handshake"
    );
}

/// A client's datagrams, sent to an HTTP/3 server.
pub fn h3_server(input: &[u8]) {
    let made = h3::Server::new(
        &Http3Settings::default(),
        &TlsSettings::default(),
        identity(),
        1,
    );
    let mut server = made.expect("the default settings are valid");
    let mut inbox = Inbox::new(ALL);
    let (cut, bytes) = choices(input);
    if cut % 16 == 1 {
        for mut datagram in first_flight() {
            for (at, change) in bytes
                .chunks_exact(3)
                .map(|c| (u16::from_be_bytes([c[0], c[1]]), c[2]))
            {
                let at = usize::from(at) % datagram.len();
                datagram[at] ^= change;
            }
            server.receive(&mut datagram, CLIENT, SERVER, &mut inbox);
        }
    }
    for piece in bytes.chunks(cut.max(16)) {
        server.receive(&mut piece.to_vec(), CLIENT, SERVER, &mut inbox);
    }
    while server.take_ended().is_some() {}
    assert!(server.len() <= 2, "few datagrams make few connections");
    assert!(
        inbox.events.is_empty(),
        "nothing is said before the handshake"
    );
}

/// A server's datagrams, sent to an HTTP/3 client.
pub fn h3_client(input: &[u8]) {
    let mut client = client();
    let mut inbox = Inbox::new(ALL);
    let (cut, bytes) = choices(input);
    for piece in bytes.chunks(cut.max(16)) {
        if client
            .receive(&mut piece.to_vec(), SERVER, CLIENT, &mut inbox)
            .is_err()
        {
            assert!(!client.is_open());
            break;
        }
    }
    assert!(!client.is_established() && !client.is_ready());
}

fn client() -> h3::Client {
    let (http3, tls) = (Http3Settings::default(), TlsSettings::default());
    let context = h3::ClientContext::new(&http3, &tls, &Trust::Anyone, 3);
    let mut context = context.expect("the default settings are valid");
    h3::Client::new(&mut context, "server", CLIENT, SERVER).expect("this name is valid")
}

/// A client's first datagrams.
#[allow(
    clippy::disallowed_methods,
    reason = "quiche wants an instant, any one does"
)]
fn first_flight() -> Vec<Vec<u8>> {
    let mut client = client();
    let (mut batch, mut inbox) = (Batch::new(), Inbox::new(InboxOptions::default()));
    let mut datagrams = Vec::new();
    while client.output(std::time::Instant::now(), &mut batch, &mut inbox) {
        datagrams.extend(batch.datagrams().map(<[u8]>::to_vec));
    }
    datagrams
}
