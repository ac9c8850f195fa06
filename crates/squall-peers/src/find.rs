//! Finds programs, and asks each for its version, with a time limit.
//!
//! Nothing is installed here; `FindError` explains how to. `inventory` looks for all programs that squall knows.

use std::env;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use squall_linux::privileges;
use thiserror::Error;

/// How long a program may take to print its version; Envoy needs half a second when its file is not in the page cache.
const PATIENCE: Duration = Duration::from_secs(20);

/// An installed program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledProgram {
    /// Its file.
    pub path: PathBuf,
    /// The version that it reports.
    pub version: Version,
}

/// A program's version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// As the program prints it, such as `2.6.12`; empty if it was not asked.
    pub text: String,
    /// The numbers at its beginning.
    pub numbers: [u32; 3],
}

/// A program that is not installed, or cannot print its version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindError {
    /// The file does not exist.
    #[error(
        "{program} is not in {}; install it: {hint}; or set SQUALL_PEERS to the folder that `make peers` filled",
        path_of(.folders)
    )]
    NotFound {
        /// Its name.
        program: String,
        /// How to install it.
        hint: String,
        /// Where squall looked.
        folders: Vec<PathBuf>,
    },
    /// The file exists, but does not run.
    #[error("{} does not print its version: {problem}; install it again: {hint}", path.display())]
    Broken {
        /// Its file.
        path: PathBuf,
        /// What happened.
        problem: String,
        /// How to install it.
        hint: String,
    },
}

/// Folders as in PATH.
pub fn path_of(folders: &[PathBuf]) -> String {
    let all: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    all.join(":")
}

/// The folders to search, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
}

impl SearchPath {
    /// PATH, then Debian's folders for servers, then `bin` in the folder of `make peers`: SQUALL_PEERS names it, otherwise
    /// it is `peers` in the target folder that has the running program.
    pub fn usual() -> SearchPath {
        let path = env::var_os("PATH").unwrap_or_default();
        let named = env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty());
        let peers = match named {
            Some(folder) => Some(PathBuf::from(folder)),
            None => env::current_exe().ok().and_then(|file| peers_beside(&file)),
        };
        let folders = env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
            .chain(peers.map(|folder| folder.join("bin")))
            .collect();
        SearchPath { folders }
    }

    /// Only these folders.
    pub fn only(folders: Vec<PathBuf>) -> SearchPath {
        SearchPath { folders }
    }

    /// Adds these folders after all others.
    pub fn and_then(mut self, folders: impl IntoIterator<Item = PathBuf>) -> SearchPath {
        self.folders.extend(folders);
        self
    }

    /// The first executable file of this name. A name with a slash is a path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| is_program(path));
        }
        let all = self.folders.iter().map(|folder| folder.join(name));
        all.into_iter().find(|path| is_program(path))
    }
}

/// `target/peers` for the program `target/release/squall`, if there is such a folder.
fn peers_beside(program: &Path) -> Option<PathBuf> {
    let peers = program.parent()?.parent()?.join("peers");
    Some(peers).filter(|folder| folder.is_dir())
}

fn is_program(path: &Path) -> bool {
    let found = path.metadata();
    found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// A program that may be installed on this machine.
pub trait Installable: Sync {
    /// Its name in recipes.
    fn name(&self) -> &str;

    /// The name of its executable.
    fn program(&self) -> &str {
        self.name()
    }

    /// How to install it, such as `apt install haproxy`.
    fn install_hint(&self) -> &str;

    /// The arguments that make it print its version; `None`: it is not asked.
    fn version_arguments(&self) -> Option<&'static [&'static str]>;

    /// Looks for the program, and asks for its version.
    ///
    /// # Errors
    /// It is not in `search`, or does not report its version.
    fn find(&self, search: &SearchPath) -> Result<InstalledProgram, FindError> {
        find_program(
            self.program(),
            self.install_hint(),
            self.version_arguments(),
            search,
        )
    }
}

/// Implements [`Installable`] for a program that reports its version.
macro_rules! installable {
    ($Program:ty, $name:expr, install: $hint:expr, version: $arguments:expr) => {
        impl $crate::find::Installable for $Program {
            fn name(&self) -> &str {
                $name
            }

            fn install_hint(&self) -> &str {
                $hint
            }

            fn version_arguments(&self) -> Option<&'static [&'static str]> {
                Some($arguments)
            }
        }
    };
}
pub(crate) use installable;

