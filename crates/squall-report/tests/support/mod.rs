//! Shared by the tests of the reports: runs that look like real ones, and a browser.
//!
//! The runs come from a small seeded generator, so every test sees the same ones.

// Each test binary uses only a part of this; in tests, a panic reports the failure.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod chromium;
pub mod overlay;
pub mod run;
