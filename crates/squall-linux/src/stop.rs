//! Asks a thread that waits in a reactor to stop.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::SetupError;

/// A stop request, shared between the requester and the threads that are to stop. Watch it with `Reactor::add`.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    requested: AtomicBool,
    wake: EventFd,
}

impl StopSignal {
    /// A signal that has not been given yet.
    pub fn new() -> Result<StopSignal, SetupError> {
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(SetupError::system("make an eventfd"))?;
        Ok(StopSignal(Arc::new(Shared {
            requested: AtomicBool::new(false),
            wake,
        })))
    }

    /// Requests the stop, and wakes the waiting thread.
    pub fn request(&self) -> Result<(), SetupError> {
        self.0.requested.store(true, Ordering::Release);
        self.0
            .wake
            .write(1)
            .map_err(SetupError::system("wake a thread"))?;
        Ok(())
    }

    /// Runs `work`, and requests a stop if it fails: for parts whose failure must end the whole.
    pub fn guard<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let result = work();
        if result.is_err() {
            // If even this fails, the other parts end when their own work does.
            let _ = self.request();
        }
        result
    }

    /// Whether a stop has been requested.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }
}

impl AsFd for StopSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
