//! Exports are readable by other programs: compared with golden texts, and read by HdrHistogram's own reader.

use std::path::Path;
use std::time;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};
use squall_record::RequestWriter;
use squall_record::export::{
    CsvExport, H2loadExport, IntervalLogExport, PercentileExport, RequestLine, VegetaExport,
};

/// 2025-11-21T21:25:01.250Z.
pub(crate) const EPOCH_UNIX_NS: u64 = 1_763_760_301_250_000_000;

/// A request scheduled at `intended_ms` that took `took_ms`.
pub(crate) fn request(number: u64, intended_ms: u64, took_ms: u64) -> RequestRecord {
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    RequestRecord {
        slot: Some(at(intended_ms + 1)),
        written_first: Some(at(intended_ms + 1)),
        written_last: Some(at(intended_ms + 1)),
        stream: Some(2 * number + 1),
        opened_connection: number == 0,
        ..squall_made::answered(number, at(intended_ms), Duration::from_millis(took_ms))
    }
}

/// One of each kind: warm-up, answered, status 404, given up, never connected.
pub(crate) fn some() -> Vec<RequestRecord> {
    let mut rows: Vec<RequestRecord> = (0..5).map(|n| request(n, 100 * n, 20 + n)).collect();
    rows[0].phase = Phase::Warmup;
    rows[2].status = Some(404);
    rows[3].outcome = Outcome::Censored;
    rows[3].status = None;
    rows[4] = RequestRecord {
        slot: None,
        written_first: None,
        written_last: None,
        answered_first: None,
        headers: None,
        status: None,
        connection: None,
        stream: None,
        response_body_bytes: 0,
        outcome: Outcome::ConnectFailed,
        error: Some("refused, they said \"no\"".to_owned()),
        ..request(4, 400, 24)
    };
    rows
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

#[test]
fn csv_has_every_column_of_the_table() {
    let mut export = CsvExport::new(Vec::new());
    export.append(&some()[..1]).expect("a Vec takes everything");
    export.append(&some()[4..]).expect("a Vec takes everything");
    let text = text(export.finish().expect("a Vec takes everything"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0].split(',').collect::<Vec<_>>(),
        columns_of_the_table()
    );
    assert_eq!(
        lines[1],
        "0,warmup,0,0,0,0,1000000,,,1000000,1000000,20000000,20000000,20000000,200,0,1,true,0,1024,0,,,,,answered,,20000000,19000000"
    );
    assert_eq!(
        lines[2],
        "4,measure,0,0,400000000,400000000,,,,,,,,424000000,,,,false,0,0,0,,,,,connect_failed,\
         \"refused, they said \"\"no\"\"\",24000000,"
    );
    let none = CsvExport::new(Vec::new())
        .finish()
        .expect("a Vec takes everything");
    assert_eq!(none, format!("{}\n", lines[0]).into_bytes());
}

fn columns_of_the_table() -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: &Path = &folder.path().join("requests.parquet");
    RequestWriter::create(path)
        .and_then(RequestWriter::finish)
        .expect("a table");
    let file = std::fs::File::open(path).expect("a table");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a table");
    reader
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect()
}

/// `vegeta encode` reads these lines and writes them back unchanged (checked by hand with vegeta 12).
#[test]
fn vegeta_results_have_twelve_fields() {
    let urls = [
        "http://a/0",
        "http://a/1",
        "http://a/2?x=1,2",
        "http://a/3",
        "http://a/4",
    ];
    let asked = |row: &RequestRecord| RequestLine {
        method: "GET",
        url: urls[row.request as usize],
    };
    let mut export = VegetaExport::new(Vec::new(), EPOCH_UNIX_NS, "squall", asked);
    export.append(&some()).expect("a Vec takes everything");
    assert_eq!(
        text(export.finish().expect("a Vec takes everything")),
        "1763760301350000000,200,21000000,0,1024,,,squall,1,GET,http://a/1,\n\
         1763760301450000000,404,22000000,0,1024,status 404,,squall,2,GET,\"http://a/2?x=1,2\",\n\
         1763760301550000000,0,23000000,0,1024,censored,,squall,3,GET,http://a/3,\n\
         1763760301650000000,0,24000000,0,0,\"connect_failed: refused, they said \"\"no\"\"\",,squall,4,GET,http://a/4,\n"
    );
}

