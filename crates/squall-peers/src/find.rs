//! Where programs are, and which version: asked of the program itself, within a limit of time.
//!
//! Nothing is installed here; `Missing` says how to. `squall doctor --peers` shows the `inventory`.

use std::env;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::client::clients;
use crate::driver::{Driver, drivers};

/// How long a program may take to say its version; Envoy needs half a second when its file is not in memory.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: Version,
}

/// A program's version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// As the program writes it, such as `2.6.12`; empty if it was not asked.
    pub text: String,
    /// The numbers that it begins with.
    pub numbers: [u32; 3],
}

/// A program that is not there, or cannot say its version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// There is no such file.
    #[error("{program} is not in {}; install it: {hint}", path_of(.folders))]
    NotFound {
        /// Its name.
        program: String,
        /// How to get it.
        hint: String,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// It is there, and does not run.
    #[error("{} does not say its version: {problem}; install it again: {hint}", path.display())]
    Broken {
        /// Its file.
        path: PathBuf,
        /// What happened.
        problem: String,
        /// How to get it.
        hint: String,
    },
}

fn path_of(folders: &[PathBuf]) -> String {
    let all: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    all.join(":")
}

/// Where programs are looked for, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    folders: Vec<PathBuf>,
}

impl Search {
    /// PATH, then where Debian has servers, then `bin` of the folder that SQUALL_PEERS names (`make peers`).
    pub fn usual() -> Search {
        let path = env::var_os("PATH").unwrap_or_default();
        let peers = env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty());
        let folders = env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
            .chain(peers.map(|folder| Path::new(&folder).join("bin")))
            .collect();
        Search { folders }
    }

    /// Only these folders.
    pub fn only(folders: Vec<PathBuf>) -> Search {
        Search { folders }
    }

    /// These folders after all others.
    pub fn and_then(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Search {
        self.folders.extend(folders);
        self
    }

    /// The first file of this name that can be run. A name with a slash is a path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| is_program(path));
        }
        let all = self.folders.iter().map(|folder| folder.join(name));
        all.into_iter().find(|path| is_program(path))
    }
}

fn is_program(path: &Path) -> bool {
    let found = path.metadata();
    found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The driver's program and its version.
pub fn find(driver: &dyn Driver, search: &Search) -> Result<Found, Missing> {
    look_up(
        driver.program(),
        driver.install_hint(),
        driver.version_arguments(),
        search,
    )
}

/// Every program that squall knows, stations first, then clients; each as far as it is there.
pub fn inventory(search: &Search) -> Vec<(String, Result<Found, Missing>)> {
    let stations = drivers()
        .into_iter()
        .map(|driver| (driver.name().to_owned(), find(driver, search)));
    let clients = clients()
        .into_iter()
        .map(|client| (client.name().to_owned(), client.find(search)));
    stations.chain(clients).collect()
}

pub(crate) fn look_up(
    program: &str,
    hint: &str,
    version_arguments: Option<&[&str]>,
    search: &Search,
) -> Result<Found, Missing> {
    let Some(path) = search.program(program) else {
        return Err(Missing::NotFound {
            program: program.to_owned(),
            hint: hint.to_owned(),
            folders: search.folders.clone(),
        });
    };
    let broken = |problem: String| Missing::Broken {
        path: path.clone(),
        problem,
        hint: hint.to_owned(),
    };
    let version = match version_arguments {
        None => Version::default(),
        Some(arguments) => {
            let said = ask(&path, arguments).map_err(broken)?;
            Version::within(&said)
                .ok_or_else(|| broken(format!("there is no version in {said:?}")))?
        }
    };
    Ok(Found { path, version })
}

/// The first few kB that a program prints, on either stream, before it ends.
fn ask(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let other = writer.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(path);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(other);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // The command holds the pipe's writing end.
    drop(command);
    let reading = thread::spawn(move || {
        let mut said = Vec::new();
        // What could not be read was not said.
        let _ = reader.by_ref().take(64 << 10).read_to_end(&mut said);
        said
    });
    let give_up = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(_) => break,
            None if Instant::now() > give_up => {
                // It may just have ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", PATIENCE.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
    let said = reading.join().unwrap_or_default();
    Ok(String::from_utf8_lossy(&said).chars().take(4_096).collect())
}

impl Version {
    /// The first thing in a text that looks like a version: two or three numbers with points between.
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

    /// Whether it is this one or a later one.
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
    fn what_is_missing_is_named_with_its_package() {
        let nowhere = Search::only(vec![PathBuf::from("/nonexistent")]);
        for (name, found) in inventory(&nowhere) {
            let said = found.expect_err("it is nowhere").to_string();
            assert!(said.contains(&name) && said.contains("install"), "{said}");
        }
    }

    #[test]
    fn a_program_that_does_not_say_its_version_is_broken() {
        let search = Search::only(vec![PathBuf::from("/bin"), PathBuf::from("/usr/bin")]);
        let found = look_up("true", "apt install coreutils", Some(&[]), &search);
        assert!(matches!(found, Err(Missing::Broken { .. })), "{found:?}");
        let found = look_up("true", "apt install coreutils", None, &search).expect("it is there");
        assert_eq!(found.version.to_string(), "(version unknown)");
    }
}
