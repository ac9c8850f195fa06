//! Files that loads are built from (recordings, targets and pages), for `squall load` and for recipes, and the other
//! files next to a recipe.
//!
//! squall-record defines the formats. This module finds and reads the files, and reports what an import left out.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use squall_base::plan::{PageRequest, Script, ScriptRequest, Urgency};
use squall_base::secrets::{REDACTED, is_redacted};
use squall_base::text::bytes_without_bom;
use squall_base::{Bytes, Duration};
use squall_linux::process;
use squall_recipe::{Files, RecordingChoice, bundled_files};
use squall_record::import::{
    HarOptions, Import, ImportError, parse_har, parse_script, parse_timing_script,
    parse_vegeta_json, parse_vegeta_targets,
};
use squall_record::{read_all, read_at_most};

use crate::client::file_length;
use crate::limits;
use crate::outcome::BadInput;
use crate::output::eprint;
use crate::script_hosts::{RoutedScript, route_to_station};

/// Reads a script in squall's own format; `-` is stdin.
pub(crate) fn read_script(path: &Path) -> Result<Script> {
    let script = parse_script(&read(path)?).map_err(|error| in_file(path, &error))?;
    let mut requests = script.requests.iter();
    if requests.any(|request| is_redacted(&request.headers, &request.url)) {
        eprint(format_args!(
            "{}: secrets were left out of it, and its requests send {REDACTED} in their place (`squall import \
             --keep-secrets` keeps them)\n",
            path.display()
        ));
    }
    Ok(script)
}

/// Reads vegeta targets or a list of URLs; `-` is stdin. What cannot be sent is printed on stderr.
pub(crate) fn read_targets(path: &Path) -> Result<Vec<ScriptRequest>> {
    let imported = targets(&read(path)?).map_err(|error| in_file(path, &error))?;
    for omission in &imported.omissions {
        eprint(format_args!("{}: {omission}\n", path.display()));
    }
    Ok(imported.content)
}

/// Reads a page file; `-` is stdin.
pub(crate) fn read_page(path: &Path) -> Result<Vec<PageRequest>> {
    let page = page(&read(path)?).map_err(|error| {
        let said = format!(
            "cannot read the page: {error}; it is a list of requests, such as [{{\"url\": \"/\"}}] (docs/LOAD.md)"
        );
        in_file(path, &said)
    })?;
    Ok(page)
}

/// Reads a file that a flag names; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, BadInput> {
    let read = match path.to_str() {
        Some("-") => read_all(io::stdin(), limits::RECORDING),
        _ => read_at_most(path, limits::RECORDING),
    };
    read.map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> BadInput {
    BadInput::new(format!("{}: {error}", path.display()))
}

