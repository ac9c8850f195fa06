//! The QUIC frames of a connection, read from the qlog that quiche writes (draft-ietf-quic-qlog-quic-events).
//!
//! quiche exposes its frames only as JSON text passed to a writer. So this is a writer that parses that text, one
//! record at a time, and keeps the frames of packets. It costs several times as much as the packet itself, so it is
//! attached only when frames are wanted. docs/METHOD.md explains what a frame's time means.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use squall_base::record::{FrameFacts, FrameLayer, Way};

/// The first byte of every record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// How far into a record its name can be: it follows a time in milliseconds.
const NAME_WITHIN_BYTES: usize = 64;

/// The frames that were logged and not yet taken. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameLog(Arc<Mutex<Vec<FrameFacts>>>);

impl FrameLog {
    /// The writer for quiche.
    pub(super) fn writer(&self) -> Box<dyn Write + Send + Sync> {
        Box::new(Sink {
            record: Vec::new(),
            log: self.clone(),
        })
    }

    /// The frames since the last call, in order.
    pub(super) fn take(&self) -> Vec<FrameFacts> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Collects a record and parses it when it is complete.
struct Sink {
    record: Vec<u8>,
    log: FrameLog,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // quiche writes the newline after a record separately; JSON text itself cannot contain one.
        if bytes == b"\n" {
            let mut frames = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
            read_record(&self.record, &mut frames);
            self.record.clear();
        } else {
            self.record.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends the frames of a packet's record; ignores other records.
fn read_record(record: &[u8], frames: &mut Vec<FrameFacts>) {
    let text = record.strip_prefix(&[RECORD_SEPARATOR]).unwrap_or(record);
    let start = &text[..text.len().min(NAME_WITHIN_BYTES)];
    let is_of_packet = start.windows(12).any(|part| part == b"quic:packet_");
    if !is_of_packet {
        return;
    }
    let Ok(event) = serde_json::from_slice::<PacketEvent>(text) else {
        return;
    };
    let way = match event.name {
        "quic:packet_sent" => Way::Sent,
        "quic:packet_received" => Way::Received,
        _ => return,
    };
    let packet = event.data.header.packet_number;
    frames.extend(
        event
            .data
            .frames
            .iter()
            .map(|frame| frame.facts(way, packet)),
    );
}

#[derive(Deserialize)]
struct PacketEvent<'a> {
    name: &'a str,
    #[serde(borrow)]
    data: Packet<'a>,
}

#[derive(Deserialize)]
struct Packet<'a> {
    header: PacketHeader,
    #[serde(borrow, default)]
    frames: Vec<Frame<'a>>,
}

#[derive(Deserialize)]
struct PacketHeader {
    packet_number: Option<u64>,
}

/// A frame of any type, with the members that are used.
#[derive(Deserialize)]
struct Frame<'a> {
    frame_type: &'a str,
    stream_id: Option<u64>,
    offset: Option<u64>,
    fin: Option<bool>,
    raw: Option<Raw>,
    #[serde(default)]
    acked_ranges: Largest,
    ce: Option<u64>,
    error_code: Option<u64>,
    error_space: Option<&'a str>,
    maximum: Option<u64>,
    limit: Option<u64>,
    stream_type: Option<&'a str>,
    sequence_number: Option<u64>,
    frame_type_bytes: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
struct Raw {
    payload_length: Option<u64>,
}

impl Frame<'_> {
    fn facts(&self, way: Way, packet: Option<u64>) -> FrameFacts {
        let length = self.raw.and_then(|raw| raw.payload_length).unwrap_or(0);
        FrameFacts {
            stream: self.stream_id,
            offset: self.offset,
            packet,
            value: self.value(),
            ..FrameFacts::new(way, FrameLayer::Quic, self.kind(), length)
        }
    }

