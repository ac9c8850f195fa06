//! The files that a recipe names: recordings, pages, bodies of requests, traces and schedules of the link.
//!
//! This crate does no I/O. The caller supplies each file's contents, or the reason why it cannot, which is reported where
//! the recipe names the file. `RecipeFiles` collects the files that a run must keep.

use std::cell::RefCell;

use squall_base::Bytes;
use squall_base::plan::{FileCopy, PageRequest, RecipeFile, Script, ScriptRequest};

use crate::error::Mistake;
use crate::problems::ReportedProblem;
use crate::section::Field;

/// A run keeps a copy of every file that it sends.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

const NONE: &str = "this recipe is read without the files that it names";

/// Reads the files that a recipe names. Paths are relative to the recipe's folder. A method that is left out refuses every
/// file.
///
/// # Errors
/// Of each method: a description of what went wrong.
pub trait Files {
    /// The chosen parts of the recording in a file: a HAR file, a timing script of h2load, or a script of squall's own.
    fn script(&self, _path: &str, _choice: RecordingChoice) -> Result<Script, String> {
        Err(NONE.to_owned())
    }

    /// The requests in a file of vegeta targets.
    fn targets(&self, _path: &str) -> Result<Vec<ScriptRequest>, String> {
        Err(NONE.to_owned())
    }

    /// The page in a file.
    fn page(&self, _path: &str) -> Result<Vec<PageRequest>, String> {
        Err(NONE.to_owned())
    }

    /// The length of a file that is sent as a body.
    fn length(&self, _path: &str) -> Result<Bytes, String> {
        Err(NONE.to_owned())
    }

    /// The contents of a text file.
    fn text(&self, _path: &str) -> Result<String, String> {
        Err(NONE.to_owned())
    }
}

/// Which parts of a recording to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingChoice {
    /// HAR files: only segments of audio and video.
    pub media_only: bool,
    /// HAR files: no cookies.
    pub drop_cookies: bool,
    /// The hosts whose requests are used, each with an optional port. If it is empty: the recording's own host.
    pub hosts: Vec<String>,
    /// Whether the requests to all hosts are used, if none are named.
    pub keep_hosts: bool,
}

/// No files: a recipe that names one is refused.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {}

/// The files of a recipe, collected while it is read.
pub(crate) struct RecipeFiles<'f> {
    files: &'f dyn Files,
    named: RefCell<Vec<RecipeFile>>,
}

impl<'f> RecipeFiles<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> RecipeFiles<'f> {
        RecipeFiles {
            files,
            named: RefCell::default(),
        }
    }

    pub(crate) fn into_named_files(self) -> Vec<RecipeFile> {
        self.named.into_inner()
    }

    /// A recording; `field` names its file.
    pub(crate) fn script(
        &self,
        field: &Field<'_>,
        choice: RecordingChoice,
    ) -> Result<Script, ReportedProblem> {
        self.read(field, |path| self.files.script(path, choice))
    }

    /// A file of vegeta targets.
    pub(crate) fn targets(&self, field: &Field<'_>) -> Result<Vec<ScriptRequest>, ReportedProblem> {
        self.read(field, |path| self.files.targets(path))
    }

    /// A page.
    pub(crate) fn page(&self, field: &Field<'_>) -> Result<Vec<PageRequest>, ReportedProblem> {
        self.read(field, |path| self.files.page(path))
    }

    /// The file `path`, which is sent as a body. `field` names it, or names the file that refers to it.
    pub(crate) fn body(&self, field: &Field<'_>, path: &str) -> Result<FileCopy, ReportedProblem> {
        let bytes = (self.files.length(path)).map_err(|reason| refuse(field, path, reason))?;
        if bytes > MAX_BODY {
            let reason = format!("it has {bytes}: a body has at most 1GiB");
            return Err(refuse(field, path, reason));
        }
        Ok(FileCopy {
            kept_as: self.keep(path),
            bytes,
        })
    }

    /// The contents of a text file. Reporting errors is left to the caller.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        let text = self.files.text(path)?;
        self.keep(path);
        Ok(text)
    }

    fn read<T>(
        &self,
        field: &Field<'_>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ReportedProblem> {
        let path = field.text()?.value;
        let content = read(path).map_err(|reason| refuse(field, path, reason))?;
        self.keep(path);
        Ok(content)
    }

    /// Keeps the file, once, and returns the name of its copy.
    fn keep(&self, path: &str) -> String {
        let mut named = self.named.borrow_mut();
        if let Some(known) = named.iter().find(|known| known.path == path) {
            return known.kept_as.clone();
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || ".-_".contains(c) {
                c
            } else {
                '_'
            }
        };
        // File names have a length limit. Keep the end, where the extension is.
        let start = name.chars().count().saturating_sub(60);
        let name: String = name.chars().skip(start).map(plain).collect();
        let kept_as = format!("{}-{name}", named.len());
        named.push(RecipeFile {
            path: path.to_owned(),
            kept_as: kept_as.clone(),
        });
        kept_as
    }
}

/// Reports what is wrong with a file, at the field that names it.
pub(crate) fn refuse(field: &Field<'_>, path: &str, reason: String) -> ReportedProblem {
    let mistake = Mistake::File {
        path: path.to_owned(),
        reason,
    };
    field.refuse(
        mistake,
        "a file that can be read, by its path from the recipe's folder",
    )
}
