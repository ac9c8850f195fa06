//! The rights of a process: the capabilities that it keeps, a bar on gaining others, and the user that it becomes.
//!
//! Rights belong to threads: call these functions while the process has a single thread, so that all later ones inherit
//! the result. A right that is already missing stays missing, and that is not an error: an ordinary user or root in a
//! container lacks some. How a process gets the right to make hosts is in `user_namespace`; the callers decide who
//! needs what.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::unistd::{Gid, Group, Uid, User, geteuid, setgid, setgroups, setuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use thiserror::Error;

use crate::error::SetupError;

/// What a thread may do beyond an ordinary user: a set of capabilities (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(CapabilitySet);

impl Rights {
    /// No rights.
    pub const NONE: Rights = Rights(CapabilitySet::empty());

    /// To read files of every user.
    pub const READ_FILES: Rights = Rights(CapabilitySet::DAC_READ_SEARCH);

    /// To read and write files of every user, and to set their modes.
    pub const FILES: Rights = Rights(
        CapabilitySet::DAC_OVERRIDE
            .union(CapabilitySet::DAC_READ_SEARCH)
            .union(CapabilitySet::FOWNER),
    );

    /// To set every option of a socket, such as a congestion control that ordinary users may not choose.
    pub const SOCKETS: Rights = Rights(CapabilitySet::NET_ADMIN);

    /// To listen on ports below 1024.
    pub const PORTS: Rights = Rights(CapabilitySet::NET_BIND_SERVICE);

    /// To schedule threads in real time.
    pub const REAL_TIME: Rights = Rights(CapabilitySet::SYS_NICE);

    /// To become another user ([`become_user`]).
    pub const ANOTHER_USER: Rights = Rights(CapabilitySet::SETUID.union(CapabilitySet::SETGID));

    /// To make hosts, links and taps, to run stations and record them, and to end programs that have become another user.
    /// With SETPCAP, to take rights from programs.
    pub const HOSTS: Rights = Rights(
        CapabilitySet::SYS_ADMIN
            .union(CapabilitySet::NET_RAW)
            .union(CapabilitySet::KILL)
            .union(CapabilitySet::SETPCAP),
    )
    .and(Rights::SOCKETS)
    .and(Rights::PORTS)
    .and(Rights::REAL_TIME)
    .and(Rights::FILES);

    /// To map a user into a further user namespace (user_namespaces(7), the rules for mapping user 0 of the parent).
    pub const MAP_USERS: Rights = Rights(CapabilitySet::SETFCAP).and(Rights::ANOTHER_USER);

    /// What servers, proxies and load generators use when they are started as root: nginx and HAProxy become another
    /// user, change the owners of their folders, change their root and raise their limits. Without rights over the
    /// machine, such as mounting, modules and other processes' memory.
    pub const PROGRAMS: Rights = Rights(
        CapabilitySet::CHOWN
            .union(CapabilitySet::FSETID)
            .union(CapabilitySet::KILL)
            .union(CapabilitySet::NET_RAW)
            .union(CapabilitySet::IPC_LOCK)
            .union(CapabilitySet::SYS_CHROOT)
            .union(CapabilitySet::SYS_RESOURCE),
    )
    .and(Rights::SOCKETS)
    .and(Rights::PORTS)
    .and(Rights::REAL_TIME)
    .and(Rights::FILES)
    .and(Rights::ANOTHER_USER);

    /// These rights and `more`.
    pub const fn and(self, more: Rights) -> Rights {
        Rights(self.0.union(more.0))
    }

    /// Whether the calling thread has all of these rights now.
    pub fn are_held(self) -> bool {
        capabilities(None).is_ok_and(|sets| sets.effective.contains(self.0))
    }
}

/// Takes every right but `kept` from the calling thread and from everything that it starts, for good: neither a program that it
/// executes nor a file's mode or capabilities can add one (PR_SET_NO_NEW_PRIVS).
///
/// # Errors
/// The system forbids the calls altogether, as a sandbox may do. A right that is already missing is not an error.
pub fn keep_only(kept: Rights) -> Result<(), SetupError> {
    restrict(kept).map_err(SetupError::system("drop the rights that are not needed"))
}

/// Makes every right but `kept` ineffective in the calling thread. Programs that it executes get the rights of its
/// user, as if the user had started them directly: for programs that the user chose. The rights stay permitted, because
/// a program that regains them by being executed could not be debugged and would leave no core dump (prctl(2),
/// PR_SET_DUMPABLE).
///
/// # Errors
/// As [`keep_only`].
pub fn lower_to(kept: Rights) -> Result<(), SetupError> {
    let lower = || -> io::Result<()> {
        let mut sets = capabilities(None)?;
        sets.effective = sets.effective.intersection(kept.0);
        Ok(set_capabilities(None, sets)?)
    };
    lower().map_err(SetupError::system("lower the rights that are not needed"))
}

