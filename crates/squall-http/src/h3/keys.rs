//! The TLS secrets of a connection, as lines of an SSLKEYLOGFILE (draft-ietf-tls-keylogfile).

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// The lines that have not been taken yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyLog(Arc<Mutex<Vec<u8>>>);

impl KeyLog {
    /// The writer for quiche.
    pub(super) fn writer(&self) -> Box<dyn Write + Send + Sync> {
        Box::new(self.clone())
    }

    pub(super) fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for KeyLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
