//! Live counters of a client, to be displayed while it runs.
//!
//! Each client has its own gauge and writes it once a turn. A reader may see values of two turns together.

use std::sync::atomic::{AtomicU64, Ordering};

/// The latest counters of one client.
#[derive(Debug, Default)]
pub struct Gauge {
    started: AtomicU64,
    ended: AtomicU64,
    connections: AtomicU64,
}

/// A reading of a [`Gauge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GaugeReading {
    /// Requests taken up.
    pub started: u64,
    /// Requests that have ended, whatever their outcome.
    pub ended: u64,
    /// Connections that are open or being opened.
    pub connections: u64,
}

impl Gauge {
    pub(super) fn set(&self, reading: GaugeReading) {
        // Nothing depends on the order in which a reader sees the counters.
        self.started.store(reading.started, Ordering::Relaxed);
        self.ended.store(reading.ended, Ordering::Relaxed);
        self.connections
            .store(reading.connections, Ordering::Relaxed);
    }

    /// Reads the latest counters.
    pub fn read(&self) -> GaugeReading {
        GaugeReading {
            started: self.started.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }
}
