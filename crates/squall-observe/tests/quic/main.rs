//! QUIC connections of quiche and of squall's own engines: their datagrams become packets of a link, and the tests
//! compare what the observer reads in them.
#![allow(clippy::unwrap_used)]

// Both are public for the fuzz targets, which are a separate crate.
#[allow(unreachable_pub, dead_code)]
#[path = "../../../../fuzz/src/drive_observe.rs"]
mod drive_observe;
#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/drive_quic.rs"]
mod drive_quic;
mod engines;
mod garbage;
mod link;
mod raw;
mod sealed;
