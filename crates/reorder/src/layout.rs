//! Where changes lie in memory.
//!
//! ```text
//! SharedGeneration      | a | a | b | a | ... |   | b | b | a | ...      blocks of all transactions
//! BumpPerTransaction    | a | a | a | ... |       | b | b | b | ...      blocks of one; nothing freed alone
//! CohortPages           | a | a | a | ... |       | b | b | b | ...      pages of one, and all freed alone
//! ```
mod bump_per_transaction;
mod cohort_pages;
mod places;
mod shared_generation;

pub use bump_per_transaction::BumpPerTransaction;
pub use cohort_pages::CohortPages;
pub use shared_generation::SharedGeneration;

use core::fmt;

use pgtoast_memctx::{Account, MemoryError};

/// Memory for changes. A transaction and the subtransactions that are known to be its own share a place.
///
/// What it holds it gives back when it is asked to; a buffer whose layout refuses that, loses count of its
/// memory and panics.
pub trait Layout {
    /// Where the changes of a transaction go. Not all of them need be in it: those that a subtransaction
    /// had before anybody knew whose it is are in another.
    type Place: fmt::Debug;
    /// A change that is held.
    type Held: fmt::Debug;

    /// A place for a new transaction.
    ///
    /// # Errors
    /// No memory for it.
    fn open(&mut self) -> Result<Self::Place, MemoryError>;

    /// The same place, for one more that uses it.
    fn share(&mut self, place: &Self::Place) -> Self::Place;

    /// Copies the bytes of a change into a place.
    ///
    /// # Errors
    /// No memory for it.
    fn hold(&mut self, place: &Self::Place, bytes: &[u8]) -> Result<Self::Held, MemoryError>;

    /// The bytes of a change.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] for one of another layout.
    fn bytes<'l>(&'l self, held: &'l Self::Held) -> Result<&'l [u8], MemoryError>;

    /// A change is not needed any more.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] for one of another layout.
    fn give_back(&mut self, held: Self::Held) -> Result<(), MemoryError>;

    /// One that used a place is gone. Changes that are still held stay until they are given back.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] for one of another layout.
    fn close(&mut self, place: Self::Place) -> Result<(), MemoryError>;

    /// Where its memory is counted, its parts below it.
    fn account(&self) -> &Account;
}
