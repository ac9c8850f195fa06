//! HTTP/1.1 (RFC 9112): one exchange after the other on a connection that is kept alive.
//!
//! The client does not pipeline; the server tolerates a client that does. Neither speaks TLS, CONNECT or
//! upgrades. [`Client`] and [`Server`] are the two sides, `head` reads what precedes a body, `body` and
//! `chunked` find where it ends.

mod body;
mod chunked;
mod client;
mod head;
mod server;

pub use client::Client;
pub use head::{MAX_FIELDS, MAX_HEAD_BYTES};
pub use server::{MAX_PIPELINED, Server};
