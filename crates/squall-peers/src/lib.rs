//! Real programs on a path: servers, proxies and load generators of other projects, which this crate finds, configures,
//! starts, waits for and stops.
//!
//! `order` describes what a program is to do, `driver` is the contract that each program's file in `drivers`
//! implements, `find` looks for a program and `inventory` for all of them, `station` runs one until it is stopped,
//! `client` runs a load generator to its end and reads its log. An order that a program cannot fulfil is refused with a
//! reason before anything is started. Deliberately absent: recipes, trials, links, TLS and HTTP. The few bytes in
//! `ready` are enough to find out whether a station is up.

pub mod client;
mod driver;
mod drivers;
mod find;
mod inventory;
mod order;
mod process;
mod ready;
mod station;
mod template;

pub use driver::{Driver, Refusal};
pub use drivers::generic::{GenericError, GenericStation, RawStation};
pub use drivers::{driver, drivers};
pub use find::{FindError, Installable, InstalledProgram, SearchPath, Version, path_of};
pub use inventory::inventory;
pub use order::{
    Answer, Body, Certificate, Content, Invocation, Order, ProgramFile, Setting, Settings,
};
pub use process::{ExitReport, StartError};
pub use ready::{ReadinessCheck, ReadinessError};
pub use station::{RunningStation, Station};
