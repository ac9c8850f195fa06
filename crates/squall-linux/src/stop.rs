//! Asking a thread that waits in a reactor to end.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::SetupError;

/// A request to stop, shared between who asks and who shall stop. Watch it with `Reactor::add`.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    requested: AtomicBool,
    wake: EventFd,
}

impl StopSignal {
    /// A signal that nobody has given yet.
    pub fn new() -> Result<StopSignal, SetupError> {
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(SetupError::system("make an eventfd"))?;
        Ok(StopSignal(Arc::new(Shared {
            requested: AtomicBool::new(false),
            wake,
        })))
    }

    /// Asks, and wakes the thread that waits.
    pub fn request(&self) -> Result<(), SetupError> {
        self.0.requested.store(true, Ordering::Release);
        self.0
            .wake
            .write(1)
            .map_err(SetupError::system("wake a thread"))?;
        Ok(())
    }

    /// Does `work`, and asks if it fails: for parts whose failure must end what they are a part of.
    pub fn guard<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let result = work();
        if result.is_err() {
            // If even this fails, the others end when their own work does.
            let _ = self.request();
        }
        result
    }

    /// Whether somebody has asked.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }
}

impl AsFd for StopSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
