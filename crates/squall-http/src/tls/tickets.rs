//! The sessions that a client may resume, by the name of the server.
//!
//! A ticket of TLS 1.3 is used once (RFC 8446, appendix C.4), a session of TLS 1.2 as often as the server lets it.
//! Whether one is too old is BoringSSL's to judge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use boring::ssl::{SslSession, SslVersion};

/// Sessions kept of one server, the newest ones: a server gives two with each connection (BoringSSL, OpenSSL).
const PER_SERVER: usize = 16;

/// Servers whose sessions are kept.
const SERVERS: usize = 256;

/// The sessions of a client.
#[derive(Default)]
pub(super) struct Tickets {
    by_server: Mutex<BTreeMap<Box<str>, VecDeque<SslSession>>>,
}

impl Tickets {
    /// Keeps a session.
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, VecDeque<SslSession>>> {
        // No update leaves the map halfway.
        self.by_server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
