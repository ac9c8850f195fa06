//! Untrusted recordings and captures: runs the fuzz targets' functions on random and half-valid bytes, on stable Rust.
//! Valid recordings are in `import.rs`.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive_import;

/// Pieces of recordings, in any order.
fn pieces(known: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(known).prop_map(str::as_bytes);
    let piece = prop_oneof![
        8 => known.prop_map(<[u8]>::to_vec),
        1 => "[ -~\t\n]{0,8}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

const LINES: &[&str] = &[
    "0\t",
    "12.5\t",
    "1e9\t",
    "-1\t",
    "nan\t",
    "GET ",
    "POST ",
    "http://a/",
    "https://[::1]:8/x#y",
    "/x",
    "//",
    "\n",
    "\n\n",
    "#",
    "@file\n",
    "x-a: b\n",
    "Host: b\n",
    "Connection: x-a\n",
    "x: \u{7f}\n",
    "\r\n",
    "\u{e9}",
    "{\"method\":\"PUT\",\"url\":\"http://a/\",\"body\":\"/w==\"}\n",
    "{\"method\":\"GET\",\"url\":\"http://a/\",\"header\":{\"x\":[\"1\",\"2\"]}}\n",
];

/// HAR files whose entries are combined from valid, invalid and missing parts.
fn har() -> impl Strategy<Value = Vec<u8>> {
    let one_of = |known: &'static [&'static str]| proptest::sample::select(known);
    let time = one_of(&[
        "\"2026-03-01T11:00:00.5Z\"",
        "\"9999-12-31T23:59:60-23:59\"",
        "\"1970-01-01T00:00:00+00:01\"",
        "\"\u{e9}\"",
        "null",
    ]);
    let url = one_of(&[
        "http://a/b.ts",
        "https://a:1/#x",
        "data:,",
        "blob:http://a/",
        "wss://a/",
        "",
        "/a",
        "http://\\u0000/",
    ]);
    let method = one_of(&["GET", "POST", "CONNECT", "", "a b"]);
    let headers = one_of(&[
        "[]",
        "null",
        "[{\"name\":\":path\",\"value\":\"/\"}]",
        "[{\"name\":\"Cookie\",\"value\":null}]",
        "[{\"name\":\"connection\",\"value\":\",,x,\"},{\"name\":\"X\",\"value\":\"\\n\"}]",
    ]);
    let post = one_of(&[
        "null",
        "{}",
        "{\"text\":\"a\"}",
        "{\"text\":\"\\ufffd\"}",
        "{\"text\":\"/w==\",\"encoding\":\"base64\"}",
        "{\"mimeType\":\"application/x-www-form-urlencoded\",\"params\":[{\"name\":\"\u{e9}\"}]}",
    ]);
    let size = one_of(&["-1", "0", "7", "1.5", "1e300", "null"]);
    let mime = one_of(&["video/mp4", "", "audio/mpegurl; x", "\u{e9}"]);
    let entry = (time, url, method, headers, post, size, mime).prop_map(|(time, url, method, headers, post, size, mime)| {
        format!(
            "{{\"startedDateTime\":{time},\"request\":{{\"method\":\"{method}\",\"url\":\"{url}\",\"headers\":{headers},\
             \"postData\":{post},\"bodySize\":{size}}},\"response\":{{\"content\":{{\"mimeType\":\"{mime}\"}}}}}}"
        )
    });
    vec(entry, 0..6).prop_map(|entries| {
        format!("{{\"log\":{{\"entries\":[{}]}}}}", entries.join(",")).into_bytes()
    })
}

/// Scripts of our own format, combined from valid and invalid parts.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let one_of = |known: &'static [&'static str]| proptest::sample::select(known);
    let request = (
        one_of(&["GET", "POST", "CONNECT", "", "a b"]),
        one_of(&["http://a/", "https://[::1]:8/x?y", "/a", "http://\\u0000/"]),
        one_of(&[
            "[]",
            "[[\"x-a\",\"b\"]]",
            "[[\"X\",\"b\"]]",
            "[[\"x\",\"\\n\"]]",
            "null",
        ]),
        one_of(&[
            "\"empty\"",
            "{\"text\":\"a\"}",
            "{\"file\":\"a\"}",
            "\"a\"",
            "null",
        ]),
    );
    let request = request.prop_map(|(method, url, headers, body)| {
        format!(r#"{{"method":"{method}","url":"{url}","headers":{headers},"body":{body}}}"#)
    });
    let at = one_of(&["0", "1000000", "-1", "1e300", "18446744073709551615"]);
    let step =
        (at, 0..4_u32).prop_map(|(at, request)| format!(r#"{{"at":{at},"request":{request}}}"#));
    (vec(request, 0..4), vec(step, 0..4)).prop_map(|(requests, steps)| {
        let (requests, steps) = (requests.join(","), steps.join(","));
        format!(r#"{{"requests":[{requests}],"steps":[{steps}]}}"#).into_bytes()
    })
}

proptest! {
    #[test]
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..200)) {
        drive_import::import_har(&input);
        drive_import::import_timing_script(&input);
        drive_import::import_vegeta(&input);
        drive_import::import_script(&input);
    }

    #[test]
    fn half_valid_scripts_are_parsed_or_refused(input in script()) {
        drive_import::import_script(&input);
    }

    #[test]
    fn half_valid_lines_are_parsed_or_refused(input in pieces(LINES)) {
        drive_import::import_timing_script(&input);
        drive_import::import_vegeta(&input);
    }

    #[test]
    fn half_valid_har_files_are_parsed_or_refused(input in har()) {
        drive_import::import_har(&input);
    }

    #[test]
    fn damaged_har_files_are_parsed_or_refused(at in 0..9_000_usize, with in any::<u8>(), cut in any::<bool>()) {
        let mut input = include_bytes!("import/browser.har").to_vec();
        let at = at % input.len();
        input[at] = with;
        input.truncate(if cut { at } else { input.len() });
        drive_import::import_har(&input);
    }
}

/// Blocks and records of captures in any order.
const BLOCKS: &[&[u8]] = &[
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
    b"\x01\0\0\0\x14\0\0\0\x65\0\0\0\0\0\0\0\x14\0\0\0",
    b"\x06\0\0\0\x24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x45\0\0\0\x24\0\0\0",
    b"\x0a\0\0\0\x18\0\0\0KSLT\x04\0\0\0abcd\x18\0\0\0",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x65\0\0\0",
    b"\0\0\0\0\0\0\0\0\x02\0\0\0\x02\0\0\0\x45\0",
];

/// The head of a capture of Ethernet, and headers of tunnels in any order.
const ETHERNET: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0";
const HEADERS: &[&[u8]] = &[
    b"\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x08\0",
    b"\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x88\x64\x11\0\0\x01\0\x40\0\x21",
    b"\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x88\x47\0\0\x01\x40",
    b"\x45\0\0\xff\0\0\x40\0\x40\x2f\0\0\x0a\0\0\x01\x0a\0\0\x02",
    b"\x45\0\0\xff\0\0\x40\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02",
    b"\x45\0\0\xff\0\0\x40\0\x40\x04\0\0\x0a\0\0\x01\x0a\0\0\x02",
    b"\0\0\x12\xb5\0\xff\0\0\x08\0\0\0\0\0\x01\0",
    b"\0\0\x17\xc1\0\xff\0\0\x02\0\x65\x58\0\0\x01\0\x01\x02\x03\x04\x05\x06\x07\x08",
    b"\0\0\x08\x68\0\xff\0\0\x34\xff\0\x40\0\0\0\x01\0\0\0\x85\x01\0\0\0",
    b"\x30\0\x65\x58\0\0\0\x01\0\0\0\x02",
    b"\x10\0\x22\xeb\0\0\0\x01\x20\0\0\0\0\0\0\0\0\0\0\x01",
];

proptest! {
    #[test]
    fn half_valid_tunnels_never_panic(pieces in vec(prop_oneof![
        8 => proptest::sample::select(HEADERS).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..8),
    ], 0..12)) {
        let frame = pieces.concat();
        let length = (frame.len() as u32).to_le_bytes();
        drive_import::import_pcap(&[ETHERNET, &[0; 8], &length, &length, &frame].concat());
    }

    #[test]
    fn half_valid_captures_never_panic(pieces in vec(prop_oneof![
        8 => proptest::sample::select(BLOCKS).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..8),
    ], 0..30)) {
        drive_import::import_pcap(&pieces.concat());
    }
}
