//! The settings of one side of a hop: HTTP/1.1, HTTP/2, HTTP/3, TLS and TCP.
//!
//! Checked values with real defaults: what is not asked for is what the protocol or common programs use, never a
//! silent "infinite". Which texts they are read from is in squall-recipe, what well-known programs set is in
//! `presets`, what the engines make of them is in squall-http and squall-linux.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::quantity::{BitRate, Bytes};
use crate::time::Duration;

/// The windows that HTTP/2 begins with (RFC 9113, section 6.9.2).
const INITIAL_WINDOW: Bytes = Bytes::new(65_535);

/// Everything that one side of a hop can be told. A protocol uses its part and ignores the rest.
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
    /// After so many requests this side ends the connection (`connection: close`); `None`: never.
    pub requests_per_connection: Option<u32>,
}

/// How HTTP/1.1 marks the end of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyFraming {
    /// By content-length; a body of unknown length is chunked in pieces as they come.
    #[default]
    Length,
    /// Chunked transfer coding, in chunks of at most so many bytes.
    Chunked(Bytes),
}

/// HTTP/2 (RFC 9113): what this side announces, and how it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Settings {
    /// SETTINGS_INITIAL_WINDOW_SIZE: what the peer may send on a stream before an update.
    pub stream_window: Bytes,
    /// What the peer may send on the whole connection before an update.
    pub connection_window: Bytes,
    /// When this side gives the peer more to send.
    pub window_updates: WindowUpdates,
    /// SETTINGS_MAX_FRAME_SIZE: the largest frame that the peer may send.
    pub max_frame_size: Bytes,
    /// SETTINGS_MAX_CONCURRENT_STREAMS. A client, whom nobody opens streams to, holds it for the server's until
    /// the server's SETTINGS have come.
    pub max_concurrent_streams: u32,
    /// SETTINGS_HEADER_TABLE_SIZE: the dynamic table for decoding what the peer sends.
    pub header_table_size: Bytes,
    /// The largest payload of a DATA frame that this side sends, within the peer's SETTINGS_MAX_FRAME_SIZE.
    pub data_size: Bytes,
    /// A server sends GOAWAY when so many requests have come on a connection; `None`: never.
    pub goaway_after: Option<u32>,
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
        }
    }
}

/// When a receiver sends WINDOW_UPDATE, for a stream and for the connection each by the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowUpdates {
    /// When half of the window is used up, by what was used; as nghttp2, Go and many others do.
    Half,
    /// Whenever so many bytes were received, by that many.
    Every(Bytes),
    /// After each DATA frame by this amount, whatever the frame's size; as the balancer that starved uploads.
    EachData(Bytes),
    /// With the first DATA, and again whenever so many bytes have come since, by so many at once; as cowboy, with
    /// 8,000,000. Never so many that a window would be above 2^31-1 (RFC 9113, section 6.9.1).
    Grant(Bytes),
    /// Never: what the first windows allow is all that can ever be sent.
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
    /// How this side sends.
    pub congestion_control: QuicCongestionControl,
    /// Whether packets are spaced out over the round trip instead of sent in bursts.
    pub pacing: bool,
    /// max_ack_delay, which is announced; quiche's own acknowledgements wait for nothing.
    pub max_ack_delay: Duration,
    /// The largest UDP payload that this side sends and takes.
    pub max_udp_payload: Bytes,
    /// Whether several datagrams are given to the kernel at once (UDP_SEGMENT).
    pub gso: bool,
    /// SO_SNDBUF of the UDP socket, as the kernel doubles it; `None`: the kernel's.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF of the UDP socket, as the kernel doubles it; `None`: the kernel's.
    pub receive_buffer: Option<Bytes>,
    /// Where a client's sockets begin from; `None`: any port of the host's range.
    pub local_ports: Option<PortRange>,
}

impl Http3Settings {
    /// The UDP payloads that `max_udp_payload` can be: QUIC needs 1,200 bytes (RFC 9000, section 14), and an IPv4 packet
    /// of 65,535 bytes holds 65,507 behind its header and UDP's (RFC 791, section 3.1; RFC 768).
    pub const UDP_PAYLOADS: RangeInclusive<Bytes> = Bytes::new(1_200)..=Bytes::new(65_507);
}

