use pgtoast_memctx::{Account, BlockSizes, Chunk, Context, Generation, MemoryError, Release, root};

use super::Layout;

/// The changes of all transactions in one Generation, as servers hold their tuples: a block is given back
/// when all its changes are gone, so one long transaction among short ones keeps nearly all of them.
#[derive(Debug)]
pub struct SharedGeneration {
    context: Context<'static, Generation>,
}

impl SharedGeneration {
    /// With such blocks: a server had 8 MB, and has 8 kB since the minor releases of November 2024.
    ///
    /// # Errors
    /// [`MemoryError::BlockSizes`], and for the first block [`MemoryError::OutOfMemory`].
    pub fn new(sizes: BlockSizes) -> Result<Self, MemoryError> {
        let context = root("Tuples").release(Release::Ours).generation(sizes)?;
        Ok(Self { context })
    }
}

impl Layout for SharedGeneration {
    type Place = ();
    type Held = Chunk<Generation>;

    fn open(&mut self) -> Result<(), MemoryError> {
        Ok(())
    }

    fn share(&mut self, (): &()) {}

    fn hold(&mut self, (): &(), bytes: &[u8]) -> Result<Self::Held, MemoryError> {
        self.context.take(bytes)
    }

    fn bytes<'l>(&'l self, held: &'l Self::Held) -> Result<&'l [u8], MemoryError> {
        self.context.bytes(held)
    }

    fn give_back(&mut self, held: Self::Held) -> Result<(), MemoryError> {
        self.context.give_back(held)
    }

    fn close(&mut self, (): ()) -> Result<(), MemoryError> {
        Ok(())
    }

    fn account(&self) -> &Account {
        self.context.account()
    }
}