fn targets(bytes: &[u8]) -> Result<Import<Vec<ScriptRequest>>, ImportError> {
    // JSON lines begin with an object, vegeta's own format with a method, a list with a URL.
    if bytes_without_bom(bytes)
        .trim_ascii_start()
        .starts_with(b"{")
    {
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
    let written: Vec<WrittenNode> = serde_json::from_slice(bytes_without_bom(bytes))?;
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

/// What happens before a file outside of the recipe's folder is read: a recipe may come from a stranger, and reads files
/// with the rights of the user who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutsideFiles {
    /// A line on stderr announces it.
    Announced,
    /// It is refused.
    Refused,
}

impl OutsideFiles {
    /// Root can read every file, so root must allow it (`--allow-files`).
    pub(crate) fn allowed_if(is_asked: bool) -> OutsideFiles {
        if is_asked || process::effective_ids().0 != ROOT {
            OutsideFiles::Announced
        } else {
            OutsideFiles::Refused
        }
    }
}

/// The user id that may read every file.
const ROOT: u32 = 0;

/// The user that this process runs as, for messages about what a recipe may do.
pub(crate) fn own_user() -> String {
    match process::effective_ids().0 {
        ROOT => "root".to_owned(),
        uid => format!("user {uid}"),
    }
}

pub(crate) struct SiblingFiles {
    /// `None` if the files are compiled in.
    folder: Option<PathBuf>,
    outside: OutsideFiles,
    /// What was left out of recordings, and which hosts' requests are sent: one sentence each.
    notices: RefCell<Vec<String>>,
    /// The files outside of the recipe's folder that were announced, as the recipe names them.
    announced: RefCell<BTreeSet<String>>,
}

impl SiblingFiles {
    /// The files next to the recipe in this file. Those outside of its folder are refused.
    pub(crate) fn recipe(file: &Path) -> SiblingFiles {
        SiblingFiles {
            folder: Some(file.parent().unwrap_or(Path::new("")).to_path_buf()),
            outside: OutsideFiles::Refused,
            notices: RefCell::default(),
            announced: RefCell::default(),
        }
    }

    /// The compiled-in files of the bundled recipes.
    pub(crate) fn bundled() -> SiblingFiles {
        SiblingFiles {
            folder: None,
            outside: OutsideFiles::Refused,
            notices: RefCell::default(),
            announced: RefCell::default(),
        }
    }

    /// The same files, but with this rule for those outside of the recipe's folder.
    pub(crate) fn with_outside(self, outside: OutsideFiles) -> SiblingFiles {
        SiblingFiles { outside, ..self }
    }

    /// Copies the file at a path of the recipe.
    pub(crate) fn copy(&self, path: &str, to: &Path) -> Result<()> {
        let copied = match &self.folder {
            Some(folder) => {
                let from = self.find(folder, path).map_err(BadInput::new)?;
                copy_at_most(&from, to, limits::BODY)
            }
            None => std::fs::write(to, self.bytes(path).map_err(BadInput::new)?),
        };
        copied.with_context(|| format!("cannot copy {path} to {}", to.display()))
    }

    /// What was left out of the recordings that were read, and which hosts' requests are sent.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.notices.borrow().clone()
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let Some(folder) = &self.folder else {
            let found = bundled_file(path).map(|text| text.as_bytes().to_vec());
            return found.ok_or_else(|| "it is not compiled in".to_owned());
        };
        let file = self.find(folder, path)?;
        let content = file_length(&file).and_then(|_| read_at_most(&file, limits::RECORDING));
        content.map_err(|error| match bundled_file(path) {
            Some(_) => format!(
                "cannot read it: {error}; it comes with squall: `squall recipes {path} > {path}`"
            ),
            None => format!("cannot read it: {error}"),
        })
    }

    /// Where the file at a path of the recipe is. If that is outside of the recipe's folder, it is refused, with the reason,
    /// or announced once. Call it before the file is read.
    fn find(&self, folder: &Path, path: &str) -> Result<PathBuf, String> {
        let Some(file) = outside(folder, path) else {
            return Ok(folder.join(path));
        };
        if self.outside == OutsideFiles::Refused {
            return Err(format!(
                "it is {file:?}, outside of the recipe's folder, and root can read every file: check that the recipe may read \
                 it, then add --allow-files"
            ));
        }
        if self.announced.borrow_mut().insert(path.to_owned()) {
            eprint(format_args!(
                "squall: the recipe reads a file outside of its folder, with the rights of {}: {path:?} is {file:?}\n",
                own_user()
            ));
        }
        Ok(folder.join(path))
    }

    /// Returns what an import found, and keeps what it left out for `notices`.
    fn imported<T>(&self, path: &str, parsed: Result<Import<T>, ImportError>) -> Result<T, String> {
        let imported = parsed.map_err(|error| error.to_string())?;
        let said = imported
            .omissions
            .iter()
            .map(|omission| format!("{path}: {omission}"));
        self.notices.borrow_mut().extend(said);
        Ok(imported.content)
    }
}

/// Copies a regular file of at most `limit` bytes. A sparse file of terabytes would fill the disk with zeros.
fn copy_at_most(from: &Path, to: &Path, limit: Bytes) -> io::Result<()> {
    if file_length(from)? > limit.get() {
        let said = format!("it has more than {limit}, the limit for copies in a run");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
    }
    std::fs::copy(from, to).map(drop)
}

/// The file at a path of a recipe in `folder`, if it is outside of that folder; symbolic links are followed. What cannot be
/// resolved, such as a missing file or a pipe, is judged by its path.
fn outside(folder: &Path, path: &str) -> Option<PathBuf> {
    let file = folder.join(path);
    // The parent of a file name without a folder is empty.
    let own = std::fs::canonicalize(Path::new(".").join(folder));
    match (own, std::fs::canonicalize(&file)) {
        (Ok(own), Ok(real)) => (!real.starts_with(own)).then_some(real),
        _ => {
            let leads_out =
                |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
            let is_outside = Path::new(path).components().any(leads_out);
            is_outside.then_some(file)
        }
    }
}

