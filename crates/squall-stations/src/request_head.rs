//! The head of a request, as the server and the proxy receive it.
//!
//! Data only: engines have checked it.

use squall_http::Field;

/// A request's head.
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<Field>,
}

impl RequestHead {
    pub(crate) fn new(method: String, target: String, fields: Vec<Field>) -> RequestHead {
        RequestHead {
            method,
            target,
            fields,
        }
    }
}
