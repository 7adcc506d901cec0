use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;

use crate::{Account, Context, ContextBuilder, Kind, MemoryError, root};

/// Contexts that own each other, for structures that live long: reached by ids in place of references,
/// so that nothing is borrowed between calls.
///
/// Dropping or resetting a context drops those below it, after which their ids lead nowhere.
///
/// ```
/// use pgtoast_memctx::{BlockSizes, ContextTree};
/// let mut tree = ContextTree::new("Decoding");
/// let buffer = tree.add(None, "ReorderBuffer", |new| new.alloc_set(BlockSizes::DEFAULT))?;
/// let tuples = tree.add(Some(buffer.any()), "Tuples", |new| new.cohorts())?;
/// let chunk = tree.get(tuples).expect("it was just made").take(b"a row")?;
/// assert_eq!(tree.get(tuples).expect("still there").bytes(&chunk)?, b"a row");
/// tree.reset(buffer);
/// assert!(tree.get(tuples).is_none(), "it went with its parent");
/// assert_eq!(tree.account().subtree_allocated(), 8192, "the first block of its parent");
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct ContextTree {
    account: Account,
    nodes: Vec<Node>,
    /// Places in `nodes` without a context.
    free: Vec<u32>,
}

/// A context of a [`ContextTree`]: of the kind `K`, or of any.
pub struct ContextId<K = ()> {
    index: u32,
    /// How often the place was given up before, so that an id of what was dropped leads nowhere.
    reuse: u32,
    kind: PhantomData<fn() -> K>,
}

#[derive(Debug)]
struct Node {
    context: Option<Box<dyn AnyContext>>,
    reuse: u32,
    parent: Option<u32>,
    children: Vec<u32>,
}

/// A context of whichever kind.
trait AnyContext: Any + Send + fmt::Debug {
    fn account(&self) -> &Account;
    fn reset(&mut self);
}

impl<K: Kind + 'static> AnyContext for Context<'static, K> {
    fn account(&self) -> &Account {
        Context::account(self)
    }

    fn reset(&mut self) {
        Context::reset(self);
    }
}

impl ContextTree {
    /// Without contexts, and with an account for all there will be.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::below(Account::group(name))
    }

    /// Without contexts; all there will be are counted below that account.
    #[must_use]
    pub fn below(account: Account) -> Self {
        Self { account, nodes: Vec::new(), free: Vec::new() }
    }

    /// The account of all its contexts.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Makes a context below `parent`, or at the top.
    ///
    /// # Errors
    /// What `make` returns; [`MemoryError::Foreign`] if there is no such parent, or no longer.
    pub fn add<K: Kind + 'static>(
        &mut self,
        parent: Option<ContextId>,
        name: &str,
        make: impl FnOnce(ContextBuilder<'static>) -> Result<Context<'static, K>, MemoryError>,
    ) -> Result<ContextId<K>, MemoryError> {
        let above = match parent {
            None => &self.account,
            Some(parent) => self.context(parent).ok_or(MemoryError::Foreign)?.account(),
        };
        let context = make(root(name).account(above))?;
        let parent = parent.map(|parent| parent.index);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let limit = u32::MAX as usize;
                let too_many = MemoryError::TooLarge { requested: self.nodes.len(), limit };
                let index = u32::try_from(self.nodes.len()).map_err(|_| too_many)?;
                self.nodes.push(Node { context: None, reuse: 0, parent, children: Vec::new() });
                index
            }
        };
        let node = &mut self.nodes[index as usize];
        node.context = Some(Box::new(context));
        node.parent = parent;
        let reuse = node.reuse;
        if let Some(parent) = parent {
            self.nodes[parent as usize].children.push(index);
        }
        Ok(ContextId { index, reuse, kind: PhantomData })
    }

    /// The context of an id, as long as it was not dropped.
    #[must_use]
    pub fn get<K: Kind + 'static>(&self, id: ContextId<K>) -> Option<&Context<'static, K>> {
        let context: &dyn Any = self.context(id.any())?;
        context.downcast_ref()
    }

    /// The same, to be changed. Resetting it so leaves those below it alone; [`Self::reset`] does not.
    #[must_use]
    pub fn get_mut<K: Kind + 'static>(
        &mut self,
        id: ContextId<K>,
    ) -> Option<&mut Context<'static, K>> {
        let node = self.nodes.get_mut(id.index as usize)?;
        let context: &mut dyn Any = &mut **node.context.as_mut()?;
        if node.reuse == id.reuse { context.downcast_mut() } else { None }
    }

    /// The account of a context, as long as it was not dropped.
    #[must_use]
    pub fn account_of<K>(&self, id: ContextId<K>) -> Option<&Account> {
        Some(self.context(id.any())?.account())
    }

    /// Drops the contexts below one, and resets it. Whether it is still there.
    #[doc(alias = "MemoryContextReset")]
    pub fn reset<K>(&mut self, id: ContextId<K>) -> bool {
        if self.context(id.any()).is_none() {
            return false;
        }
        self.drop_children(id.index);
        if let Some(context) = &mut self.nodes[id.index as usize].context {
            context.reset();
        }
        true
    }

    /// Drops a context and those below it. Whether it was still there.
    #[doc(alias = "MemoryContextDelete")]
    pub fn remove<K>(&mut self, id: ContextId<K>) -> bool {
        if self.context(id.any()).is_none() {
            return false;
        }
        self.drop_children(id.index);
        if let Some(parent) = self.nodes[id.index as usize].parent {
            self.nodes[parent as usize].children.retain(|child| *child != id.index);
        }
        self.vacate(id.index);
        true
    }

    fn context(&self, id: ContextId) -> Option<&dyn AnyContext> {
        let node = self.nodes.get(id.index as usize)?;
        if node.reuse == id.reuse { node.context.as_deref() } else { None }
    }

    /// Those furthest below first.
    fn drop_children(&mut self, index: u32) {
        let mut below = core::mem::take(&mut self.nodes[index as usize].children);
        let mut next = 0;
        while let Some(child) = below.get(next).copied() {
            below.append(&mut self.nodes[child as usize].children);
            next += 1;
        }
        for child in below.into_iter().rev() {
            self.vacate(child);
        }
    }

    fn vacate(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.context = None;
        node.children = Vec::new();
        // A place whose ids are used up stays empty.
        if let Some(reuse) = node.reuse.checked_add(1) {
            node.reuse = reuse;
            self.free.push(index);
        }
    }
}

impl Drop for ContextTree {
    fn drop(&mut self) {
        // Parents are always older than their children, unless a place was reused: so by descent.
        for index in 0..self.nodes.len() {
            let Ok(index) = u32::try_from(index) else { break };
            if self.nodes[index as usize].parent.is_none() {
                self.drop_children(index);
                self.nodes[index as usize].context = None;
            }
        }
    }
}

impl<K> ContextId<K> {
    /// The same context, its kind forgotten.
    #[must_use]
    pub fn any(self) -> ContextId {
        ContextId { index: self.index, reuse: self.reuse, kind: PhantomData }
    }
}

impl<K> Clone for ContextId<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for ContextId<K> {}

impl<K> PartialEq for ContextId<K> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.reuse) == (other.index, other.reuse)
    }
}

impl<K> Eq for ContextId<K> {}

impl<K> fmt::Debug for ContextId<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextId({}, {})", self.index, self.reuse)
    }
}
