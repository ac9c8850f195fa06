//! `squall link`: two processes, so that nothing outlives it, however it ends.
//!
//! The process that the user starts (`front`) creates a PID namespace and starts the other (`worker`) as the first
//! process in it. The worker creates hosts and link, runs the programs and prints the summary. If the front dies, the
//! kernel kills the worker and, because the worker is the first process of a PID namespace, all other processes in it.
//! `command` has the flags. Trials, `doctor` and `selftest` also use `totals`, `health`, `comment` and `hosts`.

pub(crate) mod command;
pub(crate) mod comment;
mod front;
pub(crate) mod health;
pub(crate) mod hosts;
mod outputs;
pub(crate) mod plan;
mod summary;
pub(crate) mod totals;
mod worker;
