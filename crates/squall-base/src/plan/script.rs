//! A script: requests, and the times at which a client sends them.
//!
//! It is what a recording of somebody's traffic becomes (a HAR file, a timing script of h2load) and what a client replays.
//! Only the words: squall-record reads the foreign formats, squall-load makes arrivals of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::quantity::Bytes;
use crate::time::Duration;

/// Requests and when they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// What is asked for; one that is sent twice is here once.
    pub requests: Vec<ScriptRequest>,
    /// What is sent when, in the order of the times.
    pub steps: Vec<ScriptStep>,
}

/// One request of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// Whom and what it asks: a URL with `http` or `https`, or a path that stands for the same on the given server.
    pub url: String,
    /// Header fields besides those that the protocol itself needs; names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Its body.
    #[serde(default)]
    pub body: ScriptBody,
}

/// The body of a request of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptBody {
    /// None.
    #[default]
    Empty,
    /// This text.
    Text(String),
    /// The content of a file, of which a relative path begins at the script's folder.
    File(PathBuf),
    /// So many bytes, whatever they are: the recording has only their count.
    Size(Bytes),
}

/// A request at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptStep {
    /// When it is sent, from the start of the script.
    pub at: Duration,
    /// Which of the script's requests it is.
    pub request: u32,
}
