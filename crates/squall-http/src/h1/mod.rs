//! HTTP/1.1 (RFC 9112): one exchange after the other on a connection that is kept alive.
//!
//! The client does not pipeline; the server tolerates a client that does. Neither speaks TLS or CONNECT; the client can
//! ask for an upgrade to HTTP/2, but the two engines are not joined here. [`Client`] and [`Server`] are the two sides.
//! `head`, `target` and `fields` read what precedes a body, `body` and `chunked` find where it
//! ends, `outgoing` is a message that is being sent, and `refusal` what a server says of a message that is none. `reader`
//! reads along with one direction of a connection, for those who only look on.

mod body;
mod chunked;
mod client;
mod fields;
mod head;
mod outgoing;
mod reader;
mod refusal;
mod server;
mod staged;
mod target;
mod version;

pub use client::{Client, MAX_INTERIM_RESPONSES, Switched};
pub use fields::MAX_FIELDS;
pub use head::MAX_HEAD_BYTES;
pub use reader::{Answers, RequestPart, RequestReader, ResponsePart, ResponseReader};
pub use server::{MAX_PIPELINED, Server};

/// The line of a head that announces a chunked body.
pub(crate) const CHUNKED_LINE: &str = "transfer-encoding: chunked\r\n";

/// The line of a head that says that the connection ends with this message (RFC 9112, section 9.6).
const CLOSE_LINE: &str = "connection: close\r\n";
