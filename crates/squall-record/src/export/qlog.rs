//! qlog (draft-ietf-quic-qlog-main-schema-13) of connections as a side recorded them: a trace for each connection and
//! side, as one JSON text or, for a single trace, as a sequence of JSON texts (RFC 7464).
//!
//! Two readers must open it. qlog-dancer knows the schema of the current draft and refuses anything else in a JSON
//! text. qvis knows older drafts: it requires `qlog_version` and `qlog_format`, and sorts events by the `category` that
//! they had then. So files have the fields of both; the schema allows additional ones. Times count from the trial's
//! epoch.
//!
//! QUIC's frames are events of the packets that carried them, HTTP/3's frames and samples of QUIC's recovery are events
//! of their own. The schema has no events of TCP and HTTP/2: frames of HTTP/2 are messages of its log levels.
//! `qlog_frames` has the frames.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use squall_base::record::{
    FrameFacts, FrameLayer, FrameRecord, QuicPath, Side, SocketRecord, SocketSample, Way,
};
use squall_base::{Duration, Time};

use super::qlog_frames::{http2_message, http3_frame, is_of_one_rtt, quic_frame};
use super::{Elements, ExportError, Lines, rfc3339, unix_ns};

/// The schemas of the events.
const EVENT_SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-12",
    "urn:ietf:params:qlog:events:http3-12",
    "urn:ietf:params:qlog:events:loglevel-13",
];

/// The older version for qvis; its events have the names without their categories.
const QVIS_VERSION: &str = "0.3";

/// RFC 7464, section 2.2.
const RECORD_SEPARATOR: char = '\u{1e}';

/// What one side recorded of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QlogTrace {
    /// The side.
    pub side: Side,
    /// The connection, by its number on that side.
    pub connection: u32,
    /// What the connection was for, if its number alone does not say that.
    purpose: Option<String>,
    frames: Vec<FrameRecord>,
    samples: Vec<(Time, QuicPath)>,
}

impl QlogTrace {
    /// The traces of a hop, one for each connection and side that has a frame, in this order.
    pub fn of_hop(hop: u8, frames: &[FrameRecord], sockets: &[SocketRecord]) -> Vec<QlogTrace> {
        let mut traces: BTreeMap<(u32, Side), QlogTrace> = BTreeMap::new();
        for row in frames.iter().filter(|row| row.hop == hop) {
            let trace = traces
                .entry((row.connection, row.side))
                .or_insert_with(|| QlogTrace {
                    side: row.side,
                    connection: row.connection,
                    purpose: None,
                    frames: Vec::new(),
                    samples: Vec::new(),
                });
            trace.frames.push(*row);
        }
        for row in sockets.iter().filter(|row| row.hop == hop) {
            if let SocketSample::Quic(path) = row.sample
                && let Some(trace) = traces.get_mut(&(row.connection, row.side))
            {
                trace.samples.push((row.time, path));
            }
        }
        traces.into_values().collect()
    }

    /// Adds the purpose of the connection to the trace's title, such as `small requests, round 1`.
    #[must_use]
    pub fn with_purpose(self, purpose: String) -> QlogTrace {
        QlogTrace {
            purpose: Some(purpose),
            ..self
        }
    }

    /// The trace without its events.
    fn head(&self, epoch_unix_ns: u64) -> Value {
        let mut title = format!("{}, connection {}", self.side.name(), self.connection);
        if let Some(purpose) = &self.purpose {
            title += &format!(": {purpose}");
        }
        json!({
            "title": title,
            "vantage_point": { "name": "squall", "type": self.side.name() },
            "event_schemas": EVENT_SCHEMAS,
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": {
                    "clock_type": "monotonic",
                    "epoch": "unknown",
                    "wall_clock_time": rfc3339(unix_ns(epoch_unix_ns, Time::ZERO)),
                },
            },
        })
    }

    /// The events in order of time.
    fn events(&self) -> Vec<Value> {
        let mut rows: Vec<&FrameRecord> = self.frames.iter().collect();
        rows.sort_by_key(|row| row.time);
        let mut events: Vec<(Time, Value)> = Vec::new();
        let mut open: Option<Packet> = None;
        for row in rows {
            let facts = &row.frame;
            match facts.layer {
                FrameLayer::Http2 => events.push((row.time, message(row))),
                FrameLayer::Http3 => events.extend(http3_event(row).map(|event| (row.time, event))),
                FrameLayer::Quic => {
                    if let Some(done) = open.take_if(|packet| !packet.carried(facts)) {
                        events.push(done.event());
                    }
                    open.get_or_insert_with(|| Packet::new(row)).add(facts);
                }
            }
        }
        events.extend(open.map(Packet::event));
        let samples = self.samples.iter();
        events.extend(samples.map(|(time, path)| (*time, recovery(*time, path))));
        events.sort_by_key(|(time, _)| *time);
        events.into_iter().map(|(_, event)| event).collect()
    }
}

