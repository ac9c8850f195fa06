//! The requests of a trial's client: the plan's requests as messages, with bodies from the run's copies of files.
//!
//! Nothing is sent here; `embedded` gives the messages to the client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use squall_base::plan::message::add_missing;
use squall_base::plan::{FormValue, RequestBody, RequestTemplate};
use squall_http::{Body, Request, Scheme};
use squall_stations::client::{TargetedRequest, Upload};

use crate::client::{FieldValue, Payload, encode_fields};

/// Requests for the only target of a path's client, and the sources of bodies that the requests do not contain
/// themselves.
pub(super) struct Messages {
    pub(super) requests: Vec<TargetedRequest>,
    pub(super) uploads: Vec<Option<Arc<Upload>>>,
}

/// Builds the messages of these requests.
pub(super) fn messages(
    templates: &[RequestTemplate],
    scheme: Scheme,
    authority: &str,
    files: &Path,
) -> Result<Messages> {
    let mut messages = Messages {
        requests: Vec::new(),
        uploads: Vec::new(),
    };
    let mut read: BTreeMap<&str, Payload> = BTreeMap::new();
    for template in templates {
        let (payload, content_type) = match &template.body {
            // Several requests of a recording may send the same body.
            RequestBody::File(kept) => {
                let payload = match read.get(kept.kept_as.as_str()) {
                    Some(known) => known.clone(),
                    None => planned(&template.body, files)?.0,
                };
                read.insert(&kept.kept_as, payload.clone());
                (payload, None)
            }
            body => planned(body, files)?,
        };
        let mut headers = template.headers.clone();
        if let Some(content_type) = content_type {
            add_missing(&mut headers, "content-type", &content_type);
        }
        let (method, target) = (&template.method, &template.target);
        let request = Request::new(method, scheme, authority, target, &headers, payload.body)
            .with_context(|| format!("cannot make the request {method} {target}"))?;
        messages.requests.push(TargetedRequest {
            request: Arc::new(request),
            target: 0,
        });
        messages.uploads.push(payload.upload);
    }
    Ok(messages)
}

/// The body that a plan describes, and its content type if the body determines it. Files of the plan are copies in
/// `folder`.
fn planned(body: &RequestBody, folder: &Path) -> Result<(Payload, Option<String>)> {
    Ok(match body {
        RequestBody::Size(size) => (Payload::generated(*size)?, None),
        RequestBody::Text(text) => (Body::from(text.clone().into_bytes()).into(), None),
        RequestBody::Binary(bytes) => (Body::from(bytes.clone()).into(), None),
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
                    FormValue::Text(text) => FieldValue::Text(text),
                    FormValue::File { name, .. } => FieldValue::File {
                        path,
                        name: name.clone(),
                    },
                    FormValue::Generated { name, size } => FieldValue::Generated {
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
