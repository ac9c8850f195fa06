//! Files and folders that only their owner may read: TLS keys and secrets, captures that contain them, plans with
//! credentials.
//!
//! Nothing here decides what is secret (the callers do) or encrypts anything. Programs of squall-peers write their own
//! files. `json` and `pcapng/secrets` use it here; the binary for key logs, keys and the folder of a run.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Read and write for the owner.
const FILE_MODE: u32 = 0o600;

/// Full access for the owner only.
const FOLDER_MODE: u32 = 0o700;

/// The rights of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Creates the file `path` with mode 0600. A file that is already there is emptied and gets this mode, too.
///
/// # Errors
/// Those of the operating system, without the path.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let file = options.mode(FILE_MODE).open(path)?;
    let found = file.metadata()?;
    // Devices and pipes, such as /dev/stdout, keep their mode.
    if found.is_file() && found.permissions().mode() & OTHERS != 0 {
        // Some file systems have no modes, and only the owner of a file may change its mode. The content is written anyway,
        // because the user named that place.
        let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
    }
    Ok(file)
}

/// Writes `bytes` to the file `path` with mode 0600, replacing its content.
///
/// # Errors
/// Those of the operating system, without the path.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(bytes)
}

/// Copies the file `from` to `to`, replacing its content. `to` has mode 0600.
///
/// # Errors
/// Those of the operating system, without the path.
pub fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    io::copy(&mut source, &mut create_private(to)?)?;
    Ok(())
}

/// Opens the file `path` to append to it. If it is created, it has mode 0600; otherwise it keeps its mode.
///
/// # Errors
/// Those of the operating system, without the path.
pub fn append_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true);
    options.mode(FILE_MODE).open(path)
}

/// Creates the folder `path` with mode 0700. The folder above must exist.
///
/// # Errors
/// Those of the operating system, without the path; also if the folder already exists.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read_new_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let [key, log, files] = ["key.pem", "keys.log", "files"].map(|it| folder.path().join(it));
        write_private(&key, b"key").unwrap();
        append_private(&log).unwrap().write_all(b"one\n").unwrap();
        append_private(&log).unwrap().write_all(b"two\n").unwrap();
        create_private_folder(&files).unwrap();
        assert_eq!([mode(&key), mode(&log)], [0o600; 2]);
        assert_eq!(mode(&files), 0o700);
        assert_eq!(fs::read_to_string(log).unwrap(), "one\ntwo\n");
        assert!(create_private_folder(&files).is_err(), "it exists");
    }

    #[test]
    fn copy_is_private_whatever_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|it| folder.path().join(it));
        fs::write(&from, "secret").unwrap();
        fs::write(&to, "an old and longer text").unwrap();
        fs::set_permissions(&to, Permissions::from_mode(0o644)).unwrap();
        copy_private(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "secret");
        assert_eq!(mode(&to), 0o600);
    }

    #[test]
    fn replaced_file_that_everyone_could_read_is_private_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "an old and longer key").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write_private(&path, b"key").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read(path).unwrap(), b"key");
    }
}
