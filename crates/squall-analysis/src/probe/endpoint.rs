//! The facts about an endpoint that follow from what a probe recorded. A fact that was not seen is `None`.
//!
//! It judges nothing: `detect` says which of these facts are faults.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{Outcome, SocketSample};
use squall_base::{Duration, Time};

use super::addresses::{FamilyFacts, OtherName};
use super::announced::AnnouncedWindows;
use super::client_windows::ClientWindows;
use super::concurrency::Concurrency;
use super::downloads::DownloadTime;
use super::handshake::HandshakeFacts;
use super::keep_alive::KeepAlive;
use super::limits::UploadLimits;
use super::observed::{Http3Reach, HttpsAnswer, Observations, Step, StepKind, version_name};
use super::packets::PacketFacts;
use super::priorities::{Priorities, priorities};
use super::product::{self, RecognisedProduct};
use super::quic::QuicFacts;
use super::quic_transport::QuicTransport;
use super::record_sizes::RecordSizes;
use super::small::{self, ShortConnection, SmallRequestTimes};
use super::spans::{median, median_span};
use super::transfer::{self, Losses, Rates, Upload};
use super::windows::{UpdatePolicy, UploadWindows, median_data_frame};

/// What a probe found out. Times are in nanoseconds in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Endpoint {
    /// The URL.
    pub url: String,
    /// The address that was asked.
    pub address: String,
    /// All addresses that were looked up, in the resolver's order.
    pub addresses: Vec<String>,
    /// A TCP handshake over each family of them.
    pub families: Vec<FamilyFacts>,
    /// The `server` field of its responses.
    pub server: Option<String>,
    /// The program that ends the connections, if it was recognised.
    pub product: Option<RecognisedProduct>,
    /// Each version that was tried.
    pub versions: Vec<VersionFacts>,
    /// TLS over TCP; `None` in cleartext.
    pub tls: Option<TlsFacts>,
    /// The handshakes of each version over TLS.
    pub handshakes: Vec<HandshakeFacts>,
    /// The first other names of the certificate, without wildcards.
    pub coalescing: Vec<OtherName>,
    /// HTTPS records of the URL's name (RFC 9460); `None` if DNS was not asked.
    pub https_records: Option<HttpsAnswer>,
    /// The shortest round trip that was seen.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Option<Duration>,
    /// The middle time of a TCP handshake while nothing else was sent.
    #[serde(rename = "connect_idle_ns")]
    pub connect_idle: Option<Duration>,
    /// The middle time of a TCP handshake during downloads over six connections.
    #[serde(rename = "connect_loaded_ns")]
    pub connect_loaded: Option<Duration>,
    /// The middle time of a TCP handshake during uploads.
    #[serde(rename = "connect_uploading_ns")]
    pub connect_uploading: Option<Duration>,
    /// The SETTINGS of HTTP/2, by the names of RFC 9113.
    pub settings: BTreeMap<String, u64>,
    /// The SETTINGS of HTTP/3, by the names of RFC 9114 and its registry.
    pub http3_settings: BTreeMap<String, u64>,
    /// The windows that HTTP/2 announced, before any upload.
    pub announced_windows: Option<AnnouncedWindows>,
    /// The windows of uploads over HTTP/2.
    pub upload_windows: Option<UploadWindows>,
    /// The limits of uploads over HTTP/3, if an upload reached one.
    pub upload_limits: Option<UploadLimits>,
    /// What the windows over HTTP/2 allow at other round trips; empty if they are not known or no upload reached them.
    pub predictions: Vec<Prediction>,
    /// What the limits of an HTTP/3 upload allow at other round trips; empty if no upload reached one.
    pub http3_predictions: Vec<LimitPrediction>,
    /// The middle payload of the DATA frames of downloads over HTTP/2.
    pub data_frame_bytes: Option<u64>,
    /// The mean plaintext of the TLS records of downloads.
    pub record_bytes: Option<u64>,
    /// The sizes of TLS records over a download, by version.
    pub record_sizes: Vec<RecordSizes>,
    /// Whether a small response may overtake a long one, by version.
    pub multiplexes: BTreeMap<&'static str, bool>,
    /// Whether slow requests on one connection are handled concurrently, by version.
    pub concurrency: Vec<Concurrency>,
    /// Whether urgent responses come first (RFC 9218), by version.
    pub priorities: BTreeMap<&'static str, Priorities>,
    /// Idle connections, by version.
    pub keep_alive: Vec<KeepAlive>,
    /// Downloads before and after a pause.
    pub idle: Option<IdleFacts>,
    /// Requests per connection, if the server ended connections.
    pub short_connection: Option<ShortConnection>,
    /// By version, the most requests that one connection carried.
    pub most_requests: BTreeMap<&'static str, u64>,
    /// Losses over TCP.
    pub losses: Losses,
    /// What TCP's packets show; `None` if the probe could not see them.
    pub packets: Option<PacketFacts>,
    /// Losses and round trips of QUIC; `None` if there was no QUIC connection.
    pub quic: Option<QuicFacts>,
    /// How the server uses QUIC; `None` if there was no QUIC connection.
    pub quic_transport: Option<QuicTransport>,
    /// The content type, the coding (empty: none) and the bytes of a response to a request that allows compression.
    pub coding: Option<CodingFacts>,
    /// Whether responses advertise HTTP/3.
    pub advertises_http3: bool,
    /// What could not be done.
    pub notes: Vec<String>,
}

