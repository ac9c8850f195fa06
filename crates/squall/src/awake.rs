//! Idle processors are kept awake while squall measures, wherever that is allowed and nobody says otherwise.
//!
//! Where it is not allowed, the record says so and `squall doctor` what to do. How it is done: `squall_linux::awake`.

use squall_linux::awake::Awake;

/// Keeps them awake as long as what it gives lives; `None` if they may sleep.
pub(crate) fn unless(let_processors_sleep: bool) -> Option<Awake> {
    match let_processors_sleep {
        true => None,
        false => Awake::keep().ok(),
    }
}
