//! The two flag words of a tuple header.
//!
//! Source: `htup_details.h` (REL_18).
use bitflags::bitflags;

bitflags! {
    /// What a tuple holds, and what is known of the transactions in its header.
    #[doc(alias = "t_infomask")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Infomask: u16 {
        /// An attribute is null, so there is a null bitmap.
        #[doc(alias = "HEAP_HASNULL")]
        const HAS_NULL = 0x0001;
        /// An attribute of variable length is stored.
        #[doc(alias = "HEAP_HASVARWIDTH")]
        const HAS_VARWIDTH = 0x0002;
        /// An attribute is stored out of line.
        #[doc(alias = "HEAP_HASEXTERNAL")]
        const HAS_EXTERNAL = 0x0004;
        /// An object id stands before the attributes; only up to release 11.
        #[doc(alias = "HEAP_HASOID_OLD")]
        const HAS_OID_OLD = 0x0008;
        /// xmax holds a key-share lock.
        #[doc(alias = "HEAP_XMAX_KEYSHR_LOCK")]
        const XMAX_KEYSHR_LOCK = 0x0010;
        /// `field3` is a combination of two command ids.
        #[doc(alias = "HEAP_COMBOCID")]
        const COMBO_CID = 0x0020;
        /// xmax holds an exclusive lock.
        #[doc(alias = "HEAP_XMAX_EXCL_LOCK")]
        const XMAX_EXCL_LOCK = 0x0040;
        /// xmax locks the tuple and does nothing else to it.
        #[doc(alias = "HEAP_XMAX_LOCK_ONLY")]
        const XMAX_LOCK_ONLY = 0x0080;
        /// xmin is known to have committed.
        #[doc(alias = "HEAP_XMIN_COMMITTED")]
        const XMIN_COMMITTED = 0x0100;
        /// xmin is known to have aborted.
        #[doc(alias = "HEAP_XMIN_INVALID")]
        const XMIN_INVALID = 0x0200;
        /// xmax is known to have committed.
        #[doc(alias = "HEAP_XMAX_COMMITTED")]
        const XMAX_COMMITTED = 0x0400;
        /// There is no xmax, or it is known to have aborted.
        #[doc(alias = "HEAP_XMAX_INVALID")]
        const XMAX_INVALID = 0x0800;
        /// xmax is a multixact id.
        #[doc(alias = "HEAP_XMAX_IS_MULTI")]
        const XMAX_IS_MULTI = 0x1000;
        /// The tuple is the newer version of an updated row.
        #[doc(alias = "HEAP_UPDATED")]
        const UPDATED = 0x2000;
        /// An old vacuum moved the tuple away; only before 9.0.
        #[doc(alias = "HEAP_MOVED_OFF")]
        const MOVED_OFF = 0x4000;
        /// An old vacuum moved the tuple here; only before 9.0.
        #[doc(alias = "HEAP_MOVED_IN")]
        const MOVED_IN = 0x8000;
    }
}

impl Infomask {
    /// Both xmin hints together: the tuple is frozen.
    #[doc(alias = "HEAP_XMIN_FROZEN")]
    pub const XMIN_FROZEN: Self = Self::XMIN_COMMITTED.union(Self::XMIN_INVALID);
    /// Both lock bits together: a share lock.
    #[doc(alias = "HEAP_XMAX_SHR_LOCK")]
    pub const XMAX_SHR_LOCK: Self = Self::XMAX_EXCL_LOCK.union(Self::XMAX_KEYSHR_LOCK);
    /// The bits that say which lock.
    #[doc(alias = "HEAP_LOCK_MASK")]
    pub const LOCK_MASK: Self = Self::XMAX_SHR_LOCK;
    /// The bits that are cleared when xmax changes.
    #[doc(alias = "HEAP_XMAX_BITS")]
    pub const XMAX_BITS: Self = Self::LOCK_MASK
        .union(Self::XMAX_LOCK_ONLY)
        .union(Self::XMAX_COMMITTED)
        .union(Self::XMAX_INVALID)
        .union(Self::XMAX_IS_MULTI);
    /// Either trace of an old vacuum.
    #[doc(alias = "HEAP_MOVED")]
    pub const MOVED: Self = Self::MOVED_OFF.union(Self::MOVED_IN);
    /// The bits about transactions; those below say what the tuple holds.
    #[doc(alias = "HEAP_XACT_MASK")]
    pub const TRANSACTION_MASK: Self = Self::from_bits_retain(0xfff0);
}

bitflags! {
    /// The flags that share a word with the number of attributes.
    #[doc(alias = "t_infomask2")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Infomask2: u16 {
        /// A key column was updated, or the tuple deleted.
        #[doc(alias = "HEAP_KEYS_UPDATED")]
        const KEYS_UPDATED = 0x2000;
        /// The next version is a heap-only tuple.
        #[doc(alias = "HEAP_HOT_UPDATED")]
        const HOT_UPDATED = 0x4000;
        /// No index entry leads to the tuple.
        #[doc(alias = "HEAP_ONLY_TUPLE")]
        const HEAP_ONLY = 0x8000;
    }
}

impl Infomask2 {
    /// The bits of the word that count attributes.
    #[doc(alias = "HEAP_NATTS_MASK")]
    pub const NATTS_MASK: u16 = 0x07ff;
    /// The bits about transactions: every flag.
    #[doc(alias = "HEAP2_XACT_MASK")]
    pub const TRANSACTION_MASK: Self = Self::all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masks_are_those_of_the_server() {
        assert_eq!(Infomask::XMIN_FROZEN.bits(), 0x0300);
        assert_eq!(Infomask::LOCK_MASK.bits(), 0x0050);
        assert_eq!(Infomask::XMAX_BITS.bits(), 0x1cd0);
        assert_eq!(Infomask::MOVED.bits(), 0xc000);
        assert_eq!(Infomask2::TRANSACTION_MASK.bits(), 0xe000);
        assert_eq!(Infomask::all().bits(), 0xffff);
    }
}