/// The facts about one version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VersionFacts {
    /// Its name.
    pub version: &'static str,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<String>,
    /// Small requests.
    pub latency: SmallRequestTimes,
    /// Downloads over one connection.
    pub download: Rates,
    /// Where the time of the downloads over one connection went, one for each round.
    pub download_times: Vec<DownloadTime>,
    /// The windows that this client gave to a download, if its frames show them.
    pub client_windows: Option<ClientWindows>,
    /// Downloads over six connections; HTTP/1.1 only.
    pub download_six: Rates,
    /// Uploads, one for each round.
    pub uploads: Vec<Upload>,
}

impl VersionFacts {
    /// Whether downloads waited for windows of this client or its machine for at least a tenth of their time.
    pub fn is_held_up_here(&self) -> bool {
        self.share(DownloadTime::own) >= HELD_UP
    }

    /// The middle time for which a download waited for this client's HTTP windows; `None` if that is less than a tenth of the
    /// time of all downloads.
    pub(super) fn waited_for_client_window(&self) -> Option<Duration> {
        if self.share(|time| time.client_window) < HELD_UP {
            return None;
        }
        median_span(self.download_times.iter().map(|time| time.client_window))
    }

    /// The share of a part in the time of all downloads over one connection.
    fn share(&self, part: fn(&DownloadTime) -> Duration) -> f64 {
        let sum = |part: fn(&DownloadTime) -> Duration| -> f64 {
            let parts = self.download_times.iter().map(part);
            parts.map(Duration::as_secs_f64).sum()
        };
        sum(part) / sum(|time| time.took).max(1e-9)
    }

    /// The middle rate of its uploads.
    pub fn upload_rate(&self) -> Option<f64> {
        let rates: Vec<f64> = self.uploads.iter().map(Upload::bytes_per_s).collect();
        median(&rates)
    }
}

/// TLS over TCP.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlsFacts {
    /// Version and cipher suite.
    pub cipher: String,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// How long its handshake took.
    #[serde(rename = "handshake_ns")]
    pub handshake: Option<Duration>,
    /// Bytes that the server sent before its first response: the handshake, tickets and SETTINGS.
    pub server_bytes: Option<u64>,
    /// The largest segment that the server was seen to send.
    pub segment_bytes: u64,
}

/// What a window allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// At this round trip ...
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Duration,
    /// ... at most this rate.
    pub bytes_per_s: f64,
    /// What is expected, with the updates that the server sends.
    pub expected_bytes_per_s: f64,
}

