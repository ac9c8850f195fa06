//! The QUIC configuration: certificates, trust, and the settings of HTTP/3 and TLS.
//!
//! A configuration is built once and shared by all connections of a client or server, because building one parses
//! certificates. QUIC supports only TLS 1.3 (RFC 9001, section 4.2), whose ciphers BoringSSL does not let us choose, and it
//! has no TLS records. So of the TLS settings only `max_version`, `groups` and `resumption` matter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use boring::error::ErrorStack;
use boring::sha::sha256;
use boring::ssl::{SslContext, SslContextBuilder, SslMethod, SslOptions};
use quiche::CongestionControlAlgorithm;
use squall_base::plan::{Http3Settings, QuicCongestionControl, TlsSettings, TlsVersion};
use thiserror::Error;

use super::IDLE_TIMEOUT;
use super::buffers::EndpointBuffers;
use crate::tls::{self, Identity, Trust};

/// How many unidirectional streams the peer may have open. HTTP/3 and QPACK need three (RFC 9114, section 6.2); the
/// rest are for extensions.
const MAX_PEER_UNI_STREAMS: u64 = 8;

/// How much the peer may send on each of them: SETTINGS and the like.
const UNI_STREAM_WINDOW_BYTES: u64 = 16 * 1024;

/// The length of our connection ids, which short headers do not state.
pub(super) const ID_BYTES: usize = 16;

/// Settings or certificates with which no connection can be created.
#[derive(Debug, Error)]
pub enum SetupError {
    /// TLS 1.3 is not allowed.
    #[error("HTTP/3 needs TLS 1.3, and the newest version allowed is {0}")]
    TlsVersion(TlsVersion),
    /// No datagram of that size can be sent.
    #[error(
        "a UDP payload of {} bytes: expected {} to {}", .0,
        Http3Settings::UDP_PAYLOADS.start().get(), Http3Settings::UDP_PAYLOADS.end().get()
    )]
    UdpPayload(u64),
    /// A window that would never let a byte through.
    #[error("an HTTP/3 window of 0 bytes")]
    Window,
    /// BoringSSL rejected a certificate or key.
    #[error("a certificate or key cannot be used: {0}")]
    Certificate(#[from] ErrorStack),
    /// The trust settings could not be applied.
    #[error(transparent)]
    Tls(#[from] tls::SetupError),
    /// quiche rejected a setting or the name of a server.
    #[error("cannot set up QUIC: {0}")]
    Quic(#[from] quiche::Error),
}

/// quiche's configuration for a server.
pub(super) fn server_config(
    settings: &Http3Settings,
    tls: &TlsSettings,
    identity: &Identity,
) -> Result<quiche::Config, SetupError> {
    let mut builder = context(tls)?;
    identity.install(&mut builder)?;
    if !tls.resumption {
        builder.set_options(SslOptions::NO_TICKET);
    }
    config(settings, builder)
}

fn client_config(
    settings: &Http3Settings,
    tls: &TlsSettings,
    trust: &Trust,
    identity: Option<&Identity>,
) -> Result<quiche::Config, SetupError> {
    let mut builder = context(tls)?;
    trust.install(&mut builder)?;
    if let Some(identity) = identity {
        identity.install(&mut builder)?;
    }
    config(settings, builder)
}

fn context(tls: &TlsSettings) -> Result<SslContextBuilder, SetupError> {
    if tls.max_version < TlsVersion::Tls13 {
        return Err(SetupError::TlsVersion(tls.max_version));
    }
    let mut builder = SslContext::builder(SslMethod::tls())?;
    tls::set_groups(&mut builder, tls)?;
    Ok(builder)
}

fn config(
    settings: &Http3Settings,
    builder: SslContextBuilder,
) -> Result<quiche::Config, SetupError> {
    let (stream, connection) = (
        settings.stream_window.get(),
        settings.connection_window.get(),
    );
    if stream == 0 || connection == 0 {
        return Err(SetupError::Window);
    }
    let bytes = settings.max_udp_payload.get();
    let payload = usize::try_from(bytes)
        .ok()
        .filter(|_| Http3Settings::UDP_PAYLOADS.contains(&settings.max_udp_payload))
        .ok_or(SetupError::UdpPayload(bytes))?;

    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, builder)?;
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
    config.log_keys();
    config.grease(false);
    config.discover_pmtu(false);
    config.set_disable_active_migration(true);
    config.set_max_idle_timeout(IDLE_TIMEOUT.as_nanos() / 1_000_000);
    config.set_max_ack_delay(settings.max_ack_delay.as_nanos() / 1_000_000);
    config.set_max_recv_udp_payload_size(payload);
    config.set_max_send_udp_payload_size(payload);
    config.set_initial_max_data(connection);
    config.set_initial_max_stream_data_bidi_local(stream);
    config.set_initial_max_stream_data_bidi_remote(stream);
    // quiche has one maximum for both kinds of streams, so no initial window may exceed it. RFC 9114, section 6.2,
    // recommends at least 1,024 bytes.
    config.set_initial_max_stream_data_uni(UNI_STREAM_WINDOW_BYTES.min(stream));
    config.set_initial_max_streams_bidi(u64::from(settings.max_concurrent_streams));
    config.set_initial_max_streams_uni(MAX_PEER_UNI_STREAMS);
    // Without these, quiche would let the windows grow to 24 and 16 MB on its own.
    config.set_max_connection_window(connection);
    config.set_max_stream_window(stream);
    config.set_cc_algorithm(match settings.congestion_control {
        QuicCongestionControl::Cubic => CongestionControlAlgorithm::CUBIC,
        QuicCongestionControl::Reno => CongestionControlAlgorithm::Reno,
        QuicCongestionControl::Bbr2 => CongestionControlAlgorithm::Bbr2Gcongestion,
    });
    config.enable_pacing(settings.pacing);
    Ok(config)
}

/// What a client's connections share: the configuration, and the tickets for resumption.
pub struct ClientContext {
    pub(super) config: quiche::Config,
    pub(super) settings: Http3Settings,
    /// `None`: sessions are not resumed.
    pub(super) sessions: Option<Sessions>,
    pub(super) ids: ConnectionIds,
    /// Counts the bytes that the client's connections hold.
    pub(super) buffers: EndpointBuffers,
}

impl ClientContext {
    /// A context whose connection ids are derived from `seed`. Sessions are resumed only within the context.
    pub fn new(
        settings: &Http3Settings,
        tls: &TlsSettings,
        trust: &Trust,
        seed: u64,
    ) -> Result<ClientContext, SetupError> {
        ClientContext::with_identity(settings, tls, trust, None, seed)
    }

    /// A context that also presents its identity, if it has one, to servers that request it.
    pub fn with_identity(
        settings: &Http3Settings,
        tls: &TlsSettings,
        trust: &Trust,
        identity: Option<&Identity>,
        seed: u64,
    ) -> Result<ClientContext, SetupError> {
        Ok(ClientContext {
            config: client_config(settings, tls, trust, identity)?,
            settings: *settings,
            sessions: tls.resumption.then(Sessions::default),
            ids: ConnectionIds::of_client(seed),
            buffers: EndpointBuffers::default(),
        })
    }

    /// The bytes of early data (0-RTT) that the newest ticket of a server allows, 0 if it offers none; `None` if no session
    /// of this server is kept. Early data is never sent.
    pub fn early_data_bytes(&self, server_name: &str) -> Option<u32> {
        // quiche puts a length before the session.
        const LENGTH_BYTES: usize = 8;
        let session = self.sessions.as_ref()?.find(server_name)?;
        Some(tls::early_data_bytes(session.get(LENGTH_BYTES..)?))
    }
}

/// The newest session of each server, by name. Clones share the map.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Sessions {
    pub(super) fn find(&self, server_name: &str) -> Option<Vec<u8>> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(server_name).cloned()
    }

    pub(super) fn store(&self, server_name: &str, session: &[u8]) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(server_name.to_owned(), session.to_vec());
    }
}

