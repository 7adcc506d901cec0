//! What the writer of a row asks of the row's TOAST relation.
use pgtoast_base::Oid8;
use pgtoast_page::HeapTupleMut;
use pgtoast_varlena::ToastPointer;

use crate::{Chunk, ChunkSource};

/// A TOAST relation that is written to: a store's, a bulk loader's file, a vector in a test.
///
/// As a [`ChunkSource`] it is only asked for values that a new row points to and that are not its own:
/// those of another row or another table, by the relation in their key. One that knows of none visits none.
pub trait ToastRelation: ChunkSource {
    /// An id that no value of the relation has, and that is not 0.
    ///
    /// # Errors
    /// Its own.
    #[doc(alias = "GetNewOidWithIndex")]
    fn new_value_id(&mut self) -> Result<Oid8, Self::Error>;

    /// Takes in the tuple of one chunk, and `(value_id, seq)` into its index. The chunks of a value come
    /// in their order. Whose transaction this is, the tuple's header does not say yet:
    /// [`TupleHeader::set_inserted`](pgtoast_page::TupleHeader::set_inserted).
    ///
    /// # Errors
    /// Its own.
    #[doc(alias = "toast_save_datum")]
    fn insert_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        tuple: HeapTupleMut<'_>,
    ) -> Result<(), Self::Error>;

    /// Deletes the chunks of a value. It is called behind all insertions of a row.
    ///
    /// # Errors
    /// Its own.
    #[doc(alias = "toast_delete_datum")]
    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), Self::Error>;

    /// A call failed, or panicked, in the midst of a row: takes back what the row did. Of the values in
    /// `inserted` all chunks came, but for the last, of which some may have or none; those in `deleted` were
    /// deleted, but for the last, where that may have failed.
    ///
    /// Where the transaction is aborted anyhow, there is nothing to do.
    fn take_back(&mut self, inserted: &[ToastPointer], deleted: &[ToastPointer]);
}

impl<R: ToastRelation + ?Sized> ToastRelation for &mut R {
    fn new_value_id(&mut self) -> Result<Oid8, Self::Error> {
        (**self).new_value_id()
    }

    fn insert_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        tuple: HeapTupleMut<'_>,
    ) -> Result<(), Self::Error> {
        (**self).insert_chunk(chunk, tuple)
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), Self::Error> {
        (**self).delete_value(pointer)
    }

    fn take_back(&mut self, inserted: &[ToastPointer], deleted: &[ToastPointer]) {
        (**self).take_back(inserted, deleted);
    }
}