/// What a limit of QUIC allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LimitPrediction {
    /// At this round trip ...
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Duration,
    /// ... at most this rate: the limit once per round trip.
    pub bytes_per_s: f64,
}

/// Downloads of the same bytes on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IdleFacts {
    /// Immediately after another one.
    #[serde(rename = "warm_ns")]
    pub warm: Duration,
    /// After a pause.
    #[serde(rename = "after_pause_ns")]
    pub after_pause: Duration,
    /// Their bytes.
    pub bytes: u64,
}

/// The coding of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodingFacts {
    /// The content type, without parameters.
    pub content_type: String,
    /// The coding; empty for none.
    pub coding: String,
    /// Bytes of the body.
    pub bytes: u64,
}

/// Round trips for predictions, in milliseconds.
const ROUND_TRIPS_MS: [u64; 5] = [10, 30, 60, 100, 200];
/// The segment of an Ethernet path with IPv4 and timestamps.
const USUAL_SEGMENT: u64 = 1_448;
/// If this client's own windows held downloads up for this share of their time or more, their rates say nothing about the
/// server.
const HELD_UP: f64 = 0.1;
/// A download must have at least this many bytes for its records to show what is usual.
const RECORDS_OF: u64 = 200_000;
/// More than a Linux server's socket holds by default (`tcp_wmem`): if more than this of a response is still to
/// come, the response was not completely written when the next request arrived.
const BUFFERED_AT_MOST: u64 = 4 << 20;

impl Endpoint {
    /// The facts.
    pub fn of(seen: &Observations) -> Endpoint {
        let numbers = settings(seen, Version::Http2);
        let round_trip = round_trip(seen);
        let upload_windows = upload_windows(seen);
        let upload_limits = upload_limits(seen);
        let http2 = seen.steps_of(StepKind::Download, Version::Http2);
        let frame_bytes: Vec<f64> = http2
            .filter_map(median_data_frame)
            .map(|bytes| bytes as f64)
            .collect();
        let server = seen.heads.iter().find_map(|head| head.field("server"));
        Endpoint {
            url: seen.url.clone(),
            address: seen.address.clone(),
            addresses: seen.addresses.iter().map(IpAddr::to_string).collect(),
            families: FamilyFacts::all(seen),
            server: server.map(str::to_owned),
            product: product::recognise(&seen.heads, &numbers, upload_windows.as_ref()),
            versions: versions(seen, round_trip),
            tls: tls(seen),
            handshakes: HandshakeFacts::all(seen),
            coalescing: OtherName::all(seen),
            https_records: seen.https_records.clone(),
            round_trip,
            connect_idle: median_span(seen.connects_idle.iter().copied()),
            connect_loaded: median_span(seen.connects_loaded.iter().copied()),
            connect_uploading: median_span(seen.connects_uploading.iter().copied()),
            settings: (numbers.iter())
                .map(|(id, value)| (setting_name(*id), *value))
                .collect(),
            http3_settings: (settings(seen, Version::Http3).iter())
                .map(|(id, value)| (http3_setting_name(*id), *value))
                .collect(),
            announced_windows: AnnouncedWindows::of(seen),
            predictions: predictions(upload_windows.as_ref()),
            http3_predictions: http3_predictions(upload_limits.as_ref()),
            upload_limits,
            upload_windows,
            data_frame_bytes: median(&frame_bytes).map(|bytes| bytes as u64),
            record_bytes: record_bytes(seen),
            record_sizes: RecordSizes::all(seen),
            multiplexes: multiplexes(seen),
            concurrency: Concurrency::all(seen, round_trip),
            priorities: priorities(seen),
            keep_alive: KeepAlive::all(seen),
            idle: idle(seen),
            short_connection: (seen.steps.iter())
                .filter(|step| matches!(step.kind, StepKind::Small | StepKind::Lasting))
                .find_map(small::short_connection),
            most_requests: small::most_carried(seen),
            losses: Losses::of(seen),
            packets: PacketFacts::of(&seen.segments),
            quic: QuicFacts::of(seen),
            quic_transport: QuicTransport::of(seen, round_trip),
            coding: coding(seen),
            advertises_http3: seen.advertises_http3,
            notes: seen.notes.clone(),
        }
        .with_own_limits()
    }

