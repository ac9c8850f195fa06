//! HTTP/3 clients that violate the protocol, against `squall serve`: each gets the code of RFC 9114, section 8.1, or
//! RFC 9204, section 6, on the stream or connection that the rule is about, and other clients get responses.
//!
//! The engine itself enforces all of these rules: it uses quiche only for QUIC, and for QPACK decoding after its own
//! checks. Floods and aborts are in `hostile_quic_bodies` and `hostile_quic`, servers that violate rules in
//! `hostile_quic_servers`.

use tempfile::TempDir;

use crate::proxies::proxy;
use crate::raw_quic::Refusal::{self, OfConnection, OfStream};
use crate::raw_quic::Then::KeepsSilent;
use crate::raw_quic::{CONTROL, GET, RawClient, RawServer};
use crate::serving::Serving;
use crate::support::seat;

const WINDOW: u64 = 1 << 20;

const STREAM_CREATION_ERROR: Refusal = OfConnection(0x103);
const CLOSED_CRITICAL_STREAM: Refusal = OfConnection(0x104);
const FRAME_UNEXPECTED: Refusal = OfConnection(0x105);
const FRAME_ERROR: Refusal = OfConnection(0x106);
const ID_ERROR: Refusal = OfConnection(0x108);
const SETTINGS_ERROR: Refusal = OfConnection(0x109);
const MISSING_SETTINGS: Refusal = OfConnection(0x10a);
const QPACK_DECOMPRESSION_FAILED: Refusal = OfConnection(0x200);
const QPACK_ENCODER_STREAM_ERROR: Refusal = OfConnection(0x201);
const QPACK_DECODER_STREAM_ERROR: Refusal = OfConnection(0x202);
const EXCESSIVE_LOAD: Refusal = OfStream(0x107);
const REQUEST_INCOMPLETE: Refusal = OfStream(0x10d);
const MESSAGE_ERROR: Refusal = OfStream(0x10e);

/// The frame types that only HTTP/2 has (RFC 9114, section 11.2.1).
const OF_HTTP2: [u8; 4] = [0x2, 0x6, 0x8, 0x9];

/// ":method: GET", POST or CONNECT, ":scheme: https", ":path: /" and ":authority: a" (RFC 9204, appendix A).
const METHOD: &[u8] = &[0xd1];
pub(crate) const POST: &[u8] = &[0xd4];
const CONNECT: &[u8] = &[0xcf];
pub(crate) const SCHEME: &[u8] = &[0xd7];
pub(crate) const PATH: &[u8] = &[0xc1];
pub(crate) const AUTHORITY: &[u8] = &[0x50, 1, b'a'];

/// The request stream, the client's control stream, and two more unidirectional streams of the client.
const REQUEST: u64 = 0;
const CLIENT_CONTROL: u64 = 2;
const SECOND: u64 = 6;
const THIRD: u64 = 10;

/// What a client sends, by stream, and whether the stream ends there.
type ClientStreams = Vec<(u64, Vec<u8>, bool)>;

/// A client's violation, and the expected reaction.
type Misdeed = (&'static str, ClientStreams, Refusal);

/// A HEADERS frame with these encoded fields.
pub(crate) fn headers(fields: &[&[u8]]) -> Vec<u8> {
    frame(0x1, &[&[0, 0], &fields.concat()[..]].concat())
}

/// A frame of less than 16 KiB.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short payload") | 0x4000;
    [&[kind], &length.to_be_bytes()[..], payload].concat()
}

/// A field with a literal name of up to 134 bytes, and a value of less than 127.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = match name.len() {
        len @ 0..7 => vec![0x20 | len as u8],
        len => vec![0x27, len as u8 - 7],
    };
    bytes.extend(name.bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.bytes());
    bytes
}

/// A violation on a control stream that has begun correctly.
fn on_control(name: &'static str, then: &[u8], refusal: Refusal) -> Misdeed {
    let said = [CONTROL, then].concat();
    (name, vec![(CLIENT_CONTROL, said, false)], refusal)
}

/// A violation at the start of a control stream, right after its type.
fn first(name: &'static str, said: &[u8], refusal: Refusal) -> Misdeed {
    let said = [&[0x0], said].concat();
    (name, vec![(CLIENT_CONTROL, said, false)], refusal)
}

/// A violation on a request stream, which ends there.
fn on_request(name: &'static str, said: &[&[u8]], refusal: Refusal) -> Misdeed {
    let control = (CLIENT_CONTROL, CONTROL.to_vec(), false);
    (name, vec![control, (REQUEST, said.concat(), true)], refusal)
}

