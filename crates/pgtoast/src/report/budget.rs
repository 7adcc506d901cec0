//! How much a report may take.
use core::fmt;

/// How much a report may take, and who hears how far it is.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// How many threads may work at once; at least one does.
    pub threads: usize,
    /// About how many bytes may be held of what grows with a relation.
    pub memory_bytes: usize,
    /// Hears of bytes that were read, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl Budget<'_> {
    /// One thread for each processor, 128 MiB, nobody to listen.
    #[must_use]
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, memory_bytes: 128 << 20, progress: &|_| {} }
    }
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, memory_bytes, .. } = self;
        write!(f, "Budget {{ threads: {threads}, memory_bytes: {memory_bytes}, .. }}")
    }
}
