//! A small safe wrapper over libnghttp2: a server's HTTP/2 session that turns received bytes into calls to a [`Handler`],
//! and submitted messages into bytes.
//!
//! It knows frames, streams and windows, but no HTTP policy: squall-http decides what a request is, how to answer one and
//! how to react to a reset. It opens no socket. [`Session`] is the whole engine, [`HeaderBlock`] a header section that is
//! built once and sent often. [`Inflater`] and [`Deflater`] are header compression alone, and [`Bodies`] is the store of
//! bodies to be sent. These three serve code that has its own engine or only observes a connection. [`Http2Session`] is the
//! interface that such an engine shares with [`Session`].
//!
//! What to know about nghttp2 itself:
//! - it limits neither the decoded length of a header section ([`FieldDecision::Refuse`]) nor the number of RST_STREAM
//!   frames that it queues while a peer reads nothing ([`Http2Session::queued_frames`]);
//! - by itself it only leaves out a field with an invalid character, which makes a message malformed (RFC 9113, section
//!   8.2.1); our callback resets the stream;
//! - it answers a peer's connection errors with GOAWAY and otherwise ignores them: [`Http2Session::receive`] succeeds, and
//!   they show only in [`Handler::goaway_sending`];
//! - its protection against floods of resets and other "glitches" reads the clock; nothing else does.
// Among the HTTP crates, only this one reads C structures and calls C functions.
#![allow(unsafe_code)]

mod bodies;
mod callbacks;
mod deflater;
mod error;
mod handler;
mod headers;
mod inflater;
mod protocol;
mod session;
mod settings;

pub use bodies::{Bodies, Body, BodyRead, STREAMED_BUFFER_BYTES};
pub use deflater::Deflater;
pub use error::{Error, HeaderTooLong};
pub use handler::{FieldDecision, FrameHeader, FrameKind, Handler, ReceivedFrame};
pub use headers::HeaderBlock;
pub use inflater::{Inflater, MAX_SECTION_FIELDS, MAX_TABLE_BYTES};
pub use protocol::Http2Session;
pub use session::{MAX_WINDOW_BYTES, Session};
pub use settings::{Options, Setting};
