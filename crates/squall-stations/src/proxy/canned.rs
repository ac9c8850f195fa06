//! The responses that a proxy generates itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use squall_http::Response;

/// Responses built so far, by status.
pub(super) type Canned = BTreeMap<u16, Arc<Response>>;

/// The response with this status, built when it is first needed.
pub(super) fn response(canned: &mut Canned, status: u16) -> Arc<Response> {
    let response = canned.entry(status).or_insert_with(|| {
        let fields = [(
            "content-type".to_owned(),
            "text/plain; charset=utf-8".to_owned(),
        )];
        let built = Response::new(status, &fields, text_of(status).as_bytes().to_vec());
        Arc::new(built.expect("a plain answer of words with a final status is well-formed"))
    });
    Arc::clone(response)
}

/// The body, for people to read.
fn text_of(status: u16) -> &'static str {
    match status {
        200 => "200: this request ends at the proxy\n",
        400 => "400: this request cannot be forwarded\n",
        408 => "408: the rest of the request did not arrive, or arrived too slowly\n",
        501 => "501: this method is not forwarded\n",
        503 => "503: too many requests are in progress\n",
        504 => "504: the upstream did not answer in time\n",
        _ => "502: the upstream cannot be reached, or failed\n",
    }
}
