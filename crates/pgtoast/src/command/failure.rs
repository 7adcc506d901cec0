//! Why a command could not do its work.
use core::fmt;
use std::io;

use crate::datadir::{DataFile, DatadirError};
use crate::toast::ReadError;

/// Why a command could not do its work.
#[derive(Debug)]
pub(super) enum Failure {
    /// Whoever reads our output has read enough.
    ClosedPipe,
    /// The data directory cannot be read.
    Datadir(DatadirError),
    /// Our own output cannot be written.
    Io(io::Error),
    /// A stored value cannot be read.
    Lost(String),
    /// Anything else.
    Other(String),
    /// What was asked makes no sense.
    Usage(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedPipe => f.write_str("the output was closed"),
            Self::Datadir(error) => {
                error.fmt(f)?;
                hint(error).map_or(Ok(()), |hint| write!(f, "\n{hint}"))
            }
            Self::Io(error) => write!(f, "cannot write: {error}"),
            Self::Lost(text) | Self::Other(text) | Self::Usage(text) => f.write_str(text),
        }
    }
}

/// What may help.
const fn hint(error: &DatadirError) -> Option<&'static str> {
    match error {
        DatadirError::ServerRunning { .. } => {
            Some("stop it, or read a copy or a backup; --online reads all the same")
        }
        DatadirError::FileMissing { file: DataFile::Control } => {
            Some("this is no data directory: the one to name has PG_VERSION and global in it")
        }
        DatadirError::ControlChecksum { .. } => Some(
            "the control file is damaged, or of a server of another byte order; a copy of it may be in a backup",
        ),
        DatadirError::RelationWithoutFile { .. } => {
            Some("views and partitioned tables have no rows of their own: name a partition")
        }
        _ => None,
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Io(error),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<DatadirError> for Failure {
    fn from(error: DatadirError) -> Self {
        Self::Datadir(error)
    }
}

impl From<ReadError<DatadirError>> for Failure {
    fn from(error: ReadError<DatadirError>) -> Self {
        Self::Lost(error.to_string())
    }
}
