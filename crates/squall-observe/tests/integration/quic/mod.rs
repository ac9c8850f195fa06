//! QUIC connections of quiche and of squall's own engines: their datagrams become packets of a link, and the tests
//! compare what the observer reads in them.
#![allow(clippy::unwrap_used)]

mod engines;
mod garbage;
mod link;
mod raw;
mod sealed;
