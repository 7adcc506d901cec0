use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::raw::{self, Engine};
use crate::{
    Account, AllocSet, BlockSizes, Bump, Cohort, Cohorts, Generation, KindName, MemoryError,
    Release, Slab, Stats,
};

/// A kind of context: [`AllocSet`], [`Generation`], [`Slab`], [`Bump`] or [`Cohorts`].
pub trait Kind: Engine + fmt::Debug + Send {
    /// Its name.
    const NAME: KindName;
}

/// A kind that takes single chunks back: all but [`Bump`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no single chunks back, only all of them at a reset"
)]
pub trait ReturnsChunks: Kind {}

impl Kind for AllocSet {
    const NAME: KindName = KindName::AllocSet;
}
impl Kind for Generation {
    const NAME: KindName = KindName::Generation;
}
impl Kind for Slab {
    const NAME: KindName = KindName::Slab;
}
impl Kind for Bump {
    const NAME: KindName = KindName::Bump;
}
impl Kind for Cohorts {
    const NAME: KindName = KindName::Cohorts;
}
impl ReturnsChunks for AllocSet {}
impl ReturnsChunks for Generation {}
impl ReturnsChunks for Slab {}
impl ReturnsChunks for Cohorts {}

/// A memory context: chunks come from it, and all of them go when it is reset or dropped.
///
/// A reference to it is an allocator, for the collections of hashbrown, allocator-api2 and others:
///
/// ```
/// use allocator_api2::vec::Vec;
/// let mut context = pgtoast_memctx::root("List").alloc_set(Default::default())?;
/// let mut list = Vec::new_in(&context);
/// list.extend([1, 2, 3]);
/// drop(list);
/// context.reset();
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
///
/// What lives in a context cannot outlive its next reset:
///
/// ```compile_fail,E0502
/// let mut context = pgtoast_memctx::root("Row").bump(Default::default())?;
/// let number = context.alloc(7_u32)?;
/// context.reset();
/// assert_eq!(*number, 7);
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
///
/// Nor can a child:
///
/// ```compile_fail,E0505
/// let parent = pgtoast_memctx::root("Parent").alloc_set(Default::default())?;
/// let child = parent.child("Child").bump(Default::default())?;
/// drop(parent);
/// child.alloc(7_u32)?;
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
pub struct Context<'p, K: Kind> {
    engine: K,
    /// Tells chunks held by value that are of this context, and were not taken back, from others.
    epoch: Cell<u64>,
    callbacks: RefCell<Vec<Box<dyn FnOnce() + Send>>>,
    parent: PhantomData<&'p ()>,
}

/// Begins a context without a parent.
pub fn root(name: &str) -> ContextBuilder<'static> {
    ContextBuilder::new(name, None)
}

/// What a context is to be like; one of the last methods makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct ContextBuilder<'p> {
    name: Box<str>,
    ident: Option<Box<str>>,
    release: Release,
    parent: Option<Account>,
    limit: Option<usize>,
    subtree_limit: Option<usize>,
    huge: bool,
    lifetime: PhantomData<&'p ()>,
}

impl<'p> ContextBuilder<'p> {
    fn new(name: &str, parent: Option<Account>) -> Self {
        Self {
            name: name.into(),
            ident: None,
            release: Release::default(),
            parent,
            limit: None,
            subtree_limit: None,
            huge: false,
            lifetime: PhantomData,
        }
    }

    /// What tells it from others of its name.
    pub fn ident(mut self, ident: &str) -> Self {
        self.ident = Some(ident.into());
        self
    }

    /// With the headers of a server, so that the same requests take the same blocks.
    pub fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Never more than so many bytes from the system; see [`Account::set_limit`].
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Never more than so many with all contexts below it; see [`Account::set_subtree_limit`].
    pub fn subtree_limit(mut self, bytes: usize) -> Self {
        self.subtree_limit = Some(bytes);
        self
    }

    /// Takes requests over [`MAX_ALLOC`](crate::MAX_ALLOC).
    #[doc(alias = "MCXT_ALLOC_HUGE")]
    pub fn huge(mut self) -> Self {
        self.huge = true;
        self
    }

