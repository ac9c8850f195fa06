//! What loads ask for: the requests of the recipe, or those of a file that it names.
//!
//! Where a file says method and body, `[request]` may add header fields and nothing else, as on the command line. A URL
//! of a file stands for its path: every request of a recipe goes to the station behind the client.

use squall_base::plan::message::add_missing;
use squall_base::plan::{
    Mix, Page, PageError, PageNode, PageRequest, RequestBody, RequestTemplate, ScriptBody,
    ScriptRequest, ScriptStep, Urgency,
};
use squall_base::{Bytes, Duration};
use toml::de::DeValue;

use super::http::{self, Written};
use crate::error::Mistake;
use crate::files::{self, Named, RecordingChoice};
use crate::problems::Reported;
use crate::section::{Field, Section};
use crate::shapes;

/// A page takes no longer than this from one request to the next.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3_600);
/// Bodies of recordings are generated in memory.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

/// Requests, and how often each is asked for.
pub(super) struct Asked {
    pub(super) requests: Vec<RequestTemplate>,
    pub(super) mix: Mix,
}

/// What open and closed loads ask for: `targets` of the load, or the requests of the recipe.
pub(super) fn mixed(
    load: &Section<'_>,
    requests: &[Written<'_>],
    files: &Named<'_>,
) -> Result<Asked, Reported> {
    let (requests, weights) = match load.field("targets") {
        Some(field) => {
            let targets = files.targets(&field)?;
            let requests = described(&field, &targets, requests, files)?;
            let weights = vec![1; requests.len()];
            (requests, weights)
        }
        None => requests
            .iter()
            .map(|one| (one.template.clone(), one.weight))
            .unzip(),
    };
    match Mix::new(weights) {
        Some(mix) => Ok(Asked { requests, mix }),
        None => Err(load.missing("targets", "at least one request")),
    }
}

/// The only request of the recipe.
pub(super) fn only<'r>(requests: &'r [Written<'_>]) -> Result<&'r RequestTemplate, Reported> {
    match requests {
        [only] => Ok(&only.template),
        [_, second, ..] => Err(refuse_table(
            second,
            "one [request], of which this kind of load makes the others",
        )),
        [] => unreachable!("without any [request] there is the usual one"),
    }
}

fn refuse_table(written: &Written<'_>, expected: &str) -> Reported {
    let mistake = Mistake::Besides {
        key: "request".to_owned(),
        other: "request",
    };
    let table = written
        .table
        .as_ref()
        .expect("only a missing [request] has none, and is alone");
    table.refuse(mistake, expected)
}

/// The recording that `field` names.
pub(super) fn recording(
    field: &Field<'_>,
    choice: RecordingChoice,
    requests: &[Written<'_>],
    files: &Named<'_>,
) -> Result<(Vec<ScriptStep>, Vec<RequestTemplate>), Reported> {
    let script = files.script(field, choice)?;
    let requests = described(field, &script.requests, requests, files)?;
    let is_known = |step: &ScriptStep| (step.request as usize) < requests.len();
    if script.steps.is_empty() || !script.steps.iter().all(is_known) {
        let said = "no request at any time".to_owned();
        return Err(files::refuse(field, field.text()?.value, said));
    }
    Ok((script.steps, requests))
}

/// The page that `field` says or names.
pub(super) fn page(
    field: &Field<'_>,
    requests: &[Written<'_>],
    files: &Named<'_>,
) -> Result<(Page, Vec<RequestTemplate>), Reported> {
    let (written, places) = match field.value() {
        DeValue::String(_) => (files.page(field)?, Vec::new()),
        _ => {
            let fields = field.tables(
                "the path of a page's file, or at least one [[load.page]]",
                "write [[load.page]] with two brackets on each side",
            )?;
            let read: Vec<Result<PageRequest, Reported>> =
                fields.iter().map(page_request).collect();
            (read.into_iter().collect::<Result<Vec<_>, _>>()?, fields)
        }
    };
    let asked: Vec<ScriptRequest> = written
        .iter()
        .map(|one| ScriptRequest {
            method: "GET".to_owned(),
            url: one.url.clone(),
            headers: one.urgency.map(Urgency::field).into_iter().collect(),
            body: ScriptBody::Empty,
        })
        .collect();
    let requests = described(field, &asked, requests, files)?;
    let nodes: Vec<PageNode> = (0..)
        .zip(&written)
        .map(|(what, one)| one.node(what))
        .collect();
    let page = Page::new(nodes).map_err(|error| {
        let place = match error {
            PageError::Order { node, .. } => places.get(node as usize),
            PageError::Empty | PageError::TooMany => None,
        };
        place.unwrap_or(field).refuse(
            error.into(),
            "`after` with the place of an earlier request, counted from 0",
        )
    })?;
    Ok((page, requests))
}

fn page_request(field: &Field<'_>) -> Result<PageRequest, Reported> {
    let table = field.section(&shapes::PAGE, shapes::PAGE.label)?;
    let url = table.required("target", "a path, such as \"/app.js\"", |f| {
        http::target(&f)
    });
    let after = table.maybe("after", |f| f.integer(&(0..=u32::MAX)));
    let delay = table.maybe("delay", |f| {
        Ok(f.quantity_in(&(Duration::ZERO..=MAX_DELAY), "at most 24h")?
            .value)
    });
    let urgency = table.maybe("urgency", |f| f.integer(&(0..=7)));
    Ok(PageRequest {
        url: url?,
        after: after?,
        delay: delay?.unwrap_or(Duration::ZERO),
        urgency: urgency?.and_then(|urgency| Urgency::new(urgency as u8)),
    })
}

/// Requests that a file describes, with the header fields of `[request]` that they lack.
fn described(
    field: &Field<'_>,
    all: &[ScriptRequest],
    written: &[Written<'_>],
    files: &Named<'_>,
) -> Result<Vec<RequestTemplate>, Reported> {
    let extra = extra_headers(written)?;
    let path = match field.value() {
        DeValue::String(path) => path.as_ref(),
        _ => "",
    };
    let one = |request: &ScriptRequest| {
        let mut headers = request.headers.clone();
        for (name, value) in extra {
            add_missing(&mut headers, name, value);
        }
        let template = RequestTemplate {
            method: request.method.clone(),
            target: target_of(&request.url),
            headers,
            body: body(field, path, &request.body, files)?,
        };
        match http::fault(&template) {
            None => Ok(template),
            Some(fault) => {
                let said = format!("a request for {:?} cannot be sent: {fault}", request.url);
                Err(files::refuse(field, path, said))
            }
        }
    };
    all.iter().map(one).collect()
}

/// The header fields that `[request]` adds to requests which are described elsewhere.
fn extra_headers<'w>(written: &'w [Written<'_>]) -> Result<&'w [(String, String)], Reported> {
    const EXPECTED: &str = "`headers` and `browser_headers` alone: the load says what is asked for";
    if let [_, second, ..] = written {
        return Err(refuse_table(second, EXPECTED));
    }
    let Some(only) = written.first() else {
        return Ok(&[]);
    };
    for key in ["method", "target", "body"] {
        if let Some(field) = only.table.as_ref().and_then(|table| table.field(key)) {
            let mistake = Mistake::Besides {
                key: key.to_owned(),
                other: "load",
            };
            return Err(field.refuse_key(mistake, EXPECTED));
        }
    }
    Ok(&only.template.headers)
}

fn body(
    field: &Field<'_>,
    path: &str,
    body: &ScriptBody,
    files: &Named<'_>,
) -> Result<RequestBody, Reported> {
    Ok(match body {
        ScriptBody::Empty => RequestBody::default(),
        ScriptBody::Text(text) => RequestBody::Text(text.clone()),
        ScriptBody::Size(size) if *size <= MAX_BODY => RequestBody::Size(*size),
        ScriptBody::Size(size) => {
            let said = format!("a body of {size}: 1GiB is the most");
            return Err(files::refuse(field, path, said));
        }
        ScriptBody::File(file) => {
            // Begins where the file stands that names it.
            let beside = match (path.rsplit_once('/'), file.is_absolute()) {
                (Some((folder, _)), false) => format!("{folder}/{}", file.display()),
                _ => file.display().to_string(),
            };
            RequestBody::File(files.body(field, &beside)?)
        }
    })
}

/// The path and query of a URL, or of what is one already.
fn target_of(url: &str) -> String {
    let whole = url.split('#').next().unwrap_or(url);
    let Some((_, rest)) = whole.split_once("://").filter(|_| !whole.starts_with('/')) else {
        return whole.to_owned();
    };
    match rest.find(['/', '?']) {
        None => "/".to_owned(),
        Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
        Some(at) => rest[at..].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_stand_for_their_paths() {
        for (url, target) in [
            ("/a?b=c#d", "/a?b=c"),
            ("https://server:8443/a/b?c=http://x/", "/a/b?c=http://x/"),
            ("http://server", "/"),
            ("http://server?a=1", "/?a=1"),
            ("/redirect?to=https://x/y", "/redirect?to=https://x/y"),
        ] {
            assert_eq!(target_of(url), target, "{url}");
        }
    }
}
