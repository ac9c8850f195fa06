//! The settings of one side of a hop: HTTP/1.1, HTTP/2, HTTP/3, TLS and TCP.
//!
//! Checked values with realistic defaults: unspecified settings are what the protocol or common programs use, never a
//! silent "infinite". squall-recipe parses them, `presets` has those of well-known programs, squall-http and
//! squall-linux apply them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::quantity::{BitRate, Bytes};
use crate::time::Duration;

/// HTTP/2's initial windows (RFC 9113, section 6.9.2).
pub(super) const INITIAL_WINDOW: Bytes = Bytes::new(65_535);

/// All settings of one side of a hop. Each protocol uses its part and ignores the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideSettings {
    /// HTTP/1.1.
    pub http1: Http1Settings,
    /// HTTP/2.
    pub http2: Http2Settings,
    /// HTTP/3 and its QUIC.
    pub http3: Http3Settings,
    /// TLS, over TCP and in QUIC.
    pub tls: TlsSettings,
    /// TCP.
    pub tcp: TcpSettings,
}

/// HTTP/1.1 (RFC 9112). There is no pipelining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http1Settings {
    /// How the bodies that this side sends are framed.
    pub framing: BodyFraming,
    /// The number of requests after which this side ends the connection (`connection: close`); `None`: never.
    pub requests_per_connection: Option<u32>,
}

/// How HTTP/1.1 marks the end of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyFraming {
    /// By content-length; a body of unknown length is chunked in pieces as they arrive.
    #[default]
    Length,
    /// Chunked transfer coding, in chunks of at most this many bytes.
    Chunked(Bytes),
}

/// HTTP/2 (RFC 9113): what this side announces, and how it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Settings {
    /// SETTINGS_INITIAL_WINDOW_SIZE: what the peer may send on a stream before an update.
    pub stream_window: Bytes,
    /// What the peer may send on the whole connection before an update.
    pub connection_window: Bytes,
    /// When this side reopens the windows.
    pub window_updates: WindowUpdates,
    /// SETTINGS_MAX_FRAME_SIZE: the largest frame that the peer may send.
    pub max_frame_size: Bytes,
    /// SETTINGS_MAX_CONCURRENT_STREAMS. A client, to which no streams are opened, assumes it as the server's limit
    /// until the server's SETTINGS have arrived.
    pub max_concurrent_streams: u32,
    /// SETTINGS_HEADER_TABLE_SIZE: the dynamic table for decoding what the peer sends.
    pub header_table_size: Bytes,
    /// The largest payload of a DATA frame that this side sends, within the peer's SETTINGS_MAX_FRAME_SIZE.
    pub data_size: Bytes,
    /// The number of requests on a connection after which a server sends GOAWAY; `None`: never.
    pub goaway_after: Option<u32>,
    /// The number of requests after which a client ends the connection; `None`: never.
    pub requests_per_connection: Option<u32>,
    /// Whether a client retries a request that the server has not processed (RFC 9113, section 8.7).
    #[serde(default)]
    pub retry_unprocessed: bool,
}

impl Default for Http2Settings {
    /// The protocol's initial values (RFC 9113, sections 6.5.2 and 6.9.2), 100 streams as nghttpd announces, and
    /// updates as nghttp2 sends them.
    fn default() -> Self {
        Http2Settings {
            stream_window: INITIAL_WINDOW,
            connection_window: INITIAL_WINDOW,
            window_updates: WindowUpdates::Half,
            max_frame_size: Bytes::new(16_384),
            max_concurrent_streams: 100,
            header_table_size: Bytes::new(4_096),
            data_size: Bytes::new(16_384),
            goaway_after: None,
            requests_per_connection: None,
            retry_unprocessed: false,
        }
    }
}

