//! Opening connections, for the embedded client and the proxy alike: where to, how, and where they are kept.
//!
//! `connection` is one connection with its handshakes; `transport` carries its bytes, over `tcp` or `quic`;
//! `tunnel` leads through an HTTP proxy, or through a SOCKS5 proxy (`socks`); `pools` holds connections and what waits
//! for them. Their owner decides when to open, what to send and what events mean. `accept` is the opposite: it accepts
//! connections.

mod connection;
mod pools;
mod quic;
mod socks;
mod tcp;
mod transport;
mod tunnel;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use squall_base::plan::{Protocol, SideSettings};
use squall_http::{ConnectionError, CreateError, h3, tls};
use squall_linux::socket::SocketError;

pub(crate) use connection::{Availability, DialedConnection};
pub(crate) use pools::{ConnectionKey, ConnectionPools};
pub use socks::{SocksDestination, SocksLogin, SocksRoute};
pub(crate) use transport::Transport;

/// A server that a station opens connections to.
#[derive(Clone)]
pub struct Target {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The name or address that its certificate must match.
    pub server_name: String,
    /// TLS over TCP: what the client offers and which certificates it trusts; `None`: cleartext.
    pub security: Option<tls::ClientContext>,
    /// The TLS context for QUIC.
    pub quic: Option<Arc<Mutex<h3::ClientContext>>>,
    /// How connections get there.
    pub route: Route,
}

/// How connections get to a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// To its address.
    #[default]
    Direct,
    /// Over TCP, to the HTTP proxy at its address, which opens a tunnel to this host and port (CONNECT).
    Tunnel(String),
    /// Over TCP, to the SOCKS5 proxy at its address, which connects to the destination.
    Socks(SocksRoute),
    /// To this UNIX socket instead of its address, in place of TCP.
    UnixSocket(PathBuf),
}

impl Target {
    /// The address to which packets are sent; `None` for a UNIX socket.
    pub fn packets_to(&self) -> Option<SocketAddr> {
        match self.route {
            Route::Direct | Route::Tunnel(_) | Route::Socks(_) => Some(self.address),
            Route::UnixSocket(_) => None,
        }
    }
}

/// The target of a connection, and how the connection begins.
#[derive(Clone, Copy)]
pub(crate) struct Dial<'a> {
    pub(crate) target: &'a Target,
    pub(crate) protocol: Protocol,
    /// Whether HTTP/1.1 in cleartext asks for HTTP/2 (`upgrade: h2c`).
    pub(crate) asks_for_http2: bool,
    pub(crate) side: &'a SideSettings,
}

/// Why a connection could not even be started.
#[derive(Debug)]
pub(crate) enum OpenError {
    Engine(CreateError),
    Socket(SocketError),
    Quic(h3::SetupError),
}

/// The result of one read or write.
#[derive(Debug)]
pub(crate) enum IoOutcome {
    /// Something was moved, and there may be more.
    More,
    /// All that could be moved now.
    Done,
    /// The connection has ended: cleanly, with this message, or with an error.
    End(Result<String, ConnectionError>),
}

impl Dial<'_> {
    /// Whether the settings rather than the machine caused an error: they allow few local ports, and all of these are
    /// in use.
    pub(crate) fn is_cause_of(&self, error: &SocketError) -> bool {
        let ports = match self.protocol {
            Protocol::H3 => self.side.http3.local_ports,
            _ => self.side.tcp.local_ports,
        };
        ports.is_some() && error.lacks_port()
    }
}
