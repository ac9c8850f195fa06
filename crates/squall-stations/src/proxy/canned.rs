//! The answers that a proxy gives by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use squall_http::{Interim, Response};

/// Those that were made.
pub(super) type Canned = BTreeMap<u16, Arc<Response>>;

/// The answer with this status, made when it is first needed.
pub(super) fn response(canned: &mut Canned, status: u16) -> Arc<Response> {
    let made = canned.entry(status).or_insert_with(|| {
        let fields = [(
            "content-type".to_owned(),
            "text/plain; charset=utf-8".to_owned(),
        )];
        let response = Response::new(status, &fields, words(status).as_bytes().to_vec());
        Arc::new(response.expect("a plain answer of words with a final status is well-formed"))
    });
    Arc::clone(made)
}

/// 100 (Continue), for clients of HTTP/2 and HTTP/3: over HTTP/1.1 the engine says it.
pub(super) fn go_on() -> Interim {
    Interim::relayed(100, Vec::new()).expect("100 is the status of an interim response")
}

/// What it says to people.
fn words(status: u16) -> &'static str {
    match status {
        400 => "400: this request cannot be passed on\n",
        408 => "408: the request did not go on\n",
        501 => "501: this method is not passed on\n",
        504 => "504: the upstream did not answer in time\n",
        _ => "502: the upstream cannot be reached, or broke off\n",
    }
}
