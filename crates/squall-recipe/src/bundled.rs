//! The recipes that ship with squall, compiled in so that the binary needs no other files.
//!
//! They are not parsed here: a test does that for every profile. Their texts are in the folder recipes/, along with the
//! files that they name.

/// Every bundled recipe: its name, which is also the name of its file, and its text.
pub fn bundled() -> &'static [(&'static str, &'static str)] {
    &[
        ("twilio", include_str!("../../../recipes/twilio.toml")),
        (
            "twilio-connections",
            include_str!("../../../recipes/twilio-connections.toml"),
        ),
        (
            "twilio-bbr",
            include_str!("../../../recipes/twilio-bbr.toml"),
        ),
        (
            "twilio-bursts",
            include_str!("../../../recipes/twilio-bursts.toml"),
        ),
        (
            "twilio-200",
            include_str!("../../../recipes/twilio-200.toml"),
        ),
        (
            "twilio-haproxy",
            include_str!("../../../recipes/twilio-haproxy.toml"),
        ),
        ("bbc", include_str!("../../../recipes/bbc.toml")),
        ("gemini", include_str!("../../../recipes/gemini.toml")),
        (
            "gemini-users",
            include_str!("../../../recipes/gemini-users.toml"),
        ),
        (
            "gemini-pool",
            include_str!("../../../recipes/gemini-pool.toml"),
        ),
        (
            "gemini-slow",
            include_str!("../../../recipes/gemini-slow.toml"),
        ),
        ("shopgun", include_str!("../../../recipes/shopgun.toml")),
        (
            "shopgun-windows",
            include_str!("../../../recipes/shopgun-windows.toml"),
        ),
        ("tiles", include_str!("../../../recipes/tiles.toml")),
        (
            "tiles-chromium",
            include_str!("../../../recipes/tiles-chromium.toml"),
        ),
        (
            "golden-download",
            include_str!("../../../recipes/golden-download.toml"),
        ),
        (
            "golden-upload",
            include_str!("../../../recipes/golden-upload.toml"),
        ),
        (
            "golden-sparse",
            include_str!("../../../recipes/golden-sparse.toml"),
        ),
        (
            "golden-goodput",
            include_str!("../../../recipes/golden-goodput.toml"),
        ),
    ]
}

/// The files that bundled recipes name: their names and their texts.
pub fn bundled_files() -> &'static [(&'static str, &'static str)] {
    &[("bbc.txt", include_str!("../../../recipes/bbc.txt"))]
}
