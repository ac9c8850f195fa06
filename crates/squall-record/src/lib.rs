//! The record on disk: tables as Parquet, captures as pcapng, everything else as JSON, and the folders that hold them.
//!
//! Other programs must be able to read a run for years, so every file states its schema version, and docs/RECORD.md
//! defines each column. Every file read is untrusted: if it is damaged, truncated or of another schema, the result is a
//! [`RecordError`] that names the file and what to try, never a panic. Nothing here computes a statistic
//! (squall-analysis does) or decides what is recorded (squall-stations does).
//!
//! Where to go next: [`RunFolder`] for where files are, [`RequestWriter`] for how rows get there, [`import`] for
//! recordings of other programs, [`capture`] for their packet captures, [`export`] for squall's requests in their
//! formats.
//!
//! ```
//! use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
//! use squall_base::{Duration, Time};
//! use squall_record::{PacketWriter, read_packets};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("packets.parquet");
//! let syn = PacketRecord {
//!     hop: 1, index: 0, direction: Direction::Up, flow: 0, client_port: 40_000, class: PacketClass::Syn,
//!     class_index: 0, length: 60, protocol: 6, seq: 7, ack: 0, payload_len: 0, tcp_flags: 0x02, window_bytes: 64_240,
//!     arrived: Time::from_nanos(1_000), queue_bytes: 0, queueing: Duration::ZERO, served: None, planned: None,
//!     released: None, fate: Fate::LossDrop, dropped_in: 0, is_marked: false, is_corrupted: false, is_copy: false,
//! };
//!
//! let mut writer = PacketWriter::create(&path)?;
//! writer.append(&[syn])?;
//! assert_eq!(writer.finish()?, 1);
//! assert_eq!(read_packets(&path)?, [syn]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounded;
pub mod capture;
mod checksum;
mod error;
pub mod export;
mod folder;
pub mod import;
mod json;
mod memory;
mod pcapng;
mod private;
mod seal;
mod table;

pub use bounded::{read_all, read_at_most, read_text_at_most};
pub use error::{CellFault, RecordError};
pub use folder::{PartialTrial, RunFolder, RunLock, TrialFiles, TrialFolder, run_name};
pub use json::{
    read_json, read_plan, write_json, write_plan, write_record, write_whole, write_whole_private,
};
pub use pcapng::{
    CaptureDirection, CapturedPacket, FlowPacket, PcapngFile, PcapngWriter, add_secrets,
    write_flows,
};
pub use private::{
    append_private, copy_private, create_private, create_private_folder, write_private,
};
pub use table::{
    CausesWriter, ColumnRange, DropWriter, ExchangeWriter, FrameWriter, PacketWriter,
    RequestWriter, Rows, SocketWriter, TableRow, TableSnapshot, TableWriter, each_projected,
    each_projected_within, parts_of, read_causes, read_drops, read_exchanges, read_frames,
    read_packets, read_requests, read_sockets,
};

/// The version of the record's schema: of the tables, trial.json and plan.json. It is incremented when a column or
/// field changes its meaning, type or name; docs/RECORD.md lists the versions.
pub const SCHEMA: u32 = 10;

/// The versions that are read. Schema 9 lacks the unit in the names of a condition's delay and of the time at which a program
/// ended; schema 8 also lacks the columns for several links on a path.
const READABLE_SCHEMAS: std::ops::RangeInclusive<u32> = 8..=SCHEMA;