/// Makes `command` start with no more than the rights of [`Rights::PROGRAMS`], and without a way to gain others.
pub fn confine(command: &mut Command) {
    let settle = || restrict(Rights::PROGRAMS);
    // SAFETY: between fork and exec only async-signal-safe code may run. `settle` makes system calls on plain data, and
    // allocates nothing.
    unsafe { command.pre_exec(settle) };
}

/// What `keep_only` does, with nothing but system calls.
pub(crate) fn restrict(kept: Rights) -> io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !kept.0.contains(one) {
            // Refused without CAP_SETPCAP, and for numbers that the kernel does not know. The rest has the same effect.
            let _ = remove_capability_from_bounding_set(one);
        }
    }
    let sets = capabilities(None)?;
    // The kernel removes from the ambient set what is no longer permitted.
    let lowered = CapabilitySets {
        effective: sets.effective.intersection(kept.0),
        permitted: sets.permitted.intersection(kept.0),
        inheritable: sets.inheritable.intersection(kept.0),
    };
    set_capabilities(None, lowered)?;
    Ok(set_no_new_privs(true)?)
}

/// An ordinary user that root can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    uid: Uid,
    gid: Gid,
}

/// Why a text names no user that this process can become.
#[derive(Debug, Error)]
pub enum AccountError {
    /// There is no such user.
    #[error("there is no user {0:?}: write a name of /etc/passwd, or numbers as in 1000:1000")]
    NoUser(String),
    /// There is no such group.
    #[error("there is no group {0:?}: write a name of /etc/group, or a number")]
    NoGroup(String),
    /// A number without an entry, so its group is unknown.
    #[error(
        "user {0} has no entry in /etc/passwd, so its group is unknown: write it too, as in {0}:{0}"
    )]
    GroupUnknown(Uid),
    /// The user or the group is root's.
    #[error("user and group 0 are root's: name another user")]
    Root,
    /// This process is not root.
    #[error("only root can become another user, and this process is user {0}")]
    NotRoot(Uid),
    /// The system's lists cannot be read.
    #[error("cannot look up {text:?}: {source}")]
    LookUp {
        /// What was looked up.
        text: String,
        /// The system's error.
        source: nix::Error,
    },
}

impl Account {
    /// Finds the user that `NAME`, `UID`, `NAME:GROUP` or `UID:GROUP` names. Without a group, it is the user's own.
    ///
    /// # Errors
    /// The user or the group is unknown or root's, or this process is not root.
    pub fn find(text: &str) -> Result<Account, AccountError> {
        let account = Account::parse(text)?;
        let own = geteuid();
        if own.is_root() {
            Ok(account)
        } else {
            Err(AccountError::NotRoot(own))
        }
    }

    fn parse(text: &str) -> Result<Account, AccountError> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let number = user.parse().ok().map(Uid::from_raw);
        let entry = match number {
            Some(uid) => User::from_uid(uid),
            None => User::from_name(user),
        };
        let entry = entry.map_err(look_up(user))?;
        let uid = number.or(entry.as_ref().map(|entry| entry.uid));
        let uid = uid.ok_or_else(|| AccountError::NoUser(user.to_owned()))?;
        let gid = match (group, &entry) {
            (Some(group), _) => group_id(group)?,
            (None, Some(entry)) => entry.gid,
            (None, None) => return Err(AccountError::GroupUnknown(uid)),
        };
        if uid.is_root() || gid.as_raw() == 0 {
            return Err(AccountError::Root);
        }
        Ok(Account { uid, gid })
    }
}

fn group_id(text: &str) -> Result<Gid, AccountError> {
    if let Ok(number) = text.parse() {
        return Ok(Gid::from_raw(number));
    }
    let entry = Group::from_name(text).map_err(look_up(text))?;
    let gid = entry.map(|entry| entry.gid);
    gid.ok_or_else(|| AccountError::NoGroup(text.to_owned()))
}

fn look_up(text: &str) -> impl Fn(nix::Error) -> AccountError {
    move |source| AccountError::LookUp {
        text: text.to_owned(),
        source,
    }
}

