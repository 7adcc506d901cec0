//! The user a server runs as, because it refuses to run as root.
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

/// Who the server runs as: whoever we are, unless that is root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerUser {
    /// The user this process runs as.
    Ours,
    /// Another user, since we are root.
    Other { uid: u32, gid: u32 },
}

impl ServerUser {
    /// The user to run as, seen from the owner of `made_by_us`, something this process made.
    pub(crate) fn choose(made_by_us: &Path) -> Result<Self> {
        if fs::metadata(made_by_us)?.uid() != 0 {
            return Ok(Self::Ours);
        }
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read the list of users")?;
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| entry_of(&passwd, name))
            .context("a server cannot run as root and there is no user postgres or nobody")
    }

    /// Gives `path` to the user.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        match self {
            Self::Ours => Ok(()),
            Self::Other { uid, gid } => chown(path, Some(uid), Some(gid))
                .with_context(|| format!("cannot give {} to user {uid}", path.display())),
        }
    }

    /// A command that will run as the user.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// The ids in the line of `name`: `name:password:uid:gid:…`.
fn entry_of(passwd: &str, name: &str) -> Option<ServerUser> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (found && uid != 0).then_some(ServerUser::Other { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_third_and_fourth_field_of_the_users_line() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        let expected = ServerUser::Other { uid: 101, gid: 104 };
        assert_eq!(entry_of(passwd, "postgres"), Some(expected));
        assert_eq!(entry_of(passwd, "root"), None);
        assert_eq!(entry_of(passwd, "nobody"), None);
    }
}
