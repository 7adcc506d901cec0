//! A frame: room for one page, and what is known about it.
use core::sync::atomic::{AtomicBool as PlainBool, AtomicU8};

use super::memory::PageBytes;
use crate::buffer::ForkId;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names a block of a fork in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag(u64);

impl Tag {
    /// No block's: no fork has so high a slot.
    pub(super) const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(super) fn new(fork: ForkId, block: u32) -> Self {
        Self(u64::from(fork.slot()) << 32 | u64::from(block))
    }

    /// The tag of another block of the same fork.
    pub(super) fn with_block(self, block: u32) -> Self {
        Self(self.0 & !0xffff_ffff | u64::from(block))
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    pub(super) fn block(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// All on one line of the cache, the page apart.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Frame {
    /// Changes only under the exclusive latch; may be looked at any time, to save a latch.
    tag: AtomicU64,
    /// The latch, and the page. It has no bytes until the frame is used for the first time.
    pub(super) page: RwLock<PageBytes>,
    /// Set under the exclusive latch, taken away under any.
    dirty: AtomicBool,
    /// Whether somebody has found the page sound, and it was changed with care since. Changes under
    /// the exclusive latch only.
    sound: PlainBool,
    /// How often the sweep is to pass by. A count lost in a race does no harm.
    usage: AtomicU8,
}

impl Frame {
    /// The highest count: so many rounds of the sweep does a much used page outlive.
    #[doc(alias = "BM_MAX_USAGE_COUNT")]
    pub(super) const USAGE_MAX: u8 = 5;

    pub(super) fn new() -> Self {
        Self {
            tag: AtomicU64::new(Tag::NONE.bits()),
            page: RwLock::new(PageBytes::new()),
            dirty: AtomicBool::new(false),
            sound: false.into(),
            usage: AtomicU8::new(0),
        }
    }

    #[inline]
    pub(super) fn tag(&self) -> Tag {
        Tag(self.tag.load(Ordering::Relaxed))
    }

    /// The answer stays true as long as the caller holds the latch; without it, it is a guess.
    #[inline]
    pub(super) fn holds(&self, tag: Tag) -> bool {
        self.tag() == tag
    }

    /// For the holder of the exclusive latch.
    pub(super) fn set_tag(&self, tag: Tag) {
        self.set_sound(false);
        self.tag.store(tag.bits(), Ordering::Relaxed);
    }

    /// For the holder of the exclusive latch.
    #[inline]
    pub(super) fn is_sound(&self) -> bool {
        self.sound.load(Ordering::Relaxed)
    }

    /// For the holder of the exclusive latch.
    #[inline]
    pub(super) fn set_sound(&self, sound: bool) {
        self.sound.store(sound, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    pub(super) fn set_dirty(&self, dirty: bool) {
        self.dirty.store(dirty, Ordering::Release);
    }

    #[inline]
    pub(super) fn touch(&self) {
        let usage = self.usage.load(Ordering::Relaxed);
        if usage < Self::USAGE_MAX {
            self.usage.store(usage + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn usage(&self) -> u8 {
        self.usage.load(Ordering::Relaxed)
    }

    pub(super) fn set_usage(&self, usage: u8) {
        self.usage.store(usage, Ordering::Relaxed);
    }

    /// What the sweep does as it passes by. Whether the frame may be taken: under the model checker
    /// any may, since nothing but speed may depend on the count.
    pub(super) fn pass(&self) -> bool {
        if cfg!(pgtoast_loom) {
            return true;
        }
        let usage = self.usage.load(Ordering::Relaxed);
        if usage > 0 {
            self.usage.store(usage - 1, Ordering::Relaxed);
        }
        usage == 0
    }
}
