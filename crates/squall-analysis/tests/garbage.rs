//! What people write: the function of fuzz/ for thresholds, driven with random and half-sensible text on stable Rust.

// It is public for the fuzz targets, which are a crate of their own.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/drive_thresholds.rs"]
mod drive_thresholds;

use proptest::prelude::*;

fn thresholds() -> impl Strategy<Value = String> {
    let measure = "(response_time:|service_time:|requests:|errors:|)";
    let aggregate = r"(avg|min|max|med|count|rate|p\(99\)|p\([0-9]{1,2}(\.[0-9]{1,5})?\))";
    let limit = r"[0-9]{1,20}(\.[0-9]{0,20})?(ms|s|us|%|/s|)x?";
    (measure, aggregate, " ?(<|<=|>|>=|==|!=) ?", limit).prop_map(
        |(measure, aggregate, comparison, limit)| measure + &aggregate + &comparison + &limit,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn noise(input in prop::collection::vec(any::<u8>(), 0..60)) {
        drive_thresholds::threshold(&input);
    }

    #[test]
    fn thresholds_in_disorder(text in prop_oneof![
        4 => thresholds(),
        1 => r"[a-z:()<>=!0-9.%/é ]{0,24}",
    ]) {
        drive_thresholds::threshold(text.as_bytes());
    }
}
