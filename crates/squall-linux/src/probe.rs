//! What the kernel permits this process to do: each thing is actually tried, and leaves nothing behind.
//!
//! It gives no verdict: a refusal is an error with the kernel's reason. Facts that can be read rather than tried are in
//! `machine`; what a refusal means for squall is up to `squall doctor`.

use std::fs::OpenOptions;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, eaccess};
use squall_base::Duration;
use squall_base::plan::TcpSettings;
use squall_base::record::Lateness;

use crate::error::SetupError;
use crate::host::{Host, on_own_thread};
use crate::link_thread::PRIORITY;
use crate::scheduling::{self, Scheduling};
use crate::socket::{self, SocketError};
use crate::spans::DurationHistogram;
use crate::{clock, tun};

/// The name of the temporary devices, and their addresses (TEST-NET-1, RFC 5737).
const DEVICE: &str = "squall-probe";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PREFIX_LEN: u8 = 24;

/// Opens /dev/net/tun, which needs no rights except those on the file.
pub fn tun_driver() -> Result<(), SetupError> {
    tun::open_driver().map(drop)
}

/// Makes a TUN device in `host`, as a link does.
pub fn tun_device(host: &Host) -> Result<(), SetupError> {
    host.run(|| tun::Tun::create(DEVICE, ADDRESS, PREFIX_LEN, tun::Offload::None).map(drop))
}

/// Makes a TUN device in `host` with the driver's header for offloads, and makes TCP leave checksums and segmentation to
/// it.
pub fn tun_offloads(host: &Host) -> Result<(), SetupError> {
    host.run(|| tun::try_offloads(DEVICE))
}

/// Makes a PID namespace: when its first process ends, all others in it end, too.
pub fn pid_namespace() -> Result<(), SetupError> {
    on_own_thread(|| {
        unshare(CloneFlags::CLONE_NEWPID).map_err(SetupError::system("make a PID namespace"))
    })
}

/// Makes a mount namespace and mounts /etc/hosts over itself there. Making the namespace alone proves too little: some
/// systems allow that and refuse every mount in it.
pub fn mount_namespace() -> Result<(), SetupError> {
    const NONE: Option<&str> = None;
    on_own_thread(|| {
        unshare(CloneFlags::CLONE_NEWNS).map_err(SetupError::system("make a mount namespace"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(NONE, "/", NONE, private, NONE)
            .map_err(SetupError::system("keep mounts to a mount namespace"))?;
        let hosts = "/etc/hosts";
        mount(Some(hosts), hosts, NONE, MsFlags::MS_BIND, NONE)
            .map_err(SetupError::system("mount a file over /etc/hosts"))
    })
}

/// A congestion control, and whether a socket accepted it.
pub type TriedCongestionControl = (&'static str, Result<(), SocketError>);

/// Sets each of the congestion controls `names` on a socket inside `host`, as a station does, and reads it back.
pub fn congestion_controls(
    host: &Host,
    names: &[&'static str],
) -> Result<Vec<TriedCongestionControl>, SetupError> {
    host.run(|| Ok(congestion_controls_here(names)))
}

/// As [`congestion_controls`], but in the network namespace of the calling thread.
pub fn congestion_controls_here(names: &[&'static str]) -> Vec<TriedCongestionControl> {
    let anywhere = (Ipv4Addr::LOCALHOST, 0).into();
    let attempt = |name: &'static str| {
        let settings = TcpSettings {
            congestion_control: Some(name.to_owned()),
            ..TcpSettings::default()
        };
        let listener = socket::start_listening(anywhere, &settings)?;
        match socket::congestion_control(&listener) {
            Ok(used) if used == name => Ok(()),
            // The kernel uses a different one: treat the requested one as missing.
            _ => Err(SocketError::CongestionControl {
                name: name.to_owned(),
                choices: String::new(),
                source: Errno::ENOENT,
            }),
        }
    };
    names.iter().map(|name| (*name, attempt(name))).collect()
}

/// How a thread like the link's is scheduled here, and how late it wakes up.
#[derive(Clone, Copy, Debug)]
pub struct WakeUps {
    /// The scheduling it got when it asked for real time.
    pub scheduling: Scheduling,
    /// How late the sleeps ended.
    pub lateness: Lateness,
}

/// Sleeps `sleeps` times until a time 1 ms away, on a thread that asks for the link's scheduling.
pub fn wake_ups(sleeps: u32) -> Result<WakeUps, SetupError> {
    const SLEEP: Duration = Duration::from_millis(1);
    on_own_thread(|| {
        let scheduling = scheduling::make_realtime(PRIORITY);
        let mut late = DurationHistogram::new();
        for _ in 0..sleeps {
            let deadline = clock::now() + SLEEP;
            clock::sleep_until(deadline)?;
            late.add(clock::now().since(deadline));
        }
        Ok(WakeUps {
            scheduling,
            lateness: late.lateness(),
        })
    })
}

/// Whether a folder is writable, and how much space it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderSpace {
    /// Whether a file could be created in it.
    pub is_writable: bool,
    /// What its file system has left for this user, in bytes.
    pub free_bytes: u64,
}

/// Tries to create an unnamed file in `folder`, and reads the free space.
pub fn folder_space(folder: &Path) -> Result<FolderSpace, SetupError> {
    let space = statvfs(folder).map_err(SetupError::system("ask for the space on a disk"))?;
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    let is_writable = match nameless {
        Ok(_) => true,
        // Not every file system supports unnamed files; in that case the access rights must do.
        Err(error) if is_unsupported(&error) => eaccess(folder, AccessFlags::W_OK).is_ok(),
        Err(_) => false,
    };
    Ok(FolderSpace {
        is_writable,
        free_bytes: space.blocks_available() * space.fragment_size(),
    })
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_counted_and_never_end_early() {
        let found = wake_ups(20).expect("a thread may sleep");
        assert_eq!(found.lateness.count, 20);
        assert!(found.lateness.p50 <= found.lateness.p99);
    }

    #[test]
    fn free_space_is_reported_only_for_existing_folders() {
        let here =
            folder_space(&std::env::temp_dir()).expect("there is a folder for temporary files");
        assert!(here.is_writable);
        assert!(folder_space(Path::new("/nowhere/at/all")).is_err());
    }
}