/// Makes this process that user, for good, with its group and no other, and without any right.
///
/// # Errors
/// The kernel refused a part: root in a container may lack the capabilities for it.
pub fn become_user(account: Account) -> Result<(), SetupError> {
    let Account { uid, gid } = account;
    // Groups come first: after the user has changed, the process may no longer change them.
    setgroups(&[gid]).map_err(SetupError::system("leave the groups of root (setgroups)"))?;
    setgid(gid).map_err(SetupError::system(
        "change the group of this process (setgid)",
    ))?;
    setuid(uid).map_err(SetupError::system(
        "change the user of this process (setuid)",
    ))?;
    keep_only(Rights::NONE)?;
    if setuid(Uid::from_raw(0)).is_ok() {
        let source = io::Error::other("it could become root again");
        return Err(SetupError::System {
            action: "change the user of this process for good",
            source,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::machine::field;
    use crate::process::status_bits;

    /// The capabilities that a thread or a program can use, or gain.
    const SETS: [&str; 4] = ["CapInh", "CapPrm", "CapEff", "CapAmb"];

    fn bits(status: &str, name: &str) -> u64 {
        u64::from_str_radix(field(status, name).unwrap(), 16).unwrap()
    }

    /// Runs `work` on a thread of its own, so that the rights of the other tests stay.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().unwrap()
    }

    #[test]
    fn thread_keeps_only_the_named_rights_and_can_gain_no_others() {
        let had = status_bits("CapPrm");
        apart(move || {
            let kept = Rights::PROGRAMS.0.bits();
            keep_only(Rights::PROGRAMS).unwrap();
            assert_eq!(status_bits("CapPrm"), had & kept);
            assert_eq!(status_bits("NoNewPrivs"), 1);
            for set in SETS {
                assert_eq!(status_bits(set) & !kept, 0, "{set}");
            }
            // Again, now without the right to change the bounding set and with most rights missing already.
            keep_only(Rights::HOSTS).unwrap();
            keep_only(Rights::NONE).unwrap();
            for set in SETS {
                assert_eq!(status_bits(set), 0, "{set}");
            }
            assert!(!Rights::SOCKETS.are_held() && Rights::NONE.are_held());
        });
        assert_eq!(status_bits("CapPrm"), had, "other threads keep theirs");
    }

    #[test]
    fn threads_inherit_what_is_left() {
        apart(|| {
            keep_only(Rights::NONE).unwrap();
            let inherited = apart(|| (status_bits("CapPrm"), status_bits("NoNewPrivs")));
            assert_eq!(inherited, (0, 1));
        });
    }

    #[test]
    fn program_gets_no_right_over_the_machine_even_as_root() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        confine(&mut command);
        let output = command.output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert_eq!(field(&status, "NoNewPrivs"), Some("1"));
        let kept = Rights::PROGRAMS.0.bits();
        for set in SETS {
            assert_eq!(bits(&status, set) & !kept, 0, "{set}");
        }
        if geteuid().is_root() {
            assert_eq!(bits(&status, "CapEff"), status_bits("CapPrm") & kept);
        }
    }

    #[test]
    fn programs_that_the_user_chose_get_the_users_rights() {
        let status = apart(|| {
            lower_to(Rights::HOSTS).unwrap();
            assert_eq!(status_bits("CapEff") & !Rights::HOSTS.0.bits(), 0);
            let output = Command::new("cat").arg("/proc/self/status").output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        });
        assert_eq!(bits(&status, "NoNewPrivs"), status_bits("NoNewPrivs"));
        assert_eq!(bits(&status, "CapBnd"), status_bits("CapBnd"));
        if geteuid().is_root() {
            assert_eq!(bits(&status, "CapPrm"), status_bits("CapPrm"));
        }
    }

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let ids = |text: &str| {
            let account = Account::parse(text).unwrap();
            (account.uid.as_raw(), account.gid.as_raw())
        };
        assert_eq!(ids("4242:4343"), (4_242, 4_343));
        let nobody = User::from_name("nobody").unwrap();
        if let Some(nobody) = nobody {
            let own = (nobody.uid.as_raw(), nobody.gid.as_raw());
            assert_eq!(ids("nobody"), own);
            assert_eq!(ids(&own.0.to_string()), own);
            assert_eq!(ids("nobody:4343"), (own.0, 4_343));
        }
        for (text, said) in [
            ("", "there is no user \"\""),
            ("no-such-user", "there is no user"),
            ("4242:no-such-group", "there is no group"),
            ("4242424", "write it too"),
            ("root", "are root's"),
            ("0:0", "are root's"),
            ("4242:0", "are root's"),
        ] {
            let error = Account::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        if !geteuid().is_root() {
            assert!(matches!(
                Account::find("4242:4343"),
                Err(AccountError::NotRoot(_))
            ));
        }
    }
}
