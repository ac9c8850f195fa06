//! TLS secrets in a file, in the format of NSS (SSLKEYLOGFILE): appended as they come, so that a capture can be read while
//! a server still runs.
//!
//! Which connections there are, and what a line says, is the stations' and BoringSSL's business. A trial's secrets are in
//! its record: see `worker/collect`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

use crate::BadInput;

/// The file of a command, and the thread that writes it.
pub(crate) struct KeyLog {
    path: PathBuf,
    sender: Sender<Vec<String>>,
    writer: JoinHandle<io::Result<()>>,
}

impl KeyLog {
    /// The log that a flag asks for, if it does.
    pub(crate) fn open(path: Option<&Path>) -> Result<Option<KeyLog>> {
        let Some(path) = path else {
            return Ok(None);
        };
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| {
            BadInput::new(format!(
                "cannot write the key log {}: {error}",
                path.display()
            ))
        })?;
        let (sender, lines) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("squall-keys".to_owned())
            .spawn(move || write(file, &lines))
            .context("cannot start the thread that writes the key log")?;
        Ok(Some(KeyLog {
            path: path.to_owned(),
            sender,
            writer,
        }))
    }

    /// Where lines go.
    pub(crate) fn sender(&self) -> Sender<Vec<String>> {
        self.sender.clone()
    }

    /// Waits until everything that was sent is written.
    pub(crate) fn finish(self) -> Result<()> {
        // Whoever else has a sender has ended, or sends nothing more that anybody waits for.
        let _ = self.sender.send(Vec::new());
        let written = self.writer.join().expect("writing does not panic");
        written.with_context(|| format!("cannot write the key log {}", self.path.display()))
    }
}

/// Until no lines come.
fn write(mut file: File, lines: &Receiver<Vec<String>>) -> io::Result<()> {
    for lines in lines.iter().take_while(|lines| !lines.is_empty()) {
        let mut text = lines.join("\n");
        text.push('\n');
        // Whole lines at once, since others may append to the same file.
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}
