//! Causes and repairs in JSON: by their words of the record.
//!
//! squall-base has the words and no JSON of these types. What is written with them is `course`'s and `explain`'s.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use squall_base::record::{Cause, Repair};

/// A cause by its word.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn cause<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

/// The cause that a word says.
pub(crate) fn read_cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
    let word = String::deserialize(deserializer)?;
    let cause = Cause::ALL.into_iter().find(|cause| cause.name() == word);
    cause.ok_or_else(|| D::Error::custom(format_args!("unknown cause `{word}`")))
}

/// A repair by its word.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn repair<S: Serializer>(repair: &Repair, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(repair.name())
}
