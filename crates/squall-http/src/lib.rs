//! HTTP/1.1 and HTTP/2 as sans-IO connections: bytes in, bytes out, events.
//!
//! A connection opens no socket, reads no clock and never waits. Its owner, a station, moves the bytes:
//!
//! 1. [`ClientConnection::submit`] a [`Request`] when [`ClientConnection::is_ready`];
//! 2. write [`ClientConnection::output`] to the socket and tell [`ClientConnection::advance_output`] how
//!    much the socket took;
//! 3. give what was read to [`ClientConnection::receive`], and the end of the stream to
//!    [`ClientConnection::receive_end`].
//!
//! Steps 2 and 3 yield [`ClientEvent`]s: the marks of each request. [`ServerConnection`] is the other
//! side. Marks of sent messages come from byte ranges of the output stream, so they are exact even though
//! nghttp2 reports late.
//!
//! ```
//! use std::sync::Arc;
//! use squall_base::plan::{Http2Settings, Protocol};
//! use squall_http::{ClientConnection, ClientEvent, Request};
//!
//! let request = Arc::new(Request::new("GET", "server", "/", &[], Arc::from([]))?);
//! let mut connection = ClientConnection::new(Protocol::H1, &Http2Settings::default())?;
//! let stream = connection.submit(&request)?;
//! let mut events = Vec::new();
//! let written = connection.output().len(); // the station writes it to its socket
//! connection.advance_output(written, &mut events);
//! connection.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", &mut events)?;
//! assert_eq!(events.last(), Some(&ClientEvent::ResponseEnd { stream }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to go next: `message` for what is sent, `h1` and `h2` for the two protocols, [`frames`] for
//! recognising HTTP/2 frames in a byte stream.

mod connection;
mod error;
mod event;
pub mod frames;
pub mod h1;
pub mod h2;
mod message;

pub use connection::{ClientConnection, ServerConnection};
pub use error::{
    ChunkError, ConnectionError, CreateError, MessageError, RespondError, SubmitError,
};
pub use event::{ClientEvent, ServerEvent, StreamId};
pub use message::{Request, Response};
