//! The recipes that come with squall, compiled in so that the binary needs no file beside it.
//!
//! It does not parse them: a test does, for every profile. Their texts are in the folder recipes/.

/// Every bundled recipe as its name and its text. The name is the recipe's own and its file's.
pub fn bundled() -> &'static [(&'static str, &'static str)] {
    &[
        ("twilio", include_str!("../../../recipes/twilio.toml")),
        ("gemini", include_str!("../../../recipes/gemini.toml")),
        ("shopgun", include_str!("../../../recipes/shopgun.toml")),
        ("tiles", include_str!("../../../recipes/tiles.toml")),
    ]
}
