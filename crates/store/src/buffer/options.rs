use pgtoast_base::BlockSize;

/// How large a pool is, and how it treats files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// How long a page is.
    pub block_size: BlockSize,
    /// The budget: how many bytes of pages are in memory at most. There are 8 frames at least.
    pub bytes: usize,
    /// How many adjacent blocks one system call reads or writes at most; at least 1.
    pub io_combine_limit: u32,
    /// Whether pages carry checksums, set when they are written and verified when they are read.
    pub checksums: bool,
    /// How many blocks a file has at most; at least 1.
    #[doc(alias = "RELSEG_SIZE")]
    pub segment_blocks: u32,
}

impl Default for PoolOptions {
    /// As servers have it by default: 8 KiB pages, 128 MiB of them, 16 in one system call, with
    /// checksums, 1 GiB files.
    fn default() -> Self {
        Self::new(BlockSize::default(), 128 << 20)
    }
}

impl PoolOptions {
    /// The defaults for pages of that size and a pool of that many bytes.
    #[must_use]
    pub fn new(block_size: BlockSize, bytes: usize) -> Self {
        Self {
            block_size,
            bytes,
            io_combine_limit: 16,
            checksums: true,
            segment_blocks: Self::segment_blocks(block_size),
        }
    }

    /// How many blocks of that size are 1 GiB.
    #[must_use]
    pub fn segment_blocks(block_size: BlockSize) -> u32 {
        (1 << 30) / u32::from(block_size.bytes_u16())
    }

    /// With fewer, a few threads that each hold a page and want another would starve each other.
    #[cfg(not(pgtoast_loom))]
    const MIN_FRAMES: usize = 8;
    /// A model wants few.
    #[cfg(pgtoast_loom)]
    const MIN_FRAMES: usize = 1;

    pub(super) fn frames(&self) -> usize {
        let frames = (self.bytes / self.block_size.bytes()).max(Self::MIN_FRAMES);
        frames.min(u32::MAX as usize - 1)
    }
}