    /// Adds a note for each version whose downloads this machine's TCP receive window held up. Downloads that the windows of
    /// HTTP or QUIC hold up are a fault (`detect_windows`).
    fn with_own_limits(mut self) -> Endpoint {
        for facts in &self.versions {
            if facts.share(|time| time.receive_window) >= HELD_UP {
                self.notes.push(format!(
                    "{}: this machine's TCP receive window held downloads up, so their rate says nothing about the \
                     server: lower --bytes, or raise net.ipv4.tcp_rmem.",
                    facts.version
                ));
            }
        }
        self
    }

    /// The facts about a version.
    pub fn version(&self, version: Version) -> Option<&VersionFacts> {
        let name = version_name(version);
        self.versions.iter().find(|facts| facts.version == name)
    }
}

fn versions(seen: &Observations, round_trip: Option<Duration>) -> Vec<VersionFacts> {
    let mut uploads = transfer::uploads(seen);
    let all = [Version::Http1, Version::Http2, Version::Http3];
    let was_tried = |version: &Version| {
        seen.failures.iter().any(|(failed, _)| failed == version)
            || seen.steps.iter().any(|step| step.version == *version)
    };
    let facts = |version: Version| {
        let failure = seen.failures.iter().find(|(failed, _)| *failed == version);
        VersionFacts {
            version: version_name(version),
            problem: failure.map(|(_, why)| small::plain(why).to_owned()),
            latency: SmallRequestTimes::of(seen, version),
            download: transfer::downloads(seen, StepKind::Download, version),
            download_times: (seen.steps_of(StepKind::Download, version))
                .filter_map(|step| DownloadTime::of(step, round_trip))
                .collect(),
            client_windows: (seen.steps_of(StepKind::Download, version))
                .find_map(ClientWindows::of),
            download_six: transfer::downloads(seen, StepKind::SixDownloads, version),
            uploads: uploads.remove(&version).unwrap_or_default(),
        }
    };
    all.into_iter().filter(was_tried).map(facts).collect()
}

/// The SETTINGS of the first connection over this version that had some.
fn settings(seen: &Observations, version: Version) -> BTreeMap<u64, u64> {
    let answered = seen.steps.iter();
    let answered = answered.filter(|step| step.version == version);
    let mut steps = answered.chain(seen.unanswered_over(version));
    let found = steps.find(|step| !step.settings.is_empty());
    found.map_or_else(BTreeMap::new, |step| {
        step.settings.iter().copied().collect()
    })
}

/// The name of a setting (RFC 9113, section 6.5.2, and its registry), or its number.
fn setting_name(id: u64) -> String {
    let name = match id {
        0x1 => "HEADER_TABLE_SIZE",
        0x2 => "ENABLE_PUSH",
        0x3 => "MAX_CONCURRENT_STREAMS",
        0x4 => "INITIAL_WINDOW_SIZE",
        0x5 => "MAX_FRAME_SIZE",
        0x6 => "MAX_HEADER_LIST_SIZE",
        0x8 => "ENABLE_CONNECT_PROTOCOL",
        0x9 => "NO_RFC7540_PRIORITIES",
        id => return format!("{id:#x}"),
    };
    name.to_owned()
}

/// The name of a setting of HTTP/3 (RFC 9114, section 7.2.4.1, and its registry), or its number.
fn http3_setting_name(id: u64) -> String {
    let name = match id {
        0x1 => "QPACK_MAX_TABLE_CAPACITY",
        0x6 => "MAX_FIELD_SECTION_SIZE",
        0x7 => "QPACK_BLOCKED_STREAMS",
        0x8 => "ENABLE_CONNECT_PROTOCOL",
        0x33 => "H3_DATAGRAM",
        id => return format!("{id:#x}"),
    };
    name.to_owned()
}

