//! `[request]` and `[response]`: what the client sends and what the server answers.
//!
//! `squall_base::plan::message` decides what a message may contain, for the engines too. This module checks recipes
//! against it and reports the place of each violation, so that an accepted recipe does not fail in a worker. `load` reads
//! when requests are sent.

use squall_base::Bytes;
use squall_base::plan::message::{
    BROWSER_HEADERS, MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES,
    Reservation, add_missing, fields_sent, header_bytes, is_header_name, is_header_value,
    is_method, is_target, reservation,
};
use squall_base::plan::{RequestBody, RequestTemplate, ResponseTemplate};
use squall_base::text::excerpt;
use toml::de::DeValue;

use super::body;
use crate::error::Mistake;
use crate::files::RecipeFiles;
use crate::limits::MAX_WEIGHT;
use crate::problems::{ReportedProblem, collect_all};
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;

const SEVERAL: &str = "a table [request], or several [[request]] with weights";

/// `[request]`, or one `[[request]]`.
pub(super) struct WeightedRequest<'d> {
    /// The request, with the defaults filled in.
    pub(super) template: RequestTemplate,
    /// How often it is sent, relative to the others.
    pub(super) weight: u32,
    /// Its table; `None` if the recipe has no `[request]`.
    pub(super) table: Option<Section<'d>>,
}

/// Reads all requests. If the recipe has none, the only request is `GET /`.
pub(super) fn requests<'d>(
    root: &Section<'d>,
    files: &RecipeFiles<'_>,
) -> Result<Vec<WeightedRequest<'d>>, ReportedProblem> {
    let Some(field) = root.field("request") else {
        return Ok(vec![WeightedRequest {
            template: RequestTemplate {
                method: "GET".to_owned(),
                target: "/".to_owned(),
                headers: Vec::new(),
                body: RequestBody::default(),
            },
            weight: 1,
            table: None,
        }]);
    };
    let (fields, shape) = match field.value() {
        DeValue::Array(_) => (
            field.tables(SEVERAL, "write [[request]] with two brackets on each side")?,
            &shapes::REQUESTS,
        ),
        _ => (vec![field], &shapes::REQUEST),
    };
    let read = |field: &Field<'d>| request(field.section(shape, shape.label)?, files);
    let read = collect_all(fields.iter().map(read))?;
    if read.iter().all(|one| one.weight == 0) {
        let mistake = Mistake::OutOfRange {
            key: "weight".to_owned(),
            value: "0 everywhere".to_owned(),
        };
        return Err(fields[0].refuse(mistake, "a weight above 0 somewhere"));
    }
    Ok(read)
}

/// Reads `[response]`, which must be possible for all of `requests`.
pub(super) fn response(
    root: &Section<'_>,
    requests: &[RequestTemplate],
) -> Result<ResponseTemplate, ReportedProblem> {
    let table = root.optional("response", |f| {
        f.section(&shapes::RESPONSE, shapes::RESPONSE.label)
    })?;
    let (status, length) = match &table {
        Some(table) => (
            table.optional("status", |f| f.integer(&(200..=599))),
            table.optional("body", |f| body::size(&f)),
        ),
        None => (Ok(None), Ok(None)),
    };
    let (status, length) = (status?.unwrap_or(200) as u16, length?);
    if let (Some(length), Some(table)) = (&length, &table) {
        for request in requests {
            check_response_body(table, &request.method, status, length)?;
        }
    }
    let body = length.map_or(Bytes::default(), |length| length.value);
    Ok(ResponseTemplate { status, body })
}

fn request<'d>(
    table: Section<'d>,
    files: &RecipeFiles<'_>,
) -> Result<WeightedRequest<'d>, ReportedProblem> {
    let method = table.optional("method", |f| method(&f));
    let target = table.optional("target", |f| target(&f));
    let body = table.optional("body", |f| body::read(&f, files));
    let headers = table.optional("headers", |f| headers(&f));
    let browser = table.optional("browser_headers", |f| f.boolean());
    let weight = table.optional("weight", |f| f.integer(&(0..=MAX_WEIGHT)));
    let (method, body) = (method?, body?.unwrap_or_default());
    let mut headers = headers?.unwrap_or_default();
    if browser? == Some(true) {
        for (name, value) in BROWSER_HEADERS {
            add_missing(&mut headers, name, value);
        }
    }
    let usual = if body.is_empty() { "GET" } else { "POST" };
    Ok(WeightedRequest {
        template: RequestTemplate {
            method: method.unwrap_or_else(|| usual.to_owned()),
            target: target?.unwrap_or_else(|| "/".to_owned()),
            headers,
            body,
        },
        weight: weight?.unwrap_or(1),
        table: Some(table),
    })
}

