//! Where an export is written: a file, or stdout, whose reader may have closed it.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use squall_record::export::ExportError;

/// An open file or stdout.
pub(super) enum Destination {
    File(BufWriter<File>),
    Stdout(io::Stdout),
}

impl Destination {
    /// Opens the file, or stdout without one. A file that is already there is replaced.
    pub(super) fn open(path: Option<&Path>) -> Result<Destination> {
        let Some(path) = path else {
            return Ok(Destination::Stdout(io::stdout()));
        };
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Destination::File(BufWriter::new(file)))
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::File(file) => file.write(bytes),
            Destination::Stdout(stdout) => match stdout.write(bytes) {
                // As with other results, `| head` is not an error.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
                written => written,
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::File(file) => file.flush(),
            Destination::Stdout(stdout) => match stdout.flush() {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                flushed => flushed,
            },
        }
    }
}

/// Opens the destination and writes an export to it.
pub(super) fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(Destination) -> Result<Destination, ExportError>,
) -> Result<()> {
    finished(write(Destination::open(path)?), path)?;
    Ok(())
}

/// Adds the file's name to an error.
pub(super) fn finished<T>(written: Result<T, ExportError>, path: Option<&Path>) -> Result<T> {
    match path {
        Some(path) => written.with_context(|| format!("cannot write {}", path.display())),
        None => Ok(written?),
    }
}
