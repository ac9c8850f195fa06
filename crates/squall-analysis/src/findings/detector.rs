//! What a detector is: the name of a pathology, what is always said about it, and the function that detects it.
//!
//! Nothing is detected here: each detector has a file of its own, and `findings` lists them all. Detectors look at a
//! `Case` and return a `Detection`.

use squall_base::record::Cause;

use super::case::Case;
use super::finding::Detection;

/// What a detector looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Path,
    /// One link; if there are several, each in turn.
    Link,
}

/// One pathology: what it is, and how to detect it.
pub(super) struct Detector {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Two sentences.
    pub(super) explanation: &'static str,
    pub(super) scope: Scope,
    /// The causes of response time that it explains; empty if its cost is not a time, or not a separate cause.
    pub(super) causes: &'static [Cause],
    /// Evidence, or nothing.
    pub(super) detect: fn(&Case<'_>) -> Option<Detection>,
}
