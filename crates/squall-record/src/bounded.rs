//! Reads a file that a user or a recipe names into memory, up to a limit.
//!
//! Such a path may lead to anything: a device that never ends, a pipe without a writer, a file of terabytes. Nothing
//! here interprets the content.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;

use squall_base::Bytes;

/// O_NONBLOCK of Linux, on every architecture that squall runs on (x86-64 and 64-bit ARM).
const O_NONBLOCK: i32 = 0o4000;

/// How long to wait before a pipe or terminal is read again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Reads a whole file of at most `limit` bytes. A pipe or device is read until its end.
///
/// # Errors
/// The operating system's error, or one of squall's own if there are more than `limit` bytes or the pipe has no writer.
pub fn read_at_most(path: impl AsRef<Path>, limit: Bytes) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // Without O_NONBLOCK, opening a pipe would wait for a writer, perhaps forever.
    let file = options
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path.as_ref())?;
    let found = file.metadata()?;
    if found.is_file() && found.len() > limit.get() {
        return Err(too_large(limit));
    }
    let bytes = read_all(Patient(file), limit)?;
    if bytes.is_empty() && found.file_type().is_fifo() {
        let said =
            "this pipe has no writer: start the program that writes to it first, or name a file";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
    }
    Ok(bytes)
}

/// Reads a whole text of at most `limit` bytes, as [`read_at_most`].
///
/// # Errors
/// As for [`read_at_most`], or that it is not UTF-8.
pub fn read_text_at_most(path: impl AsRef<Path>, limit: Bytes) -> io::Result<String> {
    let bytes = read_at_most(path, limit)?;
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not text in UTF-8: is it the right file?",
        )
    })
}

/// Reads `from`, such as standard input, until its end, at most `limit` bytes.
///
/// # Errors
/// The system's error, or that there is more.
pub fn read_all(from: impl Read, limit: Bytes) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.get().saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.get() {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

fn too_large(limit: Bytes) -> io::Error {
    let said = format!("it has more than {limit}, the most that is read: is it the right file?");
    io::Error::new(io::ErrorKind::FileTooLarge, said)
}

/// A file opened for non-blocking reads, read as if it blocked.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Command;

    use super::*;

    fn said(path: &Path, limit: u64) -> String {
        let error = read_at_most(path, Bytes::new(limit)).unwrap_err();
        error.to_string()
    }

    #[test]
    fn files_and_devices_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_at_most(&path, Bytes::new(5)).unwrap(), b"12345");
        assert!(said(&path, 4).contains("more than 4B"));
        assert!(said(Path::new("/dev/zero"), 1 << 20).contains("more than 1MiB"));
        assert!(said(Path::new("/dev/urandom"), 1 << 20).contains("more than 1MiB"));
        // Sparse: a terabyte that takes no space on the disk.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(said(&path, 1 << 30).contains("more than 1GiB"));
        assert!(read_at_most(folder.path(), Bytes::new(5)).is_err());
        assert_eq!(read_all(&b"ab"[..], Bytes::new(2)).unwrap(), b"ab");
        assert!(read_all(&b"abc"[..], Bytes::new(2)).is_err());
    }

    /// How many times this process has a file open.
    fn opened_times(path: &Path) -> usize {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target == path).count()
    }

    #[test]
    fn pipe_without_writer_is_an_error_and_one_with_a_writer_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        assert!(said(&path, 10).contains("has no writer"));
        // Opened for both directions, so that opening does not wait for the other end.
        let mut writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let read = path.clone();
        let reader = thread::spawn(move || read_at_most(read, Bytes::new(10)));
        // Data written before the reader has opened the pipe would be lost when the writer closes it.
        while opened_times(&path) < 2 && !reader.is_finished() {
            thread::sleep(PAUSE);
        }
        thread::sleep(PAUSE * 4);
        writer.write_all(b"late").unwrap();
        thread::sleep(PAUSE * 4);
        drop(writer);
        assert_eq!(reader.join().unwrap().unwrap(), b"late");
    }
}
