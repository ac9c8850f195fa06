//! HTTP/1.1 and HTTP/2 as sans-IO connections: bytes in, bytes out, events.
//!
//! A connection opens no socket, reads no clock and never waits. Its owner, a station, moves the bytes:
//!
//! 1. [`ClientStreams::submit`] a [`Request`] when [`ClientConnection::is_ready`];
//! 2. write [`ClientConnection::output`] to the socket and pass the number of bytes it took to
//!    [`ClientConnection::advance_output`];
//! 3. pass received bytes to [`ClientConnection::receive`], and the end of the stream to
//!    [`ClientConnection::receive_end`].
//!
//! Steps 2 and 3 yield [`ClientEvent`]s: the marks of each request. [`ServerConnection`] is the other side. The marks
//! of sent messages are derived from byte ranges of the output stream, so they are exact even though nghttp2 reports
//! late. HTTP/3 uses datagrams and its QUIC library reads the clock, so it has a separate interface in [`h3`].
//!
//! ```
//! use std::sync::Arc;
//! use squall_base::Time;
//! use squall_base::plan::{SideSettings, Version};
//! use squall_http::{Body, ClientConnection, ClientEvent, Inbox, Request, Scheme};
//!
//! let request = Arc::new(Request::new("GET", Scheme::Http, "server", "/", &[], Body::EMPTY)?);
//! let mut connection = ClientConnection::plain(Version::Http1, &SideSettings::default())?;
//! let stream = connection.streams().submit(&request)?;
//! let mut inbox = Inbox::default();
//! let written = connection.output(Time::ZERO).len(); // the station writes it to its socket
//! connection.advance_output(written, &mut inbox);
//! connection.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", &mut inbox)?;
//! assert_eq!(inbox.events.last(), Some(&ClientEvent::ResponseEnd { stream, end: 38 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to go next: `message` for outgoing messages, `h1`, `h2` and [`h3`] for the protocols, [`frames`] for
//! recognising HTTP/2 frames in a byte stream, [`trace`] for printing them, `handshake` for what a handshake shows of a
//! server.

mod connection;
mod engine;
mod error;
mod event;
pub mod frames;
pub mod h1;
pub mod h2;
pub mod h3;
mod handshake;
mod inbox;
mod message;
mod section;
mod side;
mod streams;
pub mod tls;
pub mod trace;
pub mod values;

pub use bytes::Bytes;
pub use connection::{ClientConnection, Connection, ServerConnection, WireExtent};
pub use engine::{Engine, Http2Announcements, StreamIo};
pub use error::{
    ChunkError, ConnectionError, CreateError, MessageError, RespondError, SubmitError,
};
pub use event::{ClientEvent, Field, ServerEvent, StreamId, traced_request};
pub use handshake::{HandshakeFacts, ServerTransport};
pub use inbox::{Inbox, InboxOptions};
pub use message::{Body, Interim, Request, RequestLine, Response, Scheme, Trailers};
pub use side::{ClientStreams, ConnectionStreams, ServerStreams};
pub use streams::Streams;
