/// Whose headers a context has: a release of PostgreSQL's, or ours.
///
/// They decide what fits into a block, and so how many blocks a given run of requests takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Release {
    /// PostgreSQL 15: chunk headers of 16 and 24 bytes.
    V15,
    /// PostgreSQL 16: chunk headers of 8 bytes.
    V16,
    /// PostgreSQL 17.
    V17,
    /// PostgreSQL 18.
    V18,
    /// As in 18, but no block gives up space for the context's own structure, which is elsewhere.
    #[default]
    Ours,
}

/// Bytes that are not the caller's, on a 64-bit server built without assertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Before each chunk.
    pub chunk: usize,
    /// At the start of each block.
    pub block: usize,
    /// At the start of the first block, before its header.
    pub context: usize,
}

impl Release {
    /// Those of an AllocSet. Source: `aset.c`.
    #[must_use]
    pub const fn alloc_set(self) -> Headers {
        match self {
            Self::V15 => Headers { chunk: 16, block: 40, context: 224 },
            Self::V16 => Headers { chunk: 8, block: 40, context: 224 },
            Self::V17 | Self::V18 => Headers { chunk: 8, block: 40, context: 200 },
            Self::Ours => Headers { chunk: 8, block: 40, context: 0 },
        }
    }

    /// Those of a Generation. Source: `generation.c`.
    #[must_use]
    pub const fn generation(self) -> Headers {
        match self {
            Self::V15 => Headers { chunk: 24, block: 48, context: 152 },
            Self::V16 => Headers { chunk: 8, block: 56, context: 152 },
            Self::V17 | Self::V18 => Headers { chunk: 8, block: 56, context: 128 },
            Self::Ours => Headers { chunk: 8, block: 40, context: 0 },
        }
    }

    /// Those of a Slab with so many chunks a block; its structure lies in no block.
    /// Source: `slab.c`.
    #[must_use]
    pub const fn slab(self, chunks_per_block: usize) -> Headers {
        match self {
            Self::V15 => {
                let context = 128 + 16 * (chunks_per_block + 1);
                Headers { chunk: 16, block: 24, context }
            }
            Self::V16 | Self::V17 | Self::V18 => Headers { chunk: 8, block: 48, context: 176 },
            Self::Ours => Headers { chunk: 8, block: 24, context: 0 },
        }
    }

    /// Those of a Bump, which 17 brought: releases before it are given the headers of 17.
    /// Source: `bump.c`.
    #[must_use]
    pub const fn bump(self) -> Headers {
        match self {
            Self::Ours => Headers { chunk: 0, block: 32, context: 0 },
            _ => Headers { chunk: 0, block: 32, context: 112 },
        }
    }

    /// Empty blocks of that size that a Slab keeps.
    pub(crate) const fn slab_keeps(self, block_bytes: usize) -> usize {
        match self {
            Self::V15 => 0,
            Self::V16 | Self::V17 | Self::V18 => 10,
            // A megabyte.
            Self::Ours => (1 << 20) / block_bytes,
        }
    }
}
