//! Causes and repairs in JSON, by their names in the record.
//!
//! squall-base has the names but no JSON for these types. `course` and `explain` write JSON with them.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use squall_base::record::{Cause, Repair};

/// Writes a cause by its name.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn cause<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

/// Reads a cause by its name.
pub(crate) fn read_cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
    let word = String::deserialize(deserializer)?;
    Cause::from_name(&word).ok_or_else(|| D::Error::custom(format_args!("unknown cause `{word}`")))
}

/// Writes a repair by its name.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn repair<S: Serializer>(repair: &Repair, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(repair.name())
}
