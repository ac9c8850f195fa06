//! Untrusted requests: runs the fuzz function for queries on random and half-sensible text, on stable Rust.

// Public because the fuzz targets, a separate crate, use it.
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
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..60)) {
        drive_query::serve_query(&input);
    }

    #[test]
    fn disordered_queries_never_panic(query in queries()) {
        drive_query::serve_query(query.as_bytes());
    }
}