impl Files for SiblingFiles {
    fn script(&self, path: &str, choice: RecordingChoice) -> Result<Script, String> {
        let bytes = self.bytes(path)?;
        let ending = Path::new(path)
            .extension()
            .and_then(|ending| ending.to_str());
        let script = match ending {
            Some("har") => {
                let options = HarOptions {
                    media_only: choice.media_only,
                    drop_cookies: choice.drop_cookies,
                };
                self.imported(path, parse_har(&bytes, &options))
            }
            _ if choice.media_only || choice.drop_cookies => Err(
                "`media` and `drop_cookies` are for HAR files, whose names end in .har".to_owned(),
            ),
            Some("json") => parse_script(&bytes).map_err(|error| error.to_string()),
            _ => self.imported(path, parse_timing_script(&bytes)),
        }?;
        let RoutedScript {
            script,
            announcement,
        } = route_to_station(script, &choice.hosts, choice.keep_hosts)?;
        if !announcement.is_empty() {
            let notice = format!("{path}: {announcement}");
            self.notices.borrow_mut().push(notice);
        }
        Ok(script)
    }

    fn targets(&self, path: &str) -> Result<Vec<ScriptRequest>, String> {
        let mut requests = self.imported(path, targets(&self.bytes(path)?))?;
        let mut hosts = 0;
        for request in &mut requests {
            let fields = request.headers.len();
            request.headers.retain(|(name, _)| name != "host");
            hosts += fields - request.headers.len();
        }
        if hosts > 0 {
            self.notices.borrow_mut().push(format!(
                "{path}: Host fields left out ({hosts}): requests of a recipe go to the station after the client"
            ));
        }
        Ok(requests)
    }

    fn page(&self, path: &str) -> Result<Vec<PageRequest>, String> {
        page(&self.bytes(path)?).map_err(|error| error.to_string())
    }

    fn length(&self, path: &str) -> Result<Bytes, String> {
        let Some(folder) = &self.folder else {
            return Ok(Bytes::new(self.bytes(path)?.len() as u64));
        };
        let found = file_length(&self.find(folder, path)?);
        found
            .map(Bytes::new)
            .map_err(|error| format!("cannot read it: {error}"))
    }

