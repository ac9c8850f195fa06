//! Writes TLS secrets to a file in NSS format (SSLKEYLOGFILE). They are appended as they arrive, so that a capture can
//! be decrypted while a server is still running.
//!
//! The stations supply the lines, in BoringSSL's format. Secrets of a trial are part of its record: see
//! `run/worker/collect`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use squall_record::append_private;

use crate::outcome::BadInput;

/// The key log of a command, opened. Its thread has not started, so the process can still change its rights.
pub(crate) struct OpenKeyLog {
    path: PathBuf,
    file: File,
    sender: Sender<Vec<String>>,
    lines: Receiver<Vec<String>>,
}

impl OpenKeyLog {
    /// Opens the log if a flag names one. Only its owner may read a new one (mode 0600).
    pub(crate) fn open(path: Option<&Path>) -> Result<Option<OpenKeyLog>> {
        let Some(path) = path else {
            return Ok(None);
        };
        let file = append_private(path).map_err(|error| {
            BadInput::new(format!(
                "cannot write the key log {}: {error}",
                path.display()
            ))
        })?;
        let (sender, lines) = mpsc::channel();
        Ok(Some(OpenKeyLog {
            path: path.to_owned(),
            file,
            sender,
            lines,
        }))
    }

    /// The channel for new lines.
    pub(crate) fn sender(&self) -> Sender<Vec<String>> {
        self.sender.clone()
    }

    /// Starts the thread that writes it.
    pub(crate) fn start(self) -> Result<KeyLog> {
        let OpenKeyLog {
            path,
            file,
            sender,
            lines,
        } = self;
        let writer = thread::Builder::new()
            .name("squall-keys".to_owned())
            .spawn(move || write(file, &lines))
            .context("cannot start the thread that writes the key log")?;
        Ok(KeyLog {
            path,
            sender,
            writer,
        })
    }
}

/// The key log of a command, and the thread that writes it.
pub(crate) struct KeyLog {
    path: PathBuf,
    sender: Sender<Vec<String>>,
    writer: JoinHandle<io::Result<()>>,
}

impl KeyLog {
    /// Opens the log if a flag names one, and starts its thread.
    pub(crate) fn open(path: Option<&Path>) -> Result<Option<KeyLog>> {
        let opened = OpenKeyLog::open(path)?;
        opened.map(OpenKeyLog::start).transpose()
    }

    /// The channel for new lines.
    pub(crate) fn sender(&self) -> Sender<Vec<String>> {
        self.sender.clone()
    }

    /// Waits until everything sent so far is written.
    pub(crate) fn finish(self) -> Result<()> {
        // Other holders of a sender have ended, or send nothing more that matters.
        let _ = self.sender.send(Vec::new());
        let written = self.writer.join().expect("writing does not panic");
        written.with_context(|| format!("cannot write the key log {}", self.path.display()))
    }
}

/// Writes until an empty list of lines arrives.
fn write(mut file: File, lines: &Receiver<Vec<String>>) -> io::Result<()> {
    for lines in lines.iter().take_while(|lines| !lines.is_empty()) {
        let mut text = lines.join("\n");
        text.push('\n');
        // Writes whole lines with one call, because others may append to the same file.
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_may_read_a_new_key_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.log");
        let keys = KeyLog::open(Some(&path)).unwrap().unwrap();
        let line = "CLIENT_RANDOM 00 11";
        keys.sender().send(vec![line.to_owned()]).unwrap();
        keys.finish().unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, format!("{line}\n"));
    }
}
