//! Shared by the tests of the reports: runs that look like real ones, and a browser.
//!
//! The runs come from a small seeded generator, so every test sees the same ones.

// In tests, a panic reports the failure.
#![allow(unreachable_pub, clippy::unwrap_used)]

pub mod axe;
pub mod chromium;
pub mod devtools;
pub mod english;
pub mod overlay;
pub mod picture;
pub mod run;
