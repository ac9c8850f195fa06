//! `[request]` and `[response]`: what the client sends and what the server answers, every time.
//!
//! What a message may hold is decided in `squall_base::plan::message`, for the engines as well; here a text
//! that breaks a rule gets its place, so that no recipe that is accepted fails in a worker.

use squall_base::Bytes;
use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES, Reservation,
    header_bytes, is_header_name, is_header_value, is_method, is_target, reservation,
};
use squall_base::plan::{RequestTemplate, ResponseTemplate};

use crate::error::Mistake;
use crate::problems::Reported;
use crate::section::{At, Field, Section};
use crate::shapes;

/// Bodies are held in memory, by both sides.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

/// Reads both tables; either may be absent.
pub(super) fn read(root: &Section<'_>) -> Result<(RequestTemplate, ResponseTemplate), Reported> {
    let request = match root.field("request") {
        Some(field) => field
            .section(&shapes::REQUEST, shapes::REQUEST.label)
            .and_then(|table| request(&table)),
        None => Ok(RequestTemplate {
            method: "GET".to_owned(),
            target: "/".to_owned(),
            headers: Vec::new(),
            body: Bytes::default(),
        }),
    };
    let table = root.maybe("response", |f| {
        f.section(&shapes::RESPONSE, shapes::RESPONSE.label)
    })?;
    let (status, length) = match &table {
        Some(table) => (
            table.maybe("status", |f| f.integer(&(200..=599))),
            table.maybe("body", |f| body(&f)),
        ),
        None => (Ok(None), Ok(None)),
    };
    let (request, status, length) = (request?, status?.unwrap_or(200) as u16, length?);
    if let (Some(length), Some(table)) = (&length, &table) {
        check_response_body(table, &request.method, status, length)?;
    }
    let body = length.map_or(Bytes::default(), |length| length.value);
    Ok((request, ResponseTemplate { status, body }))
}

fn request(table: &Section<'_>) -> Result<RequestTemplate, Reported> {
    let method = table.maybe("method", |f| method(&f));
    let target = table.maybe("target", |f| target(&f));
    let body = table.maybe("body", |f| body(&f));
    let headers = table.maybe("headers", |f| headers(&f));
    Ok(RequestTemplate {
        method: method?.unwrap_or_else(|| "GET".to_owned()),
        target: target?.unwrap_or_else(|| "/".to_owned()),
        headers: headers?.unwrap_or_default(),
        body: body?.map_or(Bytes::default(), |body| body.value),
    })
}

fn method(field: &Field<'_>) -> Result<String, Reported> {
    let text = field.text()?.value;
    if is_method(text) {
        return Ok(text.to_owned());
    }
    let mistake = Mistake::Malformed {
        text: text.to_owned(),
        rule: "a method",
    };
    let expected = format!(
        "a token of at most {MAX_METHOD_LEN_BYTES} characters, such as \"GET\" or \"POST\", but not CONNECT"
    );
    Err(field.refuse(mistake, &expected))
}

fn target(field: &Field<'_>) -> Result<String, Reported> {
    let text = field.text()?.value;
    if is_target(text) {
        return Ok(text.to_owned());
    }
    let mistake = Mistake::Malformed {
        text: text.to_owned(),
        rule: "a request target",
    };
    let expected = format!(
        "a path that begins with `/`, with its query: at most {MAX_TARGET_LEN_BYTES} visible ASCII \
         characters, without `#`"
    );
    Err(field.refuse(mistake, &expected))
}

fn body(field: &Field<'_>) -> Result<At<Bytes>, Reported> {
    field.quantity_in(&(Bytes::default()..=MAX_BODY), "at most 1GiB")
}

fn headers(field: &Field<'_>) -> Result<Vec<(String, String)>, Reported> {
    let fields = field.entries("a table of header names and values")?;
    let all: Vec<_> = fields.iter().map(header).collect();
    let lists: Vec<Vec<(String, String)>> = all.into_iter().collect::<Result<_, _>>()?;
    let headers: Vec<(String, String)> = lists.into_iter().flatten().collect();
    if headers.len() > MAX_HEADERS {
        let mistake = Mistake::TooManyHeaders {
            count: headers.len(),
        };
        return Err(field.refuse_key(mistake, &format!("at most {MAX_HEADERS}")));
    }
    let bytes = headers.iter().map(|(n, v)| header_bytes(n, v)).sum();
    if bytes > MAX_HEADERS_BYTES {
        let expected = format!("at most {MAX_HEADERS_BYTES}, with 32 more for each field");
        return Err(field.refuse_key(Mistake::HeadersTooLong { bytes }, &expected));
    }
    Ok(headers)
}

/// One header name with its value or values.
fn header(field: &Field<'_>) -> Result<Vec<(String, String)>, Reported> {
    let name = field.key.to_owned();
    if !is_header_name(&name) {
        let mistake = Mistake::Malformed {
            text: name,
            rule: "a header name",
        };
        return Err(field.refuse_key(mistake, "a token in lower case, such as `user-agent`"));
    }
    match reservation(&name) {
        Some(Reservation::Engine) => {
            return Err(field.refuse_key(Mistake::EngineHeader { name }, "any other header"));
        }
        Some(Reservation::Connection) => {
            let mistake = Mistake::ConnectionHeader { name };
            return Err(field.refuse_key(mistake, "a header that every protocol can carry"));
        }
        None => {}
    }
    let values = field.one_or_more(header_value)?;
    Ok(values
        .into_iter()
        .map(|value| (name.clone(), value.value))
        .collect())
}

fn header_value(field: &Field<'_>) -> Result<At<String>, Reported> {
    let At { value, span } = field.text()?;
    if is_header_value(value) {
        return Ok(At {
            value: value.to_owned(),
            span,
        });
    }
    let mistake = Mistake::Malformed {
        text: value.to_owned(),
        rule: "a header value",
    };
    Err(field.refuse(
        mistake,
        "visible ASCII characters, with blanks only between them",
    ))
}

/// Statuses and methods whose responses end with the header section (RFC 9110, sections 9.3.2, 15.3.5,
/// 15.3.6 and 15.4.5).
fn check_response_body(
    table: &Section<'_>,
    method: &str,
    status: u16,
    length: &At<Bytes>,
) -> Result<(), Reported> {
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
