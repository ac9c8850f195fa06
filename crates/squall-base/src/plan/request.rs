//! What a client sends and what a server answers: messages as a plan has them.
//!
//! What they may hold is decided in `message`. Bodies from files are named here and kept beside the plan, so that a run
//! can be repeated when the files have changed; who reads them is the binary.

use serde::{Deserialize, Serialize};

use crate::quantity::Bytes;

/// A request of the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTemplate {
    /// The method, such as `POST`.
    pub method: String,
    /// The path and query, such as `/`.
    pub target: String,
    /// Header fields besides those that the protocol itself needs; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: RequestBody,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestBody {
    /// So many bytes, whatever they are.
    Size(Bytes),
    /// This text.
    Text(String),
    /// The content of a file.
    File(KeptFile),
    /// A form, sent as multipart/form-data (RFC 7578).
    Form(Vec<FormField>),
}

impl Default for RequestBody {
    /// None.
    fn default() -> RequestBody {
        RequestBody::Size(Bytes::default())
    }
}

impl RequestBody {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == RequestBody::default()
    }

    /// The size that the recipe gives it: that of a body which is nothing but a size, or of the only generated upload of a
    /// form. `None` where no size, or more than one, is given.
    pub fn size_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            RequestBody::Size(size) => Some(size),
            RequestBody::Text(_) | RequestBody::File(_) => None,
            RequestBody::Form(fields) => {
                let mut sizes = fields
                    .iter_mut()
                    .filter_map(|field| match &mut field.value {
                        FormValue::Generated { size, .. } => Some(size),
                        FormValue::Text(_) | FormValue::File { .. } => None,
                    });
                sizes.next().filter(|_| sizes.next().is_none())
            }
        }
    }
}

/// A file that the run's folder has a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// The name of the copy in the run's folder `files`.
    pub kept_as: String,
    /// Its length when the run began.
    pub bytes: Bytes,
}

/// A file that a recipe names, and what a run's copy of it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// Its path, from the recipe's folder.
    pub path: String,
    /// The name of the copy in the run's folder `files`.
    pub kept_as: String,
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: FormValue,
}

/// The value of a field of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormValue {
    /// This text.
    Text(String),
    /// An upload.
    File {
        /// What the server is told that the file is called; its ending decides the type that is told.
        name: String,
        /// Its content.
        file: KeptFile,
    },
    /// An upload of so many bytes, whatever they are.
    Generated {
        /// As of a file.
        name: String,
        /// How many.
        size: Bytes,
    },
}

/// What the server answers, every time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseTemplate {
    /// The status code.
    pub status: u16,
    /// Size of the static body.
    pub body: Bytes,
}
