//! The faults that a probe can recognise, and how each is described: its title, what fixes it in the words of the RFCs,
//! and how much it matters.
//!
//! `detect` decides whether there is one; `product` knows the settings of servers.

use std::cmp::Reverse;

use serde::Serialize;
use squall_base::Duration;

squall_base::words! {
    /// A fault of an endpoint's HTTP, or of the path to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Fault {
        /// No response arrived over any version.
        NoAnswer = "no_answer",
        /// The URL is answered with an error.
        ErrorStatus = "error_status",
        /// A download or an upload does not end in time.
        Stalled = "stalled",
        /// The stream's window for uploads is small.
        StreamWindow = "stream_window",
        /// The connection's window is smaller than the stream's.
        ConnectionWindow = "connection_window",
        /// The limits of QUIC for uploads are small.
        QuicWindow = "quic_window",
        /// Downloads wait for the windows of this client.
        ClientWindow = "client_window",
        /// A window update for each DATA frame, of a window that is large enough.
        UpdatePerData = "update_per_data",
        /// Pauses of a delayed acknowledgement within small responses.
        DelayedAck = "delayed_ack",
        /// Small TLS records.
        SmallRecords = "small_records",
        /// Small DATA frames.
        SmallFrames = "small_frames",
        /// The congestion window is small again after a pause.
        IdleSlowStart = "idle_slow_start",
        /// The server's handshake does not fit into its initial congestion window.
        LargeCertificate = "large_certificate",
        /// TLS 1.2 takes a round trip more than TLS 1.3.
        OldTls = "old_tls",
        /// HTTP/3 is advertised, but UDP gets no answer.
        UdpBlocked = "udp_blocked",
        /// Queues grow under load.
        Bufferbloat = "bufferbloat",
        /// Packets are lost.
        Loss = "loss",
        /// An upload is stored before it is passed on.
        BufferedUpload = "buffered_upload",
        /// A response waits for an earlier one on the same connection.
        NoMultiplexing = "no_multiplexing",
        /// A slow request waits for an earlier one on the same connection.
        NoConcurrency = "no_concurrency",
        /// The server ends connections after few requests.
        ShortConnections = "short_connections",
        /// Text is sent without compression.
        NoCompression = "no_compression",
        /// The server takes long to answer.
        SlowServer = "slow_server",
        /// Downloads or uploads over HTTP/2 are much slower than over HTTP/1.1.
        SlowHttp2 = "slow_http2",
        /// Downloads or uploads over HTTP/3 are much slower than over HTTP/1.1 or HTTP/2.
        SlowHttp3 = "slow_http3",
    }
}

