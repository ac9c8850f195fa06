//! What a TLS or QUIC handshake tells a client about the server, besides what is negotiated for HTTP.
//!
//! Only data: [`crate::Connection::handshake_facts`] and [`crate::h3::Client::handshake_facts`] fill it in on request,
//! because a load has no use for it.

use squall_base::Duration;

use crate::tls::CertificateChain;

/// Facts about the server of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// The group of the key exchange.
    pub group: Option<&'static str>,
    /// Bytes of the TLS records with the client's first ClientHello; `None` over QUIC, where the frames show it.
    pub client_hello_bytes: Option<u64>,
    /// The certificates that the server presented.
    pub certificates: Option<CertificateChain>,
    /// What the server announced for QUIC; `None` over TCP.
    pub transport: Option<ServerTransport>,
}

/// The transport parameters of a QUIC server (RFC 9000, section 18.2) that concern requests and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTransport {
    /// max_idle_timeout; zero: no timeout.
    pub max_idle_timeout: Duration,
    /// initial_max_data, in bytes: what the client may send on the connection at first.
    pub initial_max_data_bytes: u64,
    /// initial_max_stream_data_bidi_remote, in bytes: what the client may send on a request's stream at first.
    pub initial_max_stream_data_bytes: u64,
    /// initial_max_streams_bidi: how many requests the client may begin at first.
    pub initial_max_streams_bidi: u64,
    /// max_udp_payload_size, in bytes: the largest UDP payload that the server accepts.
    pub max_udp_payload_bytes: u64,
    /// ack_delay_exponent.
    pub ack_delay_exponent: u64,
    /// max_ack_delay.
    pub max_ack_delay: Duration,
    /// active_connection_id_limit.
    pub active_connection_id_limit: u64,
    /// disable_active_migration.
    pub disables_active_migration: bool,
    /// Whether the server first validated the client's address with a Retry. Only then does it announce
    /// retry_source_connection_id.
    pub used_retry: bool,
}
