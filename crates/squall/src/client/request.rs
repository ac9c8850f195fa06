//! The request that the flags describe: its method, header fields and body.
//!
//! Bodies are in `payload` and `form`. Nothing is sent here.

use std::sync::Arc;

use anyhow::{Context, Result};
use squall_base::plan::message::{BROWSER_HEADERS, add_missing};
use squall_http::{Body, Request};

use super::flags::RequestFlags;
use super::form;
use super::payload::{Payload, PreparedRequest};
use super::target::HttpUrl;
use crate::outcome::BadInput;

impl RequestFlags {
    /// The request for this URL.
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
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
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
    Payload { body, upload }: Payload,
) -> Result<PreparedRequest> {
    let (authority, target) = (&url.authority, &url.target);
    let mut headers = headers.to_vec();
    if let Some(alternative) = url.alt_used() {
        add_missing(&mut headers, "alt-used", &alternative);
    }
    Request::new(method, url.scheme, authority, target, &headers, body)
        .map_err(|error| BadInput::new(error).into())
        .map(|request| PreparedRequest {
            request: Arc::new(request),
            upload,
        })
}

/// Parses `name: value`. The name becomes lower case, as HTTP/2 requires; names are case-insensitive.
fn header(text: &str) -> Result<(String, String), BadInput> {
    text.split_once(':')
        .filter(|(name, _)| !name.trim().is_empty())
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .ok_or_else(|| {
            BadInput::new(format!(
                "{text:?} is no header field: write \"name: value\""
            ))
        })
}