/// Why some protocol cannot send a request; `None` if all of them can.
pub(super) fn fault(request: &RequestTemplate) -> Option<String> {
    if !is_method(&request.method) {
        return Some(format!("{:?} is not a method", excerpt(&request.method)));
    }
    let target_bytes = request.target.len();
    if target_bytes > MAX_TARGET_LEN_BYTES {
        return Some(format!(
            "its path and query have {target_bytes} bytes, at most {MAX_TARGET_LEN_BYTES} are allowed"
        ));
    }
    if !is_target(&request.target) {
        let target = excerpt(&request.target);
        return Some(format!("{target:?} is not a request target"));
    }
    for (name, value) in &request.headers {
        let is_reserved = reservation(name, value).is_some();
        if !is_header_name(name) || !is_header_value(value) || is_reserved {
            return Some(format!("header `{name}` cannot be sent"));
        }
    }
    let bytes: usize = (request.headers.iter())
        .map(|(name, value)| header_bytes(name, value))
        .sum();
    let count = fields_sent(&request.headers);
    let is_large = count > MAX_HEADERS || bytes > MAX_HEADERS_BYTES;
    is_large.then(|| format!("{count} header fields of {bytes} bytes"))
}

fn method(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let expected = format!(
        "a token of at most {MAX_METHOD_LEN_BYTES} characters, such as \"GET\" or \"POST\", but not CONNECT"
    );
    field.text_that("a method", &expected, is_method)
}

pub(super) fn target(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let expected = format!(
        "a path that begins with `/`, with its query: at most {MAX_TARGET_LEN_BYTES} visible ASCII \
         characters, without `#`"
    );
    field.text_that("a request target", &expected, is_target)
}

fn headers(field: &Field<'_>) -> Result<Vec<(String, String)>, ReportedProblem> {
    let fields = field.entries("a table of header names and values")?;
    let lists = collect_all(fields.iter().map(header))?;
    let headers: Vec<(String, String)> = lists.into_iter().flatten().collect();
    let count = fields_sent(&headers);
    if count > MAX_HEADERS {
        let mistake = Mistake::TooManyHeaders(count);
        return Err(field.refuse_key(mistake, &format!("at most {MAX_HEADERS}")));
    }
    let bytes = headers.iter().map(|(n, v)| header_bytes(n, v)).sum();
    if bytes > MAX_HEADERS_BYTES {
        let expected = format!("at most {MAX_HEADERS_BYTES}, with 32 more for each field");
        return Err(field.refuse_key(Mistake::HeadersTooLong(bytes), &expected));
    }
    Ok(headers)
}

/// One header name with its value or values.
fn header(field: &Field<'_>) -> Result<Vec<(String, String)>, ReportedProblem> {
    let name = field.key.to_owned();
    if !is_header_name(&name) {
        let mistake = Mistake::Malformed {
            text: name,
            rule: "a header name",
        };
        return Err(field.refuse_key(mistake, "a token in lower case, such as `user-agent`"));
    }
    let values = field.one_or_more(header_value)?;
    let reserved = values.iter().find_map(|it| reservation(&name, &it.value));
    if let Some(reserved) = reserved {
        return Err(reserved_header(field, name, reserved));
    }
    Ok(values
        .into_iter()
        .map(|value| (name.clone(), value.value))
        .collect())
}

/// Reports a header that a request must not contain.
fn reserved_header(field: &Field<'_>, name: String, reservation: Reservation) -> ReportedProblem {
    let (mistake, expected) = match reservation {
        Reservation::Engine => (Mistake::EngineHeader(name), "any other header"),
        Reservation::Trailers => (Mistake::TrailerHeader, "any other header"),
        Reservation::Connection => {
            let mistake = Mistake::ConnectionHeader(name);
            (mistake, "a header that every protocol can carry")
        }
        Reservation::TransferCodings => (Mistake::TransferCodings, "\"trailers\""),
    };
    field.refuse_key(mistake, expected)
}

fn header_value(field: &Field<'_>) -> Result<SpannedValue<String>, ReportedProblem> {
    let expected = "visible ASCII characters, with blanks only between them";
    let value = field.text_that("a header value", expected, is_header_value)?;
    Ok(field.with_span(value))
}

/// Refuses a body for statuses and methods whose responses end with the header section (RFC 9110, sections 9.3.2, 15.3.5,
/// 15.3.6 and 15.4.5).
pub(super) fn check_response_body(
    table: &Section<'_>,
    method: &str,
    status: u16,
    length: &SpannedValue<Bytes>,
) -> Result<(), ReportedProblem> {
    let is_bodiless = method == "HEAD" || matches!(status, 204 | 205 | 304);
    if !is_bodiless || length.value == Bytes::default() {
        return Ok(());
    }
    let mistake = Mistake::NoResponseBody {
        method: method.to_owned(),
        status,
    };
    Err(table
        .problems()
        .report(length.span.clone(), mistake, "\"0\", or no `body`", None))
}
