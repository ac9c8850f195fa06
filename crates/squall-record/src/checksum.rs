//! Checksums of a trial's files, so that a damaged file is detected before its content is used.
//!
//! trial.json has the size and the CRC-32 of each table, and ends with a checksum of its own. They reveal damage by disks
//! and copies, such as one flipped bit that still decodes. They do not protect against someone who changes files on purpose.
//! Trials from before checksums were recorded are read without a check. `folder` says where the files are, `json` writes
//! trial.json, and `seal` adds its own checksum.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use squall_base::record::{FileChecksum, TrialRecord};

use crate::RecordError;
use crate::folder::{TrialFiles, TrialFolder};

/// How much of a file is in memory at once.
const CHUNK_BYTES: usize = 64 << 10;

impl TrialFiles {
    /// The checksums of the files that figures are made from; files that do not exist are left out.
    pub fn checksums(&self) -> Result<Vec<FileChecksum>, RecordError> {
        let all = [
            self.requests(),
            self.packets(),
            self.exchanges(),
            self.frames(),
            self.sockets(),
            self.causes(),
            self.drops(),
            self.findings(),
        ];
        let existing = all.iter().filter(|path| path.is_file());
        existing.map(|path| checksum_of(path)).collect()
    }
}

impl TrialFolder {
    /// Whether the trial has this file, or should have it.
    pub fn has(&self, record: &TrialRecord, path: &Path) -> bool {
        path.is_file() || recorded(&record.files, path).is_some()
    }

    /// Reads one of the trial's files with `read`, and checks that it has not changed since it was written. `record` is the
    /// trial's record.
    ///
    /// ```no_run
    /// # fn of(trial: squall_record::TrialFolder) -> Result<(), squall_record::RecordError> {
    /// let record = trial.read_record()?;
    /// let requests = trial.read_checked(&record, &trial.requests(), squall_record::read_requests)?;
    /// # drop(requests);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `read`, and [`RecordError::Altered`] if size or checksum is not the recorded one.
    pub fn read_checked<T>(
        &self,
        record: &TrialRecord,
        path: &Path,
        read: impl FnOnce(PathBuf) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        // Read first: if the file cannot be decoded, the reader's error says more than a wrong checksum.
        let content = read(path.to_owned())?;
        check(&record.files, path)?;
        Ok(content)
    }
}

/// Compares a file with its recorded checksum, if there is one.
fn check(files: &[FileChecksum], path: &Path) -> Result<(), RecordError> {
    let Some(expected) = recorded(files, path) else {
        return Ok(());
    };
    let found = checksum_of(path)?;
    if found == *expected {
        return Ok(());
    }
    let (found, expected) = (described(&found), described(expected));
    let fault = format!("it has {found}, and was written with {expected}");
    Err(RecordError::Altered(path.into(), fault))
}

/// The recorded checksum of the trial's file at `path`.
fn recorded<'f>(files: &'f [FileChecksum], path: &Path) -> Option<&'f FileChecksum> {
    let name = path.file_name()?.to_str()?;
    files.iter().find(|file| file.name == name)
}

fn described(file: &FileChecksum) -> String {
    format!("{} bytes with the CRC-32 {:08x}", file.bytes, file.crc32)
}

fn checksum_of(path: &Path) -> Result<FileChecksum, RecordError> {
    let read = || -> io::Result<(u64, u32)> {
        let mut file = File::open(path)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut bytes = 0;
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok((bytes, hasher.finalize())),
                Ok(length) => {
                    hasher.update(&chunk[..length]);
                    bytes += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    };
    let (bytes, crc32) = read().map_err(RecordError::read(path))?;
    let name = path.file_name().unwrap_or_default();
    Ok(FileChecksum {
        name: name.to_string_lossy().into_owned(),
        bytes,
        crc32,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::PartialTrial;

    #[test]
    fn any_change_of_a_recorded_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let partial = PartialTrial::begin(folder.path().join("a")).unwrap();
        let path = partial.requests();
        fs::write(&path, b"a table of requests").unwrap();
        let files = partial.checksums().unwrap();
        assert_eq!(files.len(), 1, "the others do not exist");
        assert_eq!(files[0].name, "requests.parquet");
        check(&files, &path).unwrap();
        for bit in 0..19 * 8 {
            let mut damaged = b"a table of requests".to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            let said = check(&files, &path).unwrap_err().to_string();
            assert!(
                said.contains("requests.parquet is damaged: it has 19 bytes"),
                "{said}"
            );
        }
        fs::write(&path, b"a table of request").unwrap();
        assert!(check(&files, &path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(check(&files, &path).is_err());
        assert!(check(&[], &path).is_ok(), "nothing is known of it");
    }

    #[test]
    fn checksum_is_the_crc_32_of_gzip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("check");
        fs::write(&path, b"123456789").unwrap();
        // The check value of CRC-32/ISO-HDLC, which RFC 1952 uses.
        assert_eq!(checksum_of(&path).unwrap().crc32, 0xcbf4_3926);
    }
}
