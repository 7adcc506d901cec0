/// Where one writer looks next. Each writer has its own, so that two of them look in different
/// places and do not fight for a cache line.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// Spread over all 32-bit numbers: which part of a page, or of the relation, to begin with.
    salt: u32,
    next_block: Option<u32>,
}

impl Cursor {
    /// The cursor of writer number `writer`. Neighbouring numbers begin far from each other.
    #[must_use]
    pub const fn new(writer: u32) -> Self {
        // Multiples of the golden ratio fall into the largest gaps that are left.
        Self { salt: writer.wrapping_mul(0x9e37_79b9), next_block: None }
    }

    /// The block to begin with in a relation of that length.
    #[inline]
    pub(crate) fn start(&self, nblocks: u32) -> u32 {
        match self.next_block {
            Some(block) if block < nblocks => block,
            _ => self.share_of(nblocks),
        }
    }

    /// This writer's place among `count` things in a row: below `count`, or 0.
    #[inline]
    pub(crate) fn share_of(&self, count: u32) -> u32 {
        let place = (u64::from(self.salt) * u64::from(count)) >> 32;
        u32::try_from(place).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn move_past(&mut self, block: u32) {
        self.next_block = Some(block.wrapping_add(1));
    }
}
