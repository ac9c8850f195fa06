//! HTTP/1.1 (RFC 9112): one exchange after another on a persistent connection.
//!
//! The client does not pipeline; the server accepts a client that does. Neither handles TLS or CONNECT. The client can
//! request an upgrade to HTTP/2, but the switch between the two engines happens elsewhere.
//!
//! [`Client`] and [`Server`] are the two sides. `head`, `target` and `fields` parse what precedes a body (`folds` joins
//! the folded lines of old servers), `body` and `chunked` find where it ends, `outgoing` is a message being sent, and
//! `refusal` is a server's error response to an invalid request. `reader` follows one direction of a connection for
//! observers.

mod body;
mod chunked;
mod client;
mod fields;
mod folds;
mod head;
mod limits;
mod outgoing;
mod reader;
mod refusal;
mod server;
mod staged;
mod target;
mod version;

pub use client::{Client, MAX_INTERIM_RESPONSES, ProtocolSwitch};
pub use head::AnsweredMethod;
pub use limits::{MAX_FIELDS, MAX_HEAD_BYTES};
pub use reader::{RequestPart, RequestReader, ResponsePart, ResponseReader};
pub use server::{MAX_PIPELINED, Server};

/// The head line that announces a chunked body.
pub(crate) const CHUNKED_LINE: &str = "transfer-encoding: chunked\r\n";

/// The head line that announces that the connection ends with this message (RFC 9112, section 9.6).
const CLOSE_LINE: &str = "connection: close\r\n";

/// The head line that tells an HTTP/1.0 client that the connection stays (RFC 9112, appendix C.2.2).
const KEEP_ALIVE_LINE: &str = "connection: keep-alive\r\n";