impl Default for Http3Settings {
    /// The windows of quiche's applications (10 MB, 1 MB, 100 streams) and their CUBIC and 1,350 bytes; pacing as RFC
    /// 9002, section 7.7, wants it; 25 ms of acknowledgement delay (RFC 9000, section 18.2).
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
        }
    }
}

/// QUIC's congestion control, as quiche names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuicCongestionControl {
    /// CUBIC (RFC 9438).
    Cubic,
    /// NewReno (RFC 9002).
    Reno,
    /// BBR version 2.
    Bbr2,
}

impl QuicCongestionControl {
    /// Every one.
    pub const ALL: [QuicCongestionControl; 3] = [
        QuicCongestionControl::Cubic,
        QuicCongestionControl::Reno,
        QuicCongestionControl::Bbr2,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            QuicCongestionControl::Cubic => "cubic",
            QuicCongestionControl::Reno => "reno",
            QuicCongestionControl::Bbr2 => "bbr2",
        }
    }
}

/// TLS (RFC 8446, RFC 5246).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSettings {
    /// The oldest version allowed.
    pub min_version: TlsVersion,
    /// The newest version allowed.
    pub max_version: TlsVersion,
    /// Cipher suites of TLS 1.2 in OpenSSL's notation; `None`: BoringSSL's own. Those of TLS 1.3 cannot be chosen in
    /// BoringSSL.
    pub ciphers: Option<String>,
    /// Whether sessions are resumed (tickets) where there is one.
    pub resumption: bool,
    /// How large the records are that this side sends. QUIC has none.
    pub records: RecordSizes,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings {
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            ciphers: None,
            resumption: true,
            records: RecordSizes::Fixed(RecordSizes::LARGEST),
        }
    }
}

/// A version of TLS that is in use (RFC 8996 ended the older ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

impl TlsVersion {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }
}

/// How much application data one TLS record holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordSizes {
    /// Always this much.
    Fixed(Bytes),
    /// Small records while a connection is fresh or was idle, then the largest; what nghttpx does with 1,300 bytes,
    /// 1 MiB and 1 s (--tls-dyn-rec-warmup-threshold, --tls-dyn-rec-idle-timeout).
    Dynamic {
        /// Bytes of a small record.
        small: Bytes,
        /// After so many bytes records become large.
        warmup: Bytes,
        /// After so long without sending it begins anew.
        idle: Duration,
    },
}

impl RecordSizes {
    /// The most that a record holds (RFC 8446, section 5.1).
    pub const LARGEST: Bytes = Bytes::new(16_384);
}

/// TCP, by the socket options of Linux (tcp(7), socket(7)) and what its hosts and routes have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSettings {
    /// TCP_CONGESTION: the kernel's name for it.
    pub congestion_control: String,
    /// TCP_NODELAY: small segments are sent at once (no Nagle's algorithm, RFC 896).
    pub no_delay: bool,
    /// TCP_NOTSENT_LOWAT: how much may wait in the socket unsent; `None`: the kernel's.
    pub notsent_lowat: Option<Bytes>,
    /// SO_SNDBUF, as the kernel doubles it; `None`: the kernel's automatic one.
    pub send_buffer: Option<Bytes>,
    /// SO_RCVBUF, as the kernel doubles it; `None`: the kernel's automatic one.
    pub receive_buffer: Option<Bytes>,
    /// SO_KEEPALIVE with TCP_KEEPIDLE; `None`: off.
    pub keep_alive: Option<Duration>,
    /// net.ipv4.tcp_slow_start_after_idle of the side's host; `None`: as the host has it.
    pub slow_start_after_idle: Option<bool>,
    /// The largest congestion window of what this side sends across the link, in segments (ip-route(8): `cwnd`, locked);
    /// `None`: no such limit.
    pub max_cwnd: Option<u32>,
    /// SO_MAX_PACING_RATE, of which the kernel counts the payload of TCP; `None`: no such limit.
    pub max_pacing_rate: Option<BitRate>,
    /// The most that one system call writes; `None`: all that there is.
    pub write_size: Option<Bytes>,
    /// Where a client's connections begin from (IP_LOCAL_PORT_RANGE); `None`: any port of the host's range.
    pub local_ports: Option<PortRange>,
}

