//! Records for tests and benches, made by hand: the smallest valid plan, trial, request, packet, frame and sample.
//!
//! Each function returns an unremarkable value. A test sets the fields that matter to it and takes the rest, which no test
//! should depend on:
//!
//! ```
//! use squall_base::record::RequestRecord;
//! use squall_base::{Duration, Time};
//!
//! let slow = RequestRecord {
//!     user: 7,
//!     ..squall_made::answered(0, Time::ZERO, Duration::from_secs(3))
//! };
//! assert!(slow.succeeded());
//! ```
//!
//! It simulates nothing: a transfer over TCP or a whole run of many trials belongs to the test that is about it. Other
//! crates name this one only among their dev-dependencies. It depends on squall-base alone, so that the unit tests of
//! every other crate can use it.
//!
//! Where to go next: `plan` for what is to be done, `trial` for the record of a trial, `rows` for the rows of its tables.

mod plan;
mod rows;
mod trial;

pub use plan::{condition, get, hop, load, plan, station, trial, variant};
pub use rows::{
    answered, causes, dropped, frame, in_cleartext, packet, packet_ref, socket, tcp_info,
};
pub use trial::{direction_health, effective_settings, health, record};