/// A violation on streams other than the control stream.
fn beside(name: &'static str, streams: &[(u64, &[u8], bool)], refusal: Refusal) -> Misdeed {
    let mut said = vec![(CLIENT_CONTROL, CONTROL.to_vec(), false)];
    said.extend(
        streams
            .iter()
            .map(|(id, bytes, fin)| (*id, bytes.to_vec(), *fin)),
    );
    (name, said, refusal)
}

/// Checks that each is rejected as expected, and that another client gets a response. If only a stream was rejected,
/// the next stream of the same connection gets a response, too.
fn check(misdeeds: Vec<Misdeed>) {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &["--body", "5B"]);
    let mut wrong = Vec::new();
    for (name, said, refusal) in misdeeds {
        let mut client = RawClient::connect_bare(serving.address("h3"), WINDOW);
        for (stream, bytes, fin) in &said {
            client.send(*stream, bytes, *fin);
        }
        let is = client.refusal(REQUEST);
        if is != Some(refusal) {
            wrong.push(format!("{name}: {is:x?} instead of {refusal:x?}"));
        } else if let OfStream(_) = refusal {
            client.send(4, GET, true);
            assert!(client.answer(4).is_some(), "{name}: the next request");
        }
        serving.check_answers();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut client = RawClient::connect(serving.address("h3"), WINDOW);
    client.send(REQUEST, GET, true);
    assert!(client.answer(REQUEST).is_some(), "nobody is answered");
    serving.check_ends_well();
}

#[test]
fn misplaced_frames_are_rejected() {
    let mut misdeeds = vec![
        on_control("DATA on the control stream", &[0x0, 0x0], FRAME_UNEXPECTED),
        on_control("HEADERS there", GET, FRAME_UNEXPECTED),
        on_control("PUSH_PROMISE there", &[0x5, 0x1, 0x0], FRAME_UNEXPECTED),
        on_request(
            "DATA before HEADERS",
            &[&[0x0, 0x1, b'x'], GET],
            FRAME_UNEXPECTED,
        ),
        on_request(
            "nothing of DATA before HEADERS",
            &[&[0x0, 0x0]],
            FRAME_UNEXPECTED,
        ),
        on_request(
            "DATA after trailers",
            &[GET, &headers(&[]), &[0x0, 0x0]],
            FRAME_UNEXPECTED,
        ),
        on_request(
            "HEADERS after trailers",
            &[GET, &headers(&[]), GET],
            FRAME_UNEXPECTED,
        ),
        on_request("half a frame", &[GET, &[0x0, 0x9, b'x']], FRAME_ERROR),
        on_request("half a header of a frame", &[GET, &[0x0]], FRAME_ERROR),
    ];
    // CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID.
    for kind in [0x3, 0x4, 0x5, 0x7, 0xd] {
        let said = [GET, &[kind, 0x1, 0x0]];
        misdeeds.push(on_request(
            "a frame of the control stream",
            &said,
            FRAME_UNEXPECTED,
        ));
        let said = [&[kind, 0x80, 0x1, 0x11, 0x70][..]];
        misdeeds.push(on_request(
            "the start of a long one",
            &said,
            FRAME_UNEXPECTED,
        ));
    }
    for kind in OF_HTTP2 {
        let said = [kind, 0x0];
        misdeeds.push(on_control(
            "of HTTP/2, on the control stream",
            &said,
            FRAME_UNEXPECTED,
        ));
        misdeeds.push(on_request("of HTTP/2", &[&said], FRAME_UNEXPECTED));
        misdeeds.push(on_request(
            "of HTTP/2, behind a head",
            &[GET, &said],
            FRAME_UNEXPECTED,
        ));
    }
    check(misdeeds);
}

#[test]
fn invalid_settings_are_rejected() {
    let mut misdeeds = vec![
        on_control("SETTINGS twice", &[0x4, 0x0], FRAME_UNEXPECTED),
        first(
            "GOAWAY before SETTINGS",
            &[0x7, 0x1, 0x0, 0x4, 0x0],
            MISSING_SETTINGS,
        ),
        first(
            "a frame that means nothing before",
            &[0x21, 0x0, 0x4, 0x0],
            MISSING_SETTINGS,
        ),
        first(
            "a long GOAWAY before",
            &[0x7, 0x80, 0x1, 0x11, 0x70],
            MISSING_SETTINGS,
        ),
        first("half a setting", &[0x4, 0x1, 0x6], FRAME_ERROR),
        first("half a value", &[0x4, 0x2, 0x6, 0x40], FRAME_ERROR),
    ];
    for id in 0x2..=0x5 {
        misdeeds.push(first(
            "a setting of HTTP/2",
            &[0x4, 0x2, id, 0x1],
            SETTINGS_ERROR,
        ));
    }
    check(misdeeds);
}

