//! Request bodies: in memory if they are short, otherwise read from disk while they are sent.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use squall_base::Bytes;
use squall_http::{Body, Request};
use squall_stations::client::Upload;

use super::flags::ConnectionFlags;
use crate::outcome::BadInput;

/// Longest file kept in memory. Up to this size, requests share one copy, which costs less per request.
const IN_MEMORY_BYTES: u64 = 4 << 20;

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
        if is_long(path) {
            let mut upload = Upload::new();
            upload.push_file(path).map_err(said)?;
            return Ok(Payload::streamed(upload));
        }
        Ok(Body::from(std::fs::read(path).map_err(said)?).into())
    }

    /// A printable body of this size, so that it can be read in a capture.
    pub(crate) fn generated(size: Bytes) -> Result<Payload, BadInput> {
        const AT_MOST: u64 = 1 << 32;
        if size.get() > AT_MOST {
            let said = format!("a body of {size} does not fit into memory: 4GiB is the most");
            return Err(BadInput::new(said));
        }
        Ok(Body::from(printable(size).collect::<Vec<u8>>()).into())
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

/// Whether this file is too long to be kept in memory. Anything that is not a regular file has no known length before
/// it is read, so it counts as short.
pub(super) fn is_long(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > IN_MEMORY_BYTES)
}

/// Rejects streamed bodies together with `--upgrade`: RFC 7540, section 3.2, requires the whole body to be sent before
/// the protocol switches.
pub(crate) fn check_upload(flags: &ConnectionFlags, is_streamed: bool) -> Result<(), BadInput> {
    if flags.upgrade && is_streamed {
        Err(BadInput::new(format!(
            "--upgrade goes with bodies of up to {}: take --http 2 for longer ones",
            Bytes::new(IN_MEMORY_BYTES)
        )))
    } else {
        Ok(())
    }
}
