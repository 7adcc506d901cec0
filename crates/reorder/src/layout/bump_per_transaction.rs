use pgtoast_memctx::{Account, BlockSizes, Bump, Chunk, Context, MemoryError, root};

use super::{Layout, places::Places};

/// A Bump for each transaction, its subtransactions in it: nothing is freed alone, and all of it when the
/// transaction is spilled, streamed or gone.
#[derive(Debug)]
pub struct BumpPerTransaction {
    account: Account,
    sizes: BlockSizes,
    places: Places<Own>,
}

#[derive(Debug)]
struct Own {
    context: Context<'static, Bump>,
    live: usize,
}

/// A change in a Bump, which counts as one that uses it.
#[derive(Debug)]
pub struct InBump {
    place: usize,
    chunk: Chunk<Bump>,
}

impl BumpPerTransaction {
    /// With such blocks for each.
    #[must_use]
    pub fn new(sizes: BlockSizes) -> Self {
        Self { account: Account::group("Tuples"), sizes, places: Places::new() }
    }
}

impl Layout for BumpPerTransaction {
    type Place = usize;
    type Held = InBump;

    fn open(&mut self) -> Result<usize, MemoryError> {
        let context = root("Transaction").account(&self.account).bump(self.sizes)?;
        Ok(self.places.open(Own { context, live: 0 }))
    }

    fn share(&mut self, place: &usize) -> usize {
        self.places.share(*place);
        *place
    }

    fn hold(&mut self, place: &usize, bytes: &[u8]) -> Result<InBump, MemoryError> {
        let own = self.places.get_mut(*place)?;
        let chunk = own.context.take(bytes)?;
        own.live += 1;
        self.places.share(*place);
        Ok(InBump { place: *place, chunk })
    }

    fn bytes<'l>(&'l self, held: &'l InBump) -> Result<&'l [u8], MemoryError> {
        self.places.get(held.place)?.context.bytes(&held.chunk)
    }

    fn give_back(&mut self, held: InBump) -> Result<(), MemoryError> {
        let own = self.places.get_mut(held.place)?;
        own.context.bytes(&held.chunk)?;
        own.live -= 1;
        if own.live == 0 {
            own.context.reset();
        }
        self.places.close(held.place).map(drop)
    }

    fn close(&mut self, place: usize) -> Result<(), MemoryError> {
        self.places.close(place).map(drop)
    }

    fn account(&self) -> &Account {
        &self.account
    }
}
