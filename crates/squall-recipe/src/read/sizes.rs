//! `body` and `response_body` of a profile: sizes that replace those of `[request]` and `[response]`.
//!
//! Of a form it is the size of its only generated upload. A text or a file has no size to replace: a profile that would is
//! refused, as is one of several requests. What the recipe itself says of bodies is read in `body` and `http`.

use squall_base::Bytes;
use squall_base::plan::RequestTemplate;
use toml::de::DeValue;

use super::{body, http};
use crate::error::Mistake;
use crate::problems::Reported;
use crate::section::Section;

/// What a profile replaces.
#[derive(Clone, Copy, Default)]
pub(super) struct Sizes {
    pub(super) request: Option<Bytes>,
    pub(super) response: Option<Bytes>,
}

/// What the recipe says, as far as it could be read: `None` is reported already.
#[derive(Clone, Copy)]
pub(super) struct Messages<'a> {
    pub(super) requests: Option<&'a [RequestTemplate]>,
    pub(super) status: Option<u16>,
}

/// Reads the sizes of a profile.
pub(super) fn read(
    root: &Section<'_>,
    profile: &Section<'_>,
    said: Messages<'_>,
) -> Result<Sizes, Reported> {
    let request = profile.maybe("body", |field| {
        let size = body::size(&field)?.value;
        if said.requests.is_some_and(|all| !have_one_size(root, all)) {
            let expected =
                "one [request] whose `body` is a size, or a form with one upload that has a `size`";
            return Err(field.refuse_key(Mistake::NoSize, expected));
        }
        Ok(size)
    });
    let response = profile.maybe("response_body", |field| {
        let size = body::size(&field)?;
        for request in said.requests.unwrap_or_default() {
            if let Some(status) = said.status {
                http::check_response_body(profile, &request.method, status, &size)?;
            }
        }
        Ok(size.value)
    });
    Ok(Sizes {
        request: request?,
        response: response?,
    })
}

/// Whether the recipe has one `[request]`, which says the size of its body.
fn have_one_size(root: &Section<'_>, requests: &[RequestTemplate]) -> bool {
    let says_body = root.field("request").is_some_and(
        |field| matches!(field.value(), DeValue::Table(table) if table.contains_key("body")),
    );
    let has_size = |request: &RequestTemplate| request.body.clone().size_mut().is_some();
    says_body && requests.iter().all(has_size)
}
