//! What a log has to repeat as one change, and how long a server's record of it is.
//!
//! ```text
//! record  24 header
//!       + 20 first page, 8 each further one      + what is logged of each
//!       +  2 and the fixed part, which goes last
//! ```
//! Lengths are those of records without full images of pages.
//!
//! Source: `nbtxlog.h`, `xlogrecord.h` (REL_15 to REL_18), and records that servers wrote.

/// A change of one or more pages that must not be repeated in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Entries that are marked dead were deleted from a leaf to make room. Pages: the leaf.
    #[doc(alias = "XLOG_BTREE_DELETE")]
    Delete {
        /// How many.
        count: u16,
    },
    /// An entry into a leaf. Pages: the leaf.
    #[doc(alias = "XLOG_BTREE_INSERT_LEAF")]
    InsertLeaf {
        /// Bytes of the tuple.
        tuple_len: u16,
    },
    /// A downlink into an inner page, which ends a split below. Pages: the inner page, the left page of
    /// the split, and the metapage if the fast root moves.
    #[doc(alias = "XLOG_BTREE_INSERT_UPPER")]
    #[doc(alias = "XLOG_BTREE_INSERT_META")]
    InsertUpper {
        /// Bytes of the tuple.
        tuple_len: u16,
        /// Whether the metapage changed too.
        with_meta: bool,
    },
    /// A leaf without entries lost its downlink. Pages: the leaf, the page with the downlink.
    #[doc(alias = "XLOG_BTREE_MARK_PAGE_HALFDEAD")]
    MarkHalfDead,
    /// A new root. Pages: the root, the left page of the split under it if there was one, the metapage.
    #[doc(alias = "XLOG_BTREE_NEWROOT")]
    NewRoot {
        /// Bytes of its entries: none in the first leaf.
        items_len: u16,
    },
    /// A page was split. Pages: left, right, the one that was to the right before if there was one,
    /// and the left page of the split that this one ends, if it is one of inner pages.
    #[doc(alias = "XLOG_BTREE_SPLIT_L")]
    #[doc(alias = "XLOG_BTREE_SPLIT_R")]
    Split {
        /// Bytes of the new tuple if it went to the left, 0 if it went to the right.
        left_tuple_len: u16,
        /// Bytes of the left page's high key.
        high_key_len: u16,
        /// Bytes of all tuples of the right page.
        right_items_len: u16,
        /// Whether there was a page to the right.
        with_right_sibling: bool,
        /// Whether a split below ends with it.
        with_child: bool,
    },
    /// A page left the tree. Pages: it, the one to its right, the one to its left if there is one, the
    /// leaf whose branch it was if it is none, and the metapage if the fast root moves.
    #[doc(alias = "XLOG_BTREE_UNLINK_PAGE")]
    Unlink {
        /// Whether there is a page to the left.
        with_left_sibling: bool,
        /// Whether it is an inner page.
        with_leaf: bool,
        /// Whether the metapage changed too.
        with_meta: bool,
    },
    /// A vacuum deleted entries from a leaf. Pages: the leaf.
    #[doc(alias = "XLOG_BTREE_VACUUM")]
    Vacuum {
        /// How many.
        count: u16,
    },
}

impl Action {
    /// How many bytes a server's record of this takes: as `pg_walinspect` and `EXPLAIN (WAL)` count
    /// them, without padding.
    #[must_use]
    pub fn record_len(&self) -> usize {
        let parts = match *self {
            Self::Delete { count } => FIRST_PAGE + 2 * usize::from(count) + MAIN + DELETE,
            Self::InsertLeaf { tuple_len } => FIRST_PAGE + usize::from(tuple_len) + MAIN + INSERT,
            Self::InsertUpper { tuple_len, with_meta } => {
                let meta = if with_meta { PAGE + META } else { 0 };
                FIRST_PAGE + usize::from(tuple_len) + PAGE + meta + MAIN + INSERT
            }
            Self::MarkHalfDead => FIRST_PAGE + PAGE + MAIN + HALF_DEAD,
            Self::NewRoot { items_len } => {
                let left = if items_len > 0 { PAGE } else { 0 };
                FIRST_PAGE + usize::from(items_len) + left + PAGE + META + MAIN + NEW_ROOT
            }
            Self::Split {
                left_tuple_len,
                high_key_len,
                right_items_len,
                with_right_sibling,
                with_child,
            } => {
                let more = usize::from(with_right_sibling) + usize::from(with_child);
                let left = usize::from(left_tuple_len) + usize::from(high_key_len);
                let right = PAGE + usize::from(right_items_len);
                FIRST_PAGE + left + right + more * PAGE + MAIN + SPLIT
            }
            Self::Unlink { with_left_sibling, with_leaf, with_meta } => {
                let more = usize::from(with_left_sibling) + usize::from(with_leaf);
                let meta = if with_meta { PAGE + META } else { 0 };
                FIRST_PAGE + PAGE + more * PAGE + meta + MAIN + UNLINK
            }
            Self::Vacuum { count } => FIRST_PAGE + 2 * usize::from(count) + MAIN + VACUUM,
        };
        RECORD + parts
    }
}

const RECORD: usize = 24;
/// The first page of a record names its relation too.
const FIRST_PAGE: usize = 20;
const PAGE: usize = 8;
/// Before a fixed part of less than 256 bytes.
const MAIN: usize = 2;
const META: usize = 28;
/// One byte less before release 16.
const DELETE: usize = 9;
const HALF_DEAD: usize = 20;
const INSERT: usize = 2;
const NEW_ROOT: usize = 8;
const SPLIT: usize = 10;
const UNLINK: usize = 36;
const VACUUM: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_long_as_a_server_wrote_them() {
        let split = |right_items_len| Action::Split {
            left_tuple_len: 0,
            high_key_len: 16,
            right_items_len,
            with_right_sibling: false,
            with_child: false,
        };
        let unlink = |with_left_sibling, with_leaf, with_meta| Action::Unlink {
            with_left_sibling,
            with_leaf,
            with_meta,
        };
        for (action, len) in [
            (Action::InsertLeaf { tuple_len: 16 }, 64),
            (Action::InsertLeaf { tuple_len: 24 }, 72),
            (Action::NewRoot { items_len: 0 }, 90),
            (Action::NewRoot { items_len: 24 }, 122),
            (Action::InsertUpper { tuple_len: 16, with_meta: false }, 72),
            (split(42 * 16), 752),
            (split(43 * 16), 768),
            (Action::Vacuum { count: 60 }, 170),
            (Action::Vacuum { count: 64 }, 178),
            (Action::MarkHalfDead, 74),
            (unlink(false, false, false), 90),
            (unlink(true, false, false), 98),
            (unlink(false, true, true), 134),
        ] {
            assert_eq!(action.record_len(), len, "{action:?}");
        }
    }
}