/// Finds a program of this name, and its version if there are arguments that make it print one.
fn find_program(
    program: &str,
    hint: &str,
    version_arguments: Option<&[&str]>,
    search: &SearchPath,
) -> Result<InstalledProgram, FindError> {
    let Some(path) = search.program(program) else {
        return Err(FindError::NotFound {
            program: program.to_owned(),
            hint: hint.to_owned(),
            folders: search.folders.clone(),
        });
    };
    let broken = |problem: String| FindError::Broken {
        path: path.clone(),
        problem,
        hint: hint.to_owned(),
    };
    let version = match version_arguments {
        None => Version::default(),
        Some(arguments) => {
            let output = version_output(&path, arguments).map_err(broken)?;
            Version::within(&output)
                .ok_or_else(|| broken(format!("there is no version in {output:?}")))?
        }
    };
    Ok(InstalledProgram { path, version })
}

/// The first few kB that a program prints, on either stream, before it ends.
fn version_output(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let other = writer.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(path);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(other);
    privileges::confine(&mut command);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // The command holds the write end of the pipe.
    drop(command);
    let reading = thread::spawn(move || {
        let mut output = Vec::new();
        // A read error only shortens the output.
        let _ = reader.by_ref().take(64 << 10).read_to_end(&mut output);
        output
    });
    let give_up = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(_) => break,
            None if Instant::now() > give_up => {
                // Killing fails if the program has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", PATIENCE.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
    let output = reading.join().unwrap_or_default();
    Ok(String::from_utf8_lossy(&output)
        .chars()
        .take(4_096)
        .collect())
}

impl Version {
    /// The first part of a text that looks like a version: two to four numbers with dots between.
    fn within(text: &str) -> Option<Version> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find_map(Version::read)
    }

    fn read(word: &str) -> Option<Version> {
        let word = word.trim_end_matches('.');
        let parts: Vec<&str> = word.split('.').collect();
        if !(2..=4).contains(&parts.len()) {
            return None;
        }
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(&parts) {
            *number = part.parse().ok()?;
        }
        Some(Version {
            text: word.to_owned(),
            numbers,
        })
    }

    /// Whether the version is this one or a later one.
    pub fn is_at_least(&self, numbers: [u32; 3]) -> bool {
        self.numbers >= numbers
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.text.is_empty() {
            "(version unknown)"
        } else {
            &self.text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_print() {
        for (said, text, numbers) in [
            ("nginx version: nginx/1.22.1\n", "1.22.1", [1, 22, 1]),
            (
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17",
                "2.6.12",
                [2, 6, 12],
            ),
            (
                "\nenvoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean",
                "1.40.0",
                [1, 40, 0],
            ),
            ("nghttpx nghttp2/1.52.0\n", "1.52.0", [1, 52, 0]),
            ("v2.11.7 h1:yj0Y4fYZ\n", "2.11.7", [2, 11, 7]),
            (
                "k6 v1.1.0 (commit/0b2ad9b, go1.24.6, linux/amd64)",
                "1.1.0",
                [1, 1, 0],
            ),
            ("1.63.9\n", "1.63.9", [1, 63, 9]),
        ] {
            let found = Version::within(said).expect(said);
            assert_eq!(
                (found.text.as_str(), found.numbers),
                (text, numbers),
                "{said}"
            );
        }
        assert_eq!(Version::within("no version 12 here."), None);
        assert!(Version::within("1.22.1").is_some_and(|v| v.is_at_least([1, 22, 0])));
        assert!(!Version::within("1.22.1").is_some_and(|v| v.is_at_least([1, 25, 1])));
    }

    #[test]
    fn folder_of_make_peers_is_found_from_the_program_that_cargo_built() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let program = target.path().join("release/squall");
        assert_eq!(peers_beside(&program), None);
        let peers = target.path().join("peers");
        std::fs::create_dir(&peers).expect("an empty folder");
        assert_eq!(peers_beside(&program), Some(peers));
        assert_eq!(peers_beside(Path::new("squall")), None);
    }

    #[test]
    fn program_that_prints_no_version_is_reported_as_broken() {
        let search = SearchPath::only(vec![PathBuf::from("/bin"), PathBuf::from("/usr/bin")]);
        let found = find_program("true", "apt install coreutils", Some(&[]), &search);
        assert!(matches!(found, Err(FindError::Broken { .. })), "{found:?}");
        let found =
            find_program("true", "apt install coreutils", None, &search).expect("it is there");
        assert_eq!(found.version.to_string(), "(version unknown)");
    }
}
