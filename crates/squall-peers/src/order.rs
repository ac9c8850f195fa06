//! What a program on the path shall be, and what a driver makes of that: files, arguments, environment.
//!
//! Plain data: nothing is read or written here. `station` writes the files and starts the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use squall_base::plan::ProgramSetting as Setting;
use squall_base::plan::Protocol;
use squall_base::{Bytes, Side};

/// A server (an `answer`, no `upstreams`) or a proxy (`upstreams`, no `answer`) on the path.
#[derive(Clone, Debug)]
pub struct Order {
    /// What logs and errors call it; it names files too.
    pub name: String,
    /// Where it listens; UDP for HTTP/3, else TCP.
    pub listen: SocketAddr,
    /// What it speaks there, and nothing else as far as the program allows that.
    pub front: Protocol,
    /// Whom it passes requests on to, by the program's own default way of choosing.
    pub upstreams: Vec<SocketAddr>,
    /// What it speaks to them.
    pub upstream_protocol: Option<Protocol>,
    /// A hint: the most connections to its upstreams. What becomes of it is in `Rendered::notes`.
    pub upstream_connections: Option<u32>,
    /// What it shows to its clients.
    pub certificate: Option<Certificate>,
    /// PEM file of what its upstreams' certificates are checked against; `None`: they are not checked.
    pub trust: Option<PathBuf>,
    /// Its upstreams' name, for SNI and certificates.
    pub server_name: String,
    /// What it answers, every time, after it has read the request's body.
    pub answer: Option<Answer>,
    /// A folder of its own, for configuration and logs. It is made if need be.
    pub folder: PathBuf,
    /// Threads that serve; 1 unless the recipe says otherwise.
    pub threads: u32,
    /// Text of its own configuration, which goes where its driver's file says.
    pub extra: Option<String>,
    /// Settings that differ from the program's own defaults.
    pub settings: Settings,
    /// Where it shall write TLS secrets, in the format of NSS (SSLKEYLOGFILE).
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
    /// The target that will be asked for. Most programs answer any; a server of files has only this one.
    pub target: String,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes of `x`.
    Size(Bytes),
    /// What this file has.
    File(PathBuf),
}

/// Settings by side: a program is the server of its front, and the client of its upstreams.
pub type Settings = BTreeMap<(Side, Setting), u64>;

/// Everything that starts a program, besides the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Files of its folder.
    pub files: Vec<RenderedFile>,
    /// Its arguments; its working directory is its folder.
    pub arguments: Vec<OsString>,
    /// Variables, besides those that it inherits.
    pub environment: Vec<(String, OsString)>,
    /// What a person should know: hints that could not be followed, and what is not quite as ordered.
    pub notes: Vec<String>,
}

/// A file of a program's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFile {
    /// Relative to the folder.
    pub path: PathBuf,
    /// What it has.
    pub content: Content,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// This text.
    Text(String),
    /// So many bytes of `x`.
    Filler(Bytes),
    /// These files, one after the other. It can be a key, so only the owner may read it.
    Joined(Vec<PathBuf>),
}

impl Order {
    /// Whether it passes requests on.
    pub fn is_proxy(&self) -> bool {
        !self.upstreams.is_empty()
    }

    /// What is asked of this side's setting.
    pub fn setting(&self, side: Side, setting: Setting) -> Option<u64> {
        self.settings.get(&(side, setting)).copied()
    }
}

impl Rendered {
    /// Adds a file of text.
    pub(crate) fn text(&mut self, path: &str, text: String) {
        self.file(path, Content::Text(text));
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, path: &str, content: Content) {
        self.files.push(RenderedFile {
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

    /// Adds an argument.
    pub(crate) fn argument(&mut self, argument: impl Into<OsString>) {
        self.arguments.push(argument.into());
    }

    /// Adds arguments.
    pub(crate) fn arguments<const N: usize>(&mut self, arguments: [&str; N]) {
        self.arguments.extend(arguments.map(OsString::from));
    }
}
