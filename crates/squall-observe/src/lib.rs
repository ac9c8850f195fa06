//! What the packets of a link say: connections, exchanges and frames, as rows like those that stations write.
//!
//! A pure function of packets: it reads no clock, no file and no socket, and stations need not be ours. [`Observer`]
//! takes packets with the times at which they came to the link and left it, puts TCP's streams together, deciphers TLS
//! and QUIC whose secrets are in a key log, reads HTTP/1.1, HTTP/2 and HTTP/3, and gives for each hop what both ends saw:
//!
//! - rows of [`Side::Client`] have the times at the client's end of the link. A byte that it sent was *sent* when the
//!   packet that first carried it, or a later byte, came to the link, lost or not; a byte that it received was there when the packet left
//!   the link with which the stream was complete up to it;
//! - rows of [`Side::Server`] have the same at the server's end. Where a capture has one point only, both have its times.
//!
//! Over TLS a message is sent from the first byte of its first record to the last byte of its last, and received with the
//! last byte of a record, for before that nobody can read it. Offsets, extents, body bytes and frames mean what they mean
//! in a station's rows (docs/RECORD.md), with these differences: both ends give a connection the same number; exchanges
//! that a connection's end cut off have rows from both ends; `request` is never known.
//!
//! What cannot be read is never guessed: a [`ConnectionRecord`] says why it is [`Opaque`]. Connections that were open before the first packet are read from the first request of HTTP/1.1 in the clear
//! that begins a segment: HTTP's offsets count from there, those on the wire from the first byte that was seen. HTTP/2 and
//! TLS of such are opaque. The same holds behind bytes that a capture lacks; they are counted. A packet that the link
//! corrupted says nothing at either end, so what it carried counts as sent with the packet that carried it next.
//!
//! Memory is bounded: bodies are counted and not kept, what waits for missing segments is bounded by the receiver's window
//! and by 64 MiB a direction (and reported), and a connection's state ends with it. QUIC's bounds are in `quic`.
//!
//! Where to go next: `observer` for the two ends, `tap` for one of them, `connection` for one connection, `reassembly` for
//! TCP, `tls` for secrets, `quic` for QUIC and HTTP/3, `http1` and `http2` for what else is read.
//!
//! ```
//! use squall_base::Time;
//! use squall_base::record::Direction;
//! use squall_observe::{Checksums, Observations, Observer, Secrets, SeenPacket};
//!
//! let mut observer = Observer::new(Checksums::Verified, Secrets::Complete);
//! let mut rows = Observations::default();
//! let packet = SeenPacket {
//!     time_in: Time::from_nanos(1),
//!     release: None,
//!     direction: Direction::Up,
//!     bytes: &[0x45],
//! };
//! observer.see(&packet, &mut rows);
//! assert_eq!(observer.finish(&mut rows).unreadable, 1);
//! assert!(rows.exchanges.is_empty());
//! ```
//!
//! [`Side::Client`]: squall_base::record::Side::Client
//! [`Side::Server`]: squall_base::record::Side::Server

mod connection;
mod connection_record;
mod exchange;
mod http1;
mod http2;
mod numbers;
mod observer;
mod order;
mod packet;
mod plain;
mod quic;
mod reassembly;
mod tap;
mod tls;
mod trail;
mod waiting;

pub use connection_record::{ConnectionRecord, Ending, Opaque, TlsFacts, Traffic, Transport};
pub use exchange::Observations;
pub use observer::{Observer, PacketCounts, Secrets};
pub use order::InArrivalOrder;
pub use packet::{Checksums, Heading, SeenPacket, TcpFacts, WireFacts, heading, wire_facts};