/// When a receiver sends WINDOW_UPDATE; streams and connection follow the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowUpdates {
    /// When half of the window is used up, for the amount used; as in nghttp2, Go and many others.
    Half,
    /// Whenever this many bytes have been received, for that many.
    Every(Bytes),
    /// After each DATA frame, for this amount whatever the frame's size; as did the load balancer that starved uploads.
    EachData(Bytes),
    /// With the first DATA, and again whenever this many bytes have arrived since, for that many in one update; as in
    /// cowboy, with 8,000,000. Never for so much that a window would exceed 2^31-1 (RFC 9113, section 6.9.1).
    Grant(Bytes),
    /// Never: the initial windows are all that can ever be sent.
    Never,
}

/// HTTP/3 (RFC 9114) over QUIC (RFC 9000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http3Settings {
    /// initial_max_stream_data_bidi_local and _remote: what the peer may send on a stream before an update.
    pub stream_window: Bytes,
    /// initial_max_data: what the peer may send on the connection before an update.
    pub connection_window: Bytes,
    /// initial_max_streams_bidi.
    pub max_concurrent_streams: u32,
    /// The congestion control of this side.
    pub congestion_control: QuicCongestionControl,
    /// Whether packets are spread over the round trip instead of being sent in bursts.
    pub pacing: bool,
    /// max_ack_delay as announced; quiche itself never delays acknowledgements.
    pub max_ack_delay: Duration,
    /// The largest UDP payload that this side sends and accepts.
    pub max_udp_payload: Bytes,
    /// Whether several datagrams are passed to the kernel in one call (UDP_SEGMENT).
    pub gso: bool,
    /// SO_SNDBUF of the UDP socket, before the kernel doubles it; `None`: the kernel's default.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF of the UDP socket, before the kernel doubles it; `None`: the kernel's default.
    pub receive_buffer: Option<Bytes>,
    /// The local ports of a client's sockets; `None`: any port of the host's range.
    pub local_ports: Option<PortRange>,
    /// The number of requests after which a client ends the connection; `None`: never.
    pub requests_per_connection: Option<u32>,
    /// Whether a client retries a request that the server has not processed (RFC 9114, sections 4.1.1 and 5.2).
    #[serde(default)]
    pub retry_unprocessed: bool,
}

impl Http3Settings {
    /// The valid range of `max_udp_payload`: QUIC needs 1,200 bytes (RFC 9000, section 14), and an IPv4 packet of
    /// 65,535 bytes holds 65,507 after its own header and UDP's (RFC 791, section 3.1; RFC 768).
    pub const UDP_PAYLOADS: RangeInclusive<Bytes> = Bytes::new(1_200)..=Bytes::new(65_507);
}

impl Default for Http3Settings {
    /// The windows of quiche's applications (10 MB, 1 MB, 100 streams), and their CUBIC and 1,350 bytes; pacing as RFC
    /// 9002, section 7.7, requires; an acknowledgement delay of 25 ms (RFC 9000, section 18.2).
    fn default() -> Self {
        Http3Settings {
            stream_window: Bytes::new(1_000_000),
            connection_window: Bytes::new(10_000_000),
            max_concurrent_streams: 100,
            congestion_control: QuicCongestionControl::Cubic,
            pacing: true,
            max_ack_delay: Duration::from_millis(25),
            max_udp_payload: Bytes::new(1_350),
            gso: true,
            send_buffer: None,
            receive_buffer: None,
            local_ports: None,
            requests_per_connection: None,
            retry_unprocessed: false,
        }
    }
}

crate::words! {
    /// QUIC's congestion control, by quiche's names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum QuicCongestionControl {
        /// CUBIC (RFC 9438).
        Cubic = "cubic",
        /// NewReno (RFC 9002).
        Reno = "reno",
        /// BBR version 2.
        Bbr2 = "bbr2",
    }
}

