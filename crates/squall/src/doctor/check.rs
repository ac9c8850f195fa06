//! One line of the examination: what was checked, what was found, and what to do about it.
//!
//! No check is made here; the files beside this one do that. The fields are also the keys of `squall doctor --json`.

use serde::Serialize;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// squall runs, but some features are missing or its numbers are less precise.
    Limited,
    /// squall cannot run.
    Missing,
}

impl State {
    /// The word shown in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// One line of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) check: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    /// What to do about it; `None` if everything is fine.
    pub(crate) advice: Option<String>,
}

impl Check {
    /// As it should be.
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Check {
        Check {
            check,
            state: State::Ok,
            found: found.into(),
            advice: None,
        }
    }

    /// squall runs, but with limits.
    pub(crate) fn limited(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        Check {
            state: State::Limited,
            advice: Some(advice.into()),
            ..Check::ok(check, found)
        }
    }

    /// squall cannot run.
    pub(crate) fn missing(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        Check {
            state: State::Missing,
            ..Check::limited(check, found, advice)
        }
    }
}
