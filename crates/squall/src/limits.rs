//! Limits on how much is read from the files that users and recipes name: far larger than such files are, and small enough
//! to fit into a machine's memory.
//!
//! A path may lead to a device that never ends. squall-record's `read_at_most` does the reading.

use squall_base::Bytes;

/// Recordings, scripts, targets and pages: HAR files with the bodies of a long session are the largest.
pub(crate) const RECORDING: Bytes = Bytes::new(512 << 20);

/// Recipes, and schedules of links.
pub(crate) const SETTINGS: Bytes = Bytes::new(16 << 20);

/// Traces of links: an hour of 100 Mbit/s in mahimahi's format.
pub(crate) const TRACE: Bytes = Bytes::new(256 << 20);

/// Key logs: the secrets of a million connections.
pub(crate) const KEY_LOG: Bytes = Bytes::new(1 << 30);

/// Certificates and keys: the bundles of all authorities have less than 1 MiB.
pub(crate) const CERTIFICATES: Bytes = Bytes::new(16 << 20);

/// A body from stdin, which is kept in memory, and any file that is copied into a run, such as a body that a recipe names.
pub(crate) const BODY: Bytes = Bytes::new(1 << 30);