/// The windows of the round whose upload waited longest.
fn upload_windows(seen: &Observations) -> Option<UploadWindows> {
    let steps = seen.steps_of(StepKind::Upload, Version::Http2);
    let windows = steps.filter_map(UploadWindows::of);
    windows.max_by_key(|windows| windows.blocked_by_stream + windows.blocked_by_connection)
}

/// The limits of the round whose upload waited longest.
fn upload_limits(seen: &Observations) -> Option<UploadLimits> {
    let steps = seen.steps_of(StepKind::Upload, Version::Http3);
    let limits = steps.filter_map(UploadLimits::of);
    limits.max_by_key(|limits| limits.blocked_by_stream + limits.blocked_by_connection)
}

fn predictions(windows: Option<&UploadWindows>) -> Vec<Prediction> {
    // Without an update it is unknown how far the server would have opened the window.
    let is_known = |windows: &&UploadWindows| {
        !matches!(windows.policy, UpdatePolicy::Unseen | UpdatePolicy::Never)
    };
    let Some(windows) = windows.filter(is_known) else {
        return Vec::new();
    };
    let predict = |ms| {
        let round_trip = Duration::from_millis(ms);
        Prediction {
            round_trip,
            bytes_per_s: windows.limit_bytes() as f64 / round_trip.as_secs_f64(),
            expected_bytes_per_s: windows.round_trip_bytes as f64 / round_trip.as_secs_f64(),
        }
    };
    ROUND_TRIPS_MS.map(predict).to_vec()
}

fn http3_predictions(limits: Option<&UploadLimits>) -> Vec<LimitPrediction> {
    let Some(limit) = limits.and_then(UploadLimits::limit_bytes) else {
        return Vec::new();
    };
    let predict = |ms| {
        let round_trip = Duration::from_millis(ms);
        LimitPrediction {
            round_trip,
            bytes_per_s: limit as f64 / round_trip.as_secs_f64(),
        }
    };
    ROUND_TRIPS_MS.map(predict).to_vec()
}

/// The shortest of all handshakes and of what the transports report.
fn round_trip(seen: &Observations) -> Option<Duration> {
    let samples = seen.steps.iter().flat_map(|step| &step.sockets);
    let sampled = samples.filter_map(|row| match &row.sample {
        SocketSample::Tcp(info) => info.get("tcpi_min_rtt").map(Duration::from_micros),
        SocketSample::Quic(path) => path.min_rtt,
    });
    // The kernel reports its largest number until it has a sample.
    let sampled = sampled.filter(|rtt| !rtt.is_zero() && *rtt < Duration::from_secs(60));
    sampled.chain(seen.connects_idle.iter().copied()).min()
}

fn tls(seen: &Observations) -> Option<TlsFacts> {
    let over_tcp = || {
        let steps = seen.steps.iter();
        steps.filter(|step| step.version != Version::Http3)
    };
    let cipher = over_tcp().find_map(|step| step.counts.ciphers.keys().next())?;
    let group = over_tcp().find_map(|step| step.counts.groups.keys().next());
    let small = || over_tcp().filter(|step| step.kind == StepKind::Small);
    let handshakes = small().flat_map(|step| {
        let opened = step.requests.iter().filter(|row| row.opened_connection);
        opened.filter_map(|row| Some(row.secured?.since(row.connected?)))
    });
    let segments = small().flat_map(Step::last_tcp);
    let segments = segments.filter_map(|info| info.get("tcpi_rcv_mss"));
    Some(TlsFacts {
        cipher: cipher.clone(),
        group: group.cloned(),
        handshake: median_span(handshakes),
        server_bytes: small().filter_map(before_first_response).min(),
        // If a connection received little, the kernel reports a small default.
        segment_bytes: segments.max().unwrap_or(0).clamp(USUAL_SEGMENT, 9_000),
    })
}