    /// Counts the context below that account.
    pub fn account(mut self, parent: &Account) -> Self {
        self.parent = Some(parent.clone());
        self
    }

    /// A context for chunks of all sizes, freed in any order.
    ///
    /// # Errors
    /// [`MemoryError::BlockSizes`]; [`MemoryError::Limit`] and [`MemoryError::OutOfMemory`] for the first
    /// block.
    pub fn alloc_set(self, sizes: BlockSizes) -> Result<Context<'p, AllocSet>, MemoryError> {
        self.build(|account, huge| AllocSet::create(account, sizes, huge))
    }

    /// A context for chunks that are freed about in the order they are made.
    ///
    /// # Errors
    /// As for [`Self::alloc_set`].
    pub fn generation(self, sizes: BlockSizes) -> Result<Context<'p, Generation>, MemoryError> {
        self.build(|account, huge| Generation::create(account, sizes, huge))
    }

    /// A context for chunks of up to `chunk_size` bytes, each of which takes as much.
    ///
    /// # Errors
    /// [`MemoryError::SlabShape`].
    pub fn slab(
        self,
        block_size: usize,
        chunk_size: usize,
    ) -> Result<Context<'p, Slab>, MemoryError> {
        self.build(|account, _| Slab::create(account, block_size, chunk_size))
    }

    /// A context for chunks that go all at once.
    ///
    /// # Errors
    /// As for [`Self::alloc_set`].
    pub fn bump(self, sizes: BlockSizes) -> Result<Context<'p, Bump>, MemoryError> {
        self.build(|account, huge| Bump::create(account, sizes, huge))
    }

    /// A context for the chunks of many transactions, or other cohorts, that are freed cohort by cohort.
    /// It holds nothing before the first chunk.
    ///
    /// # Errors
    /// None at present; the other kinds have some.
    pub fn cohorts(self) -> Result<Context<'p, Cohorts>, MemoryError> {
        self.build(|account, huge| Ok(Cohorts::create(account, huge)))
    }

    fn build<K: Kind>(
        self,
        create: impl FnOnce(Account, bool) -> Result<K, MemoryError>,
    ) -> Result<Context<'p, K>, MemoryError> {
        let account = Account::new(&self.name, K::NAME, self.release, self.parent.as_ref());
        account.set_ident(self.ident.as_deref());
        account.set_limit(self.limit);
        account.set_subtree_limit(self.subtree_limit);
        let engine = create(account, self.huge)?;
        let epoch = next_epoch();
        engine.epoch_begins(epoch);
        Ok(Context {
            engine,
            epoch: Cell::new(epoch),
            callbacks: RefCell::new(Vec::new()),
            parent: PhantomData,
        })
    }
}

