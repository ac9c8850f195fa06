//! What is known of a connection as a whole, whether or not it can be read.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Side, Way};
use squall_http::ConnectionError;

/// One connection, as one end of the link saw it. Times that never came are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionRecord {
    /// At whose end it was seen.
    #[serde(serialize_with = "by_name")]
    pub side: Side,
    /// Its number: both ends have the same, from 0 in the order in which connections came to the link.
    pub connection: u32,
    /// What carries it.
    pub transport: Transport,
    /// The client's address. Where the beginning was not seen: the one that sent a request, or else has the higher port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Whether it was open before the first packet of it that was seen.
    pub began_before: bool,
    /// When its first packet was seen.
    #[serde(rename = "opened_ns")]
    pub opened: Time,
    /// When the SYN-ACK was.
    #[serde(rename = "accepted_ns")]
    pub accepted: Option<Time>,
    /// When the client's acknowledgement of that was.
    #[serde(rename = "established_ns")]
    pub established: Option<Time>,
    /// When its last packet was.
    #[serde(rename = "last_ns")]
    pub last: Time,
    /// How it ended.
    pub ending: Ending,
    /// What the client sent.
    pub from_client: Traffic,
    /// What the server sent.
    pub from_server: Traffic,
    /// What its TLS said in the clear, or to somebody with the keys.
    pub tls: Option<TlsFacts>,
    /// What is spoken, if it could be read.
    #[serde(serialize_with = "name_of")]
    pub protocol: Option<Protocol>,
    /// Exchanges that were found.
    pub exchanges: u64,
    /// Frames of HTTP/2, HTTP/3 and QUIC that were.
    pub frames: u64,
    /// Why no more could be read.
    pub opaque: Option<Opaque>,
}

impl ConnectionRecord {
    /// A connection, open since its first packet; its owner adds what it learns. `client_sends` says which way its client's
    /// packets go, and so at whose end they are seen.
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

/// At whose end a connection is seen whose client's packets go this way.
pub(crate) fn side_of(client_sends: Way) -> Side {
    match client_sends {
        Way::Sent => Side::Client,
        Way::Received => Side::Server,
    }
}

/// What carries a connection.
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
    /// Both sides had sent all they had (FIN).
    Closed,
    /// By RST.
    Reset,
    /// It had not when the observer did, or its addresses served another.
    Open,
}

/// What one side sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets, those without payload too.
    pub packets: u64,
    /// Bytes of payload: of the stream for TCP, without repetitions; of datagrams for QUIC.
    pub bytes: u64,
    /// Bytes that were seen more than once: retransmissions, if a link duplicates nothing.
    pub repeated_bytes: u64,
    /// Segments, or frames of QUIC's streams, that came before their turn.
    pub early_segments: u64,
    /// Bytes that came so early that the receiver had no room for them, or that 64 MiB were waiting; they are forgotten.
    pub refused_bytes: u64,
    /// Bytes of the stream that never came and yet were acknowledged, or were followed by others: the capture lacks them.
    pub missing_bytes: u64,
}

/// What is known of a connection's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlsFacts {
    /// The version that was agreed on, as it is numbered: 0x0304 is TLS 1.3.
    pub version: Option<u16>,
    /// The cipher suite (IANA's TLS Cipher Suites).
    pub cipher: Option<u16>,
    /// The name that the client asked for (SNI).
    pub server_name: Option<String>,
    /// What the client offered by ALPN.
    pub offered: Vec<String>,
    /// What was agreed on by ALPN. TLS 1.3 encrypts it.
    pub alpn: Option<String>,
    /// Whether a session was resumed.
    pub resumed: Option<bool>,
    /// Whether the server asked for another ClientHello (HelloRetryRequest).
    pub retried: bool,
    /// Whether the server took early data; `None` if that was not seen.
    pub early_data: Option<bool>,
    /// When the first ClientHello was whole.
    #[serde(rename = "client_hello_ns")]
    pub client_hello: Option<Time>,
    /// When the ServerHello was.
    #[serde(rename = "server_hello_ns")]
    pub server_hello: Option<Time>,
    /// When both sides were done. In TLS 1.3 that is the client's Finished; without keys its first encrypted record
    /// stands for it.
    #[serde(rename = "done_ns")]
    pub done: Option<Time>,
    /// Whether records were deciphered.
    pub deciphered: bool,
}

/// Why a connection could not be read from some point on. What is opaque is never guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why", content = "what")]
pub enum Opaque {
    /// It was open before the first packet that was seen, and what came is no beginning.
    BeganBefore,
    /// Packets are missing in the capture.
    Gap,
    /// It is TLS or QUIC, and the key log has no secrets of it.
    NoKeys,
    /// It is TLS with a cipher suite that is not deciphered here: one without AEAD, or none that is known.
    Cipher(u16),
    /// A record, or all packets of QUIC, could not be deciphered by the secrets of the key log.
    Undeciphered,
    /// It is neither TLS nor HTTP.
    NotHttp,
    /// It broke the rules of its protocol.
    Unclear(String),
    /// It went on with another protocol, after status 101.
    Switched,
    /// Too much waited: for secrets, or for the first byte from the client.
    Overfull,
}

impl Opaque {
    /// What was read as HTTP/1.1 and is none; `is_first`: there was no message before.
    pub(crate) fn of_http(is_first: bool, error: &ConnectionError) -> Opaque {
        match error {
            ConnectionError::Head(_) if is_first => Opaque::NotHttp,
            ConnectionError::Connect => Opaque::Switched,
            error => Opaque::Unclear(error.to_string()),
        }
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opaque::BeganBefore => f.write_str("it was open before the capture began"),
            Opaque::Gap => f.write_str("packets are missing in the capture"),
            Opaque::NoKeys => f.write_str("it is TLS, and the key log has no secrets of it"),
            Opaque::Cipher(suite) => write!(
                f,
                "its cipher suite, {suite:#06x}, is none that is deciphered"
            ),
            Opaque::Undeciphered => {
                f.write_str("a record could not be deciphered with the key log")
            }
            Opaque::NotHttp => f.write_str("it is neither TLS nor HTTP"),
            Opaque::Unclear(what) => f.write_str(what),
            Opaque::Switched => f.write_str("it went on with another protocol"),
            Opaque::Overfull => f.write_str("too much waited for secrets or for the client"),
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
