//! Untrusted logs: runs the fuzz function for load generators' logs on random and half-sensible bytes, on stable Rust.
//! `logs` has what the programs really wrote.

// Public because the fuzz targets, a separate crate, use it.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/drive_programs.rs"]
mod drive_programs;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Lines of any of the formats, with numbers that are right, wrong and out of range.
fn lines() -> impl Strategy<Value = String> {
    let number = || {
        select(vec![
            "0",
            "1",
            "-1",
            "0.5",
            "200",
            "999",
            "1000",
            "1e300",
            "-1e300",
            "1784636400000000000",
            "18446744073709551615",
            "null",
        ])
    };
    let time = select(vec![
        "2026-03-01T11:00:00.5Z",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:60.999999999Z",
        "2026-03-01T11:00:00+02:00",
    ]);
    let metric = select(vec![
        "http_reqs",
        "http_req_waiting",
        "http_req_blocked",
        "http_req_x",
        "dropped_iterations",
        "vus",
    ]);
    let tags = select(vec![
        r#"{"status":"200","proto":"HTTP/1.1"}"#,
        r#"{"status":"0","error":"reset","error_code":"1220"}"#,
        r#"{"status":"x","proto":"HTTP/2.0"}"#,
        "{}",
    ]);
    prop_oneof![
        (number(), number(), number()).prop_map(|(a, b, c)| format!("{a}\t{b}\t{c}")),
        (number(), number(), number(), any::<bool>()).prop_map(|(at, took, said, ok)| format!(
            r#"{{"timestamp":{at},"latency":{took},"thread":1,"ok":{ok},"details":"{said}"}}"#
        )),
        (metric, time, number(), tags).prop_map(|(metric, time, value, tags)| format!(
            r#"{{"type":"Point","metric":"{metric}","data":{{"time":"{time}","value":{value},"tags":{tags}}}}}"#
        )),
        (number(), number(), number(), number()).prop_map(|(came, code, took, total)| format!(
            r#"{came}	{{"errormsg":null,"exitcode":0,"http_code":{code},"http_version":"1.1","num_connects":1,"size_download":{total},"time_appconnect":{took},"time_connect":{took},"time_pretransfer":{took},"time_starttransfer":{took},"time_total":{total}}}"#
        )),
        (number(), number(), number(), any::<bool>()).prop_map(|(asked, took, status, has_ended)| format!(
            r#"{{"request":{{"request":{took},"what":1,"asked_ns":{asked},"connected_ns":{took},"secured_ns":null,"written_first_ns":{took},"written_last_ns":null,"answered_first_ns":{asked},"headers_ns":null,"end_ns":{took},"has_ended":{has_ended},"status":{status},"protocol":"h2","body_bytes":{took},"opened_connection":false,"error":null}}}}"#
        )),
        (number(), number(), any::<bool>()).prop_map(|(page, took, is_loaded)| format!(
            r#"{{"page":{{"page":{page},"start_ns":{took},"took_ns":{took},"is_loaded":{is_loaded},"error":null}}}}"#
        )),
        "[ -~\t]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..200)) {
        drive_programs::program_logs(&input);
    }

    /// Most logs have one format, so the same line is repeated.
    #[test]
    fn disordered_lines_never_panic(how in any::<u8>(), lines in vec(lines(), 1..3), times in 1_usize..4) {
        let mut input = vec![how];
        input.extend((lines.join("\n") + "\n").repeat(times).bytes());
        drive_programs::program_logs(&input);
        // Truncate the last line.
        input.pop();
        drive_programs::program_logs(&input);
    }
}
