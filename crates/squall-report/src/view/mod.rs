//! What `squall view` answers with: all requests and packets of a trial in memory, and the part of them that a plot shows.
//!
//! Rows in, plain data out. Nothing here reads a file, listens, or knows a URL (the binary's `view` does). A part with few
//! requests is returned as it is. If it has more, one request is returned for each pixel that has any, so an answer is never
//! larger than its plot, and it looks like a plot of all of them.
//!
//! `region` is the visible part of a plot, `requests` finds what is in it, and `packets` what the link did meanwhile. `full`
//! is one request in full, as markup.

mod full;
mod packets;
mod region;
mod requests;

pub use full::RequestInFull;
pub use packets::{PacketCells, PacketIndex, PacketIndexBuilder, PacketList, ShownPacket};
pub use region::{Region, Span};
pub use requests::{RequestCells, RequestIndex, RequestIndexBuilder, RequestPoints};

pub use crate::html::trial_markup::DrawnDetail;