/// A sequence of connection ids derived from a seed.
///
/// A client that uses one of the server's ids has received it (RFC 9000, section 8.1), so it must be impossible to
/// compute the next id from earlier ones: each is a hash of the seed.
#[derive(Debug)]
pub(super) struct ConnectionIds {
    purpose: &'static [u8],
    seed: u64,
    count: u64,
}

impl ConnectionIds {
    pub(super) fn of_client(seed: u64) -> ConnectionIds {
        ConnectionIds {
            purpose: b"squall client id",
            seed,
            count: 0,
        }
    }

    pub(super) fn of_server(seed: u64) -> ConnectionIds {
        ConnectionIds {
            purpose: b"squall server id",
            seed,
            count: 0,
        }
    }

    pub(super) fn next(&mut self) -> [u8; ID_BYTES] {
        let numbers = [self.seed.to_be_bytes(), self.count.to_be_bytes()].concat();
        self.count += 1;
        let hash = sha256(&[self.purpose, numbers.as_slice()].concat());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&hash[..ID_BYTES]);
        id
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;

    use super::*;

    fn set_up(max_udp_payload: u64) -> Result<ClientContext, SetupError> {
        let settings = Http3Settings {
            max_udp_payload: Bytes::new(max_udp_payload),
            ..Http3Settings::default()
        };
        ClientContext::new(&settings, &TlsSettings::default(), &Trust::Anyone, 0)
    }

    #[test]
    fn udp_payload_sizes_outside_the_recipe_range_are_refused() {
        for bytes in [1_200, 65_507] {
            assert!(set_up(bytes).is_ok(), "{bytes}");
        }
        for bytes in [1_199, 65_508, u64::MAX] {
            let error = set_up(bytes).err().expect("no datagram has that size");
            let said = format!("a UDP payload of {bytes} bytes: expected 1200 to 65507");
            assert_eq!(error.to_string(), said);
        }
    }
}
