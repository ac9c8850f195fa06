//! squall and the programs that people use, together on loopback: servers, proxies and clients as they are installed.
//!
//! `peers` shows that each of them works as it is configured here, without squall. A test whose peer is missing is
//! skipped with a word, or fails under SQUALL_REQUIRE_PEERS=1 (`support::program::have`). No namespaces, no emulated
//! link, no root; what happens under loss and delay is in e2e.
//!
//! `client` is `squall fetch` and `squall load` on each server and through each proxy, `client_identity` on servers that
//! ask for a certificate, `alternatives` on one that tells of HTTP/3, `server` each client on
//! `squall serve`, `conformance` h2spec on it, `proxied` each proxy in front of `squall serve`, `presets` what `squall serve --preset` announces.

mod alternatives;
mod client;
mod client_identity;
mod conformance;
mod peers;
mod presets;
mod proxied;
mod server;
mod support;
