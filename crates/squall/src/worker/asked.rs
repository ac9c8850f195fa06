//! The requests of a trial's client: the plan's requests as messages, with bodies from the run's copies of files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use squall_base::plan::message::add_missing;
use squall_base::plan::{RequestBody, RequestTemplate};
use squall_http::{Request, Scheme};
use squall_stations::client::{TargetedRequest, Upload};

use crate::client::Payload;

/// Requests for the only target of a path's client, and the sources of bodies that the requests do not contain
/// themselves.
pub(super) struct Messages {
    pub(super) requests: Vec<TargetedRequest>,
    pub(super) uploads: Vec<Option<Arc<Upload>>>,
}

/// Builds the messages of these requests.
pub(super) fn messages(
    templates: &[RequestTemplate],
    (scheme, authority): (Scheme, &str),
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
                    None => Payload::planned(&template.body, files)?.0,
                };
                read.insert(&kept.kept_as, payload.clone());
                (payload, None)
            }
            body => Payload::planned(body, files)?,
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
