//! What contexts hold, kept apart from the contexts: any thread may ask at any time, and ask of a
//! whole subtree.
//!
//! ```text
//!  decoding     own 8 192    subtree 74 368    the subtree's figure counts the own one
//!  |- Change    own 16 384   subtree 16 384
//!  `- Tuples    own 49 792   subtree 49 792    a new block: own + n; subtree + n here and upwards,
//!                                              each unless over its limit, else all taken back
//! ```
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;

use crate::sync::{Figure, Ledger, Lock};
use crate::{MemoryError, Release, Stats};

/// Which kind of context an account is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KindName {
    /// Powers of two, and lists of free chunks.
    AllocSet,
    /// Nothing is given back but all at once.
    Bump,
    /// Pages for chunks that die together.
    Cohorts,
    /// Blocks that are given back when all their chunks are.
    Generation,
    /// No context: a place for a limit over several.
    Group,
    /// Chunks of one size.
    Slab,
}

/// The account of a context, or of a group of them. It outlives its context, and is cheap to clone.
#[derive(Clone)]
pub struct Account(Arc<Node>);

struct Node {
    name: Box<str>,
    ident: Lock<Option<Box<str>>>,
    kind: KindName,
    release: Release,
    parent: Option<Account>,
    /// By age, so that the youngest can be listed first.
    children: Lock<Children>,
    /// Its key among the parent's children.
    birth: u64,
    own: Ledger,
    subtree: Ledger,
    tally: Tally,
}

#[derive(Default)]
struct Children {
    born: u64,
    living: BTreeMap<u64, Weak<Node>>,
}

/// What an account has besides bytes. One context writes it.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Bytes of the context's structure that a server counts in totals but not as allocated.
    pub(crate) uncounted: Figure,
    pub(crate) blocks: Figure,
    /// Empty blocks or pages that are kept.
    pub(crate) empty: Figure,
    /// Bytes at the ends of blocks that no chunk has had, the current block left out.
    pub(crate) tails: Figure,
    /// Those of the current block.
    pub(crate) remaining: Figure,
    /// Chunks ever placed in the blocks there are; of a Slab, those that a block has room for.
    pub(crate) chunks: Figure,
    /// Those among them, or on free lists, that were freed.
    pub(crate) freed_chunks: Figure,
    /// Their bytes, headers counted; of a Slab none, but see `chunk_bytes`.
    pub(crate) freed_bytes: Figure,
    /// What each freed chunk of a Slab has, its header counted.
    pub(crate) chunk_bytes: Figure,
    /// Bytes that are headers of blocks or of the context, and in the total.
    pub(crate) overhead: Figure,
}

impl Account {
    /// An account with no context of its own: a limit over several contexts, or a place to sum them up.
    #[must_use]
    pub fn group(name: &str) -> Self {
        Self::new(name, KindName::Group, Release::Ours, None)
    }

    /// A group within this one.
    #[must_use]
    pub fn subgroup(&self, name: &str) -> Self {
        Self::new(name, KindName::Group, Release::Ours, Some(self))
    }

    pub(crate) fn new(name: &str, kind: KindName, release: Release, parent: Option<&Self>) -> Self {
        let birth = parent.map_or(0, |parent| {
            let mut children = parent.0.children.lock();
            children.born += 1;
            children.born
        });
        let account = Self(Arc::new(Node {
            name: name.into(),
            ident: Lock::new(None),
            kind,
            release,
            parent: parent.cloned(),
            children: Lock::new(Children::default()),
            birth,
            own: Ledger::new(),
            subtree: Ledger::new(),
            tally: Tally::new(),
        }));
        if let Some(parent) = parent {
            parent.0.children.lock().living.insert(birth, Arc::downgrade(&account.0));
        }
        account
    }

    /// What it is called; names need not be unique.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What tells it from others of its name, if anything does.
    #[must_use]
    pub fn ident(&self) -> Option<Box<str>> {
        self.0.ident.lock().clone()
    }

    /// Tells it from others of its name.
    pub fn set_ident(&self, ident: Option<&str>) {
        *self.0.ident.lock() = ident.map(Into::into);
    }

    /// Which kind of context it is of.
    #[must_use]
    pub fn kind(&self) -> KindName {
        self.0.kind
    }

    /// Whose headers its context has.
    #[must_use]
    pub fn release(&self) -> Release {
        self.0.release
    }

