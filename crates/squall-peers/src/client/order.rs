//! The load that a foreign client shall make: one request, again and again, at a rate or as fast as answers come; or of a
//! browser a page, again and again.
//!
//! Shapes that squall's own client has besides (scripts, stages) none of these programs has alike.

use std::net::SocketAddr;
use std::path::PathBuf;

use squall_base::plan::{Protocol, message};
use squall_base::{Bytes, Duration, Rate};

use crate::driver::{Refusal, not_so};

/// What a client shall ask, whom, and how often.
#[derive(Clone, Debug)]
pub struct ClientOrder {
    /// What logs and errors call it; it names files too.
    pub name: String,
    /// Whom it connects to.
    pub target: SocketAddr,
    /// The name in the URL, for SNI and certificates.
    pub server_name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// Header fields besides those that it sends anyway.
    pub headers: Vec<(String, String)>,
    /// The size of each request's body, of `x`.
    pub body: Bytes,
    /// How often.
    pub load: ClientLoad,
    /// What it loads, in place of the one request: then `path` is the document's.
    pub page: Option<PageOrder>,
    /// The server's public key, trusted whoever signed the certificate: base64 of SHA-256 of its SubjectPublicKeyInfo.
    pub pin: Option<String>,
    /// PEM file of what the server's certificate is checked against; `None`: it is not checked.
    pub trust: Option<PathBuf>,
    /// A folder of its own, for configuration, logs and rows. It is made if need be.
    pub folder: PathBuf,
}

/// A page that a browser shall load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrder {
    /// What the document refers to, in its order.
    pub targets: Vec<String>,
    /// How long the last page is waited for.
    pub drain: Duration,
}

/// How often a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLoad {
    /// At a constant rate, as far as connections are free.
    Rate {
        /// The rate of all connections together.
        rate: Rate,
        /// For how long.
        duration: Duration,
        /// How many connections share it.
        connections: u32,
    },
    /// Each answer is followed by the next request.
    Closed {
        /// How many connections.
        connections: u32,
        /// Requests at a time on each.
        streams: u32,
        /// When it is over.
        end: LoadEnd,
    },
}

/// When a closed load is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    /// After so many requests of all connections together.
    Requests(u64),
    /// After this time.
    After(Duration),
}

impl ClientLoad {
    /// How many connections.
    pub fn connections(self) -> u32 {
        match self {
            ClientLoad::Rate { connections, .. } | ClientLoad::Closed { connections, .. } => {
                connections
            }
        }
    }

    /// How many requests there are in all, if that is known before.
    pub fn requests(self) -> Option<u64> {
        match self {
            ClientLoad::Rate { rate, duration, .. } => Some(rate.events_in(duration)),
            ClientLoad::Closed {
                end: LoadEnd::Requests(requests),
                ..
            } => Some(requests),
            ClientLoad::Closed { .. } => None,
        }
    }

    /// How many requests at a time on each connection.
    pub(crate) fn streams(self) -> u32 {
        match self {
            ClientLoad::Rate { .. } => 1,
            ClientLoad::Closed { streams, .. } => streams,
        }
    }
}

impl ClientOrder {
    /// The URL that it asks for.
    pub fn url(&self) -> String {
        let scheme = if self.protocol.is_secure() {
            "https"
        } else {
            "http"
        };
        format!(
            "{scheme}://{}:{}{}",
            self.server_name,
            self.target.port(),
            self.path
        )
    }

    pub(super) fn check(&self, program: &str) -> Result<(), Refusal> {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_name = |text: &str| {
            !text.is_empty() && !text.starts_with(['.', '-']) && text.chars().all(plain)
        };
        let are_fields = self
            .headers
            .iter()
            .all(|(name, value)| message::is_header_name(name) && message::is_header_value(value));
        let why = if !is_name(&self.name) || !is_name(&self.server_name) {
            "its name and server_name may have letters, digits, '.', '-' and '_' only"
        } else if !message::is_method(&self.method)
            || !message::is_target(&self.path)
            || !are_fields
        {
            "its method, path or header fields are none"
        } else if self.load.connections() == 0 || self.load.streams() == 0 {
            "it needs at least 1 connection and 1 stream"
        } else if self.load.requests() == Some(0) {
            "it is to send no request"
        } else {
            return Ok(());
        };
        Err(not_so(program, why))
    }

    /// Refuses a protocol that is not one of these, and streams where there are none.
    pub(super) fn speaks(&self, program: &str, can: &[Protocol]) -> Result<(), Refusal> {
        if !can.contains(&self.protocol) {
            return Err(Refusal::Upstream {
                program: program.to_owned(),
                asked: self.protocol,
                can: can.to_vec(),
            });
        }
        Ok(())
    }
}
