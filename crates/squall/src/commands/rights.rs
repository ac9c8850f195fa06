//! The rights of the commands that listen, and the user that they become (`--user`).
//!
//! Only which rights are needed when; squall-linux changes the process. Commands that only connect need no ports below 1024
//! and keep their user: `client::RIGHTS`.

use anyhow::Result;
use squall_linux::privileges::{self, Account, Rights};

use crate::outcome::BadInput;

/// The rights until the ports are bound and the files are opened.
const BEFORE_LISTENING: Rights = Rights::PORTS
    .and(Rights::SOCKETS)
    .and(Rights::FILES)
    .and(Rights::ANOTHER_USER);

#[derive(Debug, clap::Args)]
pub(super) struct UserFlag {
    /// Switch to this user once ports are bound and keys and logs are open, and keep no group but its own or GROUP (root
    /// only)
    #[arg(help_heading = "Rights", long, value_name = "USER[:GROUP]")]
    user: Option<String>,
}

/// What a command reads once it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaterFiles {
    /// Nothing.
    None,
    /// The files below a folder, whose owner may be anyone.
    Folder,
}

/// The rights of a command that is about to listen.
pub(super) struct ListeningRights {
    account: Option<Account>,
    later_files: LaterFiles,
}

impl UserFlag {
    /// Drops the rights that listening does not need. Call it first, while the process has a single thread.
    pub(super) fn prepare(&self, later_files: LaterFiles) -> Result<ListeningRights> {
        let account = self.user.as_deref().map(Account::find).transpose();
        let account = account.map_err(|error| BadInput::new(format!("--user: {error}")))?;
        privileges::keep_only(BEFORE_LISTENING)?;
        Ok(ListeningRights {
            account,
            later_files,
        })
    }
}

impl ListeningRights {
    /// Becomes the user of `--user`, which has no rights; without it, drops those that were needed for listening only. Call
    /// it before any other thread starts.
    pub(super) fn drop_after_listening(self) -> Result<()> {
        if let Some(account) = self.account {
            return Ok(privileges::become_user(account)?);
        }
        // A container may give root only the larger of the two rights to files.
        let files = match self.later_files {
            LaterFiles::None => Rights::NONE,
            LaterFiles::Folder if Rights::READ_FILES.are_held() => Rights::READ_FILES,
            LaterFiles::Folder => Rights::FILES,
        };
        Ok(privileges::keep_only(Rights::SOCKETS.and(files))?)
    }
}