    /// The type's number (RFC 9000, section 19). For STREAM, the bits OFF and LEN are set, as quiche sends it; how the
    /// peer encoded it is not logged.
    fn kind(&self) -> u64 {
        let of_streams = |bidirectional: u64| match self.stream_type {
            Some("unidirectional") => bidirectional + 1,
            _ => bidirectional,
        };
        match self.frame_type {
            "padding" => 0x00,
            "ping" => 0x01,
            "ack" => 0x02 + u64::from(self.ce.is_some()),
            "reset_stream" => 0x04,
            "stop_sending" => 0x05,
            "crypto" => 0x06,
            "new_token" => 0x07,
            "stream" => 0x0e + u64::from(self.fin == Some(true)),
            "max_data" => 0x10,
            "max_stream_data" => 0x11,
            "max_streams" => of_streams(0x12),
            "data_blocked" => 0x14,
            "stream_data_blocked" => 0x15,
            "streams_blocked" => of_streams(0x16),
            "new_connection_id" => 0x18,
            "retire_connection_id" => 0x19,
            "path_challenge" => 0x1a,
            "path_response" => 0x1b,
            "connection_close" => 0x1c + u64::from(self.error_space == Some("application")),
            "handshake_done" => 0x1e,
            "datagram" => 0x31,
            _ => self.frame_type_bytes.unwrap_or(u64::MAX),
        }
    }

    fn value(&self) -> Option<u64> {
        self.acked_ranges
            .0
            .or(self.error_code)
            .or(self.maximum)
            .or(self.limit)
            .or(self.sequence_number)
    }
}

/// The largest number in ranges of packet numbers.
#[derive(Default)]
struct Largest(Option<u64>);

impl<'de> Deserialize<'de> for Largest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Largest, D::Error> {
        struct Ranges;

        impl<'de> Visitor<'de> for Ranges {
            type Value = Largest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("packet numbers or ranges of them")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Largest, E> {
                Ok(Largest(Some(number)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Largest, A::Error> {
                let mut largest = None;
                while let Some(Largest(number)) = seq.next_element()? {
                    largest = largest.max(number);
                }
                Ok(Largest(largest))
            }
        }

        deserializer.deserialize_any(Ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &str) -> Vec<FrameFacts> {
        let mut frames = Vec::new();
        read_record(record.as_bytes(), &mut frames);
        frames
    }

    #[test]
    fn a_packet_record_yields_its_frames() {
        let frames = read(concat!(
            "\u{1e}{\"time\":0.25,\"name\":\"quic:packet_sent\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",",
            "\"packet_number\":7,\"dcid\":\"ab\"},\"raw\":{\"length\":1200,\"payload_length\":1100},\"frames\":[",
            "{\"frame_type\":\"ack\",\"ack_delay\":0.1,\"acked_ranges\":[[0,3],[5]]},",
            "{\"frame_type\":\"stream\",\"stream_id\":4,\"offset\":10,\"fin\":true,\"raw\":{\"payload_length\":90}},",
            "{\"frame_type\":\"max_streams\",\"stream_type\":\"unidirectional\",\"maximum\":9}]}}"
        ));
        let short: Vec<_> = frames
            .iter()
            .map(|f| (f.kind, f.stream, f.offset, f.length, f.value))
            .collect();
        assert_eq!(
            short,
            [
                (0x02, None, None, 0, Some(5)),
                (0x0f, Some(4), Some(10), 90, None),
                (0x13, None, None, 0, Some(9)),
            ]
        );
        assert!(
            frames
                .iter()
                .all(|f| f.packet == Some(7) && f.way == Way::Sent)
        );
    }

    #[test]
    fn other_records_are_skipped() {
        assert_eq!(
            read("{\"time\":1.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{}}"),
            []
        );
        assert_eq!(
            read("{\"time\":1.0,\"name\":\"quic:packet_lost\",\"data\":{\"header\":{}}}"),
            []
        );
        assert_eq!(read("{\"name\":\"quic:packet_sent\""), []);
        assert_eq!(read(""), []);
    }
}
