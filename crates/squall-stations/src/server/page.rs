//! A page for a browser: a document that refers to pictures, each of the size that its query requests.
//!
//! The document is HTML with one `<img>` for each target, in order, padded with a comment. A picture is a GIF of one
//! pixel, followed by bytes that a browser loads and ignores. `site` serves other targets.

use std::collections::BTreeMap;
use std::sync::Arc;

use squall_base::Bytes as Size;
use squall_http::{MessageError, Response};
use thiserror::Error;

use super::query::{QueryError, QueryOptions};

/// A GIF of one transparent pixel.
const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";

/// A page without an icon makes a browser request `/favicon.ico`.
const HEAD: &str =
    "<!doctype html><meta charset=utf-8><title>page</title><link rel=icon href=\"data:,\">";
const COMMENT: &str = "<!--";
const COMMENT_END: &str = "-->";

/// The responses of a page, by target.
pub(super) type Page = BTreeMap<String, Arc<Response>>;

/// Why a page cannot be built.
#[derive(Debug, Error)]
pub enum PageError {
    /// The document is too short.
    #[error(
        "the document has {size} bytes, and needs {needed} to name what it refers to: ask for a larger one, or for fewer tiles"
    )]
    TooShort {
        /// The size that was requested.
        size: u64,
        /// The size that it needs.
        needed: u64,
    },
    /// A target requests something invalid.
    #[error("the target {target}: {source}")]
    Query {
        /// The target.
        target: String,
        /// What is wrong with it.
        source: QueryError,
    },
    /// A response cannot be built.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// Builds the page for these targets, the document's first. Targets that request no size get the `usual` one.
pub(super) fn page(targets: &[String], usual: Size) -> Result<Page, PageError> {
    let mut page = Page::new();
    for (place, target) in targets.iter().enumerate() {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let options: QueryOptions = query.parse().map_err(|source| PageError::Query {
            target: target.clone(),
            source,
        })?;
        let size = options.size.unwrap_or(usual).get();
        let (media_type, body) = match place {
            0 => ("text/html; charset=utf-8", document(&targets[1..], size)?),
            _ => ("image/gif", picture(size)),
        };
        let fields = [("content-type".to_owned(), media_type.to_owned())];
        let response = Response::new(options.status.unwrap_or(200), &fields, body)?;
        page.insert(target.clone(), Arc::new(response));
    }
    Ok(page)
}

fn document(targets: &[String], size: u64) -> Result<Vec<u8>, PageError> {
    let mut text = HEAD.to_owned();
    for target in targets {
        let target = target.replace('&', "&amp;").replace('"', "&quot;");
        text += &format!("<img src=\"{target}\">");
    }
    text += COMMENT;
    let needed = (text.len() + COMMENT_END.len()) as u64;
    if size < needed {
        return Err(PageError::TooShort { size, needed });
    }
    text.extend(('a'..='z').cycle().take((size - needed) as usize));
    text += COMMENT_END;
    Ok(text.into_bytes())
}

fn picture(size: u64) -> Vec<u8> {
    let pattern = (b'a'..=b'z').cycle();
    let bytes = PIXEL.iter().copied().chain(pattern);
    bytes.take(size as usize).collect()
}

#[cfg(test)]
mod tests {
    use squall_http::Body;

    use super::*;

    fn targets(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn body(page: &Page, target: &str) -> Vec<u8> {
        match page[target].body() {
            Body::Whole(bytes) => bytes.to_vec(),
            Body::Streamed { .. } => panic!("it is in memory"),
        }
    }

    #[test]
    fn a_document_refers_to_each_picture_once_and_has_its_size() {
        let asked = targets(&["/?size=500", "/a?size=60&delay=1s", "/b"]);
        let page = page(&asked, Size::new(7)).unwrap();
        let document = String::from_utf8(body(&page, "/?size=500")).unwrap();
        assert_eq!(document.len(), 500);
        let first = document.find("<img src=\"/a?size=60&amp;delay=1s\">");
        assert!(
            first.is_some() && first < document.find("<img src=\"/b\">"),
            "{document}"
        );
        assert!(document.ends_with("-->"));
        assert!(body(&page, "/a?size=60&delay=1s").starts_with(PIXEL));
        let lengths = ["/a?size=60&delay=1s", "/b"].map(|target| body(&page, target).len());
        assert_eq!(lengths, [60, 7]);
    }

    #[test]
    fn documents_too_short_for_their_pictures_and_bad_targets_are_refused() {
        let asked = targets(&["/?size=100", "/a", "/b"]);
        let error = page(&asked, Size::new(7)).unwrap_err().to_string();
        assert!(error.contains("has 100 bytes, and needs "), "{error}");
        let error = page(&targets(&["/?size=x"]), Size::new(7)).unwrap_err();
        assert!(error.to_string().contains("/?size=x"), "{error}");
    }
}