    fn text(&self, path: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(path)?).map_err(|_| "it is not text in UTF-8".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_files_are_neither_copied_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.har");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 41).unwrap();
        let files = SiblingFiles::recipe(&folder.path().join("recipe.toml"));
        let error = files.copy("big.har", &folder.path().join("copy"));
        let said = format!("{:#}", error.unwrap_err());
        assert!(said.contains("more than 1GiB"), "{said}");
        assert!(!folder.path().join("copy").exists());
        let said = files.bytes("big.har").unwrap_err();
        assert!(said.contains("more than 512MiB"), "{said}");
        assert!(read_page(&path).is_err() && read_script(&path).is_err());
    }

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
            ..RecordingChoice::default()
        };
        assert!(files.script("t.tsv", media.clone()).is_err());
        assert!(
            files
                .script("gone.har", media)
                .unwrap_err()
                .contains("cannot read")
        );
        assert!(files.length("t.tsv").unwrap() > Bytes::default());
        assert!(files.length(".").is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = [
            files.length("pipe").unwrap_err(),
            files.text("pipe").unwrap_err(),
        ];
        for said in refused {
            assert!(said.contains("not a regular file"), "{said}");
        }
        assert!(files.copy("pipe", &folder.path().join("copy")).is_err());
        let copy = folder.path().join("copy");
        files.copy("t.tsv", &copy).unwrap();
        assert_eq!(std::fs::read(copy).unwrap(), files.bytes("t.tsv").unwrap());
        let missing = files.script("bbc.txt", RecordingChoice::default());
        assert!(missing.unwrap_err().contains("squall recipes bbc.txt"));
        let notices = files.notices();
        assert!(
            notices[0].starts_with("h.har: 1 request left out"),
            "{notices:?}"
        );
        assert_eq!(notices[1], "h.har: 1 of 1 request: those to http://x (1)");
    }

    #[test]
    fn files_outside_of_the_recipes_folder_are_recognised_by_any_path() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(home.path().join("secret"), "s").unwrap();
        std::fs::write(own.join("t.tsv"), "0.0\t/a\n").unwrap();
        std::os::unix::fs::symlink("../secret", own.join("link.txt")).unwrap();
        let secret = std::fs::canonicalize(home.path().join("secret")).unwrap();
        let absolute = |path: &Path| path.to_str().unwrap().to_owned();
        let is_inside = |path: &str| outside(&own, path).is_none();

        for path in ["../secret", "link.txt", &absolute(&secret)] {
            assert_eq!(outside(&own, path).as_ref(), Some(&secret), "{path}");
        }
        for path in ["t.tsv", "./t.tsv", "../own/t.tsv", "missing.txt"] {
            assert!(is_inside(path), "{path}");
        }
        assert!(is_inside(&absolute(&own.join("t.tsv"))));
        assert!(!is_inside("../missing") && !is_inside("/missing/too"));
        // The path of a recipe in the working folder has an empty parent.
        assert!(outside(Path::new(""), "missing.txt").is_none());
        assert!(outside(Path::new(""), "Cargo.toml").is_none());
        assert!(outside(Path::new(""), "/").is_some());
    }

    #[test]
    fn each_file_outside_of_the_recipes_folder_is_announced_once() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(home.path().join("body"), "b").unwrap();
        std::fs::write(own.join("text"), "t").unwrap();
        let files = SiblingFiles::recipe(&own.join("recipe.toml"));
        let files = files.with_outside(OutsideFiles::Announced);
        files.text("text").unwrap();
        assert!(files.announced.borrow().is_empty());
        files.text("../body").unwrap();
        files.length("../body").unwrap();
        files.length("/dev/null").unwrap_err();
        files.copy("../body", &own.join("copy")).unwrap();
        let announced: Vec<String> = files.announced.borrow().iter().cloned().collect();
        assert_eq!(announced, ["../body", "/dev/null"]);
    }

    #[test]
    fn file_outside_of_the_recipes_folder_is_refused_before_it_is_read() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(home.path().join("secret"), "s").unwrap();
        std::fs::write(own.join("text"), "t").unwrap();
        std::os::unix::fs::symlink("../secret", own.join("link")).unwrap();
        let files = SiblingFiles::recipe(&own.join("recipe.toml"));
        assert_eq!(files.text("text").unwrap(), "t");
        for path in ["../secret", "link", "/etc/hostname"] {
            let refused = [
                files.text(path).unwrap_err(),
                files.length(path).unwrap_err(),
                files.copy(path, &own.join("copy")).unwrap_err().to_string(),
            ];
            for said in refused {
                assert!(said.contains("--allow-files"), "{path}: {said}");
            }
        }
        assert!(!own.join("copy").exists());
        assert_eq!(OutsideFiles::allowed_if(true), OutsideFiles::Announced);
        let is_root = process::effective_ids().0 == ROOT;
        let unasked = OutsideFiles::allowed_if(false);
        assert_eq!(unasked == OutsideFiles::Refused, is_root);
    }

    #[test]
    fn hosts_of_targets_are_left_out_of_recipes() {
        let folder = tempfile::tempdir().unwrap();
        let text = "\u{feff}GET http://a/1\nHost: b\nAccept: */*\n";
        std::fs::write(folder.path().join("t.txt"), text).unwrap();
        let files = SiblingFiles::recipe(&folder.path().join("recipe.toml"));
        let found = files.targets("t.txt").unwrap();
        assert_eq!(found[0].headers, [("accept".to_owned(), "*/*".to_owned())]);
        let notices = files.notices();
        assert!(
            notices[0].starts_with("t.txt: Host fields left out (1)"),
            "{notices:?}"
        );
    }

    #[test]
    fn page_and_targets_may_begin_with_a_byte_order_mark() {
        let one = page("\u{feff}[{\"url\": \"/a\"}]".as_bytes()).unwrap();
        assert_eq!(one[0].url, "/a");
        let json = "\u{feff}{\"method\": \"GET\", \"url\": \"http://a/\"}";
        assert_eq!(targets(json.as_bytes()).unwrap().content.len(), 1);
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
