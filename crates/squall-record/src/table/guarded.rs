//! Calls into the parquet crate, which may panic on a corrupt file: such a panic becomes an error and prints nothing.
//!
//! It does not hide any other panic. `reader` makes the calls.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use crate::RecordError;

thread_local! {
    /// Whether this thread is in a guarded call.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode`, a call into the parquet crate, and turns a panic there into an error: version 60 asserts on some
/// numbers of a corrupt file. Nothing that `decode` has touched is used after a panic.
pub(super) fn guarded<T>(path: &Path, decode: impl FnOnce() -> T) -> Result<T, RecordError> {
    silence_guarded_calls();
    let was_guarded = IS_GUARDED.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    IS_GUARDED.set(was_guarded);
    decoded.map_err(|_| RecordError::Undecodable(path.into()))
}

/// Wraps the present panic hook, once, in one that prints nothing about guarded calls. A hook runs before a panic is caught,
/// on the thread that panics.
fn silence_guarded_calls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let present = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                present(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Set in the child process that panics.
    const CHILD: &str = "SQUALL_TEST_GUARDED_PANIC";

    fn panic_in_and_outside_of_guarded_calls() {
        let inside = guarded(Path::new("a.parquet"), || -> u8 {
            panic!("decoder asserts")
        });
        assert!(matches!(inside, Err(RecordError::Undecodable(_))));
        assert!(catch_unwind(|| -> u8 { panic!("another fault") }).is_err());
    }

    #[test]
    fn only_panics_outside_of_guarded_calls_are_printed() {
        if env::var_os(CHILD).is_some() {
            panic_in_and_outside_of_guarded_calls();
            return;
        }
        let name = "table::guarded::tests::only_panics_outside_of_guarded_calls_are_printed";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{printed}");
        assert_eq!(printed.matches("panicked at").count(), 1, "{printed}");
        assert!(
            printed.contains("another fault") && !printed.contains("decoder asserts"),
            "{printed}"
        );
    }
}
