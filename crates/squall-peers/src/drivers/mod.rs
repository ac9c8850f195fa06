//! One file for each program: what it speaks, its names for settings, and its smallest faithful configuration.
//!
//! Each keeps the program's own defaults unless its file explains why not; docs/PEERS.md has all of that in one table.

pub(crate) mod caddy;
pub(crate) mod envoy;
mod envoy_tls;
pub(crate) mod generic;
pub(crate) mod haproxy;
pub(crate) mod nghttpd;
pub(crate) mod nghttpx;
pub(crate) mod nginx;

use std::path::Path;

/// A path in quotes, as nginx and HAProxy read them.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
