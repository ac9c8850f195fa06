//! Frames in qlog's terms (draft-ietf-quic-qlog-quic-events-12, draft-ietf-quic-qlog-h3-events-12).
//!
//! If the record lacks a field that the schema requires, such as the final size of RESET_STREAM, the frame has type `unknown`
//! and its name as an additional field. Header fields and settings are not in the record, so those lists are empty.

use serde_json::{Value, json};
use squall_base::record::{FrameFacts, FrameLayer, Way, frame_name};

/// Whether a QUIC frame of this type can only be in packets that the keys of 0-RTT or 1-RTT protect (RFC 9000, section
/// 12.4, table 3). Our own stations never send 0-RTT.
pub(super) fn is_of_one_rtt(kind: u64) -> bool {
    // Packets under other keys may contain PADDING, PING, ACK, CRYPTO and the CONNECTION_CLOSE of QUIC itself.
    !matches!(kind, 0x00..=0x03 | 0x06 | 0x1c)
}

/// A frame of QUIC.
pub(super) fn quic_frame(frame: &FrameFacts) -> Value {
    let name = frame_name(FrameLayer::Quic, frame.kind);
    match name.and_then(|name| known_quic_frame(frame, name)) {
        Some(known) => known,
        None => unknown(frame, name),
    }
}

fn known_quic_frame(frame: &FrameFacts, name: &str) -> Option<Value> {
    let kind = name.to_ascii_lowercase();
    let stream_type = if matches!(frame.kind, 0x12 | 0x16) {
        "bidirectional"
    } else {
        "unidirectional"
    };
    Some(match name {
        "PADDING" | "PING" | "ACK" | "HANDSHAKE_DONE" | "PATH_CHALLENGE" | "PATH_RESPONSE" => {
            json!({ "frame_type": kind })
        }
        "DATAGRAM" => json!({ "frame_type": kind, "raw": { "payload_length": frame.length } }),
        "CRYPTO" => json!({
            "frame_type": kind, "offset": frame.offset?, "length": frame.length,
            "raw": { "payload_length": frame.length },
        }),
        // The lowest bit of its type is FIN (RFC 9000, section 19.8). `length` is for qvis.
        "STREAM" => json!({
            "frame_type": kind, "stream_id": frame.stream?, "offset": frame.offset?, "fin": frame.kind & 1 == 1,
            "length": frame.length, "raw": { "payload_length": frame.length },
        }),
        "STOP_SENDING" => json!({
            "frame_type": kind, "stream_id": frame.stream?, "error": "unknown", "error_code": frame.value?,
        }),
        "MAX_DATA" => json!({ "frame_type": kind, "maximum": frame.value? }),
        "MAX_STREAM_DATA" => json!({
            "frame_type": kind, "stream_id": frame.stream?, "maximum": frame.value?,
        }),
        "MAX_STREAMS" => json!({
            "frame_type": kind, "stream_type": stream_type, "maximum": frame.value?,
        }),
        "DATA_BLOCKED" => json!({ "frame_type": kind, "limit": frame.value? }),
        "STREAM_DATA_BLOCKED" => json!({
            "frame_type": kind, "stream_id": frame.stream?, "limit": frame.value?,
        }),
        "STREAMS_BLOCKED" => json!({
            "frame_type": kind, "stream_type": stream_type, "limit": frame.value?,
        }),
        "RETIRE_CONNECTION_ID" => json!({ "frame_type": kind, "sequence_number": frame.value? }),
        "CONNECTION_CLOSE" => json!({
            "frame_type": kind,
            "error_space": if frame.kind == 0x1c { "transport" } else { "application" },
            "error_code": frame.value?,
        }),
        _ => return None,
    })
}

/// A frame of HTTP/3.
pub(super) fn http3_frame(frame: &FrameFacts) -> Value {
    let raw = json!({ "payload_length": frame.length });
    let name = frame_name(FrameLayer::Http3, frame.kind);
    match (name, frame.value) {
        (Some("DATA"), _) => json!({ "frame_type": "data", "raw": raw }),
        (Some("HEADERS"), _) => json!({ "frame_type": "headers", "headers": [], "raw": raw }),
        (Some("SETTINGS"), _) => json!({ "frame_type": "settings", "settings": [], "raw": raw }),
        (Some("GOAWAY"), Some(id)) => json!({ "frame_type": "goaway", "id": id, "raw": raw }),
        (Some("CANCEL_PUSH"), Some(id)) => {
            json!({ "frame_type": "cancel_push", "push_id": id, "raw": raw })
        }
        (Some("MAX_PUSH_ID"), Some(id)) => {
            json!({ "frame_type": "max_push_id", "push_id": id, "raw": raw })
        }
        (name, _) => unknown(frame, name),
    }
}

/// A frame of HTTP/2 in words, such as `sent HEADERS on stream 1, 85 bytes`.
pub(super) fn http2_message(frame: &FrameFacts) -> String {
    let way = match frame.way {
        Way::Sent => "sent",
        Way::Received => "received",
    };
    let name = match frame_name(FrameLayer::Http2, frame.kind) {
        Some(name) => name.to_owned(),
        None => format!("a frame of type {}", frame.kind),
    };
    let place = match frame.stream {
        None | Some(0) => "the connection".to_owned(),
        Some(stream) => format!("stream {stream}"),
    };
    let length = frame.length;
    match frame.value {
        None => format!("{way} {name} on {place}, {length} bytes"),
        Some(value) => format!("{way} {name} on {place}, {length} bytes, value {value}"),
    }
}

fn unknown(frame: &FrameFacts, name: Option<&str>) -> Value {
    let mut value = json!({ "frame_type": "unknown", "frame_type_bytes": frame.kind });
    let further = [
        ("name", name.map(|name| json!(name))),
        ("stream_id", frame.stream.map(|stream| json!(stream))),
        ("value", frame.value.map(|number| json!(number))),
    ];
    for (key, content) in further {
        if let Some(content) = content {
            value[key] = content;
        }
    }
    value
}
