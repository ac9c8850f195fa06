//! What a request carries: in memory if it is short, else read from disk while it is sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use squall_base::Bytes;
use squall_base::plan::{FormValue, RequestBody};
use squall_http::{Body, Request};
use squall_stations::client::Upload;

use super::ConnectionFlags;
use super::form::{Value, encode_fields};
use crate::BadInput;

/// A longer file is not kept in memory: up to here requests share what was read once, which costs less for each.
const IN_MEMORY_BYTES: u64 = 4 << 20;

/// A body, and where its bytes come from if they are not in it.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) body: Body,
    pub(crate) upload: Option<Arc<Upload>>,
}

/// A request, and where the bytes of its body come from if they are not in it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Arc<Request>,
    pub(crate) upload: Option<Arc<Upload>>,
}

impl From<Body> for Payload {
    fn from(body: Body) -> Payload {
        Payload { body, upload: None }
    }
}

impl Payload {
    /// The content of a file.
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

    /// What a plan says; its files are copies in `folder`. With its type, if that follows from it.
    pub(crate) fn planned(body: &RequestBody, folder: &Path) -> Result<(Payload, Option<String>)> {
        Ok(match body {
            RequestBody::Size(size) => (Payload::generated(*size)?, None),
            RequestBody::Text(text) => (Body::from(text.clone().into_bytes()).into(), None),
            RequestBody::File(kept) => (Payload::file(&folder.join(&kept.kept_as))?, None),
            RequestBody::Form(fields) => {
                let paths: Vec<PathBuf> = (fields.iter())
                    .map(|field| match &field.value {
                        FormValue::Text(_) | FormValue::Generated { .. } => PathBuf::new(),
                        FormValue::File { file, .. } => folder.join(&file.kept_as),
                    })
                    .collect();
                let values = fields.iter().zip(&paths).map(|(field, path)| {
                    let value = match &field.value {
                        FormValue::Text(text) => Value::Text(text),
                        FormValue::File { name, .. } => Value::File {
                            path,
                            name: name.clone(),
                        },
                        FormValue::Generated { name, size } => Value::Generated {
                            size: *size,
                            name: name.clone(),
                        },
                    };
                    (field.name.as_str(), value)
                });
                let (payload, content_type) = encode_fields(&values.collect::<Vec<_>>())?;
                (payload, Some(content_type))
            }
        })
    }

    /// A body of this size, printable so that it can be read in a capture.
    pub(crate) fn generated(size: Bytes) -> Result<Payload, BadInput> {
        const AT_MOST: u64 = 1 << 32;
        if size.get() > AT_MOST {
            let said = format!("a body of {size} does not fit into memory: 4GiB is the most");
            return Err(BadInput::new(said));
        }
        Ok(Body::from(printable(size).collect::<Vec<u8>>()).into())
    }

    /// One that is read while it is sent.
    pub(super) fn streamed(upload: Upload) -> Payload {
        let length = Some(upload.length());
        Payload {
            body: Body::Streamed { length },
            upload: Some(Arc::new(upload)),
        }
    }
}

/// Printable text of this length, so that a reader of a capture recognises it.
pub(super) fn printable(size: Bytes) -> impl Iterator<Item = u8> {
    (b'a'..=b'z').cycle().take(size.get() as usize)
}

/// Whether this is a file that is not to be kept in memory. What is no regular file has no length before it is read.
pub(super) fn is_long(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > IN_MEMORY_BYTES)
}

/// What is read while it is sent cannot be sent by a request that asks for HTTP/2: RFC 7540, section 3.2, has its body
/// sent in whole before the protocol is switched.
pub(crate) fn check_upload(flags: &ConnectionFlags, is_streamed: bool) -> Result<(), BadInput> {
    match flags.upgrade && is_streamed {
        true => Err(BadInput::new(format!(
            "--upgrade goes with bodies of up to {}: take --http 2 for longer ones",
            Bytes::new(IN_MEMORY_BYTES)
        ))),
        false => Ok(()),
    }
}
