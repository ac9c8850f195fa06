//! What squall knows about a load generator: the contract of all of them.
//!
//! Each program has its own file next to this one. `run` starts them, `read` reads their logs.

use super::order::ClientOrder;
use super::row::RowFormat;
use crate::driver::{Refusal, refuse_order};
use crate::find::{Installable, Version};
use crate::order::Invocation;

/// A load generator.
pub trait ClientDriver: Installable {
    /// The program's command line and files, or why it cannot generate this load.
    fn configure(&self, order: &ClientOrder, version: &Version) -> Result<Invocation, Refusal>;

    /// The file of its rows, in the order's folder, and their format.
    fn rows(&self) -> (&'static str, RowFormat);

    /// Whether the program's rows are read from stderr, each with its time of arrival, and kept in the file of `rows`.
    fn has_rows_on_stderr(&self) -> bool {
        false
    }

    /// Whether the program loads pages, and nothing else.
    fn loads_pages(&self) -> bool {
        false
    }

    /// Checks the order and returns what it takes to start the program.
    fn render(&self, order: &ClientOrder, version: &Version) -> Result<Invocation, Refusal> {
        order.check(self.name())?;
        match (self.loads_pages(), order.page.is_some()) {
            (true, false) => {
                return refuse_order(self.name(), "it loads pages, and nothing else");
            }
            (false, true) => return refuse_order(self.name(), "it does not load pages"),
            _ => {}
        }
        self.configure(order, version)
    }
}
