//! From the errors of other crates.
use std::io;

use pgtoast_toast::{ReadError, ToastError, WriteError};

use crate::StoreError;

impl From<ToastError> for StoreError {
    fn from(error: ToastError) -> Self {
        Self::Toast(error)
    }
}

impl From<ReadError<Self>> for StoreError {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::Source(error) => error,
            ReadError::Toast(error) => Self::Toast(error),
        }
    }
}

impl From<WriteError<Self>> for StoreError {
    fn from(error: WriteError<Self>) -> Self {
        match error {
            WriteError::Relation(error) => error,
            WriteError::Toast(error) => Self::Toast(error),
        }
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { kind, .. } => Self::new(kind, error),
            _ => Self::other(error),
        }
    }
}
