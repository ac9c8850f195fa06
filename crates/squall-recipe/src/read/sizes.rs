//! `body` and `response_body` of a profile: sizes that replace those of `[request]` and `[response]`.
//!
//! For a form, `body` is the size of its only generated upload. A text or a file has no size to replace, so a profile that
//! tries to is refused, and so is one that would replace the size of several requests. The recipe's own bodies are read in
//! `body` and `http`.

use squall_base::Bytes;
use squall_base::plan::RequestTemplate;
use toml::de::DeValue;

use super::{body, http};
use crate::error::Mistake;
use crate::problems::ReportedProblem;
use crate::section::Section;

/// The sizes that a profile replaces.
#[derive(Clone, Copy, Default)]
pub(super) struct BodySizes {
    pub(super) request: Option<Bytes>,
    pub(super) response: Option<Bytes>,
}

/// The recipe's own messages. `None` where reading failed, which has already been reported.
#[derive(Clone, Copy)]
pub(super) struct Messages<'a> {
    pub(super) requests: Option<&'a [RequestTemplate]>,
    pub(super) status: Option<u16>,
}

/// Reads the sizes of a profile.
pub(super) fn read(
    root: &Section<'_>,
    profile: &Section<'_>,
    messages: Messages<'_>,
) -> Result<BodySizes, ReportedProblem> {
    let request = profile.optional("body", |field| {
        let size = body::size(&field)?.value;
        if messages
            .requests
            .is_some_and(|all| !have_one_size(root, all))
        {
            let expected =
                "one [request] whose `body` is a size, or a form with one upload that has a `size`";
            return Err(field.refuse_key(Mistake::NoSize, expected));
        }
        Ok(size)
    });
    let response = profile.optional("response_body", |field| {
        let size = body::size(&field)?;
        for request in messages.requests.unwrap_or_default() {
            if let Some(status) = messages.status {
                http::check_response_body(profile, &request.method, status, &size)?;
            }
        }
        Ok(size.value)
    });
    Ok(BodySizes {
        request: request?,
        response: response?,
    })
}

/// Whether the recipe has one `[request]` whose body has a size.
fn have_one_size(root: &Section<'_>, requests: &[RequestTemplate]) -> bool {
    let has_body_key = root.field("request").is_some_and(
        |field| matches!(field.value(), DeValue::Table(table) if table.contains_key("body")),
    );
    let has_size = |request: &RequestTemplate| request.body.clone().size_mut().is_some();
    has_body_key && requests.iter().all(has_size)
}
