//! Rows in pages: put in, found, changed, and cleared away.
//!
//! ```text
//!            insert          update, delete        prune                vacuum
//!   (nothing) ----> version ---------------> dead ------> line pointer ------> free line pointer,
//!                     |  ^                    version     dead or            free space known,
//!                     `--' HOT update: the next version     redirected       bits in the visibility map
//!                          is in the same page
//! ```
//! A [`Relation`] is a heap: its main fork through the buffer pool, its free space in memory, its
//! visibility map. There is no lock on a tuple and no pin that protects one: bytes of a page are
//! looked at under the page's latch only, and what leaves this module is a copy, or handed to a
//! caller that holds the latch.
//!
//! **Order of latches**: heap pages by block number, then a page of the visibility map, then
//! nothing. Whoever holds the lock on extension takes latches, never the other way round.
//!
//! **Addresses**: tables of the store have no index of the user's, so a row keeps its address for
//! as long as its next versions fit the same page. All addresses that come out of here are those
//! of the first line pointer of such a chain.
mod chain;
mod change;
mod fetch;
mod free_space;
mod hints;
mod insert;
mod prune;
mod relation;
mod scan;
mod target;
mod vacuum;
mod visibility;

pub use change::Modified;
pub use fetch::TupleReader;
pub use relation::Relation;
pub use scan::Scan;
pub use vacuum::{IndexCleanup, IndexVacuum, VacuumOptions, VacuumReport};
