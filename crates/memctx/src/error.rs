use core::fmt;

/// Why a context gave no memory, or did not know what it was shown.
///
/// All figures are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum MemoryError {
    /// Blocks cannot be sized so: sizes are multiples of 8 and at least 1024, `init <= max`, and
    /// `max` is below 1 GiB.
    BlockSizes { min: usize, init: usize, max: usize },
    /// The chunk was taken from another context, or before this one was reset or rewound.
    Foreign,
    /// `requested` more would make it `allocated + requested`, over the limit on this context or
    /// on all below one of those it is in.
    Limit { requested: usize, allocated: usize, limit: usize },
    /// The system had no `requested` bytes.
    OutOfMemory { requested: usize },
    /// The chunks of a slab of `chunk` bytes do not fit into its blocks of `block` bytes.
    SlabShape { chunk: usize, block: usize },
    /// A request of `requested` bytes, or of more than can be counted; `limit` is the most.
    TooLarge { requested: usize, limit: usize },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockSizes { min, init, max } => {
                write!(f, "no block sizes: min {min}, init {init}, max {max}")
            }
            Self::Foreign => write!(f, "chunk is not, or no longer, of this context"),
            Self::Limit { requested, allocated, limit } => {
                write!(f, "{requested} bytes more than {allocated} would exceed the limit {limit}")
            }
            Self::OutOfMemory { requested } => write!(f, "out of memory at {requested} bytes"),
            Self::SlabShape { chunk, block } => {
                write!(f, "slab chunks of {chunk} bytes do not fit blocks of {block}")
            }
            Self::TooLarge { requested, limit } => {
                write!(f, "request of {requested} bytes, the most is {limit}")
            }
        }
    }
}

impl core::error::Error for MemoryError {}
