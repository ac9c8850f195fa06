//! Load generators of other projects: their command lines, and what their own logs report of each request.
//!
//! A row contains what the program reports and no more. Whatever it does not report stays `None`, and numbers that
//! cannot be `None` are 0. None of the programs reports when a request should have been sent, so `intended` is the earliest
//! time that it does report: its response times leave out the wait before that (coordinated omission). Times count from
//! 1970 by the wall clock; `RequestRecord::count_from` converts them to a trial's. Other crates do the statistics.
//!
//! One of them is a browser, which can also open a page that squall has made: `open_page`.

mod chromium;
mod curl;
mod devtools;
mod driver;
mod fortio;
mod h2load;
mod k6;
mod open_page;
mod order;
mod read;
mod row;
mod run;

pub use driver::ClientDriver;
pub use open_page::{OpenPage, PageError, find_browser};
pub use order::{ClientLoad, ClientOrder, LoadEnd, PageOrder};
pub use read::{ReadError, Readout};
pub use row::{PageLine, RowContext, RowFormat};
pub use run::{Client, ClientError, ClientReport, ClientRun, remove_leftovers};

/// Every load generator that squall knows.
pub fn clients() -> [&'static dyn ClientDriver; 5] {
    [
        &h2load::H2load,
        &k6::K6,
        &fortio::Fortio,
        &curl::Curl,
        &chromium::Chromium,
    ]
}

/// The load generator of this name.
pub fn client(name: &str) -> Option<&'static dyn ClientDriver> {
    clients().into_iter().find(|client| client.name() == name)
}
