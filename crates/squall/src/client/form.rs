//! Forms as multipart/form-data (RFC 7578): what a browser sends when somebody uploads a file.
//!
//! The whole body is made once; requests share it.

use std::path::Path;

use anyhow::Result;

use crate::BadInput;

/// In no text that a person sends, and the same in every run, so that runs are alike.
const BOUNDARY: &str = "----squall-7d2f9c41e6b803a5";

/// The body of these fields, each `name=text` or `name=@FILE`, and its content type.
pub(super) fn encode(fields: &[String]) -> Result<(Vec<u8>, String)> {
    let mut body = Vec::new();
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            BadInput::new(format!(
                "{field:?} is no field of a form: expected name=text or name=@FILE"
            ))
        })?;
        let mut head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{}\"",
            quoted(name)
        );
        let content = match value.strip_prefix('@') {
            None => value.as_bytes().to_vec(),
            Some(path) => {
                let path = Path::new(path);
                let said = |error| {
                    BadInput::new(format!(
                        "cannot read the upload {}: {error}",
                        path.display()
                    ))
                };
                let content = std::fs::read(path).map_err(said)?;
                let file_name = path.file_name().unwrap_or_default().to_string_lossy();
                head += &format!(
                    "; filename=\"{}\"\r\ncontent-type: {}",
                    quoted(&file_name),
                    media_type(path)
                );
                content
            }
        };
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    Ok((body, content_type))
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
        let (body, content_type) = encode(&fields).unwrap();
        let text = String::from_utf8(body).unwrap();
        let expected = "------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"who\"\r\n\r\nme\r\n\
            ------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"what\"; filename=\"a %22b%22.pdf\"\r\n\
            content-type: application/pdf\r\n\r\n%PDF\r\n------squall-7d2f9c41e6b803a5--\r\n";
        assert_eq!(text, expected);
        assert!(content_type.ends_with("boundary=----squall-7d2f9c41e6b803a5"));
        assert!(encode(&["nothing".to_owned()]).is_err());
        assert!(encode(&["a=@/nowhere/at/all".to_owned()]).is_err());
    }
}
