//! The files of a load that could not be written, such as on a full disk. A load that has begun goes on without them,
//! because its measurement cannot be repeated as easily as a file can be left out.
//!
//! `tables` gives a file up at its first error, `screen` says so while the load runs, and `ending` decides on the exit
//! code.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Error;

use crate::output::error_chain;

/// The files that were given up, shared by the threads that write and the thread that reports it.
#[derive(Clone, Default)]
pub(super) struct FailedFiles {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    has_any: bool,
    /// One sentence for each error that has not been printed.
    unsaid: Vec<String>,
}

impl FailedFiles {
    /// Adds a file that is no longer written.
    pub(super) fn add(&self, path: &Path, error: &Error) {
        let mut state = self.lock();
        state.has_any = true;
        state.unsaid.push(format!(
            "squall: {} is incomplete, and the load goes on without it: {}\n",
            path.display(),
            error_chain(error)
        ));
    }

    /// The sentences to print that were not returned before.
    pub(super) fn take_unsaid(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().unsaid)
    }

    pub(super) fn has_any(&self) -> bool {
        self.lock().has_any
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_reported_once() {
        let failed = FailedFiles::default();
        assert!(!failed.has_any());
        failed.add(Path::new("a.csv"), &anyhow::anyhow!("disk full"));
        let said = failed.clone().take_unsaid();
        assert_eq!(
            said,
            ["squall: a.csv is incomplete, and the load goes on without it: disk full\n"]
        );
        assert!(failed.take_unsaid().is_empty() && failed.has_any());
    }
}
