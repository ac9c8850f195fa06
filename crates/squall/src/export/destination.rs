//! Where an export is written: a file, or stdout, whose reader may have closed it.
//!
//! A file is written next to its place and takes that place once it is complete. Until then the old file stays, even if the
//! export is made from it. An export that fails or is interrupted leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Error, Result};
use squall_record::export::ExportError;

use crate::interrupt;

/// The file that is not yet complete.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// An open file or stdout.
pub(super) enum Destination {
    File(BufWriter<File>),
    Stdout(io::Stdout),
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

/// Writes an export to the file, or to stdout without one.
pub(super) fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(Destination) -> Result<Destination, ExportError>,
) -> Result<()> {
    write_with(path, |out| finished(write(out), path))
}

/// Like [`write_to`], for a `write` that can also fail in other ways. The `write` must call [`finished`] itself.
pub(super) fn write_with(
    path: Option<&Path>,
    write: impl FnOnce(Destination) -> Result<Destination>,
) -> Result<()> {
    let Some(path) = path else {
        write(Destination::Stdout(io::stdout()))?;
        return Ok(());
    };
    in_place_of(path, |draft| {
        let file = File::create(draft).map_err(|error| cannot_make(path, error))?;
        write(Destination::File(BufWriter::new(file)))?;
        Ok(())
    })
}

/// Adds the file's name to an error.
pub(super) fn finished<T>(written: Result<T, ExportError>, path: Option<&Path>) -> Result<T> {
    match path {
        Some(path) => written.with_context(|| format!("cannot write {}", path.display())),
        None => Ok(written?),
    }
}

/// Calls `write` with the name of a file in the same folder, which becomes `path` once it is complete. Devices and
/// pipes, and files in a folder where no other can be made, are written directly. Call it once.
pub(super) fn in_place_of(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let watch = || interrupt::watch_and_exit(|| discard(&mut unfinished()));
    replace(path, write, watch)
}

/// Writes these bytes as [`in_place_of`] does, for a command that watches for interrupts itself. It may be called
/// repeatedly.
pub(super) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |draft: &Path| {
        fs::write(draft, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    replace(path, write, || Ok(()))
}

/// `watch` is called before a file is made that an interrupt would have to remove.
fn replace(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<()>,
    watch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Replaces what a symbolic link leads to, not the link.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let found = fs::metadata(&place);
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        return write(&place);
    }
    let mut draft = place.clone().into_os_string();
    draft.push(format!(".{}.tmp", process::id()));
    let draft = PathBuf::from(draft);
    watch()?;
    match File::create(&draft) {
        Ok(_) => *unfinished() = Some(draft.clone()),
        Err(_) if found.is_ok() => return write(&place),
        Err(error) => return Err(cannot_make(path, error)),
    }
    let written = write(&draft).and_then(|()| keep(&draft, &place));
    discard(&mut unfinished());
    written
}

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves the complete file to its place.
fn keep(draft: &Path, place: &Path) -> Result<()> {
    let mut unfinished = unfinished();
    fs::rename(draft, place).with_context(|| format!("cannot write {}", place.display()))?;
    *unfinished = None;
    Ok(())
}

/// Removes the incomplete file, if there is one. A failure to remove it is ignored: the reason why the file is incomplete
/// matters more.
fn discard(unfinished: &mut Option<PathBuf>) {
    if let Some(draft) = unfinished.take() {
        let _ = fs::remove_file(draft);
    }
}

/// Why a file cannot be made, and what to do.
pub(super) fn cannot_make(path: &Path, error: io::Error) -> Error {
    let cannot = format!("cannot make {}", path.display());
    if path.is_dir() {
        return Error::msg(format!("{cannot}: it is a folder; name a file in it"));
    }
    match path.parent() {
        Some(folder) if error.kind() == ErrorKind::NotFound && !folder.as_os_str().is_empty() => {
            Error::msg(format!(
                "{cannot}: there is no folder {}; make it first, or name a file elsewhere",
                folder.display()
            ))
        }
        _ => Error::new(error).context(cannot),
    }
}
