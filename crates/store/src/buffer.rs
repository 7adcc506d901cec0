//! Pages of files in memory: a fixed number of frames, each holding one block of one fork at a time.
//!
//! ```text
//! (fork, block) --> hint --------------> frame | tag | latch( page ) | dirty | usage |
//!               `-> map, if that fails --^
//! ```
//! A thread that uses a page holds its frame's latch, shared to read and exclusive to change it. The
//! latch is the pin as well: whoever puts another block in a frame takes the latch exclusively, and
//! without waiting for it.
//!
//! **Invariants.** A frame's tag changes only under its exclusive latch; so who holds the latch and
//! finds the tag right has the block. The map names a frame for each block that is in memory, never
//! two, and the frame has the block's tag as long as it is named; a block is in the map before anything
//! is read into its frame, and until all that was changed is written. Hints may be wrong. A page is dirty from before its latch is given up to after it was
//! written.
//!
//! **Order of locks.** Latches are waited for with no other lock held. Where more than one is wanted,
//! the others are tried. Locks of the map, the list of free frames and the files are held for
//! moments, and no latch is waited for under them.
mod counters;
mod fork;
mod frame;
mod map;
mod memory;
mod options;
mod page_guard;
mod pool;
mod prefetch;
mod scan_ring;
mod statistics;
mod sweep;
mod truncate;
mod write_back;

pub use fork::ForkId;
pub use options::PoolOptions;
pub use page_guard::{PageRead, PageWrite};
pub use pool::BufferPool;
pub use scan_ring::ScanRing;
pub use statistics::{PageStatistics, PoolStatistics};
