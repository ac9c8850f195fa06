//! HTTP/2 (RFC 9113): many streams on a connection.
//!
//! A session does frames, header compression, the sender's side of flow control and the answers to SETTINGS and PING: for
//! servers it is nghttp2's, for clients our own (`client_session` says why); `protocol` is what both have in common.
//! Here is the policy: the settings of both sides, when a request may be submitted, what ends an exchange, when
//! windows are updated (`updates`), and the marks of what was written (`output`). `engine` is what both sides share.
//! Server push is refused; priorities are ignored.

mod client;
mod client_session;
mod ear;
mod engine;
mod opened;
mod output;
mod protocol;
mod server;
mod settings;
mod updates;

pub use client::Client;
pub use server::Server;
pub use settings::MAX_HEADER_LIST_BYTES;
