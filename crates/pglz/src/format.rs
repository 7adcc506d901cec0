//! The stream.
//!
//! ```text
//! group   | control | item | item | ... up to eight items
//!              `- bit 0 speaks of the first item: 0 a literal, 1 a tag
//!
//! literal | byte |
//!
//! tag     | hi  len | lo |            length 3..=17 is len + 3, len 0..=14
//!         | hi  15  | lo | more |     length 18..=273 is 18 + more
//!           4   4     8    8  bits    distance back into the output: hi << 8 | lo, 1..=4095
//! ```
//! Nothing marks the end and no length is inside: both sizes are kept by whoever stored the stream.
//! The last control byte has its unused high bits zero, and no reader looks at them.
//!
//! Source: `pg_lzcompress.c` (REL_18), the comment on the format.

/// Shortest match worth a tag.
pub(crate) const MATCH_MIN: usize = 3;
/// Longest match a tag can say.
pub(crate) const MATCH_MAX: usize = 273;
/// From this length on a tag has a third byte.
pub(crate) const MATCH_LONG: usize = 18;
/// The writer's search stops at this distance, so it emits `1..DISTANCE_STOP`. A reader takes one more.
pub(crate) const DISTANCE_STOP: usize = 0x0fff;
/// Items in a group.
pub(crate) const GROUP_ITEMS: usize = 8;
/// Bytes of the longest item.
pub(crate) const ITEM_MAX: usize = 3;
/// A control byte in the hand has this bit above its items; it alone is left when they are used up.
pub(crate) const GROUP_END: u32 = 1;
