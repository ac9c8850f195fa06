//! Runs the fuzz target for thresholds (fuzz/) on stable Rust, with random and half-valid text.

// The function of the fuzz target is public because the fuzz targets are a separate crate.

use proptest::prelude::*;

use crate::drive_thresholds;

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
    fn threshold_parser_survives_random_bytes(input in prop::collection::vec(any::<u8>(), 0..60)) {
        drive_thresholds::threshold(&input);
    }

    #[test]
    fn threshold_parser_survives_half_valid_text(text in prop_oneof![
        4 => thresholds(),
        1 => r"[a-z:()<>=!0-9.%/é ]{0,24}",
    ]) {
        drive_thresholds::threshold(text.as_bytes());
    }
}
