//! The buffers from which quiche sends: shared bytes that record when they go into a packet.
//!
//! quiche cannot report how far a stream has been sent. However, it reads a buffer's bytes only when it appends the
//! buffer and when it copies from it into a packet. A buffer that records each read while a packet is built therefore
//! knows exactly which packet carries it. We watch a message's first piece and its last byte, which is a separate
//! piece. This holds for quiche 0.30 (`stream/send_buf.rs`, `emit`); the tests compare it with quiche's own qlog.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use quiche::{BufFactory, BufSplit};

/// Which end of a message a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// The piece begins with the message's first byte.
    First,
    /// The piece is the message's last byte.
    Last,
}

/// The watched pieces that were read, in order. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Emissions(Arc<Mutex<Vec<(u64, Edge)>>>);

impl Emissions {
    fn note(&self, stream: u64, edge: Edge) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((stream, edge));
    }

    /// Discards the reads so far.
    pub(super) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Takes the reads since this or [`Emissions::clear`] was last called. An edge may appear more than once: it is
    /// retransmitted if its packet is lost.
    pub(super) fn take(&self) -> Vec<(u64, Edge)> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes of a stream.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    watch: Option<Watch>,
}

#[derive(Clone, Debug)]
struct Watch {
    stream: u64,
    edge: Edge,
    emissions: Emissions,
}

impl Piece {
    /// A piece that is not watched.
    pub(super) fn plain(bytes: Bytes) -> Piece {
        Piece { bytes, watch: None }
    }

    /// A piece whose sending is recorded.
    pub(super) fn watched(bytes: Bytes, stream: u64, edge: Edge, emissions: &Emissions) -> Piece {
        let emissions = emissions.clone();
        Piece {
            bytes,
            watch: Some(Watch {
                stream,
                edge,
                emissions,
            }),
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        if let Some(watch) = &self.watch {
            watch.emissions.note(watch.stream, watch.edge);
        }
        &self.bytes
    }
}

impl BufSplit for Piece {
    fn split_at(&mut self, at: usize) -> Piece {
        let watch = match &self.watch {
            Some(watch) if watch.edge == Edge::Last => self.watch.take(),
            _ => None,
        };
        Piece {
            bytes: self.bytes.split_off(at),
            watch,
        }
    }
}

/// Creates pieces for quiche.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces;

impl BufFactory for Pieces {
    type Buf = Piece;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(bytes: &[u8]) -> Piece {
        Piece::plain(Bytes::copy_from_slice(bytes))
    }

    fn dgram_buf_from_slice(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}
