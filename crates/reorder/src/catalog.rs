//! What a buffer asks of its surroundings.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, Lsn, Oid, Xid};
use pgtoast_varlena::ToastPointer;

use crate::{Relation, ReorderError};

/// What is known about tables and transactions.
pub trait Catalog {
    /// The relation of that id, as it was at a place in the log.
    fn relation(&self, id: Oid, lsn: Lsn) -> Option<&Relation>;

    /// Whether a transaction is known to be undone. Asked before it is evicted; where nobody knows, it is
    /// not.
    fn is_aborted(&self, xid: Xid) -> bool {
        let _ = xid;
        false
    }

    /// Who puts direct values together. Without, pointers to them count as unchanged.
    fn direct_values(&self) -> Option<&dyn DirectValues> {
        None
    }
}

/// Puts direct values together, which are trees of chunks that point to one another.
pub trait DirectValues {
    /// The value that `pointer` points to, without a header and decompressed, from chunks that were inserted
    /// before the row; `None` if the root is not among them, so that the value is an older one.
    ///
    /// # Errors
    /// [`ReorderError::Toast`] for a broken one, and what `chunks` fails with.
    fn rebuild(
        &self,
        pointer: &ToastPointer,
        chunks: &mut dyn DirectChunks,
    ) -> Result<Option<Vec<u8>>, ReorderError>;
}

/// The tuples of direct values that were inserted before a row.
pub trait DirectChunks {
    /// Copies the tuple at `tid` of the pointer's TOAST relation into `target`, and says whether it is one of
    /// them.
    ///
    /// # Errors
    /// [`ReorderError::SpillTruncated`] and its like where it was spilled.
    fn fetch(&mut self, tid: ItemPointer, target: &mut Vec<u8>) -> Result<bool, ReorderError>;
}

/// Relations that do not change: the simplest catalog.
#[derive(Clone, Debug, Default)]
pub struct RelationMap(BTreeMap<u32, Relation>);

impl RelationMap {
    /// These.
    #[must_use]
    pub fn new(relations: impl IntoIterator<Item = Relation>) -> Self {
        Self(relations.into_iter().map(|relation| (relation.id().get(), relation)).collect())
    }
}

impl Catalog for RelationMap {
    fn relation(&self, id: Oid, _lsn: Lsn) -> Option<&Relation> {
        self.0.get(&id.get())
    }
}

impl<C: Catalog + ?Sized> Catalog for &C {
    fn relation(&self, id: Oid, lsn: Lsn) -> Option<&Relation> {
        (**self).relation(id, lsn)
    }

    fn is_aborted(&self, xid: Xid) -> bool {
        (**self).is_aborted(xid)
    }

    fn direct_values(&self) -> Option<&dyn DirectValues> {
        (**self).direct_values()
    }
}