/// Writes traces as one JSON text (`.qlog`).
///
/// # Errors
/// The operating system refused to write.
pub fn write_qlog<W: Write>(
    writer: W,
    epoch_unix_ns: u64,
    title: &str,
    traces: &[QlogTrace],
) -> Result<W, ExportError> {
    let mut out = Elements::new("qlog", writer);
    // The version comes first, because qvis looks for it at the beginning.
    out.lines.add(format_args!(
        "{{\"qlog_version\":\"{QVIS_VERSION}\",\"qlog_format\":\"JSON\",\
         \"file_schema\":\"urn:ietf:params:qlog:file:contained\",\
         \"serialization_format\":\"application/qlog+json\",\"title\":{},\"traces\":[\n",
        json!(title)
    ))?;
    for trace in traces {
        let mut content = trace.head(epoch_unix_ns);
        content["events"] = Value::Array(trace.events());
        out.add(&content)?;
    }
    out.finish("\n]}\n")
}

/// Writes a trace as a sequence of JSON texts (`.sqlog`): its head, then one for each event.
///
/// # Errors
/// The operating system refused to write.
pub fn write_qlog_sequence<W: Write>(
    writer: W,
    epoch_unix_ns: u64,
    title: &str,
    trace: &QlogTrace,
) -> Result<W, ExportError> {
    let mut lines = Lines::new("qlog", writer);
    lines.add(format_args!(
        "{RECORD_SEPARATOR}{{\"qlog_version\":\"{QVIS_VERSION}\",\"qlog_format\":\"JSON-SEQ\",\
         \"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
         \"serialization_format\":\"application/qlog+json-seq\",\"title\":{},\"trace\":{}}}\n",
        json!(title),
        trace.head(epoch_unix_ns)
    ))?;
    for event in trace.events() {
        lines.add(format_args!("{RECORD_SEPARATOR}{event}\n"))?;
    }
    lines.finish()
}

/// A packet of QUIC while its frames are collected.
struct Packet {
    time: Time,
    way: Way,
    number: Option<u64>,
    is_one_rtt: bool,
    frames: Vec<Value>,
}

impl Packet {
    fn new(row: &FrameRecord) -> Packet {
        Packet {
            time: row.time,
            way: row.frame.way,
            number: row.frame.packet,
            is_one_rtt: false,
            frames: Vec::new(),
        }
    }

    /// Whether the frame was in this packet: frames of a packet follow each other.
    fn carried(&self, frame: &FrameFacts) -> bool {
        self.way == frame.way && self.number == frame.packet
    }

    fn add(&mut self, frame: &FrameFacts) {
        self.is_one_rtt |= is_of_one_rtt(frame.kind);
        self.frames.push(quic_frame(frame));
    }

    fn event(self) -> (Time, Value) {
        let name = match self.way {
            Way::Sent => "quic:packet_sent",
            Way::Received => "quic:packet_received",
        };
        // The record does not say whether a packet belongs to the handshake; some frames show that it does not.
        let kind = if self.is_one_rtt { "1RTT" } else { "unknown" };
        let mut header = json!({ "packet_type": kind });
        if let Some(number) = self.number {
            header["packet_number"] = json!(number);
        }
        let data = json!({ "header": header, "frames": self.frames });
        (self.time, event(self.time, name, "transport", &data))
    }
}

/// An event; `category` is its category in the drafts that qvis knows.
fn event(at: Time, name: &str, category: &str, data: &Value) -> Value {
    json!({ "time": ms(at), "name": name, "category": category, "data": data })
}

fn http3_event(row: &FrameRecord) -> Option<Value> {
    let name = match row.frame.way {
        Way::Sent => "http3:frame_created",
        Way::Received => "http3:frame_parsed",
    };
    let data = json!({
        "stream_id": row.frame.stream?,
        "length": row.frame.length,
        "frame": http3_frame(&row.frame),
    });
    Some(event(row.time, name, "http", &data))
}

fn message(row: &FrameRecord) -> Value {
    let data = json!({ "message": http2_message(&row.frame) });
    event(row.time, "loglevel:info", "loglevel", &data)
}

/// What QUIC's recovery knew at a moment.
fn recovery(at: Time, path: &QuicPath) -> Value {
    let mut data = json!({
        "smoothed_rtt": path.rtt.as_millis_f64(),
        "rtt_variance": path.rttvar.as_millis_f64(),
        "congestion_window": path.cwnd_bytes,
    });
    if let Some(least) = path.min_rtt.map(Duration::as_millis_f64) {
        data["min_rtt"] = json!(least);
    }
    event(at, "quic:recovery_metrics_updated", "recovery", &data)
}

/// A time in milliseconds, the unit of the format.
fn ms(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e6
}
