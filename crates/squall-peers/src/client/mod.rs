//! Load generators that are not ours: their command lines, and what their own logs say of each request.
//!
//! A row says what the program says and no more: what it does not tell stays `None`, and numbers that cannot be `None` are 0
//! (`Tells` has which). None of them tells when a request should have been sent, so `intended` is the earliest time that
//! it does tell: its response times leave out what it waited before (coordinated omission). Times count from 1970 by the
//! wall clock; `RequestRecord::count_from` makes them a trial's. Statistics are other crates'.

mod chromium;
mod curl;
mod devtools;
mod fortio;
mod generic;
mod h2load;
mod k6;
mod order;
mod read;
mod run;

pub use generic::{GenericClient, GenericClientError, RawClient};
pub use order::{ClientLoad, ClientOrder, LoadEnd, PageOrder};
pub use read::{PageLine, ReadError, Readout, RowContext, RowFormat};
pub use run::{Client, ClientError, ClientRun, Finished, remove_leftovers};

use crate::driver::{Refusal, not_so};
use crate::find::{Found, Missing, Search, Version, look_up};
use crate::order::Rendered;

/// What a program's log tells of a request, besides its end and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tells {
    /// What `intended` and `taken_up` are in truth.
    pub intended: &'static str,
    /// When its connection was open, and secured.
    pub connecting: bool,
    /// When it was written.
    pub writing: bool,
    /// When the first byte of its response came.
    pub first_byte: bool,
    /// How large its response's body was.
    pub response_body: bool,
    /// Which virtual user's it was.
    pub user: bool,
    /// Which protocol was really spoken: another than the one asked for is an error.
    pub protocol: bool,
}

/// A load generator.
pub trait ClientDriver: Sync {
    /// Its name in recipes.
    fn name(&self) -> &str;

    /// The name of its file.
    fn program(&self) -> &str {
        self.name()
    }

    /// How to get it.
    fn install_hint(&self) -> &str;

    /// How it is asked for its version; `None`: it is not asked.
    fn version_arguments(&self) -> Option<&'static [&'static str]>;

    /// What its log tells.
    fn tells(&self) -> Tells;

    /// Its command line and files, or why it cannot make this load.
    fn configure(&self, order: &ClientOrder, version: &Version) -> Result<Rendered, Refusal>;

    /// The file of its rows, in the order's folder, and their format. `None`: it tells of no request.
    fn rows(&self) -> Option<(&str, RowFormat)>;

    /// Whether its rows are read from stderr, each with the time at which it came, and kept in the file of `rows`.
    fn has_rows_on_stderr(&self) -> bool {
        false
    }

    /// Whether it loads pages, and nothing else.
    fn loads_pages(&self) -> bool {
        false
    }

    /// Looks for it.
    fn find(&self, search: &Search) -> Result<Found, Missing> {
        look_up(
            self.program(),
            self.install_hint(),
            self.version_arguments(),
            search,
        )
    }

    /// Checks the order and says what starts the program.
    fn render(&self, order: &ClientOrder, version: &Version) -> Result<Rendered, Refusal> {
        order.check(self.name())?;
        match (self.loads_pages(), order.page.is_some()) {
            (true, false) => return Err(not_so(self.name(), "it loads pages, and nothing else")),
            (false, true) => return Err(not_so(self.name(), "it loads no pages")),
            _ => {}
        }
        self.configure(order, version)
    }
}

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
