//! What goes out.
use alloc::vec::Vec;

use pgtoast_base::{Lsn, Xid};

use crate::{Relation, ReorderError, RowChange};

/// Where transactions go: whole when they commit, or, if it [streams](Self::streams), in part before, when
/// memory is short.
///
/// ```text
/// whole      begin  change...  commit
/// streamed   stream_start  stream_change...  stream_stop     once or more often
///            stream_abort                                    of the whole or of subtransactions
///            stream_commit
/// ```
/// An error ends the transaction: what is held of it is dropped. All methods but the first five do nothing
/// unless they are written.
pub trait Output {
    /// Its errors, and those of the buffer.
    type Error: From<ReorderError>;

    /// A transaction that is committed begins.
    ///
    /// # Errors
    /// Its own.
    fn begin(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error>;

    /// A row was inserted, updated or deleted.
    ///
    /// # Errors
    /// Its own, and what reading values fails with.
    fn change(
        &mut self,
        transaction: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), Self::Error>;

    /// Tables were emptied.
    ///
    /// # Errors
    /// Its own.
    fn truncate(
        &mut self,
        transaction: &TransactionInfo,
        truncate: &Truncate<'_>,
    ) -> Result<(), Self::Error>;

    /// A message, of a transaction or of none.
    ///
    /// # Errors
    /// Its own.
    fn message(
        &mut self,
        transaction: Option<&TransactionInfo>,
        message: &Message<'_>,
    ) -> Result<(), Self::Error>;

    /// That was all of it.
    ///
    /// # Errors
    /// Its own.
    fn commit(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error>;

    /// Whether it takes transactions that are not over.
    fn streams(&self) -> bool {
        false
    }

    /// A part of a transaction that is not over begins.
    ///
    /// # Errors
    /// Its own.
    fn stream_start(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error> {
        let _ = transaction;
        Ok(())
    }

    /// A row was changed in a transaction that is not over.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    fn stream_change(
        &mut self,
        transaction: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), Self::Error> {
        let _ = (transaction, change);
        Ok(())
    }

    /// Tables were emptied in a transaction that is not over.
    ///
    /// # Errors
    /// Its own.
    fn stream_truncate(
        &mut self,
        transaction: &TransactionInfo,
        truncate: &Truncate<'_>,
    ) -> Result<(), Self::Error> {
        let _ = (transaction, truncate);
        Ok(())
    }

    /// A message of a transaction that is not over.
    ///
    /// # Errors
    /// Its own.
    fn stream_message(
        &mut self,
        transaction: &TransactionInfo,
        message: &Message<'_>,
    ) -> Result<(), Self::Error> {
        let _ = (transaction, message);
        Ok(())
    }

    /// That was this part.
    ///
    /// # Errors
    /// Its own.
    fn stream_stop(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error> {
        let _ = transaction;
        Ok(())
    }

    /// A transaction of which parts were streamed was undone, or one of its subtransactions: `change_xid`.
    ///
    /// # Errors
    /// Its own.
    fn stream_abort(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error> {
        let _ = transaction;
        Ok(())
    }

    /// A transaction of which parts were streamed is committed.
    ///
    /// # Errors
    /// Its own.
    fn stream_commit(&mut self, transaction: &TransactionInfo) -> Result<(), Self::Error> {
        let _ = transaction;
        Ok(())
    }
}

/// Which transaction something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionInfo {
    /// The transaction at the top.
    pub xid: Xid,
    /// The subtransaction, or the same.
    pub change_xid: Xid,
    /// Where in the log the record is that this comes from.
    pub lsn: Lsn,
}

/// Some tables were emptied.
#[derive(Clone, Debug)]
pub struct Truncate<'r> {
    /// Which.
    pub relations: Vec<&'r Relation>,
    /// And those that refer to them.
    pub cascade: bool,
    /// Their sequences start again.
    pub restart_identity: bool,
}

/// A message in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Whose it is.
    pub prefix: &'m str,
    /// Any bytes.
    pub content: &'m [u8],
}