#[test]
fn duplicate_and_closed_critical_streams_are_rejected() {
    let mut misdeeds = vec![
        beside(
            "two control streams",
            &[(SECOND, CONTROL, false)],
            STREAM_CREATION_ERROR,
        ),
        beside(
            "a client's push",
            &[(SECOND, &[0x1, 0x0], false)],
            STREAM_CREATION_ERROR,
        ),
        (
            "the control stream ends",
            vec![(CLIENT_CONTROL, CONTROL.to_vec(), true)],
            CLOSED_CRITICAL_STREAM,
        ),
    ];
    for kind in [0x2, 0x3] {
        let kind: &[u8] = &[kind];
        let two = [(SECOND, kind, false), (THIRD, kind, false)];
        misdeeds.push(beside("two of QPACK's", &two, STREAM_CREATION_ERROR));
        let ended = [(SECOND, kind, true)];
        misdeeds.push(beside(
            "one of QPACK's ends",
            &ended,
            CLOSED_CRITICAL_STREAM,
        ));
    }
    check(misdeeds);
}

#[test]
fn invalid_ids_are_rejected() {
    let goaways = [0x7, 0x1, 0x4, 0x7, 0x1, 0x8];
    check(vec![
        on_control("GOAWAY with a higher id", &goaways, ID_ERROR),
        on_control(
            "MAX_PUSH_ID below an earlier one",
            &[0xd, 0x1, 0x4, 0xd, 0x1, 0x3],
            ID_ERROR,
        ),
        on_control("CANCEL_PUSH of no push", &[0x3, 0x1, 0x0], ID_ERROR),
        on_control("GOAWAY of nothing", &[0x7, 0x0], FRAME_ERROR),
        on_control("GOAWAY and more", &[0x7, 0x2, 0x0, 0x0], FRAME_ERROR),
        on_control("half a MAX_PUSH_ID", &[0xd, 0x1, 0x40], FRAME_ERROR),
    ]);
}

#[test]
fn undecodable_field_sections_are_rejected() {
    let failed = QPACK_DECOMPRESSION_FAILED;
    let dynamic = frame(0x1, &[0, 0, 0x80]);
    let large = headers(&[METHOD, SCHEME, PATH, AUTHORITY, &[0xd1; 2_000]]);
    check(vec![
        on_request("no section", &[&[0x1, 0x0]], failed),
        on_request("an entry of the dynamic table", &[&dynamic], failed),
        on_request("the same in trailers", &[GET, &dynamic], failed),
        on_request("an insert count", &[&frame(0x1, &[1, 0, 0xd1])], failed),
        on_request("a base below 0", &[&frame(0x1, &[0, 0x80, 0xd1])], failed),
        on_request(
            "beyond the static table",
            &[&headers(&[&[0xff, 0x24]])],
            failed,
        ),
        on_request("half a field", &[&headers(&[&[0x50, 9, b'a']])], failed),
        beside(
            "an insertion",
            &[(SECOND, &[0x2, 0x41, b'x'], false)],
            QPACK_ENCODER_STREAM_ERROR,
        ),
        beside(
            "a table with room",
            &[(SECOND, &[0x2, 0x21], false)],
            QPACK_ENCODER_STREAM_ERROR,
        ),
        beside(
            "an acknowledgment",
            &[(SECOND, &[0x3, 0x80], false)],
            QPACK_DECODER_STREAM_ERROR,
        ),
        beside(
            "an increment",
            &[(SECOND, &[0x3, 0x01], false)],
            QPACK_DECODER_STREAM_ERROR,
        ),
        // This can be decoded, but the request is too large.
        on_request("a large section", &[&large], EXCESSIVE_LOAD),
    ]);
}

