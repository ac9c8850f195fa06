//! Files that loads are built from (recordings, targets and pages), for `squall load` and for recipes, and the other
//! files next to a recipe.
//!
//! squall-record defines the formats. This module finds and reads the files, and reports what an import left out.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use squall_base::plan::{PageRequest, Script, ScriptRequest, Urgency};
use squall_base::{Bytes, Duration};
use squall_recipe::{Files, RecordingChoice, bundled_files};
use squall_record::import::{
    HarOptions, Import, ImportError, parse_har, parse_script, parse_timing_script,
    parse_vegeta_json, parse_vegeta_targets,
};

use crate::outcome::BadInput;

/// Reads a script in squall's own format.
pub(crate) fn read_script(path: &Path) -> Result<Script> {
    let script = parse_script(&read(path)?).map_err(|error| in_file(path, &error))?;
    Ok(script)
}

/// Reads vegeta targets.
pub(crate) fn read_targets(path: &Path) -> Result<Vec<ScriptRequest>> {
    let imported = targets(&read(path)?).map_err(|error| in_file(path, &error))?;
    Ok(imported.content)
}

/// Reads a page file.
pub(crate) fn read_page(path: &Path) -> Result<Vec<PageRequest>> {
    let page = page(&read(path)?).map_err(|error| in_file(path, &error))?;
    Ok(page)
}

fn read(path: &Path) -> Result<Vec<u8>, BadInput> {
    std::fs::read(path)
        .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> BadInput {
    BadInput::new(format!("{}: {error}", path.display()))
}

fn targets(bytes: &[u8]) -> Result<Import<Vec<ScriptRequest>>, ImportError> {
    // JSON lines begin with an object, vegeta's own format with a method.
    if bytes.trim_ascii_start().starts_with(b"{") {
        parse_vegeta_json(bytes)
    } else {
        parse_vegeta_targets(bytes)
    }
}

/// A request of a page, as written in its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenNode {
    url: String,
    after: Option<u32>,
    #[serde(default)]
    delay_ms: f64,
    urgency: Option<Urgency>,
}

fn page(bytes: &[u8]) -> Result<Vec<PageRequest>, serde_json::Error> {
    let written: Vec<WrittenNode> = serde_json::from_slice(bytes)?;
    let request = |node: WrittenNode| PageRequest {
        url: node.url,
        after: node.after,
        delay: Duration::from_nanos((node.delay_ms * 1e6) as u64),
        urgency: node.urgency,
    };
    Ok(written.into_iter().map(request).collect())
}

/// The text of a file that a bundled recipe names.
pub(crate) fn bundled_file(path: &str) -> Option<&'static str> {
    let mut all = bundled_files().iter();
    all.find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// The files next to a recipe.
pub(crate) struct SiblingFiles {
    /// `None` if the files are compiled in.
    folder: Option<PathBuf>,
    /// What imports left out of recordings, one sentence each.
    omitted: RefCell<Vec<String>>,
}

impl SiblingFiles {
    /// The files next to the recipe in this file.
    pub(crate) fn recipe(file: &Path) -> SiblingFiles {
        SiblingFiles {
            folder: Some(file.parent().unwrap_or(Path::new("")).to_path_buf()),
            omitted: RefCell::default(),
        }
    }

    /// The compiled-in files of the bundled recipes.
    pub(crate) fn bundled() -> SiblingFiles {
        SiblingFiles {
            folder: None,
            omitted: RefCell::default(),
        }
    }

    /// Copies the file at a path of the recipe.
    pub(crate) fn copy(&self, path: &str, to: &Path) -> Result<()> {
        let copied = match &self.folder {
            Some(folder) => std::fs::copy(folder.join(path), to).map(|_| ()),
            None => std::fs::write(to, self.bytes(path).map_err(BadInput::new)?),
        };
        copied.with_context(|| format!("cannot copy {path} to {}", to.display()))
    }

    /// What imports left out of recordings.
    pub(crate) fn omitted(self) -> Vec<String> {
        self.omitted.into_inner()
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let Some(folder) = &self.folder else {
            let found = bundled_file(path).map(|text| text.as_bytes().to_vec());
            return found.ok_or_else(|| "it is not compiled in".to_owned());
        };
        std::fs::read(folder.join(path)).map_err(|error| match bundled_file(path) {
            Some(_) => format!(
                "cannot read it: {error}; it comes with squall: `squall recipes {path} > {path}`"
            ),
            None => format!("cannot read it: {error}"),
        })
    }