/// TLS (RFC 8446, RFC 5246).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSettings {
    /// The oldest version allowed.
    pub min_version: TlsVersion,
    /// The newest version allowed.
    pub max_version: TlsVersion,
    /// TLS 1.2 cipher suites in OpenSSL's notation; `None`: BoringSSL's default. BoringSSL does not allow choosing
    /// those of TLS 1.3.
    pub ciphers: Option<String>,
    /// The groups of the key exchange, the preferred one first; `None`: all of [`TlsGroup`], in that order.
    pub groups: Option<Vec<TlsGroup>>,
    /// Whether sessions are resumed with tickets, where possible.
    pub resumption: bool,
    /// How large the TLS records are that this side sends. QUIC has no records.
    pub records: RecordSizes,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings {
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            ciphers: None,
            groups: None,
            resumption: true,
            records: RecordSizes::Fixed(RecordSizes::LARGEST),
        }
    }
}

crate::words! {
    /// A version of TLS that is still in use (RFC 8996 deprecated the older ones).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum TlsVersion {
        /// TLS 1.2.
        #[serde(rename = "1.2")]
        Tls12 = "1.2",
        /// TLS 1.3.
        #[serde(rename = "1.3")]
        Tls13 = "1.3",
    }
}

crate::words! {
    /// A group of the key exchange (RFC 8446, section 4.2.7), in BoringSSL's order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum TlsGroup {
        /// X25519 combined with ML-KEM-768, which resists quantum computers; only in TLS 1.3.
        #[serde(rename = "X25519MLKEM768")]
        X25519MlKem768 = "X25519MLKEM768",
        /// Curve25519 (RFC 7748).
        X25519 = "X25519",
        /// NIST's curve, also called secp256r1.
        #[serde(rename = "P-256")]
        P256 = "P-256",
        /// NIST's curve, also called secp384r1.
        #[serde(rename = "P-384")]
        P384 = "P-384",
        /// NIST's curve, also called secp521r1.
        #[serde(rename = "P-521")]
        P521 = "P-521",
    }
}

impl TlsGroup {
    /// Whether only TLS 1.3 has this group.
    pub const fn needs_tls13(self) -> bool {
        matches!(self, TlsGroup::X25519MlKem768)
    }
}

/// The most application data in one TLS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordSizes {
    /// Always this size.
    Fixed(Bytes),
    /// Small records while a connection is new or was idle, then the largest; as in nghttpx, with 1,300 bytes, 1 MiB
    /// and 1 s (--tls-dyn-rec-warmup-threshold, --tls-dyn-rec-idle-timeout).
    Dynamic {
        /// The size of a small record.
        small: Bytes,
        /// The number of bytes after which records become large.
        warmup: Bytes,
        /// After nothing has been sent for this long, records are small again.
        idle: Duration,
    },
}

impl RecordSizes {
    /// The largest size of a record (RFC 8446, section 5.1).
    pub const LARGEST: Bytes = Bytes::new(16_384);
}

/// TCP: Linux socket options (tcp(7), socket(7)), and settings of hosts and routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSettings {
    /// TCP_CONGESTION, by the kernel's name; `None`: the kernel's default. A recipe always names one.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY: small segments are sent immediately (no Nagle's algorithm, RFC 896).
    pub no_delay: bool,
    /// TCP_NOTSENT_LOWAT: how much unsent data may wait in the socket; `None`: the kernel's default.
    pub notsent_lowat: Option<Bytes>,
    /// SO_SNDBUF, before the kernel doubles it; `None`: the kernel's autotuning.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF, before the kernel doubles it; `None`: the kernel's autotuning.
    pub receive_buffer: Option<Bytes>,
    /// SO_KEEPALIVE with TCP_KEEPIDLE; `None`: off.
    pub keep_alive: Option<Duration>,
    /// net.ipv4.tcp_slow_start_after_idle of the side's host; `None`: unchanged.
    pub slow_start_after_idle: Option<bool>,
    /// The largest congestion window for what this side sends across the link, in segments (ip-route(8): `cwnd`,
    /// locked); `None`: no limit.
    pub max_cwnd: Option<u32>,
    /// SO_MAX_PACING_RATE, for which the kernel counts TCP's payload; `None`: no limit.
    pub max_pacing_rate: Option<BitRate>,
    /// The most bytes that one system call writes; `None`: all that is available.
    pub write_size: Option<Bytes>,
    /// The local ports of a client's connections (IP_LOCAL_PORT_RANGE); `None`: any port of the host's range.
    pub local_ports: Option<PortRange>,
}

