//! Real programs on a path: servers, proxies and load generators that are not ours, found, configured, started, awaited and
//! ended.
//!
//! `order` says what a program shall be, `driver` is what each program's own file in `drivers` can say about it, `find`
//! looks for programs, `station` runs one until it is stopped, `client` runs a load generator to its end and reads its
//! log. What a program cannot do is refused with a reason, before anything is started. Deliberately absent: recipes,
//! trials, links, and TLS or HTTP of its own: whether a station answers is found out with the few bytes in `ready`.

pub mod client;
mod driver;
mod drivers;
mod find;
mod order;
mod process;
mod ready;
mod station;
mod template;

pub use driver::{Driver, Refusal, driver, drivers};
pub use drivers::generic::{GenericError, GenericReady, GenericStation, RawStation};
pub use find::{Found, Missing, Search, Version, find, inventory};
pub use order::{
    Answer, Body, Certificate, Content, Order, Rendered, RenderedFile, Setting, Settings,
};
pub use process::{Exit, StartError};
pub use ready::{NotReady, Ready};
pub use station::{Running, Station};
