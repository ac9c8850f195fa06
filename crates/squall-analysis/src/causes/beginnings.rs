//! The beginnings of all connections of a trial, from its packets and, over QUIC, from its frames.
//!
//! `near` uses the result, [`PathConnections`], in place of the records of those beginnings. Nothing is attributed here.

use super::columns::{FirstFrameCells, PacketCells};
use super::connection::Connections;
use super::hops::{PathInputs, PathShape};
use super::near::PathConnections;
use crate::wire::UDP;

/// Collects from packets and frames how the connections of a trial began.
#[derive(Debug)]
pub struct PathBeginnings {
    inputs: PathInputs,
    has_quic: bool,
}

impl PathBeginnings {
    /// A collector without records.
    pub fn new(shape: PathShape) -> PathBeginnings {
        PathBeginnings {
            inputs: PathInputs::new(shape),
            has_quic: false,
        }
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: impl Into<PacketCells>) {
        let row = row.into();
        self.has_quic |= row.protocol == UDP;
        self.inputs.add_beginning(row);
    }

    /// Whether the frames are needed too: only they say which QUIC connection is which. Call this after the last packet.
    pub fn needs_frames(&self) -> bool {
        self.has_quic
    }

    /// Takes a row of frames.parquet.
    pub fn add_frame(&mut self, row: &FirstFrameCells) {
        if row.is_first() {
            self.inputs
                .add_first_sent(row.hop, row.side, row.connection, row.time);
        }
    }

    /// Returns the connections. Call this after the last row.
    pub fn connections(self) -> PathConnections {
        let links = self.inputs.into_links().into_iter();
        let known = links.map(|link| {
            let mut inputs = link?;
            Some(Connections::new(&mut inputs).known())
        });
        PathConnections {
            links: known.collect(),
        }
    }
}
