//! The requests that a load sends: those of the recipe, or those of a file that it names.
//!
//! If a file has methods and bodies, `[request]` may only add header fields, as on the command line. Only the path and
//! query of a file's URLs are used: every request of a recipe goes to the station after the client, whatever its host.

use squall_base::plan::message::add_missing;
use squall_base::plan::{
    Mix, Page, PageError, PageNode, PageRequest, RequestBody, RequestTemplate, ScriptBody,
    ScriptRequest, ScriptStep, Urgency,
};
use squall_base::text::excerpt;
use squall_base::{Bytes, Duration};
use toml::de::DeValue;

use super::http::{self, WeightedRequest};
use crate::error::Mistake;
use crate::files::{self, RecipeFiles, RecordingChoice};
use crate::problems::{ReportedProblem, collect_all};
use crate::section::{Field, Section};
use crate::shapes;

/// The longest delay between two requests of a page.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3_600);
/// Bodies of recordings are generated in memory.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

/// Requests, and how often each is sent.
pub(super) struct RequestMix {
    pub(super) requests: Vec<RequestTemplate>,
    pub(super) mix: Mix,
}

/// The requests of open and closed loads: `targets` of the load, or the requests of the recipe.
pub(super) fn request_mix(
    load: &Section<'_>,
    requests: &[WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> Result<RequestMix, ReportedProblem> {
    let (requests, weights) = match load.field("targets") {
        Some(field) => {
            let targets = files.targets(&field)?;
            let requests = templates(&field, &targets, requests, files)?;
            let weights = vec![1; requests.len()];
            (requests, weights)
        }
        None => requests
            .iter()
            .map(|entry| (entry.template.clone(), entry.weight))
            .unzip(),
    };
    match Mix::new(weights) {
        Some(mix) => Ok(RequestMix { requests, mix }),
        None => Err(load.missing("targets", "at least one request")),
    }
}

/// The only request of the recipe; several are refused.
pub(super) fn only_request<'r>(
    requests: &'r [WeightedRequest<'_>],
) -> Result<&'r RequestTemplate, ReportedProblem> {
    match requests {
        [only] => Ok(&only.template),
        [_, second, ..] => Err(refuse_table(
            second,
            "one [request], from which this kind of load derives the others",
        )),
        [] => unreachable!("without any [request] there is the usual one"),
    }
}

fn refuse_table(written: &WeightedRequest<'_>, expected: &str) -> ReportedProblem {
    let mistake = Mistake::ExclusiveKeys {
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
    requests: &[WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> Result<(Vec<ScriptStep>, Vec<RequestTemplate>), ReportedProblem> {
    let script = files.script(field, choice)?;
    let requests = templates(field, &script.requests, requests, files)?;
    let is_known = |step: &ScriptStep| (step.request as usize) < requests.len();
    if script.steps.is_empty() || !script.steps.iter().all(is_known) {
        let reason = "no request at any time".to_owned();
        return Err(files::refuse(field, field.text()?.value, reason));
    }
    Ok((script.steps, requests))
}

/// The page that `field` describes, or whose file it names.
pub(super) fn page(
    field: &Field<'_>,
    requests: &[WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> Result<(Page, Vec<RequestTemplate>), ReportedProblem> {
    let (page_requests, places) = match field.value() {
        DeValue::String(_) => (files.page(field)?, Vec::new()),
        _ => {
            let fields = field.tables(
                "the path of a page's file, or at least one [[load.page]]",
                "write [[load.page]] with two brackets on each side",
            )?;
            (collect_all(fields.iter().map(page_request))?, fields)
        }
    };
    let script_requests: Vec<ScriptRequest> = page_requests
        .iter()
        .map(|one| ScriptRequest {
            method: "GET".to_owned(),
            url: one.url.clone(),
            headers: one.urgency.map(Urgency::field).into_iter().collect(),
            body: ScriptBody::Empty,
        })
        .collect();
    let requests = templates(field, &script_requests, requests, files)?;
    let nodes: Vec<PageNode> = (0..)
        .zip(&page_requests)
        .map(|(what, request)| request.node(what))
        .collect();
    let page = Page::new(nodes).map_err(|error| {
        let place = match error {
            PageError::Order { node, .. } => places.get(node as usize),
            PageError::Empty | PageError::TooMany => None,
        };
        place.unwrap_or(field).refuse(
            error.into(),
            "`after` with the index of an earlier request, counted from 0",
        )
    })?;
    Ok((page, requests))
}

fn page_request(field: &Field<'_>) -> Result<PageRequest, ReportedProblem> {
    let table = field.section(&shapes::PAGE, shapes::PAGE.label)?;
    let url = table.required("target", "a path, such as \"/app.js\"", |f| {
        http::target(&f)
    });
    let after = table.optional("after", |f| f.integer(&(0..=u32::MAX)));
    let delay = table.optional("delay", |f| {
        f.within(&(Duration::ZERO..=MAX_DELAY), "at most 24h")
    });
    let urgency = table.optional("urgency", |f| f.integer(&(0..=7)));
    Ok(PageRequest {
        url: url?,
        after: after?,
        delay: delay?.unwrap_or(Duration::ZERO),
        urgency: urgency?.and_then(|urgency| Urgency::new(urgency as u8)),
    })
}

/// The requests that a file describes, with the header fields of `[request]` that they lack.
fn templates(
    field: &Field<'_>,
    all: &[ScriptRequest],
    written: &[WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> Result<Vec<RequestTemplate>, ReportedProblem> {
    let extra = extra_headers(written)?;
    let path = match field.value() {
        DeValue::String(path) => path.as_ref(),
        _ => "",
    };
    let to_template = |request: &ScriptRequest| {
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
                let url = excerpt(&request.url);
                let reason = format!("a request for {url:?} cannot be sent: {fault}");
                Err(files::refuse(field, path, reason))
            }
        }
    };
    all.iter().map(to_template).collect()
}

/// The header fields that `[request]` adds to requests described elsewhere.
fn extra_headers<'w>(
    written: &'w [WeightedRequest<'_>],
) -> Result<&'w [(String, String)], ReportedProblem> {
    const EXPECTED: &str = "only `headers` and `browser_headers`: the load has the targets";
    if let [_, second, ..] = written {
        return Err(refuse_table(second, EXPECTED));
    }
    let Some(only) = written.first() else {
        return Ok(&[]);
    };
    for key in ["method", "target", "body"] {
        if let Some(field) = only.table.as_ref().and_then(|table| table.field(key)) {
            let mistake = Mistake::ExclusiveKeys {
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
    files: &RecipeFiles<'_>,
) -> Result<RequestBody, ReportedProblem> {
    Ok(match body {
        ScriptBody::Empty => RequestBody::default(),
        ScriptBody::Text(text) => RequestBody::Text(text.clone()),
        ScriptBody::Binary(bytes) => RequestBody::Binary(bytes.clone()),
        ScriptBody::Size(size) if *size <= MAX_BODY => RequestBody::Size(*size),
        ScriptBody::Size(size) => {
            let reason = format!("a body of {size}, above the limit of 1GiB");
            return Err(files::refuse(field, path, reason));
        }
        ScriptBody::File(file) => {
            // Relative to the folder of the file that names it.
            let beside = match (path.rsplit_once('/'), file.is_absolute()) {
                (Some((folder, _)), false) => format!("{folder}/{}", file.display()),
                _ => file.display().to_string(),
            };
            RequestBody::File(files.body(field, &beside)?)
        }
    })
}

/// The path and query of `url`, which may be a URL or only these.
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
    fn urls_are_reduced_to_path_and_query() {
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