impl TcpSettings {
    /// The most bytes that one system call writes.
    pub fn write_at_most(&self) -> usize {
        let most = self.write_size.map(Bytes::get);
        most.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        })
    }
}

impl Default for TcpSettings {
    /// CUBIC, Linux's own default, and no Nagle's algorithm, as in every HTTP program.
    fn default() -> Self {
        TcpSettings {
            congestion_control: Some("cubic".to_owned()),
            no_delay: true,
            notsent_lowat: None,
            send_buffer: None,
            receive_buffer: None,
            keep_alive: None,
            slow_start_after_idle: None,
            max_cwnd: None,
            max_pacing_rate: None,
            write_size: None,
            local_ports: None,
        }
    }
}

/// An inclusive range of ports, written `40000-40100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// From `first` to `last`; `None` if `first` is 0, which is not a port, or is above `last`.
    pub const fn new(first: u16, last: u16) -> Option<PortRange> {
        if first == 0 || first > last {
            return None;
        }
        Some(PortRange { first, last })
    }

    /// The lowest port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether the port is in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = ParsePortRangeError;

    fn from_str(text: &str) -> Result<PortRange, ParsePortRangeError> {
        let (first, last) = text.split_once('-').ok_or(ParsePortRangeError)?;
        let port = |digits: &str| {
            if digits.bytes().all(|digit| digit.is_ascii_digit()) {
                digits.parse().map_err(|_| ParsePortRangeError)
            } else {
                Err(ParsePortRangeError)
            }
        };
        PortRange::new(port(first)?, port(last)?).ok_or(ParsePortRangeError)
    }
}

/// A text that is not a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a range of ports: expected two of 1 to 65535 such as `40000-40100`, the lower one first"
)]
pub struct ParsePortRangeError;

crate::words! {
    /// How a client chooses among the connections that can take a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PoolOrder {
        /// The most recently used (a stack): few connections stay busy.
        LastUsed = "last_used",
        /// The least recently used (a queue): all stay in use.
        FirstUsed = "first_used",
        /// In turns, regardless of what is in flight on them.
        Turns = "turns",
        /// The one with the fewest requests in flight.
        LeastBusy = "least_busy",
        /// At random, determined by the seed.
        Random = "random",
    }
}

/// How a client uses its connections, apart from their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSettings {
    /// How a request picks its connection.
    pub order: PoolOrder,
    /// Concurrent requests on an HTTP/2 or HTTP/3 connection; `None`: the server's limit.
    pub streams_at_most: Option<u32>,
    /// The number of connections that are opened, including TLS, before the load begins.
    pub warm: u32,
}

macro_rules! read_by_name {
    ($type:ty) => {
        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<$type, UnknownWord> {
                <$type>::from_name(text).ok_or_else(|| UnknownWord {
                    text: text.to_owned(),
                    expected: <$type>::ALL.map(<$type>::name).join(", "),
                })
            }
        }
    };
}

read_by_name!(QuicCongestionControl);
read_by_name!(TlsVersion);
read_by_name!(TlsGroup);
read_by_name!(PoolOrder);

/// A word that does not belong to an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown word {text:?}: expected one of {expected}")]
pub struct UnknownWord {
    /// The text.
    pub text: String,
    /// The valid words.
    pub expected: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_parse_as_they_print() {
        for text in ["1-65535", "40000-40100", "80-80"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        for text in [
            "", "80", "0-80", "81-80", "1-65536", "+1-2", "1-2-3", "1 - 2",
        ] {
            assert_eq!(
                text.parse::<PortRange>(),
                Err(ParsePortRangeError),
                "{text}"
            );
        }
        let range = PortRange::new(5, 7).unwrap();
        assert!([5, 6, 7].into_iter().all(|port| range.contains(port)));
        assert!(!range.contains(4) && !range.contains(8));
    }
}
