//! What is known about a connection as a whole, whether or not its content can be read. Its exchanges and frames are
//! rows of their own, in `exchange`.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Side, Way};
use squall_http::ConnectionError;

/// One connection, as seen from one end of the link. Times of events that did not happen are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionRecord {
    /// The end that saw it.
    #[serde(serialize_with = "by_name")]
    pub side: Side,
    /// Its number, from 0 in the order in which connections reached the link. Both ends give it the same one.
    pub connection: u32,
    /// The transport.
    pub transport: Transport,
    /// The client's address. If the beginning was not seen: the address that sent a request, otherwise the one with the
    /// higher port.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// Whether it was already open when its first packet was seen.
    pub began_before: bool,
    /// When its first packet was seen.
    #[serde(rename = "opened_ns")]
    pub opened: Time,
    /// When the SYN-ACK was seen.
    #[serde(rename = "accepted_ns")]
    pub accepted: Option<Time>,
    /// When the client's acknowledgement of the SYN-ACK was seen.
    #[serde(rename = "established_ns")]
    pub established: Option<Time>,
    /// When its last packet was seen.
    #[serde(rename = "last_ns")]
    pub last: Time,
    /// How it ended.
    pub ending: Ending,
    /// What the client sent.
    pub from_client: Traffic,
    /// What the server sent.
    pub from_server: Traffic,
    /// TLS facts from its cleartext messages, or also from encrypted ones if the keys are known.
    pub tls: Option<TlsFacts>,
    /// The protocol, if the content could be read.
    #[serde(serialize_with = "name_of")]
    pub protocol: Option<Protocol>,
    /// Number of exchanges found.
    pub exchanges: u64,
    /// Number of HTTP/2, HTTP/3 and QUIC frames found.
    pub frames: u64,
    /// Why it could not be read to its end.
    pub opaque: Option<OpaqueReason>,
}

impl ConnectionRecord {
    /// A connection that is open since its first packet; the caller adds what it learns later. `client_sends` is the
    /// direction of its client's packets, which determines the end that sees it.
    pub(crate) fn first_seen(
        connection: u32,
        transport: Transport,
        now: Time,
        client_sends: Way,
        [client, server]: [SocketAddr; 2],
    ) -> ConnectionRecord {
        ConnectionRecord {
            side: side_of(client_sends),
            connection,
            transport,
            client,
            server,
            began_before: false,
            opened: now,
            accepted: None,
            established: None,
            last: now,
            ending: Ending::Open,
            from_client: Traffic::default(),
            from_server: Traffic::default(),
            tls: None,
            protocol: None,
            exchanges: 0,
            frames: 0,
            opaque: None,
        }
    }
}

/// The end that sees a connection whose client's packets go in this direction.
pub(crate) fn side_of(client_sends: Way) -> Side {
    match client_sends {
        Way::Sent => Side::Client,
        Way::Received => Side::Server,
    }
}

/// The transport protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// QUIC (RFC 9000).
    Quic,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Both sides had sent everything (FIN), or it was closed by QUIC's CONNECTION_CLOSE.
    Closed,
    /// By RST.
    Reset,
    /// It was still open when the observer finished, or when its addresses were reused.
    Open,
}

/// What one side sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets, including those without payload.
    pub packets: u64,
    /// Payload bytes: for TCP those of the stream, without retransmitted ones; for QUIC those of the datagrams.
    pub bytes: u64,
    /// Bytes that were seen more than once. These are retransmissions, unless the link duplicates packets.
    pub repeated_bytes: u64,
    /// TCP segments, or QUIC STREAM frames, that arrived out of order.
    pub early_segments: u64,
    /// Dropped bytes: they arrived too far out of order for the receiver's window, or 64 MiB (QUIC: 16 MiB) were
    /// waiting.
    pub refused_bytes: u64,
    /// Bytes of the stream that were never seen although they were acknowledged or followed by others: the capture
    /// lacks them.
    pub missing_bytes: u64,
    /// Bytes of its packets that the capture cut off (snaplen). Those of a TCP stream are also missing, unless they were
    /// repeated.
    pub cut_bytes: u64,
}

