//! squall and the programs that people use, together on loopback: servers, proxies and clients as they are installed.
//!
//! `peers` shows that each of them works as it is configured here, without squall. A test whose peer is missing is
//! skipped with a word, or fails under SQUALL_REQUIRE_PEERS=1 (`support::program::have`). No namespaces, no emulated
//! link, no root; what happens under loss and delay is in e2e.
//!
//! Here go, one file for each: `squall fetch` from each server and through each proxy, and each client from
//! `squall serve` and through each proxy in front of it.

mod peers;
mod support;
