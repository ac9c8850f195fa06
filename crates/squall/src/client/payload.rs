//! Request bodies: in memory if they are short, otherwise read from disk while they are sent.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use squall_base::Bytes;
use squall_http::{Body, Request};
use squall_stations::client::Upload;

use super::flags::ConnectionFlags;
use crate::limits;
use crate::outcome::BadInput;

/// Longest file kept in memory. Up to this size, requests share one copy, which costs less per request.
pub(super) const IN_MEMORY_BYTES: u64 = 4 << 20;

/// A body, and the source of its bytes if they are not in memory.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) body: Body,
    pub(crate) upload: Option<Arc<Upload>>,
}

/// A request, and the source of its body's bytes if they are not in memory.
#[derive(Clone, Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) request: Arc<Request>,
    pub(crate) upload: Option<Arc<Upload>>,
}

impl From<Body> for Payload {
    fn from(body: Body) -> Payload {
        Payload { body, upload: None }
    }
}

impl Payload {
    /// A body with the content of a file.
    pub(crate) fn file(path: &Path) -> Result<Payload, BadInput> {
        let said =
            |error| BadInput::new(format!("cannot read the body {}: {error}", path.display()));
        if file_length(path).map_err(said)? > IN_MEMORY_BYTES {
            let mut upload = Upload::new();
            upload.push_file(path).map_err(said)?;
            return Ok(Payload::streamed(upload));
        }
        Ok(Body::from(std::fs::read(path).map_err(said)?).into())
    }

    /// A printable body of this size, so that it can be read in a capture.
    pub(crate) fn generated(size: Bytes) -> Result<Payload, BadInput> {
        if size > limits::BODY {
            let said = format!(
                "a body of {size} is too large to make in memory: the limit is {}; write it to a file, which is read while it \
                 is sent",
                limits::BODY
            );
            return Err(BadInput::new(said));
        }
        Ok(Body::from(printable(size).collect::<Vec<u8>>()).into())
    }

    /// With `expect: 100-continue`, a body in memory is sent separately from the head, as a body read from disk is.
    pub(super) fn apart_if_expected(self, headers: &[(String, String)]) -> Payload {
        let is_expectation = |(name, value): &(String, String)| {
            name == "expect" && value.eq_ignore_ascii_case("100-continue")
        };
        match &self.body {
            Body::Whole(bytes) if !bytes.is_empty() && headers.iter().any(is_expectation) => {
                let mut upload = Upload::new();
                upload.push_bytes(bytes.to_vec());
                Payload::streamed(upload)
            }
            _ => self,
        }
    }

    /// A body that is read while it is sent.
    pub(super) fn streamed(upload: Upload) -> Payload {
        let length = Some(upload.length());
        Payload {
            body: Body::Streamed { length },
            upload: Some(Arc::new(upload)),
        }
    }
}

/// Printable text of this length, easy to recognise in a capture.
pub(super) fn printable(size: Bytes) -> impl Iterator<Item = u8> {
    (b'a'..=b'z').cycle().take(size.get() as usize)
}

/// The length in bytes of a file that is sent as a body, found without opening it: opening a named pipe would wait for a
/// writer, and reading some devices would never end.
///
/// # Errors
/// The system's error, or that it is not a regular file.
pub(crate) fn file_length(path: &Path) -> io::Result<u64> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        let said = "it is not a regular file: copy its content to one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
    }
    Ok(found.len())
}

/// Rejects streamed bodies together with `--upgrade`: RFC 7540, section 3.2, requires the whole body to be sent before
/// the protocol switches.
pub(crate) fn check_upload(flags: &ConnectionFlags, is_streamed: bool) -> Result<(), BadInput> {
    if flags.upgrade && is_streamed {
        Err(BadInput::new(format!(
            "--upgrade works only with bodies of up to {}, and without `expect: 100-continue`: use --http 2 for others",
            Bytes::new(IN_MEMORY_BYTES)
        )))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_can_be_bodies() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let said = Payload::file(path).unwrap_err().to_string();
            assert!(said.contains("not a regular file"), "{said}");
        }
        let file = folder.path().join("body");
        std::fs::write(&file, "hello").unwrap();
        assert_eq!(file_length(&file).unwrap(), 5);
        assert!(Payload::file(&file).is_ok());
    }
}