/// What is known about a connection's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlsFacts {
    /// The negotiated version as its number on the wire: 0x0304 is TLS 1.3.
    pub version: Option<u16>,
    /// The cipher suite (IANA's TLS Cipher Suites).
    pub cipher: Option<u16>,
    /// The server name that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The protocols that the client offered by ALPN.
    pub offered: Vec<String>,
    /// The protocol that ALPN agreed on. TLS 1.3 encrypts it.
    pub alpn: Option<String>,
    /// Whether the handshake resumed a session.
    pub resumed: Option<bool>,
    /// Whether the server requested a second ClientHello (HelloRetryRequest).
    pub retried: bool,
    /// Whether the server accepted early data; `None` if that was not seen.
    pub early_data: Option<bool>,
    /// When the first ClientHello was complete.
    #[serde(rename = "client_hello_ns")]
    pub client_hello: Option<Time>,
    /// When the ServerHello was complete.
    #[serde(rename = "server_hello_ns")]
    pub server_hello: Option<Time>,
    /// When the handshake was complete on both sides. In TLS 1.3 that is the client's Finished; without keys the
    /// client's first encrypted record stands in for it.
    #[serde(rename = "done_ns")]
    pub done: Option<Time>,
    /// Whether any record was decrypted.
    pub deciphered: bool,
}

/// Why a connection could not be read from some point on. Unreadable content is never guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why", content = "what")]
pub enum OpaqueReason {
    /// It was already open when its first packet was seen, and no later packet offered a place to start reading.
    BeganBefore,
    /// The capture lacks packets.
    Gap,
    /// The capture has its packets only in part: up to a length (snaplen).
    Snaplen,
    /// It is TLS or QUIC, and the key log does not have its secrets.
    NoKeys,
    /// It is TLS with a cipher suite that this crate cannot decrypt: one without AEAD, or an unknown one.
    Cipher(u16),
    /// A record, or every QUIC packet, failed to decrypt with the secrets in the key log.
    Undeciphered,
    /// It is neither TLS nor HTTP. It has no exchanges.
    NotHttp,
    /// It violated its protocol.
    Unclear(String),
    /// It switched to another protocol, by status 101 or CONNECT.
    Switched,
    /// Too many bytes were waiting: for secrets, or for the client's first byte.
    Overfull,
}

impl OpaqueReason {
    /// A violation of the protocol, in these words.
    pub(crate) fn unclear(what: impl Into<String>) -> OpaqueReason {
        OpaqueReason::Unclear(what.into())
    }

    /// The reason for a failed parse as HTTP/1.1.
    pub(crate) fn of_http(error: &ConnectionError) -> OpaqueReason {
        match error {
            ConnectionError::Connect => OpaqueReason::Switched,
            error => OpaqueReason::unclear(error.to_string()),
        }
    }
}

impl fmt::Display for OpaqueReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpaqueReason::BeganBefore => f.write_str(
                "it was open before the capture began, and no packet of it begins a request, HTTP/2 or a TLS handshake",
            ),
            OpaqueReason::Gap => f.write_str("packets are missing in the capture"),
            OpaqueReason::Snaplen => {
                f.write_str("its packets were cut short by the capture (snaplen)")
            }
            OpaqueReason::NoKeys => f.write_str("it is TLS, and the key log has no secrets of it"),
            OpaqueReason::Cipher(suite) => {
                write!(f, "its cipher suite, {suite:#06x}, cannot be decrypted")
            }
            OpaqueReason::Undeciphered => {
                f.write_str("a record could not be decrypted with the key log")
            }
            OpaqueReason::NotHttp => f.write_str("it is neither TLS nor HTTP"),
            OpaqueReason::Unclear(what) => f.write_str(what),
            OpaqueReason::Switched => f.write_str("it went on with another protocol"),
            OpaqueReason::Overfull => {
                f.write_str("too much data waited for secrets or for the client")
            }
        }
    }
}

fn by_name<S: serde::Serializer>(side: &Side, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(side.name())
}

fn name_of<S: serde::Serializer>(
    protocol: &Option<Protocol>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match protocol {
        Some(protocol) => serializer.serialize_some(protocol.name()),
        None => serializer.serialize_none(),
    }
}