impl TcpSettings {
    /// How many bytes one system call writes at most.
    pub fn write_at_most(&self) -> usize {
        let most = self.write_size.map(Bytes::get);
        most.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        })
    }
}

impl Default for TcpSettings {
    /// CUBIC, which is Linux's own default, and no Nagle's algorithm, as every HTTP program sets it.
    fn default() -> Self {
        TcpSettings {
            congestion_control: "cubic".to_owned(),
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

/// Ports from one to another, both among them, written `40000-40100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// From `first` to `last`; `None` if `first` is 0, which is no port, or above `last`.
    pub const fn new(first: u16, last: u16) -> Option<PortRange> {
        if first == 0 || first > last {
            return None;
        }
        Some(PortRange { first, last })
    }

    /// The lowest.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether the port is among them.
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
    type Err = NotPorts;

    fn from_str(text: &str) -> Result<PortRange, NotPorts> {
        let (first, last) = text.split_once('-').ok_or(NotPorts)?;
        let port = |digits: &str| match digits.bytes().all(|digit| digit.is_ascii_digit()) {
            true => digits.parse().map_err(|_| NotPorts),
            false => Err(NotPorts),
        };
        PortRange::new(port(first)?, port(last)?).ok_or(NotPorts)
    }
}

/// A text that is no range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no range of ports: expected two of 1 to 65535 such as `40000-40100`, the lower one first")]
pub struct NotPorts;

/// How a client chooses among the connections that can take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolOrder {
    /// The one used last (a stack): few connections stay busy.
    LastUsed,
    /// The one not used for longest (a queue): all stay in use.
    FirstUsed,
    /// By turns, whatever is in flight on them.
    Turns,
    /// The one with the fewest requests in flight.
    LeastBusy,
    /// Any, by the seed.
    Random,
}

impl PoolOrder {
    /// Every order.
    pub const ALL: [PoolOrder; 5] = [
        PoolOrder::LastUsed,
        PoolOrder::FirstUsed,
        PoolOrder::Turns,
        PoolOrder::LeastBusy,
        PoolOrder::Random,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            PoolOrder::LastUsed => "last_used",
            PoolOrder::FirstUsed => "first_used",
            PoolOrder::Turns => "turns",
            PoolOrder::LeastBusy => "least_busy",
            PoolOrder::Random => "random",
        }
    }
}

/// How a client uses its connections, besides how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSettings {
    /// How a request picks its connection.
    pub order: PoolOrder,
    /// Requests at once on a connection of HTTP/2 or HTTP/3; `None`: what the server allows.
    pub streams_at_most: Option<u32>,
    /// Connections that are opened, TLS included, before the load begins.
    pub warm: u32,
}

macro_rules! read_by_name {
    ($type:ty, $all:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<$type, UnknownWord> {
                $all.into_iter()
                    .find(|value| value.name() == text)
                    .ok_or_else(|| UnknownWord {
                        text: text.to_owned(),
                        expected: $all.map(<$type>::name).join(", "),
                    })
            }
        }
    };
}

read_by_name!(QuicCongestionControl, QuicCongestionControl::ALL);
read_by_name!(TlsVersion, [TlsVersion::Tls12, TlsVersion::Tls13]);
read_by_name!(PoolOrder, PoolOrder::ALL);

/// A word that is none of an enumeration's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown word {text:?}: expected one of {expected}")]
pub struct UnknownWord {
    /// What was written.
    pub text: String,
    /// What could have been.
    pub expected: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_read_back() {
        for text in ["1-65535", "40000-40100", "80-80"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        for text in [
            "", "80", "0-80", "81-80", "1-65536", "+1-2", "1-2-3", "1 - 2",
        ] {
            assert_eq!(text.parse::<PortRange>(), Err(NotPorts), "{text}");
        }
        let range = PortRange::new(5, 7).unwrap();
        assert!([5, 6, 7].into_iter().all(|port| range.contains(port)));
        assert!(!range.contains(4) && !range.contains(8));
    }
}