/// What the server of a connection over TLS sent before its first response, in bytes of TCP.
fn before_first_response(step: &Step) -> Option<u64> {
    let secure = step.exchanges.iter().filter(|row| row.protocol.is_secure());
    let starts = secure.filter_map(|row| row.response_extent.as_ref()?.wire_start);
    starts.min()
}

/// Bytes of plaintext for each TLS record, over the downloads.
fn record_bytes(seen: &Observations) -> Option<u64> {
    let downloads = seen
        .steps
        .iter()
        .filter(|step| step.kind == StepKind::Download);
    let extents = downloads.flat_map(|step| {
        let extents = step.exchanges.iter();
        extents.filter_map(|row| row.response_extent.as_ref())
    });
    let (mut bytes, mut records) = (0, 0);
    for extent in extents {
        if let (Some(first), Some(last)) = (extent.record_first, extent.record_last) {
            bytes += extent.end.saturating_sub(extent.start);
            records += last.saturating_sub(first) + 1;
        }
    }
    (bytes >= RECORDS_OF).then(|| bytes / records.max(1))
}

/// By version, whether a small response came before a long one was complete; only for versions where that can be told.
fn multiplexes(seen: &Observations) -> BTreeMap<&'static str, bool> {
    let steps = seen.steps.iter();
    let overlaps = steps.filter(|step| step.kind == StepKind::Overlap);
    overlaps
        .filter_map(|step| Some((version_name(step.version), multiplexed(step)?)))
        .collect()
}

fn multiplexed(step: &Step) -> Option<bool> {
    let (long, small) = (step.of(0)?, step.of(1)?);
    let is_long = |connection: u32, stream: u64| {
        Some(connection) == long.connection && Some(stream) == long.stream
    };
    let bytes_where = |is_wanted: &dyn Fn(Time) -> bool| -> u64 {
        let pieces = step.pieces.iter();
        let wanted =
            pieces.filter(|piece| is_wanted(piece.time) && is_long(piece.connection, piece.stream));
        wanted.map(|piece| piece.bytes).sum()
    };
    let sent = small.written_last?;
    if small.connection != long.connection {
        return None;
    }
    match small.answered_first {
        Some(answered) if bytes_where(&|time| time > answered) > 0 => Some(true),
        _ => {
            // A sender's buffer grows with its congestion window, which is no larger than what it has sent.
            let before = bytes_where(&|time| time <= sent);
            let buffered = BUFFERED_AT_MOST.saturating_add(4 * before);
            (bytes_where(&|time| time > sent) > buffered).then_some(false)
        }
    }
}

fn idle(seen: &Observations) -> Option<IdleFacts> {
    let mut steps = seen.steps.iter();
    let step = steps.find(|step| step.kind == StepKind::Idle)?;
    let rows = [0, 1, 2].map(|what| step.of(what));
    let [Some(first), Some(warm), Some(late)] = rows else {
        return None;
    };
    let is_same = [warm, late].iter().all(|row| {
        row.outcome == Outcome::Answered
            && row.connection == first.connection
            && row.response_body_bytes == first.response_body_bytes
    });
    let took = |row: &squall_base::record::RequestRecord| Some(row.end.since(row.written_last?));
    if !is_same {
        return None;
    }
    Some(IdleFacts {
        warm: took(warm)?,
        after_pause: took(late)?,
        bytes: first.response_body_bytes,
    })
}

fn coding(seen: &Observations) -> Option<CodingFacts> {
    let (coding, bytes) = seen.coding.clone()?;
    let content_type = seen.heads.last()?.field("content-type").unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    Some(CodingFacts {
        content_type: content_type.to_ascii_lowercase(),
        coding,
        bytes,
    })
}

/// Why HTTP/3 cannot be used; `None` if it works or was not tried.
pub(super) fn http3_problem(reach: &Http3Reach) -> Option<&str> {
    match reach {
        Http3Reach::Silent(why) | Http3Reach::Refused(why) => Some(why),
        Http3Reach::NotTried | Http3Reach::Works => None,
    }
}
