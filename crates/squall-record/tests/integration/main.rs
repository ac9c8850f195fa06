//! Tables, captures and the formats of other programs: what is written is read back, and damaged files are refused.
//!
//! `rows` makes arbitrary rows, `common` the packets of a steady flow.

mod captures;
mod causes;
mod claimed_rows;
mod columns;
mod common;
#[path = "../../../../fuzz/src/drive_import.rs"]
#[allow(unreachable_pub)] // public for the fuzz targets, which are another crate
mod drive_import;
mod export;
mod export_har;
mod export_packets;
mod export_qlog;
mod export_trace;
mod foreign_bytes;
mod import;
mod import_garbage;
mod import_har;
mod packing;
mod parts;
mod pcapng;
mod round_trip;
mod rows;
mod within;
