//! HTTP/2 (RFC 9113): many streams on one connection.
//!
//! A session handles frames, header compression, sender-side flow control, and acknowledgements of SETTINGS and PING.
//! Servers use nghttp2's session, clients our own (`client_session` says why); [`squall_nghttp2::Http2Session`] is the
//! interface they share.
//!
//! This module sets the policy: the settings of both sides, when a request may be submitted, what ends an exchange,
//! when windows are updated (`updates`), how many frames without content a peer may send (`allowance`), and the marks of
//! written bytes (`output`). `connection` is the code that both sides share. Server push is refused; priorities are ignored.

mod allowance;
mod client;
mod client_session;
mod connection;
mod listener_state;
mod opened;
mod output;
mod server;
mod settings;
mod updates;

pub use client::Client;
pub use connection::Connection;
pub use server::Server;
pub use settings::MAX_HEADER_LIST_BYTES;
