//! The recipes that ship with squall, compiled in so that the binary needs no other files.
//!
//! They are not parsed here: a test does that for every profile. Their texts are in the folder recipes/, along with the
//! files that they name.

/// The names of recipes, each with its text.
macro_rules! recipes {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../recipes/", $name, ".toml")))),+]
    };
}

/// Every bundled recipe: its name, which is also the name of its file, and its text.
pub fn bundled() -> &'static [(&'static str, &'static str)] {
    recipes! {
        "twilio",
        "twilio-connections",
        "twilio-bbr",
        "twilio-bursts",
        "twilio-200",
        "twilio-haproxy",
        "bbc",
        "gemini",
        "gemini-users",
        "gemini-pool",
        "gemini-slow",
        "shopgun",
        "shopgun-windows",
        "tiles",
        "tiles-chromium",
        "golden-download",
        "golden-upload",
        "golden-sparse",
        "golden-goodput",
    }
}

/// The files that bundled recipes name: their names and their texts.
pub fn bundled_files() -> &'static [(&'static str, &'static str)] {
    &[("bbc.txt", include_str!("../../../recipes/bbc.txt"))]
}
