//! Whether idle processors are kept awake while squall measures.
//!
//! They are wherever that is allowed, unless somebody says otherwise; where it is not, the record says so and
//! `squall doctor` what to do. How it is done: `squall_linux::awake`.

use squall_linux::awake::Awake;

/// Keeps them awake as long as what it gives lives; `None` if they may sleep.
pub(crate) fn keep(may_sleep: bool) -> Option<Awake> {
    if may_sleep {
        return None;
    }
    Awake::keep().ok()
}
