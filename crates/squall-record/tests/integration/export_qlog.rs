//! qlog: the reader of qlog-dancer (the crate `qlog`) opens it, and it has what the loader of qvis checks
//! (quiclog/qvis, QlogLoaderV2.ts and textsequencejsontoqlog.ts).

use std::io::Cursor;

use qlog::events::EventData;
use qlog::reader::{Event, QlogSeqReader};
use serde_json::Value;
use squall_base::record::{
    FrameFacts, FrameLayer, FrameRecord, QuicPath, Side, SocketRecord, SocketSample, Way,
};
use squall_base::{Duration, Time};
use squall_record::export::{QlogTrace, write_qlog, write_qlog_sequence};

use crate::export::{EPOCH_UNIX_NS, text};

/// A frame of the client's connection 0, in a packet of this number.
fn frame(ms: u64, layer: FrameLayer, kind: u64, packet: Option<u64>) -> FrameRecord {
    let facts = FrameFacts {
        stream: Some(4),
        offset: Some(10),
        packet,
        value: Some(3),
        ..FrameFacts::new(Way::Sent, layer, kind, 90)
    };
    squall_made::frame(Time::from_nanos(ms * 1_000_000), Side::Client, facts)
}

/// Every type of frame that has a name, some without, and one of HTTP/2; not in the order of time.
fn frames() -> Vec<FrameRecord> {
    let quic = (0x00..=0x1f).chain([0x30, 0x31, 0x4000]);
    let quic = quic.map(|kind| frame(20 + kind, FrameLayer::Quic, kind, Some(kind / 2)));
    let http3 = (0x0..=0xd).chain([0xf_0700]);
    let http3 = http3.map(|kind| frame(10, FrameLayer::Http3, kind, None));
    let http2 = [
        frame(5, FrameLayer::Http2, 1, None),
        frame(6, FrameLayer::Http2, 0xbe, None),
    ];
    quic.chain(http3).chain(http2).collect()
}

fn samples() -> Vec<SocketRecord> {
    let path = QuicPath {
        rtt: Duration::from_millis(25),
        min_rtt: Some(Duration::from_millis(20)),
        cwnd_bytes: 13_500,
        ..QuicPath::default()
    };
    let sample = SocketSample::Quic(path);
    vec![squall_made::socket(
        Time::from_nanos(15_000_000),
        Side::Client,
        sample,
    )]
}

/// The traces of the frames above, recorded by both sides.
fn traces() -> Vec<QlogTrace> {
    let mut all = frames();
    let server = frames().into_iter().map(|row| FrameRecord {
        side: Side::Server,
        frame: FrameFacts {
            way: Way::Received,
            ..row.frame
        },
        ..row
    });
    all.extend(server);
    all.push(FrameRecord { hop: 2, ..all[0] });
    QlogTrace::of_hop(1, &all, &samples())
}

fn contained() -> String {
    let written = write_qlog(Vec::new(), EPOCH_UNIX_NS, "a \"trial\"", &traces());
    text(written.expect("a Vec takes everything"))
}

fn sequence() -> Vec<u8> {
    let written = write_qlog_sequence(Vec::new(), EPOCH_UNIX_NS, "a trial", &traces()[0]);
    written.expect("a Vec takes everything")
}

#[test]
fn qlog_dancers_reader_opens_the_json_text() {
    let read: qlog::Qlog = serde_json::from_str(&contained()).expect("the schema's JSON");
    assert_eq!(read.file_schema, qlog::QLOGFILE_URI);
    assert_eq!(read.traces.len(), 2, "one for each side");
    let common = read.traces[0]
        .common_fields
        .as_ref()
        .expect("they are there");
    let began = common.reference_time.wall_clock_time.as_deref();
    assert_eq!(began, Some("2025-11-21T21:25:01.250000Z"));
    let events = &read.traces[0].events;
    let first = events.iter().find_map(|event| match &event.data {
        EventData::QuicPacketSent(packet) => Some((event.time, packet)),
        _ => None,
    });
    let (time, packet) = first.expect("a packet");
    assert_eq!((time, packet.header.packet_number), (20.0, Some(0)));
    assert_eq!(
        packet.frames.as_ref().map(Vec::len),
        Some(2),
        "PADDING and PING"
    );
    let has = |is: fn(&EventData) -> bool| events.iter().any(|event| is(&event.data));
    assert!(has(|data| matches!(data, EventData::Http3FrameCreated(_))));
    assert!(has(|data| matches!(data, EventData::QuicMetricsUpdated(_))));
    assert!(has(
        |data| matches!(data, EventData::LogLevelInfo { message: Some(message), .. }
        if message == "sent HEADERS on stream 4, 90 bytes, value 3")
    ));
    let received = &read.traces[1].events;
    assert!(
        received
            .iter()
            .any(|event| matches!(&event.data, EventData::QuicPacketReceived(_)))
    );
}

#[test]
fn qlog_dancers_reader_opens_the_sequence() {
    let reader = QlogSeqReader::new(Box::new(Cursor::new(sequence()))).expect("a head");
    assert_eq!(reader.qlog.file_schema, qlog::QLOGFILESEQ_URI);
    assert_eq!(
        reader
            .qlog
            .trace
            .vantage_point
            .as_ref()
            .map(|it| it.ty.clone()),
        Some(qlog::VantagePointType::Client)
    );
    let read: Vec<Event> = reader.collect();
    let whole: qlog::Qlog = serde_json::from_str(&contained()).expect("the schema's JSON");
    assert_eq!(
        read.len(),
        whole.traces[0].events.len(),
        "no event is skipped"
    );
    assert!(read.iter().all(|event| matches!(event, Event::Qlog(_))));
}

/// What qvis refuses or complains about.
fn check_for_qvis(head: &Value, trace: &Value, events: &[Value]) {
    assert_eq!(head["qlog_version"], "0.3");
    let format = trace["common_fields"]["time_format"].as_str();
    assert!(
        !["relative", "delta"].map(Some).contains(&format),
        "it would read the reference time as a number"
    );
    assert!(!events.is_empty());
    let mut last = 0.0;
    for event in events {
        let time = event["time"].as_f64().expect("a time");
        assert!(time >= last, "in order: {event}");
        last = time;
        let known = ["transport", "http", "recovery", "loglevel"];
        assert!(
            known.iter().any(|category| event["category"] == *category),
            "{event}"
        );
        assert!(event["data"].is_object(), "{event}");
    }
}

#[test]
fn qlog_has_what_qvis_checks() {
    let text = contained();
    assert!(
        text[..1024].contains("\"qlog_version\"")
            && text[..1024].contains("\"qlog_format\":\"JSON\"")
    );
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    for trace in whole["traces"].as_array().expect("traces") {
        check_for_qvis(&whole, trace, trace["events"].as_array().expect("events"));
    }
    let sequence = String::from_utf8(sequence()).expect("text");
    let mut records = sequence.split('\u{1e}');
    assert_eq!(records.next(), Some(""), "a separator begins each record");
    let mut records = records.map(|record| serde_json::from_str::<Value>(record).expect("JSON"));
    let head = records.next().expect("a head");
    assert_eq!(head["qlog_format"], "JSON-SEQ");
    check_for_qvis(&head, &head["trace"], &records.collect::<Vec<_>>());
}
