//! A small safe wrapper over libnghttp2: an HTTP/2 session that turns bytes into calls of a [`Handler`]
//! and submitted messages into bytes.
//!
//! It knows frames, streams and windows, but no HTTP policy: what a request is, when to send one and what
//! to make of a reset is decided in squall-http. It opens no socket. [`Session`] is the whole engine,
//! [`HeaderBlock`] a header section that is built once and sent often. [`Inflater`] and [`Deflater`] are header compression
//! alone and [`Bodies`] what waits to be sent, for somebody who has an engine of his own or only reads along.
//!
//! What to know about nghttp2 itself:
//! - requests over the peer's SETTINGS_MAX_CONCURRENT_STREAMS are queued without a word, so the caller has
//!   to compare [`Session::peer_max_concurrent_streams`] with what it has open;
//! - it does not limit how long a header section becomes when it is decoded ([`Verdict::Refuse`]), nor how many
//!   RST_STREAM frames it queues while a peer reads nothing ([`Session::queued_frames`]);
//! - connection errors of the peer are answered with GOAWAY and otherwise ignored: [`Session::receive`]
//!   succeeds, and [`Handler::goaway_sending`] is where they show;
//! - its protection against floods of resets and other "glitches" reads the clock, nothing else does.
// C structures are read and C functions are called here, and in no other crate of HTTP.
#![allow(unsafe_code)]

mod bodies;
mod callbacks;
mod deflater;
mod error;
mod handler;
mod headers;
mod inflater;
mod session;
mod settings;

pub use bodies::{Bodies, Body, Piece, STREAMED_BUFFER_BYTES};
pub use deflater::Deflater;
pub use error::{Error, HeaderTooLong};
pub use handler::{FrameHeader, FrameKind, Handler, Received, Verdict};
pub use headers::HeaderBlock;
pub use inflater::{Inflater, MAX_SECTION_FIELDS, MAX_TABLE_BYTES};
pub use session::{MAX_WINDOW_BYTES, Session, Upgraded};
pub use settings::{Options, Setting, Updates};
