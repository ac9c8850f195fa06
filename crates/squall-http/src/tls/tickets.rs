//! The sessions that a client can resume, by server name.
//!
//! A TLS 1.3 ticket is used once (RFC 8446, appendix C.4), a TLS 1.2 session as often as the server allows. BoringSSL
//! decides whether a session is too old.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use boring::ssl::{SslSession, SslVersion};

/// How many sessions to keep per server, always the newest: BoringSSL and OpenSSL issue two per connection.
const PER_SERVER: usize = 16;

/// How many servers to keep sessions for.
const SERVERS: usize = 256;

/// The sessions of a client.
#[derive(Default)]
pub(super) struct Tickets {
    by_server: Mutex<BTreeMap<Box<str>, VecDeque<SslSession>>>,
}

impl Tickets {
    /// Stores a session.
    pub(super) fn put(&self, server: &str, session: SslSession) {
        let mut by_server = self.lock();
        if !by_server.contains_key(server) {
            if by_server.len() == SERVERS {
                by_server.pop_first();
            }
            by_server.insert(server.into(), VecDeque::new());
        }
        if let Some(sessions) = by_server.get_mut(server) {
            if sessions.len() == PER_SERVER {
                sessions.pop_front();
            }
            sessions.push_back(session);
        }
    }

    /// The newest session of a server, if there is one.
    pub(super) fn take(&self, server: &str) -> Option<SslSession> {
        let mut by_server = self.lock();
        let sessions = by_server.get_mut(server)?;
        let newest = sessions.back()?;
        if newest.protocol_version() == SslVersion::TLS1_3 {
            sessions.pop_back()
        } else {
            Some(newest.clone())
        }
    }

    /// The newest session of a server, which stays here.
    pub(super) fn newest(&self, server: &str) -> Option<SslSession> {
        self.lock().get(server)?.back().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, VecDeque<SslSession>>> {
        // No update leaves the map in an inconsistent state.
        self.by_server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