#[test]
fn malformed_requests_are_rejected() {
    let fine = [METHOD, SCHEME, PATH, AUTHORITY].concat();
    let with = |name, added: &[u8]| on_request(name, &[&headers(&[&fine, added])], MESSAGE_ERROR);
    let of = |name, fields: &[&[u8]]| on_request(name, &[&headers(fields)], MESSAGE_ERROR);
    let trailers = headers(&[METHOD]);
    check(vec![
        of("no field", &[]),
        of("no method", &[SCHEME, PATH, AUTHORITY]),
        of("no scheme", &[METHOD, PATH, AUTHORITY]),
        of("no path", &[METHOD, SCHEME, AUTHORITY]),
        of("for nobody", &[METHOD, SCHEME, PATH]),
        of("for an empty name", &[METHOD, SCHEME, PATH, &[0x50, 0]]),
        of(
            "a blank in the path",
            &[METHOD, SCHEME, AUTHORITY, &field(":path", "/ x")],
        ),
        of(
            "a line end in the path",
            &[METHOD, SCHEME, AUTHORITY, &field(":path", "/\r\n")],
        ),
        with("two methods", METHOD),
        with("a status", &[0xd9]),
        with("an unknown pseudo-header field", &field(":x", "y")),
        with("an upper-case name", &field("X-Y", "z")),
        with("a name with a blank", &field("x y", "z")),
        with("no name", &field("", "z")),
        with("a line end in a value", &field("x", "y\r\nz: a")),
        with("a NUL in a value", &field("x", "\0")),
        with("a blank before a value", &field("x", " y")),
        with("a field of one hop", &field("connection", "close")),
        with("another coding", &field("transfer-encoding", "chunked")),
        with("another name than the authority", &field("host", "b")),
        with("te of more than trailers", &field("te", "gzip")),
        with("a length of letters", &field("content-length", "x")),
        with(
            "two lengths",
            &[field("content-length", "0"), field("content-length", "1")].concat(),
        ),
        of("a field before the method", &[&field("x", "y"), &fine]),
        of("a tunnel with a path", &[CONNECT, AUTHORITY, PATH]),
        of("a tunnel to nobody", &[CONNECT]),
        on_request(
            "a pseudo-header field in trailers",
            &[GET, &trailers],
            MESSAGE_ERROR,
        ),
        on_request("nothing", &[&[0x21, 0x0]], REQUEST_INCOMPLETE),
    ]);
}

#[test]
fn bodies_that_contradict_content_length_are_rejected() {
    let post = |length: &str| {
        let length = field("content-length", length);
        headers(&[POST, SCHEME, PATH, AUTHORITY, &length])
    };
    let body = frame(0x0, b"abc");
    check(vec![
        on_request("too short", &[&post("4"), &body], MESSAGE_ERROR),
        on_request("none", &[&post("4")], MESSAGE_ERROR),
        on_request("too long", &[&post("2"), &body], MESSAGE_ERROR),
        // The server must not wait for an end of the stream that may never come.
        beside(
            "too long and no end",
            &[(REQUEST, &[post("2"), body.clone()].concat(), false)],
            MESSAGE_ERROR,
        ),
    ]);
}

/// RFC 9114, section 4.4: a request for a tunnel is not malformed, but neither server nor proxy offers tunnels.
#[test]
fn connect_requests_get_501() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &[]);
    let to = format!("http://{}", serving.address("h1"));
    let proxy = Serving::of("proxy", &["h3"], &["--to", &to]);
    for front in [&serving, &proxy] {
        let mut client = RawClient::connect(front.address("h3"), WINDOW);
        client.send(REQUEST, &headers(&[CONNECT, AUTHORITY]), true);
        let answer = client.answer(REQUEST).expect("an answer");
        // The value of ":status", plain or in Huffman code after its length (RFC 7541, appendix B).
        let is_501 = |value: &[u8]| value == b"501" || value == b"\x82\x6c\x01";
        let has_501 = answer.windows(3).any(is_501);
        assert!(has_501, "{answer:x?}");
    }
    proxy.check_ends_well();
    serving.check_ends_well();
}

/// A reset after a violation is neither the upstream's reset nor the client's.
#[test]
fn proxy_reports_which_side_violated_the_protocol() {
    /// ":status: 200" and "content-length: 2", and a longer body.
    const TOO_LONG: &[&[u8]] = &[&[0x1, 6, 0, 0, 0xd9, 0x54, 1, b'2'], &[0x0, 3, 1, 2, 3]];
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let upstream = RawServer::new(CONTROL, TOO_LONG, KeepsSilent).start(home.path());
    let proxy = proxy(&["h3"], "h3", upstream, &[]);
    let mut client = RawClient::connect(proxy.address("h3"), WINDOW);
    client.send(REQUEST, GET, true);
    let cut_off = client.refusal(REQUEST);
    assert!(matches!(cut_off, Some(OfStream(_))), "{cut_off:?}");
    let length = field("content-length", "2");
    let post = headers(&[POST, SCHEME, PATH, AUTHORITY, &length]);
    client.send(4, &[&post[..], &frame(0x0, b"abc")].concat(), false);
    assert_eq!(client.refusal(4), Some(MESSAGE_ERROR));
    let log = proxy.end_well();
    for failure in ["1 bad request", "1 upstream broke the protocol"] {
        assert!(log.contains(failure), "{log}");
    }
    assert!(!log.contains("client gone"), "{log}");
}
