//! Readers of load generators' logs: lines as the programs wrote them, and arbitrary bytes.

use proptest::prelude::*;
use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_peers::client::{ReadError, Readout, RowContext, RowFormat};

fn read(
    format: RowFormat,
    protocol: Protocol,
    log: &[u8],
) -> Result<(Vec<RequestRecord>, Readout), ReadError> {
    let mut rows = Vec::new();
    let context = RowContext {
        protocol,
        request_body_bytes: 5,
    };
    let readout = format.read(&mut &log[..], context, &mut |row| rows.push(row))?;
    Ok((rows, readout))
}

fn after(from: u64, micros: u64) -> Time {
    Time::from_nanos(from) + Duration::from_micros(micros)
}

#[test]
fn h2load_lines_become_rows() {
    let log = b"1795344945698130\t200\t592\n1795344945698131\t-1\t10\tmore\n1795344945\t404\t0\n";
    let (rows, readout) = read(RowFormat::H2load, Protocol::H2, log).unwrap();
    assert_eq!((readout.rows, readout.is_cut_off), (3, false));
    let start = 1_795_344_945_698_130_000;
    assert_eq!(rows[0].intended, after(start, 0));
    assert_eq!(
        (rows[0].slot, rows[0].end),
        (Some(after(start, 0)), after(start, 592))
    );
    assert_eq!(
        (rows[0].outcome, rows[0].status),
        (Outcome::Answered, Some(200))
    );
    assert_eq!(rows[0].request_body_bytes, 5);
    assert_eq!(
        (rows[1].request, rows[1].outcome, rows[1].status),
        (1, Outcome::ConnectionClosed, None)
    );
    assert!(rows[1].error.is_some());
    assert_eq!((rows[2].status, rows[2].succeeded()), (Some(404), false));
    // What h2load writes for `HTTP/1.1 200 ` without a reason phrase, and something it never writes.
    for (status, says) in [
        ("0", "without a reason phrase"),
        ("7", "a different version"),
    ] {
        let log = format!("1795344945698130\t{status}\t592\n");
        let error = read(RowFormat::H2load, Protocol::H1, log.as_bytes()).expect_err("no status");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn fortio_lines_become_rows() {
    let log = br#"{"latency":0.000592,"timestamp":1795344945698130132,"thread":1,"iter":0,"ok":true,"details":"201"}
{"latency":0.1,"timestamp":1795344945698129598,"thread":0,"iter":0,"ok":false,"details":"503"}
{"latency":0.1,"timestamp":1795344945698129598,"thread":0,"iter":1,"ok":false,"details":"-1"}
"#;
    let (rows, _) = read(RowFormat::Fortio, Protocol::H1, log).unwrap();
    let start = 1_795_344_945_698_130_132;
    assert_eq!(
        (rows[0].intended, rows[0].end),
        (after(start, 0), after(start, 592))
    );
    assert_eq!(
        (rows[0].user, rows[0].status, rows[0].slot),
        (1, Some(201), None)
    );
    assert_eq!(
        (rows[1].outcome, rows[1].status),
        (Outcome::Answered, Some(503))
    );
    assert_eq!(
        (rows[2].outcome, rows[2].error.as_deref()),
        (Outcome::ConnectionClosed, Some("-1"))
    );
}

/// Two complete requests of k6 1.1, with the lines in between.
const K6: &str = r#"{"type":"Metric","data":{"name":"http_reqs","type":"counter","contains":"default","thresholds":[],"submetrics":null},"metric":"http_reqs"}
{"metric":"http_reqs","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":1,"tags":{"method":"GET","proto":"HTTP/2.0","status":"201"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0.573401,"tags":{}}}
{"metric":"http_req_blocked","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":5.089903,"tags":{}}}
{"metric":"http_req_connecting","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0.07468,"tags":{}}}
{"metric":"http_req_tls_handshaking","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":4.56917,"tags":{}}}
{"metric":"http_req_sending","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0.114504,"tags":{}}}
{"metric":"http_req_waiting","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0.418501,"tags":{}}}
{"metric":"http_req_receiving","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0.040396,"tags":{}}}
{"metric":"http_req_failed","type":"Point","data":{"time":"2026-11-22T10:55:45.677747555Z","value":0,"tags":{}}}
{"metric":"data_sent","type":"Point","data":{"time":"2026-11-22T10:55:45.677876756Z","value":550,"tags":{"group":"","scenario":"a"}}}
{"metric":"dropped_iterations","type":"Point","data":{"time":"2026-11-22T10:55:45.677876756Z","value":3,"tags":{}}}
{"metric":"http_reqs","type":"Point","data":{"time":"2026-11-22T10:55:46Z","value":1,"tags":{"error":"dial: connection refused","error_code":"1212","status":"0","proto":""}}}
{"metric":"http_req_blocked","type":"Point","data":{"time":"2026-11-22T10:55:46Z","value":0,"tags":{}}}
"#;

#[test]
fn k6_lines_become_rows() {
    let (rows, readout) = read(RowFormat::K6, Protocol::H2, K6.as_bytes()).unwrap();
    assert_eq!((rows.len(), readout.dropped), (2, 3));
    let end = 1_795_344_945_677_747_555;
    let before = |nanos: u64| Some(Time::from_nanos(end - nanos));
    assert_eq!(Some(rows[0].end), before(0));
    assert_eq!(rows[0].answered_first, before(40_396));
    assert_eq!(rows[0].written_last, before(40_396 + 418_501));
    let slot = 40_396 + 418_501 + 114_504;
    assert_eq!(
        (rows[0].slot, rows[0].secured),
        (before(slot), before(slot))
    );
    assert_eq!(rows[0].connected, before(slot + 4_569_170));
    assert_eq!(Some(rows[0].intended), before(slot + 5_089_903));
    assert!(rows[0].opened_connection && rows[0].status == Some(201));
    assert_eq!(
        (rows[1].outcome, rows[1].status),
        (Outcome::ConnectFailed, None)
    );
    assert_eq!(rows[1].error.as_deref(), Some("dial: connection refused"));
    let error = read(RowFormat::K6, Protocol::H1s, K6.as_bytes()).expect_err("it spoke HTTP/2");
    assert!(
        error
            .to_string()
            .contains("it spoke HTTP/2.0, and h1s was requested"),
        "{error}"
    );
}

const CURL: &str = r#"1795344945698130132	{"errormsg":null,"exitcode":0,"http_code":201,"http_version":"1.1","num_connects":1,"size_download":1024,"time_appconnect":0.000000,"time_connect":0.000283,"time_pretransfer":0.000335,"time_starttransfer":0.000616,"time_total":0.000677}
1795344945698130132	{"errormsg":"refused","exitcode":7,"http_code":0,"http_version":"0","num_connects":0,"size_download":0,"time_appconnect":0.000000,"time_connect":0.000000,"time_pretransfer":0.000000,"time_starttransfer":0.000000,"time_total":0.000077}
"#;

#[test]
fn curl_lines_become_rows() {
    let (rows, _) = read(RowFormat::Curl, Protocol::H1, CURL.as_bytes()).unwrap();
    let end = 1_795_344_945_698_130_132;
    let start = end - 677_000;
    assert_eq!(
        (rows[0].intended, rows[0].end),
        (after(start, 0), after(end, 0))
    );
    assert_eq!(
        (rows[0].connected, rows[0].secured),
        (Some(after(start, 283)), None)
    );
    assert_eq!(
        (rows[0].slot, rows[0].answered_first),
        (Some(after(start, 335)), Some(after(start, 616)))
    );
    assert_eq!(
        (rows[0].status, rows[0].response_body_bytes),
        (Some(201), 1_024)
    );
    assert_eq!(
        (rows[1].outcome, rows[1].status),
        (Outcome::ConnectFailed, None)
    );
    assert_eq!(rows[1].error.as_deref(), Some("curl error 7: refused"));
    let error = read(RowFormat::Curl, Protocol::H2, CURL.as_bytes()).expect_err("it spoke 1.1");
    assert!(error.to_string().contains("line 1"), "{error}");
}

/// A request of Chromium, with changes made by the test.
fn browser_request(changes: &[(&str, &str)]) -> String {
    let mut line = r#"{"request":{"request":4,"what":1,"asked_ns":1000,"connected_ns":2000,"secured_ns":3000,"written_first_ns":4000,"written_last_ns":5000,"answered_first_ns":6000,"headers_ns":7000,"end_ns":8000,"has_ended":true,"status":200,"protocol":"h2","body_bytes":9,"opened_connection":true,"error":null}}"#.to_owned();
    for (from, to) in changes {
        assert!(line.contains(from), "{from}");
        line = line.replace(from, to);
    }
    line + "\n"
}

const BROWSER_PAGE: &str =
    "{\"page\":{\"page\":2,\"start_ns\":900,\"took_ns\":7200,\"is_loaded\":true,\"error\":null}}\n";

#[test]
fn chromium_lines_become_rows_and_pages() {
    let failed = ("\"error\":null", "\"error\":\"net::ERR_FAILED\"");
    let log = [
        browser_request(&[]),
        browser_request(&[
            (
                "\"status\":200,\"protocol\":\"h2\"",
                "\"status\":0,\"protocol\":\"\"",
            ),
            failed,
        ]),
        browser_request(&[
            ("\"has_ended\":true", "\"has_ended\":false"),
            ("\"status\":200", "\"status\":0"),
        ]),
        // This request ended before it was requested: the browser uses several clocks.
        browser_request(&[("\"end_ns\":8000", "\"end_ns\":0")]),
        BROWSER_PAGE.to_owned(),
    ]
    .concat();
    let (rows, readout) = read(RowFormat::Chromium, Protocol::H2, log.as_bytes()).unwrap();
    let at = |ns| Some(Time::from_nanos(ns));
    let row = &rows[0];
    assert_eq!(
        (row.request, row.what, row.outcome),
        (4, 1, Outcome::Answered)
    );
    assert_eq!(
        (Some(row.intended), row.connected, row.secured),
        (at(1000), at(2000), at(3000))
    );
    assert_eq!((row.written_first, row.written_last), (at(4000), at(5000)));
    assert_eq!(
        (row.answered_first, row.headers, Some(row.end)),
        (at(6000), at(7000), at(8000))
    );
    assert_eq!((row.status, row.response_body_bytes), (Some(200), 9));
    assert!(row.opened_connection && row.succeeded());
    assert_eq!(
        (rows[1].outcome, rows[1].status),
        (Outcome::ConnectionClosed, None)
    );
    assert_eq!(rows[1].error.as_deref(), Some("net::ERR_FAILED"));
    assert_eq!(rows[2].outcome, Outcome::Censored);
    assert_eq!(rows[3].end, rows[3].intended);
    let [page] = &readout.pages[..] else {
        panic!("{readout:?}")
    };
    assert_eq!(
        (page.page, page.start, page.is_loaded),
        (2, Time::from_nanos(900), true)
    );
    assert_eq!(page.took, Duration::from_nanos(7_200));
}

#[test]
fn lines_that_no_browser_can_report_are_refused() {
    for (change, says) in [
        (
            ("\"h2\"", "\"http/1.1\""),
            "it spoke http/1.1, and h2 was requested",
        ),
        (
            ("\"status\":200", "\"status\":0"),
            "answered without a status",
        ),
        (
            ("\"status\":200", "\"status\":99"),
            "its status is not an HTTP status",
        ),
        (("\"status\":200", "\"status\":70000"), "invalid value"),
        (("\"end_ns\":8000", "\"end_ns\":-1"), "invalid value"),
        (
            ("\"end_ns\":8000", "\"end_ns\":18446744073709551616"),
            "invalid type",
        ),
        (("\"what\":1", "\"what\":4294967296"), "invalid value"),
        (("\"body_bytes\":9,", ""), "missing field"),
        (("\"what\":1", "\"what\":1,\"more\":1"), "unknown field"),
        (("{\"request\":{", "{\"answer\":{"), "unknown variant"),
    ] {
        let log = BROWSER_PAGE.to_owned() + &browser_request(&[change]);
        let error = read(RowFormat::Chromium, Protocol::H2, log.as_bytes()).expect_err(says);
        let error = error.to_string();
        assert!(error.contains(says) && error.contains("line 2"), "{error}");
    }
}

#[test]
fn truncated_last_line_is_left_out() {
    for (format, protocol, log) in [
        (RowFormat::Curl, Protocol::H1, CURL),
        (RowFormat::K6, Protocol::H2, K6),
        (
            RowFormat::H2load,
            Protocol::H1,
            "17953449456981\t200\t592\n17953449456981\t200\t592\n",
        ),
    ] {
        let cut = &log.as_bytes()[..log.len() - 3];
        let whole = read(format, protocol, log.as_bytes()).unwrap();
        let (rows, readout) = read(format, protocol, cut).unwrap();
        // h2load's line is still complete, with a shorter time: nothing reveals the truncation.
        if format != RowFormat::H2load {
            assert!(readout.is_cut_off, "{format:?}");
        }
        assert!(rows.len() + 1 >= whole.0.len(), "{format:?}");
        // A truncated line in the middle is an error.
        let broken = [cut, b"\n", log.as_bytes()].concat();
        if format != RowFormat::H2load {
            assert!(
                matches!(read(format, protocol, &broken), Err(ReadError::Line { .. })),
                "{format:?}"
            );
        }
    }
}

#[test]
fn malformed_lines_are_reported_with_their_number() {
    for (format, log) in [
        (RowFormat::H2load, "1\t200\t1\nx\n"),
        (RowFormat::H2load, "1\t200\t1\n1\t99\t1\n"),
        (RowFormat::H2load, "1\t200\t1\n-1\t200\t1\n"),
        (RowFormat::H2load, "1\t200\t1\n1\t200\n"),
        (RowFormat::H2load, "1\t200\t1\n\n"),
        (
            RowFormat::Fortio,
            "{\"latency\":1,\"timestamp\":1,\"thread\":1,\"ok\":true,\"details\":\"200\"}\n{}\n",
        ),
        (
            RowFormat::K6,
            "{\"type\":\"Metric\",\"metric\":\"a\"}\n{\"type\":\"Point\",\"metric\":\"http_req_blocked\",\"data\":{\"time\":\"2026-11-22T10:55:46Z\",\"value\":0}}\n",
        ),
        (
            RowFormat::Curl,
            "1\t{\"exitcode\":7,\"http_code\":0,\"http_version\":\"0\",\"num_connects\":0,\"size_download\":0,\"time_appconnect\":0,\"time_connect\":0,\"time_pretransfer\":0,\"time_starttransfer\":0,\"time_total\":0}\n1\n",
        ),
    ] {
        let error = read(format, Protocol::H1, log.as_bytes())
            .expect_err(log)
            .to_string();
        assert!(
            error.contains("line 2") && error.contains(format.name()),
            "{error}"
        );
    }
}

/// Lines that are nearly valid: words of the formats, in any order.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "{",
        "}",
        "\"",
        ":",
        ",",
        "\t",
        "\n",
        "-1",
        "200",
        "1e400",
        "-0.5",
        "18446744073709551615",
        "null",
        "true",
        "\"type\":\"Point\"",
        "\"metric\":\"http_reqs\"",
        "\"metric\":\"http_req_waiting\"",
        "\"data\":{",
        "\"value\":1e308",
        "\"time\":\"2026-11-22T10:55:45.6Z\"",
        "\"tags\":{}",
        "\"latency\":9e99",
        "\"timestamp\":18446744073709551615",
        "\"thread\":1",
        "\"ok\":true",
        "\"details\":\"200\"",
        "\"request\":{",
        "\"page\":",
        "\"start_ns\":0",
        "\"took_ns\":18446744073709551615",
        "\"is_loaded\":true",
        "\"error\":null",
    ]);
    prop::collection::vec(words, 0..30).prop_map(|words| words.concat().into_bytes())
}

/// A line of each format with arbitrary numbers.
fn lines() -> impl Strategy<Value = String> {
    (any::<u64>(), any::<f64>(), any::<i64>(), any::<f64>()).prop_map(|(whole, one, small, other)| {
        let number = |number: f64| if number.is_finite() { format!("{number:e}") } else { "0".to_owned() };
        let (one, other) = (number(one), number(other));
        format!(
            "{whole}\t{small}\t{whole}\n\
             {{\"latency\":{one},\"timestamp\":{whole},\"thread\":1,\"ok\":false,\"details\":\"{small}\"}}\n\
             {whole}\t{{\"exitcode\":0,\"http_code\":{small},\"http_version\":\"1.1\",\"num_connects\":1,\"size_download\":{one},\
             \"time_appconnect\":{other},\"time_connect\":{one},\"time_pretransfer\":{other},\"time_starttransfer\":{one},\
             \"time_total\":{other}}}\n"
        )
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in RowFormat::ALL {
            let _ = read(format, Protocol::H1, &bytes);
        }
    }

    #[test]
    fn nearly_valid_lines_never_panic(bytes in nearly()) {
        for format in RowFormat::ALL {
            let _ = read(format, Protocol::H1, &bytes);
        }
    }

    #[test]
    fn arbitrary_numbers_neither_panic_nor_end_before_they_begin(lines in lines()) {
        for line in lines.lines() {
            for format in RowFormat::ALL {
                if let Ok((rows, readout)) = read(format, Protocol::H1, format!("{line}\n").as_bytes()) {
                    prop_assert_eq!(readout.rows as usize, rows.len());
                    prop_assert!(rows.iter().all(|row| row.intended <= row.end));
                }
            }
        }
    }

    #[test]
    fn every_h2load_line_is_read(start in 0_u64..1 << 50, status in 100_u16..1_000, duration in 0_u64..1 << 40) {
        let (rows, _) = read(RowFormat::H2load, Protocol::H1, format!("{start}\t{status}\t{duration}\n").as_bytes()).expect("what the test itself makes");
        prop_assert_eq!(rows[0].status, Some(status));
        prop_assert_eq!(rows[0].response_time(), Duration::from_micros(duration));
    }
}
