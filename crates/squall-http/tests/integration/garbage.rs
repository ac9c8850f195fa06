//! Hostile peers: runs the functions of fuzz/ on random and half-valid bytes, on stable Rust.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{drive, drive_values};

/// Frames with a plausible header and any payload, which get further than plain noise.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![4 => 0u8..10, 1 => any::<u8>()];
    let stream = prop_oneof![Just(0u32), Just(1), Just(3), Just(5), any::<u32>()];
    let payload = prop_oneof![
        // ":status: 200", ":method: GET, :scheme: http, :path: /" and ":authority: a" from HPACK's table.
        Just(vec![0x88]),
        Just(vec![0x82, 0x86, 0x84, 0x41, 0x01, b'a']),
        Just(vec![0, 0, 0, 8]),
        Just(vec![0, 4, 0x7f, 0xff, 0xff, 0xff]),
        vec(any::<u8>(), 0..40),
    ];
    let frame = (kind, any::<u8>(), stream, payload).prop_map(|(kind, flags, stream, payload)| {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags & 0x2d]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    });
    (any::<u8>(), vec(frame, 0..30)).prop_map(|(first, frames)| {
        let mut bytes = vec![first];
        bytes.extend(frames.concat());
        bytes
    })
}

/// Plausible lines of HTTP/1.1, in any order.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 204\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "GET / HTTP/1.1\r\n",
        "POST /x HTTP/1.1\r\n",
        "content-length: 3\r\n",
        "transfer-encoding: chunked\r\n",
        "connection: close\r\n",
        "expect: 100-continue\r\n",
        "\r\n",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
        "abc",
    ]);
    let line = prop_oneof![6 => known.prop_map(str::to_owned), 1 => "[ -~\r\n]{0,12}"];
    (any::<u8>(), vec(line, 0..30)).prop_map(|(first, lines)| {
        let mut bytes = vec![first];
        bytes.extend(lines.concat().bytes());
        bytes
    })
}

/// Parts of field values, in any order.
fn values() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(vec![
        "h3",
        "=",
        "\":443\"",
        "\"[::1]:8443\"",
        "\"a\\\"b:1\"",
        ",",
        ";",
        " ",
        "ma=60",
        "persist=1",
        "clear",
        "00-",
        "737175616c6c0001",
        "0123456789abcdef",
        "bytes=",
        "-",
        "5",
        "18446744073709551615",
        "%",
        "%25",
        "%+1",
        "/",
        "\"",
    ]);
    let part = prop_oneof![6 => known.prop_map(str::to_owned), 1 => "[ -~]{0,4}"];
    vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes())
}

/// Passes the input to every target.
fn drive_all(input: &[u8]) {
    drive::h1_client(input);
    drive::h1_server(input);
    drive::h2_client(input);
    drive::h2_upgraded_client(input);
    drive::h2_server(input);
    drive::frame_walker(input);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..300)) {
        drive_all(&input);
    }

    #[test]
    fn plausible_frames_in_any_order_never_panic(input in frames()) {
        drive_all(&input);
    }

    #[test]
    fn plausible_field_values_in_any_order_never_panic(length in any::<[u8; 8]>(), input in prop_oneof![values(), vec(any::<u8>(), 0..60)]) {
        drive_values::alt_svc(&input);
        drive_values::percent_encoded(&input);
        drive_values::range(&input);
        drive_values::robots(&input);
        drive_values::traced(&input);
        drive_values::range(&[&length[..], &input].concat());
    }

    #[test]
    fn plausible_lines_in_any_order_never_panic(input in lines()) {
        drive_all(&input);
    }
}
