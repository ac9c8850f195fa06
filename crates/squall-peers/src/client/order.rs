//! The load that a foreign client is to generate: one request again and again, at a rate or as fast as responses
//! arrive; for a browser, one page again and again.
//!
//! squall's own client also has scripts and stages, for which these programs have no common equivalent.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;

use squall_base::plan::{Protocol, message};
use squall_base::secrets::redacted_text;
use squall_base::{Bytes, Duration, Rate};

use crate::driver::{Refusal, refuse_order};

/// What a client is to request, from which server, and how often.
#[derive(Clone, Debug)]
pub struct ClientOrder {
    /// Its name in logs and errors, and in names of files.
    pub name: String,
    /// The server's address.
    pub target: SocketAddr,
    /// The name in the URL, for SNI and certificates.
    pub server_name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// Header fields in addition to those that it always sends.
    pub headers: Vec<(String, String)>,
    /// The size of each request's body, which consists of `x`.
    pub body: Bytes,
    /// How often it sends requests.
    pub load: ClientLoad,
    /// The page to load instead of one request; `path` is then the document's.
    pub page: Option<PageOrder>,
    /// The server's public key, trusted regardless of who signed the certificate: base64 of SHA-256 of its
    /// SubjectPublicKeyInfo.
    pub pin: Option<String>,
    /// PEM file that the server's certificate is checked against; `None`: it is not checked.
    pub trust: Option<PathBuf>,
    /// A folder of its own, for configuration, logs and rows. Created if necessary.
    pub folder: PathBuf,
}

/// A page that a browser is to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrder {
    /// What the document refers to, in order.
    pub targets: Vec<String>,
    /// How long to wait for the last page.
    pub drain: Duration,
}

/// How often a client sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLoad {
    /// At a constant rate, as far as connections are free.
    Rate {
        /// The rate of all connections together.
        rate: Rate,
        /// The length of the load.
        duration: Duration,
        /// The number of connections that share it.
        connections: u32,
    },
    /// Each response is followed by the next request.
    Closed {
        /// The number of connections.
        connections: u32,
        /// Requests in flight on each connection.
        streams: u32,
        /// When it ends.
        end: LoadEnd,
    },
}

/// When a closed load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    /// After this many requests on all connections together.
    Requests(u64),
    /// After this time.
    After(Duration),
}

impl ClientLoad {
    /// The number of connections.
    pub fn connections(self) -> u32 {
        match self {
            ClientLoad::Rate { connections, .. } | ClientLoad::Closed { connections, .. } => {
                connections
            }
        }
    }

    /// The total number of requests, if known in advance.
    pub fn requests(self) -> Option<u64> {
        match self.end() {
            LoadEnd::Requests(requests) => Some(requests),
            LoadEnd::After(_) => None,
        }
    }

    /// When the load ends; a load at a rate ends after its last request.
    pub(crate) fn end(self) -> LoadEnd {
        match self {
            ClientLoad::Rate { rate, duration, .. } => LoadEnd::Requests(rate.events_in(duration)),
            ClientLoad::Closed { end, .. } => end,
        }
    }

    /// The number of requests in flight on each connection.
    pub(crate) fn streams(self) -> u32 {
        match self {
            ClientLoad::Rate { .. } => 1,
            ClientLoad::Closed { streams, .. } => streams,
        }
    }
}

impl ClientOrder {
    /// The URL that it requests.
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

    /// Whether the order's URL has a secret, such as a token in the query.
    pub(super) fn has_secret_url(&self) -> bool {
        matches!(redacted_text(&self.url()), Cow::Owned(_))
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
            "its method, path or header fields are invalid"
        } else if self.load.connections() == 0 || self.load.streams() == 0 {
            "it needs at least 1 connection and 1 stream"
        } else if self.load.requests() == Some(0) {
            "it has no request to send"
        } else {
            return Ok(());
        };
        refuse_order(program, why)
    }

    /// Refuses a protocol that is not one of these.
    pub(super) fn require_protocol(&self, program: &str, can: &[Protocol]) -> Result<(), Refusal> {
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
