//! The counts that people ask for, of one side of a trial: connections, handshakes, what was agreed on, how it ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::frame::{FrameLayer, Way, frame_name};

/// What one side of the hop counted. A full handshake and a resumed one are counted when they are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideCounts {
    /// TCP connections opened (client) or accepted (server).
    pub tcp_connections: u64,
    /// QUIC connections opened or accepted.
    pub quic_connections: u64,
    /// TLS handshakes with certificates, QUIC's included.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session, QUIC's included.
    pub tls_resumed: u64,
    /// Connections by the protocol that was really spoken on them.
    pub protocols: BTreeMap<String, u64>,
    /// Connections by what ALPN agreed on (RFC 7301), QUIC's included, or [`SideCounts::NO_ALPN`]: HTTP/1.1 is also what is
    /// spoken where nothing was agreed on. Records from before this was counted have none.
    #[serde(default)]
    pub alpn: BTreeMap<String, u64>,
    /// TCP connections by the version and cipher suite of TLS.
    pub ciphers: BTreeMap<String, u64>,
    /// What this side announced in SETTINGS of HTTP/2 or HTTP/3, each set of them by how many connections had it.
    pub settings_sent: BTreeMap<String, u64>,
    /// What its peer announced.
    pub settings_received: BTreeMap<String, u64>,
    /// GOAWAYs and resets, of connections that have ended.
    #[serde(flatten)]
    pub endings: Endings,
    /// Frames of HTTP/2 and HTTP/3 by name, sent; extensions by number.
    pub frames_sent: BTreeMap<String, u64>,
    /// The same, received.
    pub frames_received: BTreeMap<String, u64>,
}

/// GOAWAYs and resets of streams, of one connection or of many. Records from before these were counted have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endings {
    /// GOAWAY frames of HTTP/2 or HTTP/3, sent.
    pub goaways_sent: u64,
    /// The same, received.
    pub goaways_received: u64,
    /// Frames that give up a stream, sent: RST_STREAM of HTTP/2; of QUIC RESET_STREAM and STOP_SENDING, also those
    /// that the end of the connection overtook.
    pub resets_sent: u64,
    /// The same, received; of QUIC each time they came.
    pub resets_received: u64,
}

impl Endings {
    /// Adds those of others.
    pub fn add(&mut self, others: Endings) {
        self.goaways_sent += others.goaways_sent;
        self.goaways_received += others.goaways_received;
        self.resets_sent += others.resets_sent;
        self.resets_received += others.resets_received;
    }
}

impl SideCounts {
    /// TLS whose peer answered nothing, or was offered nothing, by ALPN.
    pub const NO_ALPN: &str = "none";

    /// Counts a TLS handshake that is done, and what ALPN agreed on in it.
    pub fn count_handshake(&mut self, is_resumed: bool, alpn: Option<&str>) {
        if is_resumed {
            self.tls_resumed += 1;
        } else {
            self.tls_full += 1;
        }
        let alpn = alpn.unwrap_or(SideCounts::NO_ALPN).to_owned();
        *self.alpn.entry(alpn).or_default() += 1;
    }

    /// Adds what another part of the same side has counted.
    pub fn add(&mut self, other: &SideCounts) {
        self.tcp_connections += other.tcp_connections;
        self.quic_connections += other.quic_connections;
        self.tls_full += other.tls_full;
        self.tls_resumed += other.tls_resumed;
        self.endings.add(other.endings);
        for (own, others) in [
            (&mut self.protocols, &other.protocols),
            (&mut self.alpn, &other.alpn),
            (&mut self.ciphers, &other.ciphers),
            (&mut self.settings_sent, &other.settings_sent),
            (&mut self.settings_received, &other.settings_received),
            (&mut self.frames_sent, &other.frames_sent),
            (&mut self.frames_received, &other.frames_received),
        ] {
            for (what, count) in others {
                *own.entry(what.clone()).or_default() += count;
            }
        }
    }

    /// Counts frames of HTTP of one type; those of QUIC are in the table of frames only.
    pub fn count_frames(&mut self, way: Way, layer: FrameLayer, kind: u64, count: u64) {
        if layer == FrameLayer::Quic || count == 0 {
            return;
        }
        let counts = match way {
            Way::Sent => &mut self.frames_sent,
            Way::Received => &mut self.frames_received,
        };
        let name = frame_name(layer, kind);
        let name = name.map_or_else(|| format!("{kind:#x}"), str::to_owned);
        *counts.entry(name).or_default() += count;
    }
}

/// What the packets of a hop say of its connections: told of hops one of whose sides counts nothing for us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounts {
    /// TCP connections that were accepted.
    pub tcp_connections: u64,
    /// QUIC connections, of which the first packet was seen.
    pub quic_connections: u64,
    /// Connections by what was spoken on them: the name of a protocol, [`WireCounts::UNREAD_TLS`],
    /// [`WireCounts::UNREAD_QUIC`] or [`WireCounts::OTHER`]. Those on which nothing was said are not among them.
    pub protocols: BTreeMap<String, u64>,
    /// Of the connections of TLS that could not be read, what their clients offered by ALPN.
    pub unread_alpn: BTreeMap<String, u64>,
    /// Why connections could not be read, or not to their end.
    pub unread: BTreeMap<String, u64>,
    /// Exchanges that were read.
    pub exchanges: u64,
    /// Frames of HTTP/2 that were read.
    pub frames: u64,
    /// Packets that nobody could look at, because they came faster than they were read.
    pub missed_packets: u64,
}

impl WireCounts {
    /// TLS without a key: HTTP/1.1 or HTTP/2, or neither.
    pub const UNREAD_TLS: &str = "tls";
    /// QUIC, of which only datagrams are counted.
    pub const UNREAD_QUIC: &str = "quic";
    /// Neither TLS nor HTTP.
    pub const OTHER: &str = "other";

    /// Connections of either kind.
    pub fn connections(&self) -> u64 {
        self.tcp_connections + self.quic_connections
    }
}
