//! The small commands, one file each, and what users name on the command line (`named`). They print results to stdout
//! and everything else to stderr.
//!
//! The large commands are not here: `run`, `load`, `probe`, `link`, `explain`, `import`, `export`, `view`, `selftest` and
//! `doctor` have folders of their own.

pub(crate) mod compare;
pub(crate) mod details;
mod differing_keys;
pub(crate) mod fetch;
mod listeners;
mod method;
pub(crate) mod named;
pub(crate) mod proxy;
pub(crate) mod recipes;
pub(crate) mod report;
mod rights;
pub(crate) mod serve;