    /// Returns what an import found, and keeps what it left out for `omitted`.
    fn imported<T>(&self, path: &str, parsed: Result<Import<T>, ImportError>) -> Result<T, String> {
        let imported = parsed.map_err(|error| error.to_string())?;
        let said = imported
            .omissions
            .iter()
            .map(|omission| format!("{path}: {omission}"));
        self.omitted.borrow_mut().extend(said);
        Ok(imported.content)
    }
}

impl Files for SiblingFiles {
    fn script(&self, path: &str, choice: RecordingChoice) -> Result<Script, String> {
        let bytes = self.bytes(path)?;
        let ending = Path::new(path)
            .extension()
            .and_then(|ending| ending.to_str());
        match ending {
            Some("har") => {
                let options = HarOptions {
                    media_only: choice.media_only,
                    drop_cookies: choice.drop_cookies,
                };
                self.imported(path, parse_har(&bytes, &options))
            }
            _ if choice != RecordingChoice::default() => Err(
                "`media` and `drop_cookies` are for HAR files, whose names end in .har".to_owned(),
            ),
            Some("json") => parse_script(&bytes).map_err(|error| error.to_string()),
            _ => self.imported(path, parse_timing_script(&bytes)),
        }
    }

    fn targets(&self, path: &str) -> Result<Vec<ScriptRequest>, String> {
        self.imported(path, targets(&self.bytes(path)?))
    }

    fn page(&self, path: &str) -> Result<Vec<PageRequest>, String> {
        page(&self.bytes(path)?).map_err(|error| error.to_string())
    }

    fn length(&self, path: &str) -> Result<Bytes, String> {
        let Some(folder) = &self.folder else {
            return Ok(Bytes::new(self.bytes(path)?.len() as u64));
        };
        let found = std::fs::File::open(folder.join(path)).and_then(|file| file.metadata());
        match found {
            Ok(found) if found.is_file() => Ok(Bytes::new(found.len())),
            Ok(_) => Err("it is no regular file".to_owned()),
            Err(error) => Err(format!("cannot read it: {error}")),
        }
    }

    fn text(&self, path: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(path)?).map_err(|_| "it is no text in UTF-8".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_format_follows_from_the_file_extension() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("t.tsv", "0.0\t/a\n12.5\t/b\n");
        write(
            "s.json",
            r#"{"requests": [{"method": "GET", "url": "/c"}], "steps": [{"at": 0, "request": 0}]}"#,
        );
        write(
            "h.har",
            r#"{"log": {"entries": [
                {"startedDateTime": "2026-01-01T00:00:00Z", "request": {"method": "GET", "url": "http://x/d", "headers": []}},
                {"startedDateTime": "2026-01-01T00:00:01Z", "request": {"method": "GET", "url": "data:,", "headers": []}}]}}"#,
        );
        let files = SiblingFiles::recipe(&folder.path().join("recipe.toml"));
        let urls = |path: &str| -> Vec<String> {
            let script = files.script(path, RecordingChoice::default()).unwrap();
            script
                .requests
                .into_iter()
                .map(|request| request.url)
                .collect()
        };
        assert_eq!(urls("t.tsv"), ["/a", "/b"]);
        assert_eq!(urls("s.json"), ["/c"]);
        assert_eq!(urls("h.har"), ["http://x/d"]);
        let media = RecordingChoice {
            media_only: true,
            drop_cookies: false,
        };
        assert!(files.script("t.tsv", media).is_err());
        assert!(
            files
                .script("gone.har", media)
                .unwrap_err()
                .contains("cannot read")
        );
        assert!(files.length("t.tsv").unwrap() > Bytes::default());
        assert!(files.length(".").is_err());
        let copy = folder.path().join("copy");
        files.copy("t.tsv", &copy).unwrap();
        assert_eq!(std::fs::read(copy).unwrap(), files.bytes("t.tsv").unwrap());
        let missing = files.script("bbc.txt", RecordingChoice::default());
        assert!(missing.unwrap_err().contains("squall recipes bbc.txt"));
        let omitted = files.omitted();
        assert!(
            omitted[0].starts_with("h.har: 1 request left out"),
            "{omitted:?}"
        );
    }

    #[test]
    fn the_files_of_bundled_recipes_are_compiled_in() {
        let files = SiblingFiles::bundled();
        let script = files.script("bbc.txt", RecordingChoice::default());
        assert_eq!(script.unwrap().steps.len(), 1_083);
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        files.copy("bbc.txt", &copy).unwrap();
        let length = Bytes::new(copy.metadata().unwrap().len());
        assert_eq!(files.length("bbc.txt"), Ok(length));
        assert!(files.copy("../bbc.txt", &copy).is_err());
        assert!(files.length("t.tsv").is_err());
    }
}
