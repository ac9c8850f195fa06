//! Foreign requests: the function of fuzz/ for queries, driven with random and half-sensible text on stable Rust.

// It is public for the fuzz targets, which are a crate of their own.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/drive_query.rs"]
mod drive_query;

use proptest::collection::vec;
use proptest::prelude::*;

const PARTS: &[&str] = &[
    "size",
    "delay",
    "status",
    "=",
    "&",
    "size=",
    "delay=",
    "status=",
    "1MiB",
    "1PB",
    "1000000GB",
    "0",
    "1.5",
    "2s",
    "300000h",
    "200",
    "404",
    "599",
    "600",
    "+",
    "-",
    "%20",
    "?",
    "#",
];

fn queries() -> impl Strategy<Value = String> {
    let known = proptest::sample::select(PARTS).prop_map(str::to_owned);
    let part = prop_oneof![12 => known, 1 => "(?s).{0,3}"];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn noise(input in vec(any::<u8>(), 0..60)) {
        drive_query::serve_query(&input);
    }

    #[test]
    fn queries_in_disorder(query in queries()) {
        drive_query::serve_query(query.as_bytes());
    }
}