impl Fault {
    /// Its title in reports.
    pub const fn title(self) -> &'static str {
        match self {
            Fault::NoAnswer => "No answer",
            Fault::ErrorStatus => "The URL is answered with an error",
            Fault::Stalled => "A transfer stalls",
            Fault::StreamWindow => "Stream window too small for uploads",
            Fault::ConnectionWindow => "Connection window too small for uploads",
            Fault::QuicWindow => "QUIC limits too small for uploads",
            Fault::ClientWindow => "This client's windows too small for downloads",
            Fault::UpdatePerData => "A window update for every DATA frame",
            Fault::DelayedAck => "Pauses of about 40 ms in small responses",
            Fault::SmallRecords => "Small TLS records",
            Fault::SmallFrames => "Small DATA frames",
            Fault::IdleSlowStart => "Slow start after idle",
            Fault::LargeCertificate => "Certificate chain too large for one flight",
            Fault::OldTls => "TLS 1.2",
            Fault::UdpBlocked => "HTTP/3 advertised, but not reachable",
            Fault::Bufferbloat => "Queues grow under load",
            Fault::Loss => "Packets are lost",
            Fault::BufferedUpload => "Uploads are stored before they are passed on",
            Fault::NoMultiplexing => "Requests are not multiplexed",
            Fault::NoConcurrency => "Requests are not handled concurrently",
            Fault::ShortConnections => "Connections end after few requests",
            Fault::NoCompression => "Text without compression",
            Fault::SlowServer => "The server takes long to answer",
            Fault::SlowHttp2 => "HTTP/2 slower than HTTP/1.1",
            Fault::SlowHttp3 => "HTTP/3 slower than the other versions",
        }
    }

    /// What fixes it, whatever the server is.
    pub const fn general_fix(self) -> &'static str {
        match self {
            Fault::NoAnswer => {
                "check the address, the port and the scheme, and that the server runs"
            }
            Fault::ErrorStatus => {
                "probe a URL that the server answers with success; check scheme, port and path"
            }
            Fault::Stalled => "look into the server's log: --trace shows where the exchange stops",
            Fault::StreamWindow => {
                "a larger SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113, section 6.5.2): twice the rate times the round trip"
            }
            Fault::ConnectionWindow => {
                "a WINDOW_UPDATE for stream 0 at the connection's start (RFC 9113, section 6.9.2): at least the stream's window"
            }
            Fault::QuicWindow => {
                "larger initial_max_stream_data_bidi_remote and initial_max_data (RFC 9000, section 18.2), raised before they are used up"
            }
            Fault::ClientWindow => {
                "a larger SETTINGS_INITIAL_WINDOW_SIZE of the client (RFC 9113, section 6.5.2); nghttp and h2load have --window-bits, curl has no option for it"
            }
            Fault::UpdatePerData => {
                "send WINDOW_UPDATE when half of the window is used up (RFC 9113, section 6.9)"
            }
            Fault::DelayedAck => {
                "TCP_NODELAY on the server's sockets, and one write for each response"
            }
            Fault::SmallRecords => {
                "TLS records of 16 kB for large responses (RFC 8446, section 5.1)"
            }
            Fault::SmallFrames => {
                "DATA frames of 8 kB or more, filled before they are sent (RFC 9113, section 6.1)"
            }
            Fault::IdleSlowStart => {
                "net.ipv4.tcp_slow_start_after_idle = 0 on the server's host (Linux)"
            }
            Fault::LargeCertificate => {
                "a shorter chain, without the root; ECDSA keys; certificate compression (RFC 8879)"
            }
            Fault::OldTls => "enable TLS 1.3 (RFC 8446)",
            Fault::UdpBlocked => "open UDP for the advertised port, or remove the Alt-Svc field",
            Fault::Bufferbloat => {
                "an active queue (CoDel, FQ-CoDel, PIE) at the bottleneck, or BBR on the server"
            }
            Fault::Loss => "find the lossy link; until then BBR on the server, or HTTP/3",
            Fault::BufferedUpload => {
                "stream request bodies through the proxy instead of storing them"
            }
            Fault::NoMultiplexing => {
                "handle the streams of a connection concurrently (RFC 9113, section 5)"
            }
            Fault::NoConcurrency => {
                "handle the requests of a connection concurrently: more threads or workers, no lock around each request"
            }
            Fault::ShortConnections => "more requests per connection, or no limit",
            Fault::NoCompression => "content-encoding: gzip or br for text (RFC 9110, section 8.4)",
            Fault::SlowServer => "profile the application; the network is not what takes the time",
            Fault::SlowHttp2 => {
                "compare the server's processor time for both; check its TLS record and DATA frame sizes"
            }
            Fault::SlowHttp3 => {
                "find what limits UDP, usually the server or a network: compare from another network; on the server, larger UDP buffers and segmentation offload (UDP_SEGMENT on Linux)"
            }
        }
    }
}

/// How much a fault matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relevance {
    /// It cost time in this probe.
    Here,
    /// It costs time for clients that are farther away.
    FartherAway,
    /// It costs bytes or work, hardly time.
    Overhead,
}

/// A fault that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetectedFault {
    /// The fault.
    pub fault: Fault,
    /// How much it matters.
    pub matters: Relevance,
    /// What happens, in one sentence.
    pub sentence: String,
    /// The numbers that show it, each without a full stop.
    pub evidence: Vec<String>,
    /// Time that it costs, where that is known.
    #[serde(rename = "lost_ns")]
    pub lost: Option<Duration>,
    /// What that time is lost for, such as `upload`.
    pub per: &'static str,
    /// What fixes it.
    pub fix: String,
}

impl DetectedFault {
    /// The sort key, most important first: by how much the fault matters, then by the time lost.
    pub(super) fn rank(&self) -> (Relevance, Reverse<Duration>, Fault) {
        let lost = match self.fault {
            // Without a complete response nothing else matters.
            Fault::NoAnswer | Fault::Stalled => Duration::from_secs(3_600),
            _ => self.lost.unwrap_or_default(),
        };
        (self.matters, Reverse(lost), self.fault)
    }
}
