//! `--behind`: probes a service of this machine as if it were behind a link. `squall link` runs this command again on the
//! near side of that link, and forwards the service's port.
//!
//! Only the command line; the link and its hosts are `link/`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::client::HttpUrl;
use crate::outcome::{BadInput, CommandOutcome};

/// The flag, as in `arguments`.
const BEHIND: &str = "--behind";
/// What the far host is called on the near side of a link.
const FAR_HOST: &str = "server";

/// Replaces this process with `squall link` and, in it, this command without `--behind`. Returns only if that fails.
pub(super) fn run(link: &str, urls: &[String]) -> Result<CommandOutcome> {
    let [url] = urls else {
        return Err(BadInput::new("--behind takes one URL").into());
    };
    let Some(port) = HttpUrl::parse(url)?.local_port() else {
        let said = format!(
            "--behind is for a service of this machine, because there is no internet behind the link: expected a URL of \
             localhost instead of {url}"
        );
        return Err(BadInput::new(said).into());
    };
    let squall = std::env::current_exe().context("cannot find squall's own executable")?;
    let own = without_flag(std::env::args_os().skip(1));
    let error = Command::new(&squall)
        .args(["link", "--quiet", "--up", link, "--down", link])
        .args(["--forward", &port.to_string(), "--"])
        .arg(&squall)
        .args(own)
        .args(["--forwarded", "--connect-to", &format!("{FAR_HOST}:{port}")])
        .exec();
    Err(error).context("cannot start squall link")
}

/// The arguments without `--behind` and its value.
fn without_flag(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == BEHIND {
            // Its value.
            arguments.next();
            continue;
        }
        let is_joined = (argument.to_string_lossy())
            .strip_prefix(BEHIND)
            .is_some_and(|rest| rest.starts_with('='));
        if !is_joined {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_behind_the_link_has_all_other_arguments() {
        for flag in [vec!["--behind", "delay 30ms"], vec!["--behind=delay 30ms"]] {
            let mut all = vec!["probe", "-k"];
            all.extend(flag);
            all.push("https://localhost/");
            let kept = without_flag(all.into_iter().map(OsString::from));
            assert_eq!(kept, ["probe", "-k", "https://localhost/"]);
        }
    }
}
