//! What a program on the path is to do, and what a driver turns that into: files, arguments, environment.
//!
//! Plain data: nothing is read or written here. `station` writes the files and starts the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use squall_base::plan::ProgramSetting as Setting;
use squall_base::plan::Protocol;
use squall_base::secrets::has_credentials;
use squall_base::{Bytes, Side};

/// The file with a load generator's secret header fields or URL, in the generator's folder. It is removed when the program
/// has ended.
pub(crate) const SECRETS: &str = "secrets";

/// A server (an `answer`, no `upstreams`) or a proxy (`upstreams`, no `answer`) on the path.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its name in logs and errors, and in names of files.
    pub name: String,
    /// Where it listens; UDP for HTTP/3, otherwise TCP.
    pub listen: SocketAddr,
    /// The protocol that it speaks there, and no other as far as the program allows that.
    pub front: Protocol,
    /// The upstreams that it passes requests on to; the program chooses among them as it does by default.
    pub upstreams: Vec<SocketAddr>,
    /// The protocol towards them.
    pub upstream_protocol: Option<Protocol>,
    /// A hint: the most connections to its upstreams, as far as the program has a setting for that.
    pub upstream_connections: Option<u32>,
    /// The certificate that it presents to its clients.
    pub certificate: Option<Certificate>,
    /// PEM file that its upstreams' certificates are checked against; `None`: they are not checked.
    pub trust: Option<PathBuf>,
    /// The upstreams' name, for SNI and certificates.
    pub server_name: String,
    /// The response to every request, sent after it has read the request's body.
    pub answer: Option<Answer>,
    /// A folder of its own, for configuration and logs. Created if necessary.
    pub folder: PathBuf,
    /// Threads that serve; 1 unless the recipe says otherwise.
    pub threads: u32,
    /// Text for its own configuration; its driver's file says where it goes.
    pub extra: Option<String>,
    /// Settings that differ from the program's own defaults.
    pub settings: Settings,
    /// Where it is to write TLS secrets, in NSS format (SSLKEYLOGFILE).
    pub key_log: Option<PathBuf>,
}

/// PEM files of a certificate with its chain, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, leaf first.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A response that is always the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Body,
    /// The target that will be requested. Most programs respond to any target; a file server has only this one.
    pub target: String,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes of `x`.
    Size(Bytes),
    /// The content of this file.
    File(PathBuf),
}

/// Settings by side: a program is the server towards its clients, and the client towards its upstreams.
pub type Settings = BTreeMap<(Side, Setting), u64>;

/// Everything that it takes to start a program, in addition to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Files in its folder.
    pub files: Vec<ProgramFile>,
    /// Its arguments; its working directory is its folder.
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to those that it inherits.
    pub environment: Vec<(String, OsString)>,
    /// A warning for people if secrets are among the arguments, which every user of the machine can read.
    pub warning: Option<String>,
}

/// A file in a program's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// Relative to the folder.
    pub path: PathBuf,
    /// Its content.
    pub content: Content,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// This text.
    Text(String),
    /// This text with secrets, so only the owner may read it.
    Private(String),
    /// This many bytes of `x`.
    Filler(Bytes),
    /// These files, one after the other. They may include a key, so only the owner may read the result.
    Joined(Vec<PathBuf>),
}

/// Names and values of header fields.
type Fields = Vec<(String, String)>;

/// The header fields that are secrets, and the others.
pub(crate) fn secret_and_other_fields(headers: &[(String, String)]) -> (Fields, Fields) {
    let is_secret = |field: &(String, String)| has_credentials(std::slice::from_ref(field));
    headers.iter().cloned().partition(is_secret)
}

impl Order {
    /// Whether the station passes requests on.
    pub fn is_proxy(&self) -> bool {
        !self.upstreams.is_empty()
    }

    /// The certificate that it presents, if it speaks TLS to its clients.
    pub(crate) fn front_certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref().filter(|_| self.front.is_secure())
    }

    /// The protocol that it speaks on that side.
    pub(crate) fn hop(&self, side: Side) -> Option<Protocol> {
        match side {
            Side::Server => Some(self.front),
            Side::Client => self.upstream_protocol,
        }
    }

    /// The requested value of this side's setting.
    pub fn setting(&self, side: Side, setting: Setting) -> Option<u64> {
        self.settings.get(&(side, setting)).copied()
    }
}

impl Invocation {
    /// Adds a text file.
    pub(crate) fn text(&mut self, path: &str, text: String) {
        self.file(path, Content::Text(text));
    }

    /// Adds the file with secrets.
    pub(crate) fn secrets(&mut self, text: String) {
        self.file(SECRETS, Content::Private(text));
    }

    /// Warns if one of these parts of a request, which `program` takes as arguments, has secrets.
    pub(crate) fn warn_of_secrets(&mut self, program: &str, parts: &[(&str, bool)]) {
        let secret = parts.iter().filter(|(_, has_secrets)| *has_secrets);
        let named: Vec<&str> = secret.map(|(part, _)| *part).collect();
        if !named.is_empty() {
            self.warning = Some(format!(
                "{program} takes {} only as arguments: every user of this machine can read the secrets in them while it \
                 runs; `client`, `client(curl)` and `client(k6)` keep them to themselves",
                named.join(" and ")
            ));
        }
    }

    pub(crate) fn file(&mut self, path: &str, content: Content) {
        self.files.push(ProgramFile {
            path: PathBuf::from(path),
            content,
        });
    }

    /// Adds the file of a response's body.
    pub(crate) fn body(&mut self, path: &str, body: &Body) {
        let content = match body {
            Body::Size(bytes) => Content::Filler(*bytes),
            Body::File(file) => Content::Joined(vec![file.clone()]),
        };
        self.file(path, content);
    }

    pub(crate) fn argument(&mut self, argument: impl Into<OsString>) {
        self.arguments.push(argument.into());
    }

    pub(crate) fn arguments<const N: usize>(&mut self, arguments: [&str; N]) {
        self.arguments.extend(arguments.map(OsString::from));
    }
}
