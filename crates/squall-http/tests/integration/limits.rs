//! Both protocols carry every message that a plan's rules allow: if only one of them accepted a load, a comparison
//! would be meaningless.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES, header_bytes,
};
use squall_http::{Body, MessageError, Request, Response, Scheme};

use crate::common::{self, PROTOCOLS, Pair, whole_client_story};

type Headers = Vec<(String, String)>;

/// Exchanges these messages over a connection of each protocol, and checks that they arrive complete.
fn exchange(method: &str, target: &str, headers: &Headers) {
    let request = Request::new(
        method,
        Scheme::Http,
        "server:8080",
        target,
        headers,
        common::bytes(3),
    )
    .unwrap();
    let request = Arc::new(request);
    let response = Arc::new(Response::new(200, headers, common::bytes(5)).unwrap());
    for protocol in PROTOCOLS {
        let mut pair = Pair::new(protocol);
        pair.response = Arc::clone(&response);
        let stream = pair.submit(&request);
        pair.settle();
        let body = if method == "HEAD" { 0 } else { 5 };
        assert_eq!(
            pair.client_story(stream),
            whole_client_story(stream, 200, body),
            "{protocol}"
        );
    }
}

/// `count` fields whose total length is the maximum.
fn full_headers(count: usize) -> Headers {
    let each = MAX_HEADERS_BYTES / count;
    let value = "v".repeat(each - header_bytes("name", ""));
    let mut headers = vec![("name".to_owned(), value); count];
    headers[0].1 += &"v".repeat(MAX_HEADERS_BYTES % count);
    headers
}

#[test]
fn the_largest_allowed_messages_are_exchanged() {
    let method = "M".repeat(MAX_METHOD_LEN_BYTES);
    let target = format!("/{}", "t".repeat(MAX_TARGET_LEN_BYTES - 1));
    for count in [1, 2, MAX_HEADERS] {
        exchange(&method, &target, &full_headers(count));
    }
}

#[test]
fn messages_beyond_the_limits_are_refused() {
    let mut headers = vec![("a".to_owned(), "b".to_owned()); MAX_HEADERS + 1];
    let new = |headers: &Headers| {
        let request = Request::new("GET", Scheme::Http, "a", "/", headers, Body::EMPTY).map(drop);
        assert_eq!(request, Response::new(200, headers, Body::EMPTY).map(drop));
        request
    };
    assert_eq!(
        new(&headers),
        Err(MessageError::TooManyHeaders(MAX_HEADERS + 1))
    );
    headers.pop();
    assert_eq!(new(&headers), Ok(()));
    let mut full = full_headers(2);
    full[1].1.push('v');
    let bytes = MAX_HEADERS_BYTES + 1;
    assert_eq!(new(&full), Err(MessageError::HeadersTooLong(bytes)));
}

proptest! {
    /// Includes names that are reserved or have a meaning to an engine; messages that the rules refuse are skipped.
    #[test]
    fn every_accepted_message_is_exchanged(
        method in prop_oneof!["[A-Z]{1,7}", "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}"],
        target in "/[!-~]{0,40}",
        headers in prop::collection::vec(
            (
                prop_oneof![
                    4 => "[!#$%&'*+.^_`|~0-9a-z-]{1,12}",
                    1 => prop::sample::select(vec![
                        "expect", "priority", "trailer", "te", "cookie", "range", "date", "server",
                        "set-cookie", "content-type", "content-encoding", "alt-svc", "http2-settings",
                    ]).prop_map(str::to_owned),
                ],
                "([!-~]([ -~\t]{0,20}[!-~])?)?",
            ),
            0..12,
        ),
    ) {
        let request = Request::new(&method, Scheme::Http, "a", &target, &headers, Body::EMPTY);
        prop_assume!(request.is_ok());
        exchange(&method, &target, &headers);
    }
}
