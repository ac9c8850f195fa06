//! Settings of one side, or of one host, that are each valid but contradict each other.
//!
//! Where the settings come from does not matter here, nor where in a text the contradiction is reported: `read` does that
//! for recipes. `settings` exports both for the command line.

use squall_base::Bytes;
use squall_base::plan::{
    Hop, Implementation, Protocol, SideSettings, TlsGroup, TlsVersion, Variant, Version,
    WindowUpdates,
};
use thiserror::Error;

/// Settings that are each valid but contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// No version of TLS is left.
    #[error("TLS versions from {min} to {max}")]
    TlsVersions {
        /// The oldest that is allowed.
        min: TlsVersion,
        /// The newest that is allowed.
        max: TlsVersion,
    },
    /// QUIC needs TLS 1.3 (RFC 9001, section 4.2).
    #[error("HTTP/3 with TLS {0} at most")]
    OldTlsInQuic(TlsVersion),
    /// Groups that only TLS 1.3 has, without TLS 1.3: no key exchange is left.
    #[error("TLS {max} at most with the groups {groups} alone, which only TLS 1.3 has")]
    GroupsOfNewerTls {
        /// The newest version that is allowed.
        max: TlsVersion,
        /// The groups, with colons between them.
        groups: String,
    },
    /// Window updates that are never sent, because the window is used up before one is due.
    #[error("window updates every {every} with a window of {window}")]
    UpdatesBeyondWindow {
        /// After how many bytes an update is due.
        every: Bytes,
        /// The window that is used up before that.
        window: Bytes,
    },
}

/// Checks that the settings do not contradict each other on a hop of that protocol. Parts that the protocol does not use
/// are ignored.
///
/// # Errors
/// The first contradiction.
pub fn check(settings: &SideSettings, protocol: Protocol) -> Result<(), Conflict> {
    let (min, max) = (settings.tls.min_version, settings.tls.max_version);
    if protocol == Protocol::H3 && max < TlsVersion::Tls13 {
        return Err(Conflict::OldTlsInQuic(max));
    }
    if protocol.is_secure() && min > max {
        return Err(Conflict::TlsVersions { min, max });
    }
    let groups = settings.tls.groups.as_deref().unwrap_or(&TlsGroup::ALL);
    if protocol.is_secure()
        && max < TlsVersion::Tls13
        && groups.iter().all(|group| group.needs_tls13())
    {
        let names: Vec<&str> = groups.iter().map(|group| group.name()).collect();
        let groups = names.join(":");
        return Err(Conflict::GroupsOfNewerTls { max, groups });
    }
    let http2 = &settings.http2;
    let window = http2.stream_window.min(http2.connection_window);
    match http2.window_updates {
        WindowUpdates::Every(every) if protocol.version() == Version::Http2 && every > window => {
            Err(Conflict::UpdatesBeyondWindow { every, window })
        }
        _ => Ok(()),
    }
}

/// A setting of a host for which two hops have different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{key} differs between hop {before} and hop {behind}, which share a host")]
pub struct Disagreement {
    /// The setting.
    pub key: &'static str,
    /// The hop whose server's side is in the host.
    pub before: u8,
    /// The hop whose client's side is in the host.
    pub behind: u8,
}

/// Finds a host setting that differs between two consecutive links although they share a host: the server's side of the one
/// and the client's side of the other are in it. `None` if all agree.
pub(crate) fn shared_hosts(variant: &Variant) -> Option<Disagreement> {
    let links: Vec<(u8, &Hop)> = variant.link_hops().collect();
    links.windows(2).find_map(|pair| {
        let [(before, first), (behind, second)] = pair else {
            return None;
        };
        let (server, client) = (&first.server.tcp, &second.client.tcp);
        let ends = [usize::from(*before), usize::from(*behind) - 1];
        let is_program = |place: usize| variant.stations[place].runs != Implementation::Embedded;
        // Our own stations set buffers on their sockets.
        let share_buffers = ends.into_iter().all(is_program);
        let differing = [
            (
                "tcp.slow_start_after_idle",
                server.slow_start_after_idle != client.slow_start_after_idle,
            ),
            (
                "tcp.send_buffer",
                share_buffers && server.send_buffer != client.send_buffer,
            ),
            (
                "tcp.receive_buffer",
                share_buffers && server.receive_buffer != client.receive_buffer,
            ),
        ];
        let (key, _) = differing.into_iter().find(|(_, differs)| *differs)?;
        Some(Disagreement {
            key,
            before: *before,
            behind: *behind,
        })
    })
}

impl Conflict {
    /// What was expected instead.
    pub fn expected(&self) -> &'static str {
        match self {
            Conflict::TlsVersions { .. } => "a `min_version` that is no newer than `max_version`",
            Conflict::OldTlsInQuic { .. } => "`max_version` \"1.3\", which QUIC needs",
            Conflict::GroupsOfNewerTls { .. } => {
                "an additional group, such as X25519, or `max_version` \"1.3\""
            }
            Conflict::UpdatesBeyondWindow { .. } => {
                "updates that are due before the window of a stream or connection is used up"
            }
        }
    }

    /// The table that the settings are in.
    pub(crate) fn table(&self) -> &'static str {
        match self {
            Conflict::TlsVersions { .. }
            | Conflict::OldTlsInQuic { .. }
            | Conflict::GroupsOfNewerTls { .. } => "tls",
            Conflict::UpdatesBeyondWindow { .. } => "http2",
        }
    }
}
