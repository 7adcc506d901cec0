//! How much may be held, and what happens beyond.

/// How a buffer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Accounted bytes from which on transactions are streamed or spilled.
    #[doc(alias = "logical_decoding_work_mem")]
    pub work_mem: usize,
    /// When that is done.
    pub eviction: Eviction,
    /// Whether a transaction that turns out to be aborted is dropped where it would be evicted, as since
    /// 18. Before, it was spilled like any other.
    pub drops_aborted: bool,
}

/// When transactions are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// When what is accounted for reaches the limit.
    #[default]
    AtLimit,
    /// After every change: for tests.
    #[doc(alias = "debug_logical_replication_streaming")]
    Immediate,
}

impl Default for Options {
    /// 64 MB, as servers have.
    fn default() -> Self {
        Self { work_mem: 64 << 20, eviction: Eviction::AtLimit, drops_aborted: true }
    }
}
