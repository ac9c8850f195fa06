//! Forms as multipart/form-data (RFC 7578): what a browser sends when somebody uploads a file.
//!
//! The body is made once and requests share it; of one with long files all but these, which are read while it is sent.

use std::io;
use std::path::Path;

use anyhow::Result;
use squall_base::Bytes;
use squall_http::Body;
use squall_stations::client::Upload;

use super::payload::{Payload, is_long, printable};
use crate::BadInput;

/// In no text that a person sends, and the same in every run, so that runs are alike.
const BOUNDARY: &str = "----squall-7d2f9c41e6b803a5";

/// The value of a field.
pub(super) enum Value<'a> {
    Text(&'a str),
    /// The content of a file, which the server is told has this name.
    File {
        path: &'a Path,
        name: String,
    },
    /// So many bytes, which the server is told are the content of a file of this name.
    Generated {
        size: Bytes,
        name: String,
    },
}

/// The body of these fields, each `name=text` or `name=@FILE`, and its content type.
pub(super) fn encode(fields: &[String]) -> Result<(Payload, String)> {
    fn field(field: &str) -> Result<(&str, Value<'_>), BadInput> {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            BadInput::new(format!(
                "{field:?} is no field of a form: expected name=text or name=@FILE"
            ))
        })?;
        let value = match value.strip_prefix('@').map(Path::new) {
            None => Value::Text(value),
            Some(path) => Value::File {
                path,
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            },
        };
        Ok((name, value))
    }
    let fields: Result<Vec<_>, BadInput> = fields.iter().map(|text| field(text)).collect();
    encode_fields(&fields?)
}

/// The body of these fields, and its content type.
pub(super) fn encode_fields(fields: &[(&str, Value<'_>)]) -> Result<(Payload, String)> {
    let mut parts = Parts::default();
    for (name, value) in fields {
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{}\"",
            quoted(name)
        );
        parts.push(head.as_bytes());
        match value {
            Value::Text(text) => {
                parts.push(b"\r\n\r\n");
                parts.push(text.as_bytes());
            }
            Value::File { path, name } => {
                parts.push(about_file(name).as_bytes());
                parts.push_file(path).map_err(|error| {
                    BadInput::new(format!(
                        "cannot read the upload {}: {error}",
                        path.display()
                    ))
                })?;
            }
            Value::Generated { size, name } => {
                parts.push(about_file(name).as_bytes());
                parts.bytes.extend(printable(*size));
            }
        }
        parts.push(b"\r\n");
    }
    parts.push(format!("--{BOUNDARY}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    Ok((parts.into_payload(), content_type))
}

/// A body while it is made.
#[derive(Default)]
struct Parts {
    /// What is behind the last long file.
    bytes: Vec<u8>,
    /// Everything before.
    upload: Option<Upload>,
}

impl Parts {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn push_file(&mut self, path: &Path) -> io::Result<()> {
        if !is_long(path) {
            self.bytes.extend(std::fs::read(path)?);
            return Ok(());
        }
        let upload = self.upload.get_or_insert_default();
        upload.push_bytes(std::mem::take(&mut self.bytes));
        upload.push_file(path)
    }

    fn into_payload(self) -> Payload {
        match self.upload {
            None => Body::from(self.bytes).into(),
            Some(mut upload) => {
                upload.push_bytes(self.bytes);
                Payload::streamed(upload)
            }
        }
    }
}

/// What is said of an upload before its content.
fn about_file(name: &str) -> String {
    format!(
        "; filename=\"{}\"\r\ncontent-type: {}\r\n\r\n",
        quoted(name),
        media_type(Path::new(name))
    )
}

/// As browsers escape names (HTML, section "multipart form data").
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        Some("txt") => "text/plain",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_its_texts_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a \"b\".pdf");
        std::fs::write(&file, b"%PDF").unwrap();
        let fields = ["who=me".to_owned(), format!("what=@{}", file.display())];
        let (payload, content_type) = encode(&fields).unwrap();
        let Body::Whole(body) = payload.body else {
            panic!("it is short");
        };
        let text = String::from_utf8(body.to_vec()).unwrap();
        let expected = "------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"who\"\r\n\r\nme\r\n\
            ------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"what\"; filename=\"a %22b%22.pdf\"\r\n\
            content-type: application/pdf\r\n\r\n%PDF\r\n------squall-7d2f9c41e6b803a5--\r\n";
        assert_eq!(text, expected);
        assert!(content_type.ends_with("boundary=----squall-7d2f9c41e6b803a5"));
        // A long file changes where its bytes come from, and no byte.
        let long = folder.path().join("long.pdf");
        std::fs::write(&long, vec![b'x'; 5 << 20]).unwrap();
        let fields = ["who=me".to_owned(), format!("what=@{}", long.display())];
        let (payload, _) = encode(&fields).unwrap();
        let extra =
            expected.len() as u64 - 4 + "long.pdf".len() as u64 - "a %22b%22.pdf".len() as u64;
        assert_eq!(payload.body.length(), Some((5 << 20) + extra));
        assert!(payload.upload.is_some());
        // One that is generated differs from a file by its content alone.
        let generated = Value::Generated {
            size: Bytes::new(28),
            name: "a.pdf".to_owned(),
        };
        let (payload, _) = encode_fields(&[("what", generated)]).unwrap();
        let Body::Whole(body) = payload.body else {
            panic!("it is in memory");
        };
        let text = String::from_utf8(body.to_vec()).unwrap();
        let content = "filename=\"a.pdf\"\r\ncontent-type: application/pdf\r\n\r\nabcdefghijklmnopqrstuvwxyzab\r\n";
        assert!(text.contains(content), "{text}");
        assert!(encode(&["nothing".to_owned()]).is_err());
        assert!(encode(&["a=@/nowhere/at/all".to_owned()]).is_err());
    }
}
