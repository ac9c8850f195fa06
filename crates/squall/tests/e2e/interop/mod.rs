//! squall and popular servers, proxies and clients, as installed, together on loopback.
//!
//! `peers` shows that each of them works as configured here, without squall. A test whose peer is missing prints that
//! it is skipped, or fails under SQUALL_REQUIRE_PEERS=1 (`support::program::have`). The tests use no namespaces, no
//! emulated link and no root; behaviour under loss and delay is tested by the other modules of e2e.
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
mod client;
mod client_identity;
mod conformance;
mod observed;
mod peers;
mod presets;
mod proxied;
mod server;
mod support;