/// vegeta would count a request with a good status as a success.
#[test]
fn vegeta_results_of_failed_grpc_calls_have_no_status() {
    let failed = RequestRecord {
        error: Some("grpc-status 13 (INTERNAL)".to_owned()),
        ..request(1, 100, 20)
    };
    let asked = |_: &RequestRecord| RequestLine {
        method: "POST",
        url: "http://a/",
    };
    let mut export = VegetaExport::new(Vec::new(), EPOCH_UNIX_NS, "squall", asked);
    export.append(&[failed]).expect("a Vec takes everything");
    assert_eq!(
        text(export.finish().expect("a Vec takes everything")),
        "1763760301350000000,0,20000000,0,1024,answered: grpc-status 13 (INTERNAL),,squall,1,POST,http://a/,\n"
    );
}

#[test]
fn h2load_log_has_start_status_and_duration() {
    let mut export = H2loadExport::new(Vec::new(), EPOCH_UNIX_NS);
    export.append(&some()).expect("a Vec takes everything");
    assert_eq!(
        text(export.finish().expect("a Vec takes everything")),
        "1763760301350000\t200\t21000\n1763760301450000\t404\t22000\n1763760301550000\t-1\t23000\n1763760301650000\t-1\t24000\n"
    );
}

#[test]
fn percentile_distribution_has_the_layout_of_wrk2() {
    let mut export = PercentileExport::new(Vec::new());
    export.append(&some()).expect("a Vec takes everything");
    // In addition to those, there are requests that took 1, 2, ... 10 ms.
    for n in 0..10 {
        export
            .append(&[request(9, 500, n + 1)])
            .expect("a Vec takes everything");
    }
    let text = text(export.finish().expect("a Vec takes everything"));
    assert_eq!(text, include_str!("export/distribution.hgrm"));
}

#[test]
fn interval_log_counts_each_request_in_its_scheduled_second() {
    let mut export = IntervalLogExport::new(Vec::new(), EPOCH_UNIX_NS);
    export.append(&some()).expect("a Vec takes everything");
    // One request every 100 ms for a minute; request 7 ends last.
    let mut rows: Vec<RequestRecord> = (5..600).map(|n| request(n, 100 * n, 1 + n % 10)).collect();
    rows[2].end = Time::from_nanos(61_000_000_000);
    rows.sort_by_key(|row| row.end);
    rows.chunks(7)
        .for_each(|rows| export.append(rows).expect("a Vec takes everything"));
    let log = export.finish().expect("a Vec takes everything");
    let heading = "#[Response times in nanoseconds from the intended start, by the second of that; written by squall]\n\
        #[Histogram log format version 1.3]\n\
        #[StartTime: 1763760301.250 (seconds since epoch), 2025-11-21T21:25:01Z]\n\
        #[BaseTime: 1763760301.250 (seconds since epoch)]\n\
        \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    assert!(log.starts_with(heading.as_bytes()));
    assert!(log.ends_with(
        b"#[Requests: 596 answered, 1 given up (in it with a lower bound), 2 failed (not in it)]\n"
    ));
    // Unlike Java's reader, the crate's does not accept the column names.
    let mut counts = vec![0; 60];
    let mut slowest = 0;
    for entry in IntervalLogIterator::new(&log[heading.len()..]) {
        let Ok(LogEntry::Interval(interval)) = entry else {
            panic!("{entry:?}");
        };
        let payload = STANDARD
            .decode(interval.encoded_histogram())
            .expect("base64");
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut &payload[..])
            .expect("V2");
        assert_eq!(interval.duration(), time::Duration::from_secs(1));
        assert!((interval.max() - histogram.max() as f64 / 1e6).abs() < 0.001);
        counts[interval.start_timestamp().as_secs() as usize] += histogram.len();
        slowest = slowest.max(histogram.max());
    }
    // The first second lacks the warm-up request and two failures.
    assert_eq!(counts[0], 7);
    assert!(counts[1..].iter().all(|count| *count == 10), "{counts:?}");
    assert!(
        (60_300_000_000..60_400_000_000).contains(&slowest),
        "{slowest}"
    );
}
