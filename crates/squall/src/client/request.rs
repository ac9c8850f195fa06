//! The request that the flags describe: its method, header fields and body.
//!
//! Bodies are in `payload` and `form`. Nothing is sent here.

use std::sync::Arc;

use anyhow::{Context, Result};
use squall_base::plan::message::{BROWSER_HEADERS, add_missing};
use squall_http::{Body, Request};
use squall_record::read_all;

use super::flags::RequestFlags;
use super::form;
use super::payload::{Payload, PreparedRequest};
use super::target::HttpUrl;
use crate::limits;
use crate::outcome::BadInput;

impl RequestFlags {
    pub(crate) fn request(&self, url: &HttpUrl) -> Result<PreparedRequest> {
        let (payload, content_type) = self.payload()?;
        let mut headers = self.headers()?;
        if let Some(content_type) = content_type {
            add_missing(&mut headers, "content-type", &content_type);
        }
        request(self.method(), url, &headers, payload)
    }

    /// A request read from a file, with the additions of these flags.
    pub(crate) fn request_of(
        &self,
        method: &str,
        url: &HttpUrl,
        own: &[(String, String)],
        payload: Payload,
    ) -> Result<PreparedRequest> {
        let mut headers = own.to_vec();
        for (name, value) in self.headers()? {
            add_missing(&mut headers, &name, &value);
        }
        request(method, url, &headers, payload)
    }

    fn headers(&self) -> Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        for text in &self.headers {
            headers.push(header(text)?);
        }
        if self.browser_headers {
            for (name, value) in BROWSER_HEADERS {
                add_missing(&mut headers, name, value);
            }
        }
        let agent = concat!("squall/", env!("CARGO_PKG_VERSION"));
        add_missing(&mut headers, "user-agent", agent);
        Ok(headers)
    }

    /// The body, and its content type if the body determines it.
    fn payload(&self) -> Result<(Payload, Option<String>)> {
        if !self.form.is_empty() {
            let (payload, content_type) = form::encode(&self.form)?;
            return Ok((payload, Some(content_type)));
        }
        if let Some(text) = &self.data_text {
            let body = Body::from(text.clone().into_bytes());
            return Ok((body.into(), None));
        }
        if let Some(size) = self.data_size {
            return Ok((Payload::generated(size)?, None));
        }
        let payload = match self.data.as_deref() {
            None => Body::EMPTY.into(),
            Some("-") => {
                let bytes = read_all(std::io::stdin(), limits::BODY)
                    .context("cannot read the body from stdin")?;
                Body::from(bytes).into()
            }
            Some(path) => Payload::file(path.as_ref())?,
        };
        Ok((payload, None))
    }
}

fn request(
    method: &str,
    url: &HttpUrl,
    headers: &[(String, String)],
    payload: Payload,
) -> Result<PreparedRequest> {
    let Payload { body, upload } = payload.apart_if_expected(headers);
    let mut headers = headers.to_vec();
    let host = take_host(&mut headers);
    let (authority, target) = (host.as_ref().unwrap_or(&url.authority), &url.target);
    if let Some(alternative) = url.alt_used() {
        add_missing(&mut headers, "alt-used", &alternative);
    }
    Request::new(method, url.scheme, authority, target, &headers, body)
        .map_err(|error| {
            let said = BadInput::new(&error);
            // The cause stays accessible: the replay of a script leaves out requests that have it.
            anyhow::Error::new(error).context(said)
        })
        .map(|request| PreparedRequest {
            request: Arc::new(request),
            upload,
        })
}

/// Takes the first `host` out of `headers`: it is sent as `host` or `:authority`, in place of the URL's. A second one is
/// refused, like every field that the protocol sets.
fn take_host(headers: &mut Vec<(String, String)>) -> Option<String> {
    let position = headers.iter().position(|(name, _)| name == "host")?;
    Some(headers.remove(position).1)
}

/// Parses `name: value`. The name becomes lower case, as HTTP/2 requires; names are case-insensitive.
fn header(text: &str) -> Result<(String, String), BadInput> {
    text.split_once(':')
        .filter(|(name, _)| !name.trim().is_empty())
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .ok_or_else(|| {
            BadInput::new(format!(
                "{text:?} is not a header field: write \"name: value\""
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)]) -> Result<Vec<String>> {
        let url = HttpUrl::parse("http://127.0.0.1:8080/a")?;
        let headers: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let prepared = request("GET", &url, &headers, Body::EMPTY.into())?;
        let fields = prepared.request.sent_fields();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(fields
            .iter()
            .map(|field| format!("{}={}", text(&field.name), text(&field.value)))
            .collect())
    }

    #[test]
    fn host_field_replaces_the_authority_of_the_url() {
        let sent = head(&[("accept", "*/*")]).unwrap();
        assert_eq!(
            sent[2..],
            [":authority=127.0.0.1:8080", ":path=/a", "accept=*/*"]
        );
        let sent = head(&[("host", "vhost.example"), ("accept", "*/*")]).unwrap();
        assert_eq!(
            sent[2..],
            [":authority=vhost.example", ":path=/a", "accept=*/*"]
        );
        for bad in [vec![("host", "a/b")], vec![("host", "a"), ("host", "b")]] {
            assert!(head(&bad).is_err(), "{bad:?}");
        }
    }
}
