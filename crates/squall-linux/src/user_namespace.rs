//! Becoming root in a user namespace, for processes that may not make network namespaces.
//!
//! It changes the whole process, which must be single-threaded, so a worker calls it first. What forbids it differs by
//! distribution; the error names the setting that is in the way on this machine.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::error::SetupError;
use crate::process::status_bits;

/// CAP_NET_ADMIN, for devices, and CAP_SYS_ADMIN, for network namespaces (linux/capability.h).
const NEEDED_CAPABILITIES: u64 = (1 << 12) | (1 << 21);

/// How the process got the right to make network namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It already had the right.
    Own,
    /// Through a user namespace, which it has just entered.
    UserNamespace,
}

/// Ensures that this process may make network namespaces. Call it while the process has a single thread.
pub fn acquire_privilege() -> Result<Privilege, SetupError> {
    // If the capabilities cannot be read, they count as missing, and a user namespace is tried.
    if status_bits("CapEff") & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES {
        return Ok(Privilege::Own);
    }
    let (uid, gid) = (geteuid(), getegid());
    let refused = |source: io::Error| SetupError::UserNamespace {
        advice: advice(),
        source,
    };
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| refused(errno.into()))?;
    // Without "deny", the kernel accepts no gid map from an ordinary user (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny").map_err(refused)?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(refused)?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(refused)?;
    Ok(Privilege::UserNamespace)
}

/// Names the settings that forbid namespaces here, or suggests where else to look.
pub(crate) fn advice() -> String {
    let value = |path: &str| {
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .ok()
    };
    advice_for(&Settings {
        unprivileged_userns_clone: value("/proc/sys/kernel/unprivileged_userns_clone"),
        max_user_namespaces: value("/proc/sys/user/max_user_namespaces"),
        max_net_namespaces: value("/proc/sys/user/max_net_namespaces"),
        apparmor_restrict: value("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    })
}

/// The kernel's settings for namespaces; `None` for a setting that it lacks.
#[derive(Default)]
struct Settings {
    unprivileged_userns_clone: Option<String>,
    max_user_namespaces: Option<String>,
    max_net_namespaces: Option<String>,
    apparmor_restrict: Option<String>,
}

fn advice_for(settings: &Settings) -> String {
    let is = |setting: &Option<String>, forbidding: &str| setting.as_deref() == Some(forbidding);
    let mut culprits = Vec::new();
    if is(&settings.unprivileged_userns_clone, "0") {
        culprits.push("kernel.unprivileged_userns_clone=1");
    }
    if is(&settings.max_user_namespaces, "0") {
        culprits.push("user.max_user_namespaces=10000");
    }
    if is(&settings.max_net_namespaces, "0") {
        culprits.push("user.max_net_namespaces=10000");
    }
    if is(&settings.apparmor_restrict, "1") {
        culprits.push("kernel.apparmor_restrict_unprivileged_userns=0");
    }
    if culprits.is_empty() {
        return "No sysctl forbids it, so either a limit is reached (\"No space left\": raise \
                user.max_user_namespaces and user.max_net_namespaces) or a sandbox forbids it: in a \
                container, add --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun \
                --security-opt seccomp=unconfined, or run as root"
            .to_owned();
    }
    format!(
        "Run as root, or allow it: `sudo sysctl -w {}`",
        culprits.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_setting_that_forbids_user_namespaces() {
        let zero = || Some("0".to_owned());
        let debian = Settings {
            unprivileged_userns_clone: zero(),
            ..Settings::default()
        };
        assert!(advice_for(&debian).contains("sysctl -w kernel.unprivileged_userns_clone=1"));
        let ubuntu = Settings {
            apparmor_restrict: Some("1".to_owned()),
            ..Settings::default()
        };
        assert!(advice_for(&ubuntu).contains("kernel.apparmor_restrict_unprivileged_userns=0"));
        let limited = Settings {
            max_user_namespaces: zero(),
            ..Settings::default()
        };
        assert!(advice_for(&limited).contains("user.max_user_namespaces=10000"));
        assert!(advice_for(&Settings::default()).contains("container"));
    }
}
