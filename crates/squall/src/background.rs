//! Threads for work that can wait, such as writing records. They yield to all others, so they disturb no measurement.
//!
//! The caller decides what a thread does and how to handle its errors.

use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use squall_linux::scheduling;

/// Starts a thread of this name at background priority.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            scheduling::make_background();
            work()
        })
        .context("cannot start a thread that writes records")
}

/// Waits for a thread that has been given all of its work. The thread first gets ordinary priority, if the kernel permits
/// that, so that busy programs do not hold it up.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> thread::Result<T> {
    scheduling::make_ordinary(&thread);
    thread.join()
}