    /// The account this one is part of.
    #[must_use]
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
    }

    /// Its parts, the youngest first, as a server lists them.
    #[must_use]
    pub fn children(&self) -> Vec<Self> {
        let children = self.0.children.lock();
        children.living.values().rev().filter_map(Weak::upgrade).map(Self).collect()
    }

    /// Bytes that the context has from the system, all headers and all free space counted. Exact, and
    /// read from one counter.
    #[doc(alias = "MemoryContextMemAllocated")]
    #[must_use]
    pub fn mem_allocated(&self) -> usize {
        self.0.own.bytes()
    }

    /// The same of this account and all below it; also one counter.
    #[must_use]
    pub fn subtree_allocated(&self) -> usize {
        self.0.subtree.bytes()
    }

    /// The most that [`Self::mem_allocated`] has been.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.0.own.peak()
    }

    /// The most that [`Self::subtree_allocated`] has been.
    #[must_use]
    pub fn subtree_peak(&self) -> usize {
        self.0.subtree.peak()
    }

    /// Bytes in chunks that are in use, their headers counted and each rounded up as its context
    /// does.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        let tally = &self.0.tally;
        let ends = tally.tails.get() + tally.remaining.get();
        // A context on another thread may be between two of these.
        self.mem_allocated().saturating_sub(tally.overhead.get() + ends + tally.freed())
    }

    /// [`Self::live_bytes`] of this account and all below it. Visits them all.
    #[must_use]
    pub fn subtree_live_bytes(&self) -> usize {
        let mut sum = 0;
        let mut pending = Vec::from([self.clone()]);
        while let Some(account) = pending.pop() {
            sum += account.live_bytes();
            pending.extend(account.children());
        }
        sum
    }

    /// Allocated bytes for each live one, of this account and all below it; 1 where nothing is held,
    /// infinite where nothing that is held is live.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        match (self.subtree_allocated(), self.subtree_live_bytes()) {
            (0, _) => 1.0,
            (allocated, live) => allocated as f64 / live as f64,
        }
    }

    /// Refuses from now on what would take [`Self::mem_allocated`] over so many bytes. What is held
    /// already stays.
    pub fn set_limit(&self, bytes: Option<usize>) {
        self.0.own.set_limit(bytes.unwrap_or(usize::MAX));
    }

    /// The limit on the context itself.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        Some(self.0.own.limit()).filter(|limit| *limit != usize::MAX)
    }

    /// Refuses from now on what would take [`Self::subtree_allocated`] over so many bytes.
    ///
    /// Two threads that ask at once may both be counted for a moment before one is refused, so that
    /// near the limit a request may be refused that would have fitted. The limit is never exceeded.
    pub fn set_subtree_limit(&self, bytes: Option<usize>) {
        self.0.subtree.set_limit(bytes.unwrap_or(usize::MAX));
    }

    /// The limit on all of the subtree.
    #[must_use]
    pub fn subtree_limit(&self) -> Option<usize> {
        Some(self.0.subtree.limit()).filter(|limit| *limit != usize::MAX)
    }

    /// Counts bytes as allocated here and in all accounts above.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] of the account that is over; then nothing is counted anywhere.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), MemoryError> {
        let over = |(allocated, limit)| MemoryError::Limit { requested: bytes, allocated, limit };
        let sum = self.0.own.add(bytes).map_err(over)?;
        if let Err(refused) = self.charge_subtree(bytes) {
            self.0.own.subtract(bytes);
            return Err(refused);
        }
        self.0.own.note_peak(sum);
        Ok(())
    }

    /// Notes a peak only once all accounts above have agreed: a refused request leaves no trace.
    fn charge_subtree(&self, bytes: usize) -> Result<(), MemoryError> {
        let over = |(allocated, limit)| MemoryError::Limit { requested: bytes, allocated, limit };
        let sum = self.0.subtree.add(bytes).map_err(over)?;
        if let Some(parent) = &self.0.parent
            && let Err(refused) = parent.charge_subtree(bytes)
        {
            #[cfg(pgtoast_loom)]
            if crate::sync::mutant::current() == crate::sync::mutant::Mutant::NoTakingBack {
                return Err(refused);
            }
            self.0.subtree.subtract(bytes);
            return Err(refused);
        }
        self.0.subtree.note_peak(sum);
        Ok(())
    }

    /// Takes back what [`Self::charge`] counted.
    pub(crate) fn discharge(&self, bytes: usize) {
        self.0.own.subtract(bytes);
        let mut account = Some(self);
        while let Some(at) = account {
            at.0.subtree.subtract(bytes);
            account = at.parent();
        }
    }

    /// The figures that a server prints.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self)
    }

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        &self.0.tally
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("name", &self.name())
            .field("kind", &self.kind())
            .field("mem_allocated", &self.mem_allocated())
            .field("subtree_allocated", &self.subtree_allocated())
            .finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            parent.0.children.lock().living.remove(&self.birth);
        }
    }
}

impl Tally {
    /// Bytes of freed chunks, headers counted.
    pub(crate) fn freed(&self) -> usize {
        self.freed_bytes.get() + self.freed_chunks.get() * self.chunk_bytes.get()
    }

    fn new() -> Self {
        Self {
            uncounted: Figure::new(),
            blocks: Figure::new(),
            empty: Figure::new(),
            tails: Figure::new(),
            remaining: Figure::new(),
            chunks: Figure::new(),
            freed_chunks: Figure::new(),
            freed_bytes: Figure::new(),
            chunk_bytes: Figure::new(),
            overhead: Figure::new(),
        }
    }
}