impl<K: Kind> Context<'_, K> {
    /// Begins a context that cannot outlive this one's next reset, and is counted in its subtree.
    pub fn child(&self, name: &str) -> ContextBuilder<'_> {
        ContextBuilder::new(name, Some(self.account().clone()))
    }

    /// Where it is counted: its name, what it holds, its limits.
    #[must_use]
    pub fn account(&self) -> &Account {
        self.engine.account()
    }

    /// Bytes that it has from the system; see [`Account::mem_allocated`].
    #[must_use]
    pub fn mem_allocated(&self) -> usize {
        self.account().mem_allocated()
    }

    /// The figures that a server prints.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.account().stats()
    }

    /// Moves a value into the context. It stays until the reset, and would never be dropped: one that
    /// has to be does not compile. [`allocator_api2::boxed::Box`] drops its value.
    ///
    /// ```compile_fail,E0080
    /// let context = pgtoast_memctx::root("Row").bump(Default::default())?;
    /// context.alloc(String::from("has to be dropped"))?;
    /// # Ok::<(), pgtoast_memctx::MemoryError>(())
    /// ```
    ///
    /// # Errors
    /// [`MemoryError::Limit`], [`MemoryError::OutOfMemory`], [`MemoryError::TooLarge`].
    pub fn alloc<T>(&self, value: T) -> Result<&mut T, MemoryError> {
        const { assert!(!core::mem::needs_drop::<T>(), "the value would never be dropped") };
        raw::place(&self.engine, value)
    }

    /// Copies values into the context.
    ///
    /// # Errors
    /// As for [`Self::alloc`].
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> Result<&mut [T], MemoryError> {
        raw::place_slice(&self.engine, values)
    }

    /// Copies text into the context.
    ///
    /// # Errors
    /// As for [`Self::alloc`].
    #[doc(alias = "pstrdup")]
    pub fn alloc_str(&self, text: &str) -> Result<&str, MemoryError> {
        let bytes = self.alloc_slice(text.as_bytes())?;
        Ok(core::str::from_utf8(bytes).unwrap_or_default())
    }

    /// So many values, each made from its index.
    ///
    /// # Errors
    /// As for [`Self::alloc`].
    #[doc(alias = "palloc_array")]
    pub fn alloc_array<T>(
        &self,
        count: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], MemoryError> {
        const { assert!(!core::mem::needs_drop::<T>(), "the values would never be dropped") };
        raw::place_with(&self.engine, count, make)
    }

    /// Takes all memory back and keeps the first block, if its kind has one. What was asked for with
    /// [`Self::on_reset`] is done first.
    #[doc(alias = "MemoryContextReset")]
    pub fn reset(&mut self) {
        self.reset_keeping(0);
    }

    /// As [`Self::reset`], but keeps blocks of up to so many bytes in all, beside the first, so that they
    /// need not be had from the system again.
    pub fn reset_keeping(&mut self, bytes: usize) {
        self.call_back();
        let epoch = next_epoch();
        self.epoch.set(epoch);
        self.engine.reset(bytes);
        self.engine.epoch_begins(epoch);
    }

    /// Has something done at the next reset, or when the context is dropped: the latest first.
    #[doc(alias = "MemoryContextRegisterResetCallback")]
    pub fn on_reset(&self, callback: impl FnOnce() + Send + 'static) {
        self.callbacks.borrow_mut().push(Box::new(callback));
    }

    fn call_back(&mut self) {
        while let Some(callback) = self.callbacks.get_mut().pop() {
            callback();
        }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &K {
        &self.engine
    }

    /// The epoch of what is allocated now. Invariant: chunks of it, and of those that the engine knows,
    /// are live, and no two contexts ever have the same.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }
}

/// A place in the life of a [`Bump`] context to [rewind](Context::rewind) to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint(u64);

impl Context<'_, Bump> {
    /// Remembers what the context holds.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let serial = next_epoch();
        self.engine.checkpoint(serial, self.epoch.get());
        self.epoch.set(next_epoch());
        Checkpoint(serial)
    }

    /// Takes back what was asked for since a checkpoint, and forgets later ones. Chunks held by value
    /// from before it stay valid.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] for a checkpoint of another context, from before a reset, or later than
    /// one that was gone back to; then nothing happens.
    pub fn rewind(&mut self, checkpoint: Checkpoint) -> Result<(), MemoryError> {
        if !self.engine.rewind(checkpoint.0) {
            return Err(MemoryError::Foreign);
        }
        self.epoch.set(next_epoch());
        Ok(())
    }
}

impl Context<'_, Slab> {
    /// The size of its chunks.
    #[must_use]
    pub fn chunk_size(&self) -> usize {
        self.engine.chunk_size()
    }
}

impl Context<'_, Cohorts> {
    /// Says that a cohort gets no more chunks. Those it has stay until they are given back.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`].
    #[inline]
    pub fn close(&self, cohort: Cohort) -> Result<(), MemoryError> {
        self.engine.close(cohort)
    }
}

impl<K: Kind> Drop for Context<'_, K> {
    fn drop(&mut self) {
        self.call_back();
    }
}

impl<K: Kind> fmt::Debug for Context<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("account", self.account()).finish_non_exhaustive()
    }
}

/// A number that no other epoch, of any context, has.
fn next_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
