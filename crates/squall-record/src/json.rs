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
use squall_base::Bytes;
use squall_base::plan::Plan;
use squall_base::record::TrialRecord;

use crate::bounded::read_at_most;
use crate::private::create_private;
use crate::seal::{is_seal_broken, seal};
use crate::{READABLE_SCHEMAS, RecordError, SCHEMA};

/// The largest JSON file that is read. A plan with the bodies of a recording is the largest one that squall writes.
const MAX_JSON: Bytes = Bytes::new(1 << 30);

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
    let text = indented(path, value)? + "\n";
    write_text(path, &text, Readers::All)
}

/// Writes `text` to `path` in the same way. If that fails, the old content stays, and the temporary file is removed.
///
/// # Errors
/// The system refused to create, write or rename the file.
pub fn write_whole(path: impl AsRef<Path>, text: &str) -> Result<(), RecordError> {
    write_text(path.as_ref(), text, Readers::All)
}

/// Like [`write_whole`], but only the file's owner may read it (mode 0600).
///
/// # Errors
/// The system refused to create, write or rename the file.
pub fn write_whole_private(path: impl AsRef<Path>, text: &str) -> Result<(), RecordError> {
    write_text(path.as_ref(), text, Readers::Owner)
}

/// Writes trial.json, with its own checksum as the last field.
pub fn write_record(path: impl AsRef<Path>, record: &TrialRecord) -> Result<(), RecordError> {
    let path = path.as_ref();
    write_text(path, &seal(indented(path, record)?), Readers::All)
}

/// Reads trial.json, which must have a schema version that this program reads. If it ends with a checksum, the checksum must
/// match.
pub(crate) fn read_record(path: &Path) -> Result<TrialRecord, RecordError> {
    let altered = |fault: String| RecordError::Altered(path.into(), fault);
    let text = read(path)?;
    if is_seal_broken(&text) {
        return Err(altered(
            "its content does not have the checksum that is at its end".to_owned(),
        ));
    }
    parse_versioned(path, &text).map_err(|error| match error {
        RecordError::ReadJson(_, source) => {
            altered(format!("it is not the record of a trial: {source}"))
        }
        other => other,
    })
}

fn indented<T: Serialize>(path: &Path, value: &T) -> Result<String, RecordError> {
    serde_json::to_string_pretty(value)
        .map_err(|source| RecordError::WriteJson(path.into(), source))
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// Everyone whom the umask permits.
    All,
    /// The file's owner.
    Owner,
}

fn write_text(path: &Path, text: &str, readers: Readers) -> Result<(), RecordError> {
    let temporary_path = temporary_path(path);
    let created = match readers {
        Readers::All => File::create(&temporary_path),
        Readers::Owner => create_private(&temporary_path),
    };
    let mut file = created.map_err(RecordError::create(&temporary_path))?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(RecordError::write(path));
    let renamed = written.and_then(|()| {
        fs::rename(&temporary_path, path).map_err(RecordError::rename(&temporary_path, path))
    });
    if renamed.is_err() {
        // The leftover takes disk space, which may be short. If it cannot be removed, the error above matters more.
        let _ = fs::remove_file(&temporary_path);
    }
    renamed
}

/// Reads the JSON file `path`.
pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T, RecordError> {
    let path = path.as_ref();
    parse(path, &read(path)?)
}

/// Writes plan.json, with the schema version. Only its owner may read it (mode 0600) if its requests have secrets, which the
/// caller may have left out ([`Plan::redacted`]).
pub fn write_plan(path: impl AsRef<Path>, plan: &Plan) -> Result<(), RecordError> {
    let path = path.as_ref();
    let schema = SCHEMA;
    let text = indented(path, &VersionedPlan { schema, plan })? + "\n";
    let readers = if plan.has_secrets() {
        Readers::Owner
    } else {
        Readers::All
    };
    write_text(path, &text, readers)
}

/// Reads plan.json, which must have a schema version that this program reads. So a run of another version is refused
/// immediately, not when its first trial is read.
pub fn read_plan(path: impl AsRef<Path>) -> Result<Plan, RecordError> {
    read_versioned(path.as_ref())
}

/// Reads a JSON file that must have a schema version that this program reads.
pub(crate) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    parse_versioned(path, &read(path)?)
}

fn parse_versioned<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    // Checked first, because another schema probably has other fields.
    let Version { schema } = parse(path, text)?;
    if !READABLE_SCHEMAS.contains(&schema) {
        return Err(RecordError::OtherSchema(path.into(), schema.to_string()));
    }
    parse(path, text)
}

/// Reads the schema version of a JSON file that has one.
pub(crate) fn read_schema(path: &Path) -> Result<u32, RecordError> {
    parse(path, &read(path)?).map(|Version { schema }| schema)
}

fn read(path: &Path) -> Result<Vec<u8>, RecordError> {
    read_at_most(path, MAX_JSON).map_err(RecordError::read(path))
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(text).map_err(|source| RecordError::ReadJson(path.into(), source))
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
    use std::os::unix::fs::PermissionsExt;

    use squall_base::plan::RequestTemplate;

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

    fn plan(requests: Vec<RequestTemplate>) -> Plan {
        Plan {
            requests,
            ..squall_made::plan()
        }
    }

    #[test]
    fn plan_with_credentials_is_complete_and_readable_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let plan = plan(vec![RequestTemplate {
            headers: vec![("authorization".to_owned(), "Bearer 1234".to_owned())],
            ..squall_made::get()
        }]);
        write_plan(&path, &plan).unwrap();
        assert_eq!(read_plan(&path).unwrap(), plan);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn failed_write_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        // A folder cannot be replaced by a file.
        fs::create_dir(&path).unwrap();
        let failed = write_whole(&path, "a page");
        assert!(matches!(failed, Err(RecordError::Rename { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn plan_round_trips_only_with_our_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let plan = plan(Vec::new());
        write_plan(&path, &plan).unwrap();
        assert_eq!(read_plan(&path).unwrap(), plan);
        // The other fields of another version are not even looked at.
        fs::write(&path, r#"{"schema": 4000000000, "new": true}"#).unwrap();
        assert!(matches!(
            read_plan(&path),
            Err(RecordError::OtherSchema(_, found)) if found == "4000000000"
        ));
        fs::write(&path, r#"{"recipe": "demo"}"#).unwrap();
        let said = read_plan(&path).unwrap_err().to_string();
        assert!(
            said.contains("`schema`") && said.contains("another version"),
            "{said}"
        );
    }

    #[test]
    fn record_with_a_wrong_checksum_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trial.json");
        let sealed = seal("{\n  \"schema\": 9,\n  \"attempt\": 1\n}".to_owned());
        fs::write(&path, sealed.replace("\"attempt\": 1", "\"attempt\": 3")).unwrap();
        let said = read_record(&path).unwrap_err().to_string();
        assert!(
            said.contains("trial.json is damaged")
                && said.contains("the checksum that is at its end"),
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
