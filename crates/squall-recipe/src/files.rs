//! The files that a recipe names: recordings, pages, bodies of requests, traces and schedules of the link.
//!
//! This crate reads none. Whoever parses a recipe brings what is in them, or says why that cannot be, and the reason is
//! told at the place that names the file. `Named` gathers which files a run must keep.

use std::cell::RefCell;

use squall_base::Bytes;
use squall_base::plan::{KeptFile, NamedFile, PageRequest, Script, ScriptRequest};

use crate::error::Mistake;
use crate::problems::Reported;
use crate::section::Field;

/// Reads the files that a recipe names, by the paths in it, which begin at the recipe's own folder.
pub trait Files {
    /// The recording in a file: a HAR file, a timing script of h2load, or a script of squall's own.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn script(&self, path: &str, choice: RecordingChoice) -> Result<Script, String>;

    /// The requests in a file of vegeta's targets.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn targets(&self, path: &str) -> Result<Vec<ScriptRequest>, String>;

    /// The page in a file.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn page(&self, path: &str) -> Result<Vec<PageRequest>, String>;

    /// How long a file is that is to be sent.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn length(&self, path: &str) -> Result<Bytes, String>;

    /// What is in a file of text.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn text(&self, path: &str) -> Result<String, String>;
}

/// What to take of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingChoice {
    /// Of a HAR file: segments of audio and video only.
    pub media_only: bool,
    /// Of a HAR file: no cookies.
    pub drop_cookies: bool,
}

/// No files: a recipe that names any is refused.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

const NONE: &str = "this recipe is read without the files that it names";

impl Files for NoFiles {
    fn script(&self, _: &str, _: RecordingChoice) -> Result<Script, String> {
        Err(NONE.to_owned())
    }

    fn targets(&self, _: &str) -> Result<Vec<ScriptRequest>, String> {
        Err(NONE.to_owned())
    }

    fn page(&self, _: &str) -> Result<Vec<PageRequest>, String> {
        Err(NONE.to_owned())
    }

    fn length(&self, _: &str) -> Result<Bytes, String> {
        Err(NONE.to_owned())
    }

    fn text(&self, _: &str) -> Result<String, String> {
        Err(NONE.to_owned())
    }
}

/// The files of a recipe, while it is read.
pub(crate) struct Named<'f> {
    files: &'f dyn Files,
    found: RefCell<Vec<NamedFile>>,
}

impl<'f> Named<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Named<'f> {
        Named {
            files,
            found: RefCell::default(),
        }
    }

    /// Those that were named.
    pub(crate) fn into_found(self) -> Vec<NamedFile> {
        self.found.into_inner()
    }

    /// A recording; `field` names its file.
    pub(crate) fn script(
        &self,
        field: &Field<'_>,
        choice: RecordingChoice,
    ) -> Result<Script, Reported> {
        self.read(field, |path| self.files.script(path, choice))
    }

    /// Vegeta's targets.
    pub(crate) fn targets(&self, field: &Field<'_>) -> Result<Vec<ScriptRequest>, Reported> {
        self.read(field, |path| self.files.targets(path))
    }

    /// A page.
    pub(crate) fn page(&self, field: &Field<'_>) -> Result<Vec<PageRequest>, Reported> {
        self.read(field, |path| self.files.page(path))
    }

    /// A file to be sent, which `field` names or, if it is another's, names `path`.
    pub(crate) fn body(&self, field: &Field<'_>, path: &str) -> Result<KeptFile, Reported> {
        let bytes = (self.files.length(path)).map_err(|said| refuse(field, path, said))?;
        Ok(KeptFile {
            kept_as: self.keep(path),
            bytes,
        })
    }

    /// A file of text, by its path. What is wrong with it is the caller's to tell.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        let text = self.files.text(path)?;
        self.keep(path);
        Ok(text)
    }

    fn read<T>(
        &self,
        field: &Field<'_>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Reported> {
        let path = field.text()?.value;
        let content = read(path).map_err(|said| refuse(field, path, said))?;
        self.keep(path);
        Ok(content)
    }

    /// The name of the copy of this file.
    fn keep(&self, path: &str) -> String {
        let mut found = self.found.borrow_mut();
        if let Some(known) = found.iter().find(|known| known.path == path) {
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
        // Names of files have limits; the ending is at the end.
        let start = name.chars().count().saturating_sub(60);
        let name: String = name.chars().skip(start).map(plain).collect();
        let kept_as = format!("{}-{name}", found.len());
        found.push(NamedFile {
            path: path.to_owned(),
            kept_as: kept_as.clone(),
        });
        kept_as
    }
}

/// Says at the place that names it what is wrong with a file.
pub(crate) fn refuse(field: &Field<'_>, path: &str, said: String) -> Reported {
    let mistake = Mistake::File {
        path: path.to_owned(),
        said,
    };
    field.refuse(
        mistake,
        "a file that can be read, by its path from the recipe's folder",
    )
}
