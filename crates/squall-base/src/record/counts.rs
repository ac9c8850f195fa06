//! Counters of one side of a trial: connections, handshakes, what was negotiated, how connections ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::frame::{FrameLayer, Way, frame_name};

/// Counters of one side of a hop. A handshake, full or resumed, is counted when it completes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideCounts {
    /// TCP connections opened (client) or accepted (server).
    pub tcp_connections: u64,
    /// QUIC connections opened or accepted.
    pub quic_connections: u64,
    /// TLS handshakes with certificates, including QUIC's.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session, including QUIC's.
    pub tls_resumed: u64,
    /// Connections by the protocol that was actually spoken.
    pub protocols: BTreeMap<String, u64>,
    /// Connections by the protocol that ALPN negotiated (RFC 7301), including QUIC's, or [`SideCounts::NO_ALPN`],
    /// because HTTP/1.1 is also spoken if nothing was negotiated. Empty in records from before this was counted.
    #[serde(default)]
    pub alpn: BTreeMap<String, u64>,
    /// TCP connections by TLS version and cipher suite.
    pub ciphers: BTreeMap<String, u64>,
    /// TCP connections over TLS by the group of the key exchange. Empty in records from before this was counted.
    #[serde(default)]
    pub groups: BTreeMap<String, u64>,
    /// What this side announced in SETTINGS of HTTP/2 or HTTP/3: each set of settings, with the number of connections
    /// that had it.
    pub settings_sent: BTreeMap<String, u64>,
    /// What the peers announced.
    pub settings_received: BTreeMap<String, u64>,
    /// How many times this side retried a request that the peer had not processed (`retry_unprocessed`). Zero in records from
    /// before this was counted.
    #[serde(default)]
    pub retried: u64,
    /// GOAWAYs and resets of connections that have ended.
    #[serde(flatten)]
    pub endings: EndingCounts,
    /// HTTP/2 and HTTP/3 frames sent, by name; extensions by number.
    pub frames_sent: BTreeMap<String, u64>,
    /// HTTP/2 and HTTP/3 frames received, by name; extensions by number.
    pub frames_received: BTreeMap<String, u64>,
}

/// GOAWAYs and stream resets, of one connection or of many. Zero in records from before these were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndingCounts {
    /// GOAWAY frames of HTTP/2 or HTTP/3, sent.
    pub goaways_sent: u64,
    /// GOAWAY frames of HTTP/2 or HTTP/3, received.
    pub goaways_received: u64,
    /// Frames sent that end a stream early: RST_STREAM of HTTP/2; RESET_STREAM and STOP_SENDING of QUIC, including
    /// those that the end of the connection overtook.
    pub resets_sent: u64,
    /// Frames received that end a stream early; those of QUIC each time they arrived.
    pub resets_received: u64,
}

impl EndingCounts {
    /// Adds other counts.
    pub fn add(&mut self, others: EndingCounts) {
        self.goaways_sent += others.goaways_sent;
        self.goaways_received += others.goaways_received;
        self.resets_sent += others.resets_sent;
        self.resets_received += others.resets_received;
    }
}

impl SideCounts {
    /// TLS connections on which the peer selected no protocol by ALPN, or was offered none.
    pub const NO_ALPN: &str = "none";

    /// Counts a completed TLS handshake, and what ALPN negotiated in it.
    pub fn count_handshake(&mut self, is_resumed: bool, alpn: Option<&str>) {
        if is_resumed {
            self.tls_resumed += 1;
        } else {
            self.tls_full += 1;
        }
        let alpn = alpn.unwrap_or(SideCounts::NO_ALPN).to_owned();
        *self.alpn.entry(alpn).or_default() += 1;
    }

    /// Adds the counts of another part of the same side.
    pub fn add(&mut self, other: &SideCounts) {
        self.tcp_connections += other.tcp_connections;
        self.quic_connections += other.quic_connections;
        self.tls_full += other.tls_full;
        self.tls_resumed += other.tls_resumed;
        self.retried += other.retried;
        self.endings.add(other.endings);
        for (own, others) in [
            (&mut self.protocols, &other.protocols),
            (&mut self.alpn, &other.alpn),
            (&mut self.ciphers, &other.ciphers),
            (&mut self.groups, &other.groups),
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

    /// Counts HTTP frames of one type; QUIC frames are only in the table of frames.
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

/// What the packets of a hop show about its connections, for hops with a side that reports no counts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounts {
    /// TCP connections that were accepted.
    pub tcp_connections: u64,
    /// QUIC connections whose first packet was seen.
    pub quic_connections: u64,
    /// Connections by what was spoken on them: the name of a protocol, [`WireCounts::UNREAD_TLS`],
    /// [`WireCounts::UNREAD_QUIC`] or [`WireCounts::OTHER`]. Connections without any data are left out.
    pub protocols: BTreeMap<String, u64>,
    /// What clients offered by ALPN on TLS connections that could not be decrypted.
    pub unread_alpn: BTreeMap<String, u64>,
    /// Connections that could not be read, or not to their end, by reason.
    pub unread: BTreeMap<String, u64>,
    /// Exchanges that were read.
    pub exchanges: u64,
    /// Frames of HTTP/2, HTTP/3 and QUIC that were read.
    pub frames: u64,
    /// Packets that could not be inspected, because they arrived faster than they were read.
    pub missed_packets: u64,
}

impl WireCounts {
    /// TLS without a key: HTTP/1.1, HTTP/2, or neither.
    pub const UNREAD_TLS: &str = "tls";
    /// QUIC that could not be read: only its datagrams are counted.
    pub const UNREAD_QUIC: &str = "quic";
    /// Neither TLS nor HTTP.
    pub const OTHER: &str = "other";

    /// TCP and QUIC connections.
    pub fn connections(&self) -> u64 {
        self.tcp_connections + self.quic_connections
    }
}
