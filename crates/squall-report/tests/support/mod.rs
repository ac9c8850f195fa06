//! What the tests of the reports share: runs that look like real ones, and a browser.
//!
//! The runs are drawn from a small seeded generator, so every test sees the same ones.

// Each test binary uses its own part of this; in tests, a panic is the message.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod chromium;
pub mod overlay;
pub mod run;
