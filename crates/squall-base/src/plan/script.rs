//! A script: requests, and when a client sends them.
//!
//! It is the result of importing recorded traffic (a HAR file, a timing script of h2load) and the input of a client's
//! replay. Only the vocabulary: squall-record reads the foreign formats, squall-load makes arrivals from it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::quantity::Bytes;
use crate::time::Duration;

/// Requests, and when they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The requests; one that is sent twice is listed once.
    pub requests: Vec<ScriptRequest>,
    /// When each request is sent, ordered by time.
    pub steps: Vec<ScriptStep>,
}

/// One request of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// What it requests, and from which server: a URL with `http` or `https`, or a path on the given server.
    pub url: String,
    /// Header fields in addition to those that the protocol itself needs; names in lower case. `host` replaces the URL's
    /// authority in the request, and changes neither the address nor the name that TLS checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Its body.
    #[serde(default)]
    pub body: ScriptBody,
}

/// The body of a script's request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptBody {
    /// No body.
    #[default]
    Empty,
    /// This text.
    Text(String),
    /// These bytes, which are not text; in JSON as base64.
    #[serde(rename = "base64")]
    Binary(#[serde(with = "crate::base64_text")] Vec<u8>),
    /// The content of a file; a relative path starts at the script's folder.
    File(PathBuf),
    /// This many arbitrary bytes, because the recording has only their number.
    Size(Bytes),
}

/// A request and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptStep {
    /// When it is sent, from the start of the script.
    pub at: Duration,
    /// The request, by its place in the script.
    pub request: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_are_not_text_are_written_as_base64() {
        let body = ScriptBody::Binary(vec![0xff, 0x00, 0xc3]);
        let text = serde_json::to_string(&body).unwrap();
        assert_eq!(text, r#"{"base64":"/wDD"}"#);
        assert_eq!(serde_json::from_str::<ScriptBody>(&text).unwrap(), body);
        assert!(serde_json::from_str::<ScriptBody>(r#"{"base64":"?"}"#).is_err());
    }
}
