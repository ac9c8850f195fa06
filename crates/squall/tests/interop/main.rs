//! squall and popular servers, proxies and clients, as installed, together on loopback.
//!
//! `peers` shows that each of them works as configured here, without squall. A test whose peer is missing prints that
//! it is skipped, or fails under SQUALL_REQUIRE_PEERS=1 (`support::program::have`). The tests use no namespaces, no
//! emulated link and no root; behaviour under loss and delay is tested in e2e.
//!
//! - `client`: `squall fetch` and `squall load` against each server and through each proxy.
//! - `client_identity`: servers that request a client certificate.
//! - `alternatives`: a server that advertises HTTP/3.
//! - `server`: each client against `squall serve`.
//! - `conformance`: h2spec against `squall serve` and `squall proxy`.
//! - `proxied`: each proxy in front of `squall serve`.
//! - `presets`: what `squall serve --preset` announces.
//! - `announced`: the programs themselves announce the same.
//! - `observed`: what `squall import pcap` finds in captures of them.

mod alternatives;
mod announced;
// Shared with e2e: captures of loopback, and comparison of an import with an endpoint's own rows.
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
