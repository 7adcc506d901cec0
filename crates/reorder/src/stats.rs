/// What a buffer has done, and what it holds. All figures are counts, or accounted bytes where they say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderStats {
    /// Bytes of the changes in memory, as a server counts them.
    pub accounted_bytes: usize,
    /// The most that was.
    pub peak_accounted_bytes: usize,
    /// Bytes that the system gave for those changes: of the layout, and of the lists of changes. Headers,
    /// unused rests and fragmentation are in it.
    pub allocated_bytes: usize,
    /// The most that was, looked at after each record.
    pub peak_allocated_bytes: usize,
    /// The longest value that was put together from chunks.
    pub longest_rebuilt_bytes: usize,
    /// Transactions and subtransactions that are known.
    pub open_transactions: usize,
    /// Changes in memory.
    pub held_changes: usize,
    /// Transactions and subtransactions that were spilled, each once.
    pub spilled_transactions: u64,
    /// How often one was.
    pub spill_count: u64,
    /// Accounted bytes of what was.
    pub spilled_bytes: u64,
    /// Transactions that were streamed, each once.
    pub streamed_transactions: u64,
    /// How often one was.
    pub stream_count: u64,
    /// Transactions that went out whole.
    pub committed_transactions: u64,
    /// Changes that were handed to the output.
    pub sent_changes: u64,
    /// Transactions dropped because they were found aborted where they would have been evicted.
    pub dropped_transactions: u64,
    /// Chunks of values out of line to which no row pointed.
    pub orphan_chunks: u64,
    /// Inserts that belong to the rewrite of a table, and were left out.
    pub rewrite_inserts: u64,
}

impl ReorderStats {
    /// Allocated bytes for each accounted one; 1 where nothing is held.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.accounted_bytes == 0 {
            return 1.0;
        }
        self.allocated_bytes as f64 / self.accounted_bytes as f64
    }
}
