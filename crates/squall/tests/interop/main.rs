//! squall and the programs that people use, together on loopback: servers, proxies and clients as they are installed.
//!
//! `peers` shows that each of them works as it is configured here, without squall. A test whose peer is missing is
//! skipped with a word, or fails under SQUALL_REQUIRE_PEERS=1 (`support::program::have`). No namespaces, no emulated
//! link, no root; what happens under loss and delay is in e2e.
//!
//! `client` is `squall fetch` and `squall load` on each server and through each proxy, `client_identity` on servers that
//! ask for a certificate, `alternatives` on one that tells of HTTP/3, `server` each client on
//! `squall serve`, `conformance` h2spec on it, `proxied` each proxy in front of `squall serve`, `presets` what `squall serve --preset` announces, `announced` that the programs themselves do so,
//! `observed` what `squall import pcap` finds in captures of them.

mod alternatives;
mod announced;
// Of e2e: a capture of loopback, and an import of it beside a station's own rows.
#[allow(dead_code)]
#[path = "../e2e/capture.rs"]
mod capture;
mod client;
mod client_identity;
mod conformance;
mod observed;
#[allow(dead_code)]
#[path = "../e2e/observed.rs"]
mod observed_rows;
mod peers;
mod presets;
mod proxied;
#[path = "../e2e/scheduled.rs"]
mod scheduled;
mod server;
mod support;
