//! What a client is doing now, for whoever shows it while it runs.
//!
//! Each client has its own and writes it once a turn; the reader may see numbers of two turns together.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of one client, newest known.
#[derive(Debug, Default)]
pub struct Gauge {
    started: AtomicU64,
    ended: AtomicU64,
    connections: AtomicU64,
}

/// What a gauge showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GaugeReading {
    /// Requests that were taken up.
    pub started: u64,
    /// Requests that have ended, however.
    pub ended: u64,
    /// Connections that are open or being opened.
    pub connections: u64,
}

impl Gauge {
    pub(super) fn set(&self, reading: GaugeReading) {
        // Nothing else hangs on the order in which a reader sees them.
        self.started.store(reading.started, Ordering::Relaxed);
        self.ended.store(reading.ended, Ordering::Relaxed);
        self.connections
            .store(reading.connections, Ordering::Relaxed);
    }

    /// The newest numbers.
    pub fn read(&self) -> GaugeReading {
        GaugeReading {
            started: self.started.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }
}
