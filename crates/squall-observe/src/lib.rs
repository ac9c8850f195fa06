//! Reads the packets of a link and writes rows like those of stations: connections, exchanges and frames.
//!
//! A pure function of packets: it reads no clock, no file and no socket, and the stations need not be squall's own.
//! [`Observer`] takes packets with the times at which they entered and left the link, reassembles TCP streams, decrypts
//! TLS and QUIC if the key log has their secrets, and reads HTTP/1.1, HTTP/2 and HTTP/3. It records what each end of
//! the link saw:
//!
//! - [`Side::Client`] rows have the times at the client's end of the link. A byte that the client sent was *sent* when
//!   the packet that first carried it, or carried a later byte, entered the link, whether or not it was lost. A byte
//!   that the client received was *received* when the packet that completed the stream up to it left the link.
//! - [`Side::Server`] rows have the corresponding times at the server's end. A capture at a single point has only its
//!   own times, and both ends get those.
//!
//! Over TLS a message is sent from the first byte of its first record to the last byte of its last record. It is
//! received with the last byte of a record, because nothing of a record can be decrypted before that. Offsets, extents,
//! body bytes and frames mean the same as in a station's rows (docs/RECORD.md), with these differences: both ends give
//! a connection the same number; exchanges that were cut off by the end of their connection have rows from both ends;
//! `request` is known only if the request has a `traceparent` header.
//!
//! Unreadable content is never guessed: a [`ConnectionRecord`] has the [`OpaqueReason`], and non-HTTP traffic has no exchanges.
//! A connection that was open before its first packet was seen is read from the first segment that begins with a cleartext
//! HTTP/1.1 request, HTTP/2's client preface or a ClientHello, whose sender is the client. HTTP offsets count from there, wire
//! offsets from the first byte seen. HTTP/2 and TLS connections that were joined later stay opaque. The same rules apply after
//! bytes that a capture lacks; those bytes are counted. A packet that the link corrupted is ignored at both ends, so the bytes
//! in it count as sent with the next packet that carried them.
//!
//! Memory is bounded. Bodies are counted and not kept. Bytes waiting for missing segments are bounded by the receiver's
//! window and by 64 MiB per direction; dropped bytes are reported. The state of a connection ends with it. The bounds
//! for QUIC are in `quic`.
//!
//! Where to go next: `observer` for the two ends, `tap` for one end, `connection` for one connection, `reassembly` for
//! TCP, `first_bytes` for what a protocol begins with, `tls` for decryption, `quic` for QUIC and HTTP/3, `http1` and
//! `http2` for the other protocols.
//!
//! ```
//! use squall_base::Time;
//! use squall_base::record::Direction;
//! use squall_observe::{Checksums, ObservedPacket, Observations, Observer, Secrets};
//!
//! let mut observer = Observer::new(Checksums::Verified, Secrets::Complete);
//! let mut rows = Observations::default();
//! let packet = ObservedPacket {
//!     time_in: Time::from_nanos(1),
//!     release: None,
//!     direction: Direction::Up,
//!     bytes: &[0x45],
//! };
//! observer.observe(&packet, &mut rows);
//! assert_eq!(observer.finish(&mut rows).unreadable, 1);
//! assert!(rows.exchanges.is_empty());
//! ```
//!
//! [`Side::Client`]: squall_base::record::Side::Client
//! [`Side::Server`]: squall_base::record::Side::Server

mod connection;
mod connection_record;
mod context;
mod exchange;
mod first_bytes;
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

pub use connection_record::{ConnectionRecord, Ending, OpaqueReason, TlsFacts, Traffic, Transport};
pub use exchange::Observations;
pub use observer::{Observer, PacketCounts, Secrets};
pub use order::ReorderBuffer;
pub use packet::{
    Checksums, FlowEndpoints, ObservedPacket, PacketHeaders, TcpHeader, flow_endpoints,
    packet_headers,
};
