//! JSON files: plan.json, trial.json, environment.json, summary.json.
//!
//! A file is written under a temporary name and renamed, so its final name only ever shows a complete file. The content
//! is defined by the types that are written (squall-base), not here. The exception is the schema version, which is read
//! before anything that depends on it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_base::plan::Plan;

use crate::{READABLE_SCHEMAS, RecordError, SCHEMA};

/// The field that every version of plan.json and trial.json has.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// plan.json: the plan, preceded by the schema version.
#[derive(Serialize)]
struct VersionedPlan<'a> {
    schema: u32,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// Writes `value` to `path` as indented JSON. It goes through a temporary file, so that a reader sees the old or the
/// new content and never a part of either.
pub fn write_json<T: Serialize>(path: impl AsRef<Path>, value: &T) -> Result<(), RecordError> {
    let path = path.as_ref();
    let mut text = serde_json::to_vec_pretty(value).map_err(|source| RecordError::WriteJson {
        path: path.into(),
        source,
    })?;
    text.push(b'\n');
    let temporary_path = temporary_path(path);
    let mut file = File::create(&temporary_path).map_err(|source| RecordError::Create {
        path: temporary_path.clone(),
        source,
    })?;
    file.write_all(&text)
        .and_then(|()| file.sync_all())
        .map_err(|source| RecordError::Write {
            path: temporary_path.clone(),
            source,
        })?;
    fs::rename(&temporary_path, path).map_err(|source| RecordError::Rename {
        from: temporary_path,
        to: path.into(),
        source,
    })
}

/// Reads the JSON file `path`.
pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T, RecordError> {
    let path = path.as_ref();
    parse(path, &read(path)?)
}

/// Writes plan.json, with the schema version.
pub fn write_plan(path: impl AsRef<Path>, plan: &Plan) -> Result<(), RecordError> {
    let schema = SCHEMA;
    write_json(path, &VersionedPlan { schema, plan })
}

/// Reads plan.json, which must have a schema version that this program reads. A run of another version is thereby refused
/// immediately, not when its first trial is read.
pub fn read_plan(path: impl AsRef<Path>) -> Result<Plan, RecordError> {
    read_versioned(path.as_ref())
}

/// Reads a JSON file that must have a schema version that this program reads.
pub(crate) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let text = read(path)?;
    // Checked first, because another schema probably has other fields.
    let Version { schema } = parse(path, &text)?;
    if !READABLE_SCHEMAS.contains(&schema) {
        return Err(RecordError::OtherSchema {
            path: path.into(),
            found: schema.to_string(),
        });
    }
    parse(path, &text)
}

/// Reads the schema version of a JSON file that has one.
pub(crate) fn read_schema(path: &Path) -> Result<u32, RecordError> {
    parse(path, &read(path)?).map(|Version { schema }| schema)
}

fn read(path: &Path) -> Result<Vec<u8>, RecordError> {
    fs::read(path).map_err(|source| RecordError::Read {
        path: path.into(),
        source,
    })
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(text).map_err(|source| RecordError::ReadJson {
        path: path.into(),
        source,
    })
}

/// The temporary name for writing `path`. It contains the process ID, so that two processes do not write to the same
/// file.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        for value in [vec![1, 2, 3], vec![4]] {
            write_json(&path, &value).unwrap();
            assert_eq!(read_json::<Vec<u32>>(&path).unwrap(), value);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn plan_round_trips_only_with_our_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let plan = Plan {
            recipe: "demo".to_owned(),
            question: "?".to_owned(),
            measures: vec![squall_base::plan::Measure::USUAL],
            primary: None,
            profile: "standard".to_owned(),
            variants: Vec::new(),
            conditions: Vec::new(),
            requests: Vec::new(),
            files: Vec::new(),
            trials: Vec::new(),
        };
        write_plan(&path, &plan).unwrap();
        assert_eq!(read_plan(&path).unwrap(), plan);
        // For another version, the other fields need not even be known.
        fs::write(&path, r#"{"schema": 4000000000, "new": true}"#).unwrap();
        assert!(matches!(
            read_plan(&path),
            Err(RecordError::OtherSchema { found, .. }) if found == "4000000000"
        ));
        fs::write(&path, r#"{"recipe": "demo"}"#).unwrap();
        let said = read_plan(&path).unwrap_err().to_string();
        assert!(
            said.contains("`schema`") && said.contains("another version"),
            "{said}"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_place_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial.json");
        let missing = read_json::<u32>(&path).unwrap_err().to_string();
        assert!(
            missing.contains("trial.json") && missing.contains("No such file"),
            "{missing}"
        );
        fs::write(&path, "[1, 2").unwrap();
        let cut = read_json::<Vec<u32>>(&path).unwrap_err().to_string();
        assert!(
            cut.contains("trial.json") && cut.contains("line 1 column 5"),
            "{cut}"
        );
    }
}
