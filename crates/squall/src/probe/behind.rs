//! `--behind`: probes a service on this machine as if it were behind a link. `squall link` runs this command again on the
//! near side of that link, and forwards the service's port.
//!
//! The link and its hosts are in `link/`, the command lines in `service`. `range` finds a range in the link's settings, and
//! `sweep` runs one probe for each of its values.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use squall_record::append_private;

use super::arguments::Arguments;
use super::plan::Plan;
use super::range::Range;
use super::service::{LinkCaptureFiles, PCAP, Service, wait, without_flags};
use super::sweep;
use crate::interrupt;
use crate::outcome::{BadInput, CommandOutcome, FAILED};

/// The flag, as in `arguments`.
const BEHIND: &str = "--behind";

/// Runs the probe, or all probes of a range.
pub(super) fn run(arguments: &Arguments, link: &str, plans: &[Plan]) -> Result<CommandOutcome> {
    let ([url], [plan]) = (arguments.urls.as_slice(), plans) else {
        return Err(BadInput::new("--behind takes one URL").into());
    };
    let service = Service::of(url)?;
    let count = arguments.points.map(usize::from);
    if let Some(range) = Range::find(link, count)? {
        return sweep::run(arguments, &service, plan, &range);
    }
    if count.is_some() {
        let said = format!(
            "--points is for a range in --behind, such as 'delay 10..200ms'; '{link}' has none"
        );
        return Err(BadInput::new(said).into());
    }
    match &arguments.pcap {
        Some(path) => captured(arguments, &service, link, path, plan),
        None => {
            let own = without_flags(std::env::args_os().skip(1), &[BEHIND], &[]);
            Err(service.command(link, None, own).exec()).context("cannot start squall link")
        }
    }
}

/// Runs a probe whose packets the link captures. Over TLS, the probe writes its secrets to a key log, and the link takes them
/// from there. This is the user's key log, or a temporary one.
fn captured(
    arguments: &Arguments,
    service: &Service,
    link: &str,
    path: &Path,
    plan: &Plan,
) -> Result<CommandOutcome> {
    let mut own = without_flags(std::env::args_os().skip(1), &[BEHIND, PCAP], &[]);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.keys", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let own_log = arguments.connection.key_log.as_deref();
    let needs_log = plan.is_secure() && own_log.is_none();
    if needs_log {
        append_private(&temporary)
            .with_context(|| format!("cannot make a temporary file next to {}", path.display()))?;
        own.push("--key-log".into());
        own.push(temporary.clone().into_os_string());
    }
    let keys = own_log.or(needs_log.then_some(temporary.as_path()));
    let capture = LinkCaptureFiles {
        path,
        keys: keys.filter(|_| plan.is_secure()),
    };
    interrupt::watch()?;
    let ended = service
        .command(link, Some(&capture), own)
        .spawn()
        .context("cannot start squall link")
        .and_then(|mut child| wait(&mut child, None));
    if needs_log {
        // No longer needed: the capture has the secrets.
        let _ = fs::remove_file(&temporary);
    }
    let code = ended?.and_then(|status| status.code());
    Ok(match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) => CommandOutcome::Success,
        Some(code) => CommandOutcome::Code(code),
        None => CommandOutcome::Code(FAILED),
    })
}
