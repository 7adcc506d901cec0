use alloc::string::{String, ToString};
use core::fmt::{self, Write};

use crate::{Account, KindName, Release};

/// The figures of a context, as a server prints them.
///
/// ```text
/// 8192 total in 1 blocks; 7928 free (3 chunks); 264 used                      AllocSet
/// 8192 total in 1 blocks (37 chunks); 3080 free (12 chunks); 5112 used        Generation
/// 16384 total in 2 blocks; 0 empty blocks; 7744 free (88 chunks); 8640 used   Slab, 16 and later
/// 8192 total in 1 blocks; 8048 free; 144 used                                 Bump
/// ```
/// Source: `aset.c`, `generation.c`, `slab.c`, `bump.c` (REL_18), what their `Stats` functions print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Of which kind the context is.
    pub kind: KindName,
    /// Whose headers it has.
    pub release: Release,
    /// Bytes, the context's own structure counted, as a server does for all kinds here.
    pub total_bytes: usize,
    /// Blocks; of [`crate::Cohorts`], spans and single chunks' blocks.
    pub blocks: usize,
    /// Empty blocks that a Slab keeps, which are not counted in `blocks`; free pages of a
    /// [`crate::Cohorts`].
    pub empty: usize,
    /// Of a Generation, all chunks that were placed in the blocks there are.
    pub chunks: usize,
    /// Bytes that are free by the kind's reckoning: a Generation counts ends of blocks and no freed
    /// chunks.
    pub free_bytes: usize,
    /// Freed chunks.
    pub free_chunks: usize,
}

impl Stats {
    pub(crate) fn of(account: &Account) -> Self {
        let tally = account.tally();
        let kind = account.kind();
        let ends = tally.tails.get() + tally.remaining.get();
        let (mut freed, mut free_chunks) = (tally.freed(), tally.freed_chunks.get());
        let empty = tally.empty.get();
        let (mut blocks, mut chunks) = (tally.blocks.get(), tally.chunks.get());
        if kind == KindName::Slab {
            // Its empty blocks, with their chunks, are told apart.
            blocks = blocks.saturating_sub(empty);
            free_chunks += tally.remaining.get() / tally.chunk_bytes.get().max(1);
            free_chunks = free_chunks.saturating_sub(empty * chunks);
            freed = free_chunks * tally.chunk_bytes.get();
            chunks = 0;
        }
        let free_bytes = match kind {
            KindName::AllocSet | KindName::Cohorts => ends + freed,
            KindName::Bump | KindName::Generation | KindName::Group => ends,
            KindName::Slab => freed,
        };
        Self {
            kind,
            release: account.release(),
            total_bytes: account.mem_allocated() + tally.uncounted.get(),
            blocks,
            empty,
            chunks,
            free_bytes,
            free_chunks,
        }
    }

    /// Bytes that are not free.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.total_bytes.saturating_sub(self.free_bytes)
    }

    fn add(&mut self, other: &Self) {
        self.total_bytes += other.total_bytes;
        self.blocks += other.blocks;
        self.free_bytes += other.free_bytes;
        self.free_chunks += other.free_chunks;
    }

    /// Nothing, to sum up in.
    fn none() -> Self {
        Self {
            kind: KindName::AllocSet,
            release: Release::Ours,
            total_bytes: 0,
            blocks: 0,
            empty: 0,
            chunks: 0,
            free_bytes: 0,
            free_chunks: 0,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total_bytes, blocks, empty, chunks, free_bytes, free_chunks, .. } = *self;
        write!(f, "{total_bytes} total in {blocks} blocks")?;
        match self.kind {
            KindName::Generation => write!(f, " ({chunks} chunks)")?,
            KindName::Slab if self.release > Release::V15 => write!(f, "; {empty} empty blocks")?,
            KindName::Cohorts => write!(f, "; {empty} free pages")?,
            _ => {}
        }
        write!(f, "; {free_bytes} free")?;
        if !matches!(self.kind, KindName::Bump | KindName::Cohorts) {
            write!(f, " ({free_chunks} chunks)")?;
        }
        write!(f, "; {} used", self.used_bytes())
    }
}

/// Children of one context that are printed one by one.
const MOST_CHILDREN: usize = 100;
/// Bytes of an ident that are printed.
const MOST_IDENT: usize = 100;

impl Account {
    /// The figures of this account and all below it, in the lines of a server's `MemoryContextStats`, with
    /// the grand total last.
    ///
    /// Source: `mcxt.c` (REL_18), `MemoryContextStatsDetail`.
    #[doc(alias = "MemoryContextStats")]
    #[must_use]
    pub fn statistics(&self) -> String {
        let mut text = String::new();
        let mut total = Stats::none();
        print(self, 0, &mut text, &mut total);
        let Stats { total_bytes, blocks, free_bytes, free_chunks, .. } = total;
        let used = total.used_bytes();
        let _ = writeln!(
            text,
            "Grand total: {total_bytes} bytes in {blocks} blocks; {free_bytes} free \
             ({free_chunks} chunks); {used} used"
        );
        text
    }
}

/// Prints a context and those below it. Trees of contexts are as deep as the code that makes them, so
/// that this may be, too.
fn print(account: &Account, level: usize, text: &mut String, total: &mut Stats) {
    let stats = account.stats();
    total.add(&stats);
    // Writing into a string does not fail.
    let _ = write!(text, "{:indent$}{}: {stats}", "", account.name(), indent = 2 * level);
    if let Some(ident) = account.ident() {
        let _ = write!(text, ": {}", cut(&ident));
    }
    text.push('\n');
    let children = account.children();
    for child in children.iter().take(MOST_CHILDREN) {
        print(child, level + 1, text, total);
    }
    let Some(more) = children.get(MOST_CHILDREN..).filter(|more| !more.is_empty()) else { return };
    let mut rest = Stats::none();
    let mut ignored = String::new();
    for child in more {
        ignored.clear();
        print(child, 0, &mut ignored, &mut rest);
    }
    total.add(&rest);
    let indent = 2 * (level + 1);
    let _ = writeln!(text, "{:indent$}{} more child contexts containing {rest}", "", more.len());
}

/// The beginning of an ident, on one line.
fn cut(ident: &str) -> String {
    let mut end = ident.len().min(MOST_IDENT);
    while !ident.is_char_boundary(end) {
        end -= 1;
    }
    let shown: String =
        ident[..end].chars().map(|char| if char < ' ' { ' ' } else { char }).collect();
    if end < ident.len() { shown + "..." } else { shown.to_string() }
}
