//! Judges kernel, space and settings: open files, memory, disk, and TCP settings.

use std::io;

use squall_linux::SetupError;
use squall_linux::probe::FolderSpace;
use squall_linux::shared::{SharedState, SocketMemory};

use super::check::Check;

/// Both ends of a pool of 4,096 connections are open in one worker, plus a few other files.
const OPEN_FILES_NEEDED: u64 = 2 * 4096 + 64;
/// A long trial's records are queued in chunks, and the report holds one trial at a time.
const MEMORY_NEEDED_MIB: u64 = 512;
/// Enough for the packet records of a long run.
const DISK_NEEDED_MIB: u64 = 1024;

pub(super) fn kernel(release: Option<String>) -> Check {
    let release = release.unwrap_or_else(|| "release not visible".to_owned());
    Check::ok(
        "kernel",
        format!("Linux {release}, {}", std::env::consts::ARCH),
    )
}

/// TCP settings in a host. squall uses and records them as they are, so this is never a problem.
pub(super) fn tcp_settings(settings: Option<Vec<(&'static str, String)>>) -> Check {
    const NAME: &str = "TCP settings";
    let Some(settings) = settings else {
        return Check::ok(
            NAME,
            "not visible: there is no network namespace to see them in",
        );
    };
    let told: Vec<String> = settings
        .iter()
        .map(|(name, value)| {
            let short = name.rsplit('.').next().unwrap_or(name);
            format!("{short} {value}")
        })
        .collect();
    Check::ok(NAME, told.join(", "))
}

/// How many files a worker may have open once it has raised its limit.
pub(super) fn open_files(limit: io::Result<u64>) -> Check {
    const NAME: &str = "open files";
    let advice = format!(
        "Raise the limit in this shell: `sudo prlimit --pid $$ --nofile=65536:65536` (for good: a line `* hard nofile \
         65536` in /etc/security/limits.conf). {OPEN_FILES_NEEDED} are for a pool of 4,096 connections"
    );
    match limit {
        Ok(u64::MAX) => Check::ok(NAME, "no limit"),
        Ok(limit) if limit >= OPEN_FILES_NEEDED => Check::ok(NAME, format!("{limit} at most")),
        Ok(limit) => Check::limited(NAME, format!("{limit} at most"), advice),
        Err(error) => Check::limited(NAME, format!("cannot raise the limit: {error}"), advice),
    }
}

/// Memory available to programs.
pub(super) fn memory(available_kib: Option<u64>) -> Check {
    const NAME: &str = "memory";
    let Some(kib) = available_kib else {
        return Check::ok(NAME, "not visible");
    };
    let found = format!("{} MiB available", kib / 1024);
    if kib >= MEMORY_NEEDED_MIB * 1024 {
        return Check::ok(NAME, found);
    }
    Check::limited(
        NAME,
        found,
        format!(
            "squall needs {MEMORY_NEEDED_MIB} MiB: stop what uses it, see `ps -eo pid,rss,comm --sort=-rss | head`"
        ),
    )
}

/// The memory that all sockets of the machine hold, those of other programs included. Namespaces do not separate it.
pub(super) fn socket_memory(state: &SharedState) -> Check {
    const NAME: &str = "memory of sockets";
    let protocols = [("TCP", state.tcp_memory), ("UDP", state.udp_memory)];
    let known: Vec<_> = protocols
        .into_iter()
        .filter_map(|(protocol, memory)| Some((protocol, memory?)))
        .collect();
    if known.is_empty() {
        return Check::ok(NAME, "not visible");
    }
    let found: Vec<String> = known
        .iter()
        .map(|(protocol, memory)| {
            let SocketMemory {
                in_use_pages,
                pressure_pages,
                ..
            } = memory;
            format!("{protocol} {in_use_pages} of {pressure_pages} pages")
        })
        .collect();
    let found = found.join(", ");
    match known.iter().find(|(_, memory)| memory.is_pressed()) {
        None => Check::ok(NAME, found),
        Some((protocol, _)) => Check::limited(
            NAME,
            found,
            format!(
                "The kernel shrinks the windows of every {protocol} socket, and trials are invalid: close what holds the \
                 memory (`ss -m`), or raise net.ipv4.{}_mem",
                protocol.to_lowercase()
            ),
        ),
    }
}

/// Whether a run's folder can be created here, with enough free space.
pub(super) fn disk(space: Result<FolderSpace, SetupError>) -> Check {
    const NAME: &str = "disk";
    let space = match space {
        Ok(space) => space,
        Err(error) => return Check::limited(NAME, error.to_string(), elsewhere()),
    };
    let free_mib = space.free_bytes / (1024 * 1024);
    let writable = if space.is_writable {
        "the current folder is writable"
    } else {
        "the current folder is not writable"
    };
    let found = format!("{writable}, {free_mib} MiB free");
    if space.is_writable && free_mib >= DISK_NEEDED_MIB {
        return Check::ok(NAME, found);
    }
    Check::limited(NAME, found, elsewhere())
}

fn elsewhere() -> String {
    format!(
        "Choose a folder of your own with {DISK_NEEDED_MIB} MiB free: `squall run RECIPE --output FOLDER`; see \
         `df -h .`"
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn open_file_limit_must_fit_the_connection_pool() {
        assert_eq!(open_files(Ok(8_256)).state, State::Ok);
        assert_eq!(open_files(Ok(u64::MAX)).found, "no limit");
        let low = open_files(Ok(4_096));
        assert_eq!(low.state, State::Limited);
        assert!(low.advice.is_some_and(|advice| advice.contains("prlimit")));
        let refused = open_files(Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.state, State::Limited);
    }

    #[test]
    fn low_memory_or_disk_space_is_a_limit() {
        assert_eq!(memory(Some(512 * 1024)).state, State::Ok);
        assert_eq!(memory(Some(512 * 1024 - 1)).state, State::Limited);
        assert_eq!(memory(None).state, State::Ok);
        let space = |is_writable, free_bytes| {
            disk(Ok(FolderSpace {
                is_writable,
                free_bytes,
            }))
        };
        assert_eq!(space(true, 1 << 30).state, State::Ok);
        assert_eq!(space(true, (1 << 30) - 1).state, State::Limited);
        let closed = space(false, 1 << 40);
        assert_eq!(closed.state, State::Limited);
        assert!(closed.found.contains("not writable"), "{}", closed.found);
    }

    #[test]
    fn memory_pressure_on_sockets_is_a_limit() {
        let state = |in_use_pages| SharedState {
            tcp_memory: Some(SocketMemory {
                in_use_pages,
                low_pages: 75,
                pressure_pages: 100,
            }),
            ..SharedState::default()
        };
        let calm = socket_memory(&state(100));
        assert_eq!(
            (calm.state, calm.found.as_str()),
            (State::Ok, "TCP 100 of 100 pages")
        );
        let pressed = socket_memory(&state(101));
        assert_eq!(pressed.state, State::Limited);
        assert!(
            pressed
                .advice
                .is_some_and(|advice| advice.contains("net.ipv4.tcp_mem"))
        );
        assert_eq!(socket_memory(&SharedState::default()).found, "not visible");
    }

    #[test]
    fn tcp_settings_are_shown_by_their_short_names() {
        let told = tcp_settings(Some(vec![
            ("net.ipv4.tcp_rmem", "4096 131072 6291456".to_owned()),
            ("net.core.somaxconn", "4096".to_owned()),
        ]));
        assert_eq!(told.found, "tcp_rmem 4096 131072 6291456, somaxconn 4096");
        assert_eq!(tcp_settings(None).state, State::Ok);
        assert!(
            kernel(Some("6.12.0".to_owned()))
                .found
                .starts_with("Linux 6.12.0, ")
        );
    }
}
